"""TAPAS: a row as a table of one row, its headers first, with embeddings of column and row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertConfig, TapasConfig, TapasForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from navi.corpus.arrays import SegmentArrays, count_up
from navi.model.attention import pack_attention
from navi_paper.baselines.base import Batch, copy_shape, copy_weights, to_tensors
from navi_paper.baselines.text import Cells, Text, TokenBaseline, place_words
from navi_paper.table_encoder import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: R rows, C cells, T tokens (packed), D hidden size.

SEGMENT, COLUMN, ROW, NUM_TYPES = 0, 1, 2, 7
"""Places of the type ids that differ here; the others are labels, ranks and relations to a question, all 0."""
_BEGIN = 2


class Tapas(TokenBaseline):
    """Transformers' TAPAS over `[CLS] [SEP] headers … values …`: an empty question and a table of one row.

    Positions restart in each cell, as its configuration has it; cells are masked whole, as its authors do.
    """

    name = "tapas"
    masks_cells = True
    # Types of column, row and rank; that of the segment is the backbone's.
    new_parameters = tuple(f"model.tapas.embeddings.token_type_embeddings_{each}." for each in range(1, NUM_TYPES))

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.model = TapasForMaskedLM(copy_shape(config, TapasConfig))
        # Its own layers compute the same under the same names, but know no packed attention.
        layers = (BertLayer(config, layer_idx=number) for number in range(config.num_hidden_layers))
        self.model.tapas.encoder.layer = nn.ModuleList(layers)
        pack_attention(self.model)

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a backbone; the segment type starts as its only type, the other types at random."""
        copy_weights(weights, self.model, "tapas.")
        with torch.no_grad():
            segment: Tensor = self.model.tapas.embeddings.token_type_embeddings_0.weight
            segment.copy_(weights["embeddings.token_type_embeddings.weight"][:1].expand_as(segment))

    def write(self, arrays: SegmentArrays, rows: Ints) -> Text:
        """Return the headers of each row, then its values; a row has as many tokens as there are positions, at most."""
        cells = Cells(arrays, rows)
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
        """Return what `encode` takes: tokens, type ids and positions within cells."""
        own = to_tensors(token_types=make_types(text), token_position=make_positions(text))
        return super().pack(text, token_ids) | own

    def embed_tokens(self, batch: Batch) -> Tensor:
        """Return the embeddings of the tokens, of their types and of their places: (T, D)."""
        row = (batch[name].unsqueeze(0) for name in ("token_ids", "token_types", "token_position"))
        embedded: Tensor = self.model.tapas.embeddings(*row)
        return embedded.squeeze(0)


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
