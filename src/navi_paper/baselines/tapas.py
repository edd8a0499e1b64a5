"""TAPAS: a row as a table of one row, its headers first, with embeddings of column and row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, TapasConfig, TapasForMaskedLM

from navi.corpus.arrays import SegmentArrays, count_up
from navi_paper.baselines.base import Batch, copy_weights, to_tensors
from navi_paper.baselines.text import Text, TokenBaseline, list_row_cells, place_words
from navi_paper.encoder import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: C cells, T tokens (packed), N rows of a bucket, P padded length, D hidden size.

SEGMENT, COLUMN, ROW, NUM_TYPES = 0, 1, 2, 7
"""Places of the type ids that differ here; the others are labels, ranks and relations to a question, all 0."""
SHAPE = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
)
"""What TAPAS has in common with BERT."""
_BEGIN = 2


class Tapas(TokenBaseline):
    """Transformers' TAPAS over `[CLS] [SEP] headers … values …`: an empty question and a table of one row.

    Positions restart in each cell, as its configuration has it. Its layers know no packed attention, so that rows are
    padded, in buckets of like length.
    """

    name = "tapas"
    # Types of column, row and rank; that of the segment is the backbone's.
    new_parameters = tuple(f"model.tapas.embeddings.token_type_embeddings_{each}." for each in range(1, NUM_TYPES))

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.model = TapasForMaskedLM(TapasConfig(**{key: getattr(config, key) for key in SHAPE}))

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a backbone; the segment type starts as its only type, the other types at random."""
        copy_weights(weights, self.model, "tapas.")
        with torch.no_grad():
            segment: Tensor = self.model.tapas.embeddings.token_type_embeddings_0.weight
            segment.copy_(weights["embeddings.token_type_embeddings.weight"][:1].expand_as(segment))

    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return the headers of each row, then its values; a row has as many tokens as there are positions, at most."""
        cells = list_row_cells(arrays, rows)
        length_C = cells.header_length + cells.value_length
        kept = cells.sum_before(length_C) + length_C <= self.config.max_position_embeddings - _BEGIN
        kept &= cells.rank < self.model.config.type_vocab_sizes[COLUMN] - 1
        header_length, value_length = cells.header_length * kept, cells.value_length * kept
        headers_R = cells.sum_rows(header_length)
        row_starts = np.concatenate([[0], np.cumsum(headers_R + cells.sum_rows(value_length) + _BEGIN)])
        begin_C = row_starts[cells.row] + _BEGIN
        header_C = begin_C + cells.sum_before(header_length)
        value_C = begin_C + headers_R[cells.row] + cells.sum_before(value_length)
        text = place_words(arrays, cells, kept, row_starts, header_C, value_C)
        text.token_ids[row_starts[:-1]] = self.special.cls
        text.token_ids[row_starts[:-1] + 1] = self.special.sep
        return text

    def pack(self, text: Text, token_ids: Ints) -> Batch:
        """Return what `encode` takes: tokens, type ids, positions within cells, and the buckets."""
        buckets, order = pad_rows(text.row_starts)
        packed = super().pack(text, token_ids)
        packed |= to_tensors(token_types=make_types(text), token_position=make_positions(text), order=order)
        return packed | to_tensors(**{f"bucket{number}": places for number, places in enumerate(buckets)})

    def encode(self, batch: Batch) -> Tensor:
        """Return contextual token embeddings: (T, D)."""
        encoded: list[Tensor] = []
        while (places_NP := batch.get(f"bucket{len(encoded)}")) is not None:
            encoded.append(self._encode_bucket(batch, places_NP))
        return torch.cat(encoded).index_select(0, batch["order"])

    def _encode_bucket(self, batch: Batch, places_NP: Tensor) -> Tensor:
        real_NP = places_NP >= 0
        flat = places_NP.clamp(min=0).flatten()
        token_ids, positions, types = (
            batch[name].index_select(0, flat).view(*places_NP.shape, *batch[name].shape[1:])
            for name in ("token_ids", "token_position", "token_types")
        )
        hidden_NPD = self.model.tapas.embeddings(token_ids, types, positions)
        lowest = torch.finfo(hidden_NPD.dtype).min
        unseen = torch.zeros_like(real_NP, dtype=hidden_NPD.dtype).masked_fill(~real_NP, lowest)[:, None, None, :]
        encoded: Tensor = self.model.tapas.encoder(hidden_NPD, attention_mask=unseen, return_dict=True)[0]
        return encoded.flatten(0, 1)


def make_types(text: Text) -> Ints:
    """Return the type ids of each token: (T, 7); headers are row 0, values row 1, columns count from 1."""
    types = np.zeros((len(text.token_ids), NUM_TYPES), dtype=np.int64)
    word = text.is_word
    span = text.token_span[word]
    types[word, SEGMENT] = 1
    types[word, COLUMN] = text.cells.rank[span // 2] + 1
    types[word, ROW] = span % 2
    return types


def make_positions(text: Text) -> Ints:
    """Return the position of each token within its header or value; [CLS] and [SEP] count as one: (T,)."""
    first = np.ones(len(text.token_ids), dtype=bool)
    first[1:] = np.diff(text.token_span) != 0
    # Two rows meet where nothing but the row may change: a row without cells after another.
    first[text.row_starts[:-1]] = True
    begins = np.flatnonzero(first)
    return count_up(np.diff(np.append(begins, len(first))))


def pad_rows(row_starts: Ints) -> tuple[list[Ints], Ints]:
    """Return rows of like length padded together, and where each token stands when the buckets are laid end to end.

    A bucket is (N, P) places on the token axis, -1 for padding; lengths are those up to a power of two.
    """
    lengths = np.diff(row_starts)
    bucket_R = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    buckets, before, order = [], 0, np.zeros(row_starts[-1], dtype=np.int64)
    for bucket in np.unique(bucket_R):
        chosen = np.flatnonzero(bucket_R == bucket)
        step_P = np.arange(lengths[chosen].max())
        places = np.where(step_P < lengths[chosen, None], row_starts[chosen, None] + step_P, -1)
        flat = places.ravel()
        order[flat[flat >= 0]] = before + np.flatnonzero(flat >= 0)
        buckets.append(places)
        before += len(flat)
    return buckets, order
