"""HAETAE: BERT over a row as JSON, with an embedding of their own for the words of headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig

from navi.corpus.arrays import SegmentArrays
from navi_paper.baselines.base import Batch, to_tensors
from navi_paper.baselines.text import Bert, Template, Text
from navi_paper.table_encoder import PREDICTS_TOKENS, Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: T tokens (packed), N header tokens, V vocabulary, D hidden size.

CENTROID_WEIGHT = 0.1
"""What the centroid loss is multiplied by."""
CENTROID_STEPS = 200
"""Steps between two refreshments of the centroids."""


class Haetae(Bert):
    """Blends the encoder's output at header tokens with an embedding of the token alone, its anchor.

    The anchors start as the word embeddings. A centroid loss pulls the anchor of a header's token to the mean of its
    contextual embeddings; until the first means are taken there is none.
    """

    name = "haetae"
    abilities = frozenset({PREDICTS_TOKENS})
    new_parameters = ("blend_logit",)
    header_sums: Tensor
    """(V, D) sum of the contextual embeddings of each header token since the centroids were taken."""
    header_counts: Tensor
    """(V,) how many they are."""
    centroids: Tensor
    """(V, D) mean contextual embedding of each header token; NaN where there is none yet."""

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        size = (config.vocab_size, config.hidden_size)
        self.anchors = nn.Embedding(*size)
        self.blend_logit = nn.Parameter(torch.zeros(()))
        # What is gathered for the centroids serves training alone.
        self.register_buffer("header_sums", torch.zeros(size), persistent=False)
        self.register_buffer("header_counts", torch.zeros(size[0]), persistent=False)
        self.register_buffer("centroids", torch.full(size, torch.nan), persistent=False)

    def make_template(self) -> Template:
        """Return the signs of JSON."""
        special, quote = self.special, self.find_sign('"')
        return Template(
            begin=(special.cls, self.find_sign("{")),
            before=(quote,),
            between=(quote, special.colon, quote),
            after=(quote,),
            separator=(self.find_sign(","),),
            end=(self.find_sign("}"), special.sep),
        )

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a backbone; the anchors start as its words."""
        super().start_from(weights)
        with torch.no_grad():
            self.anchors.weight.copy_(weights["embeddings.word_embeddings.weight"])

    def pack(self, text: Text, token_ids: Ints) -> Batch:
        """Return what `encode` takes: the text, and where its header tokens stand."""
        return super().pack(text, token_ids) | to_tensors(
            header_position=np.flatnonzero(text.is_word & (text.token_span % 2 == 0))
        )

    def make_batch(self, arrays: SegmentArrays, rows: Ints, *, seed: int, epoch: int) -> Batch:
        """Return a masked batch, and where the header tokens stand that are not masked."""
        batch = super().make_batch(arrays, rows, seed=seed, epoch=epoch)
        masked_T = torch.zeros(len(batch["token_ids"]), dtype=torch.bool)
        masked_T[batch["target_position"]] = True
        places = batch["header_position"]
        return batch | {"plain_position": places[~masked_T[places]]}

    def encode(self, batch: Batch) -> Tensor:
        """Return contextual token embeddings, blended at header tokens: (T, D)."""
        return self.blend(super().encode(batch), batch)

    def blend(self, states_TD: Tensor, batch: Batch) -> Tensor:
        """Return the states with those of header tokens blended; a masked token has the anchor of [MASK]."""
        places = batch["header_position"]
        own_ND = self.anchors(batch["token_ids"].index_select(0, places)).to(states_TD.dtype)
        alpha = torch.sigmoid(self.blend_logit).to(states_TD.dtype)  # the anchor's share
        blended_ND = alpha * own_ND + (1 - alpha) * states_TD.index_select(0, places)
        return states_TD.index_copy(0, places, blended_ND)

    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the masked tokens plus the weighted centroid loss."""
        states_TD = super().encode(batch)
        tokens_N = batch["token_ids"].index_select(0, batch["plain_position"])
        if self.training:
            self._gather(tokens_N, states_TD.detach().index_select(0, batch["plain_position"]))
        masked = self.score_targets(self.blend(states_TD, batch), batch)
        # Centroids that come in the midst of a run would make its losses on validation rows rise.
        return masked + CENTROID_WEIGHT * self.measure_centroids(tokens_N) if self.training else masked

    def measure_centroids(self, tokens_N: Tensor) -> Tensor:
        """Return the mean distance from these tokens' anchors to their centroids; 0 where there are none."""
        centroids_ND = self.centroids.index_select(0, tokens_N)
        known_N = ~centroids_ND[:, 0].isnan()
        apart_ND = self.anchors(tokens_N).float() - centroids_ND.nan_to_num()
        distance_N = torch.linalg.vector_norm(apart_ND, dim=1)
        mean: Tensor = (distance_N * known_N).sum() / known_N.sum().clamp(min=1)
        return mean

    def after_step(self, step: int) -> None:
        """Refresh the centroids every so many steps."""
        if step % CENTROID_STEPS == 0:
            self.refresh_centroids()

    @torch.no_grad()
    def refresh_centroids(self) -> None:
        """Take the mean contextual embedding of each header token seen since the last time."""
        counts_V1 = self.header_counts.unsqueeze(1)
        means_VD = self.header_sums / counts_V1.clamp(min=1)
        self.centroids.copy_(torch.where(counts_V1 > 0, means_VD, self.centroids))
        self.header_sums.zero_()
        self.header_counts.zero_()

    @torch.no_grad()
    def _gather(self, tokens_N: Tensor, states_ND: Tensor) -> None:
        self.header_sums.index_add_(0, tokens_N, states_ND.float())
        self.header_counts.index_add_(0, tokens_N, torch.ones_like(tokens_N, dtype=torch.float32))
