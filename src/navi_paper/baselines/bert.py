"""BERT: a row as plain text, ordinary positions, masked tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

from navi.corpus.arrays import SegmentArrays
from navi.model.attention import PACKED_ATTENTION, Boundaries, Packing
from navi.model.encoder import embed_tokens
from navi_paper.baselines.backbone import Backbone
from navi_paper.baselines.baseline import Batch
from navi_paper.baselines.text import Template, Text, write_text
from navi_paper.baselines.tokens import TokenBaseline
from navi_paper.encoder import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Bert(TokenBaseline):
    """Transformers' BERT over `[CLS] header : value , header : value … [SEP]`.

    Rows are packed on one axis rather than padded, which changes nothing but the time it takes.
    """

    name = "bert"

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        config._attn_implementation = PACKED_ATTENTION
        self.model = BertForMaskedLM(config)
        self.template = self.make_template()

    def make_template(self) -> Template:
        """Return what stands around headers and values."""
        special = self.special
        return Template(
            begin=(special.cls,), between=(special.colon,), separator=(self.find_sign(","),), end=(special.sep,)
        )

    def find_sign(self, sign: str) -> int:
        """Return the token of a sign, or that of unknown words."""
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary.get(sign, vocabulary["[UNK]"])

    def start_from(self, backbone: Backbone) -> None:
        """Take over the weights of a backbone."""
        backbone.copy_to(self.model, "bert.")

    def is_new(self, parameter: str) -> bool:
        """Tell whether a parameter is part of a head that was made anew."""
        return self.cold_head and parameter.startswith("model.cls.")

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The layers of the encoder."""
        return list(self.model.bert.encoder.layer)

    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return rows as plain text, each cut to as many tokens as there are positions."""
        return write_text(arrays, rows, self.template, self.config.max_position_embeddings)

    def encode(self, batch: Batch) -> Tensor:
        """Return contextual token embeddings: (T, D)."""
        token_ids = batch["token_ids"]
        packing = Packing(self.config.num_attention_heads, Boundaries(batch["row_starts"], len(token_ids)))
        hidden = embed_tokens(self.model.bert.embeddings, token_ids, batch["token_position"]).unsqueeze(0)
        for layer in self.layers:
            hidden = layer(hidden, packing=packing)
        return hidden.squeeze(0)

    def score_tokens(self, states_MD: Tensor) -> Tensor:
        """Return the logits of every token: (M, V)."""
        logits: Tensor = self.model.cls(states_MD)
        return logits
