"""What an encoder of tables must be able to do to be evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.errors import ModelError

# Shape suffixes: R rows, C cells of these rows, H hidden cells, T hidden tokens, D hidden size.

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
PARTS = ("rows", "means", "headers", "values", "segments")
"""What can be asked for: the embedding of a row, the mean of its segments, and three vectors a cell."""


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Which headers, or which values, of some rows an encoder does not get to see."""

    part: Literal["header", "value"]
    """What is hidden of a cell."""
    cells: NDArray[np.bool_]
    """(C,) whether the cell is hidden; cells stand row after row, as the rows are asked for."""
    blind: bool = False
    """Whether the attribute of a hidden header is hidden too, for encoders that are told attributes."""


class TableEncoder(ABC):
    """Embeds rows and their cells, and guesses what is hidden in them; every model and baseline is one.

    Rows are numbers of rows in `arrays`, which may be a corpus's own or changed ones: columns in another order, headers
    spelled otherwise, columns left out. Every method answers in the order of the rows asked for.
    """

    name: str
    """What the encoder is called in tables."""
    predicts_tokens: bool = True
    """Whether `predict` can be asked."""

    @abstractmethod
    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings: (R, D) for rows and means, (C, D) for headers, values and segments."""

    def embed_states(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None = None) -> tuple[Floats, Floats]:
        """Return the states in context of each cell's header and value, and nothing else of it: (C, D) each."""
        found = self.embed(arrays, rows, parts=("headers", "values"), hidden=hidden)
        return found["headers"], found["values"]

    def predict(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Ints:
        """Return the likeliest token at each token of the hidden headers or values: (T,), cell after cell."""
        raise ModelError(f"{self.name} cannot predict tokens.")

    def predict_log(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, tokens: Ints) -> Floats:
        """Return the log-probability of each of these tokens at each hidden token: (T, len(tokens)), cell after cell.

        The probabilities are those over the whole vocabulary, of which `predict` takes the largest.
        """
        raise ModelError(f"{self.name} cannot tell how likely a token is.")

    def reconstruct(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Floats:
        """Return the cosine of each hidden field, header and value, as guessed with the field as it is: (H,)."""
        guessed, true = (self._embed_fields(arrays, rows, each)[hidden.cells] for each in (hidden, None))
        norms = np.linalg.norm(guessed, axis=1) * np.linalg.norm(true, axis=1)
        cosines: Floats = (guessed * true).sum(axis=1) / np.maximum(norms, 1e-12)
        return cosines

    def _embed_fields(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Floats:
        """Return the mean over each cell's header and value tokens: (C, D)."""
        headers_CD, values_CD = self.embed_states(arrays, rows, hidden)
        headers_C, values_C = (count[:, None].astype(np.float32) for count in count_cell_tokens(arrays, rows))
        fields: Floats = (headers_CD * headers_C + values_CD * values_C) / (headers_C + values_C)
        return fields


def list_cells(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the row, from 0, and the segment of each cell of these rows: (C,) each."""
    counts_R, cells = gather_ranges(arrays.row_offsets, rows)
    return np.repeat(np.arange(len(rows)), counts_R), arrays.row_segments[cells].astype(np.int64)


def count_cell_tokens(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the number of tokens of each cell's header and value: (C,) each."""
    _, segments = list_cells(arrays, rows)
    headers, values = arrays.segment_header[segments], arrays.segment_value[segments]
    return np.diff(arrays.header_offsets)[headers], np.diff(arrays.value_offsets)[values]


def list_hidden_tokens(arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> tuple[Ints, Ints]:
    """Return the true tokens of the hidden headers or values, cell after cell, and how many each cell has."""
    _, segments = list_cells(arrays, rows)
    if hidden.part == "header":
        lengths, places = gather_ranges(arrays.header_offsets, arrays.segment_header[segments[hidden.cells]])
        return arrays.header_tokens[places].astype(np.int64), lengths
    lengths, places = gather_ranges(arrays.value_offsets, arrays.segment_value[segments[hidden.cells]])
    return arrays.value_tokens[places].astype(np.int64), lengths
