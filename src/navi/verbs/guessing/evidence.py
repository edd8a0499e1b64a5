"""What the nearest rows hold in a column: evidence beside the model's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.verbs.guessing.gaps import ColumnCells, Gaps, Ints

# Shape suffixes: R rows, M gaps, F features.

BLOCK = 256
"""Gaps compared with all rows of a table at a time."""


@dataclass(frozen=True, kw_only=True)
class Votes:
    """The nearest rows of each gap that have a cell there, nearest first; missing ones have the value -1."""

    value: Ints
    """(M, k) value of each row's cell."""
    weight: NDArray[np.float64]
    """(M, k) cosine of each row with the gap's row."""


class NearestRows:
    """Finds the rows of a table that are nearest to a row by TF-IDF over their cells."""

    def __init__(self, arrays: SegmentArrays, rows: Ints, cells: ColumnCells) -> None:
        self._arrays, self._rows, self._cells = arrays, np.sort(rows), cells
        self._num_words = int(arrays.value_tokens.max(initial=0)) + 1
        self._tables: dict[int, tuple[Any, Any]] = {}

    def vote(self, gaps: Gaps, k: int) -> Votes:
        """Return the k nearest rows of each gap; no gap's own row may be among the rows that have a cell there."""
        value, weight = np.full((len(gaps), k), -1, np.int64), np.zeros((len(gaps), k))
        table_M = self._arrays.row_table[gaps.row]
        for table in np.unique(table_M):
            inside = np.flatnonzero(table_M == table)
            rows = self._rows[self._arrays.row_table[self._rows] == table]
            if len(rows):
                value[inside], weight[inside] = self._vote_in_table(gaps.take(inside), rows, k)
        return Votes(value=value, weight=weight)

    def _vote_in_table(self, gaps: Gaps, rows: Ints, k: int) -> tuple[Ints, NDArray[np.float64]]:
        value, weight = np.full((len(gaps), k), -1, np.int64), np.zeros((len(gaps), k))
        weigh, keys = self._weigh_table(rows)
        header_M = self._arrays.column_header[gaps.column].astype(np.int64)
        for column in np.unique(gaps.column).tolist():
            cell_row, cell_value = self._cells.of(column)
            place = np.searchsorted(rows, cell_row)
            held = keys[:, place]
            every = np.flatnonzero(gaps.column == column)
            for begin in range(0, len(every), BLOCK):
                some = every[begin : begin + BLOCK]
                queries = weigh.transform(self._count(gaps.row[some], header_M[some]))
                cosine = (queries @ held).toarray()
                value[some], weight[some] = _take_nearest(cosine, cell_value, k)
        return value, weight

    def _weigh_table(self, rows: Ints) -> tuple[Any, Any]:
        """Return the TF-IDF weights of a table's rows: how to weigh further rows, and those given, (F, R)."""
        from sklearn.feature_extraction.text import TfidfTransformer

        table = int(self._arrays.row_table[rows[0]])
        if table not in self._tables:
            weigh = TfidfTransformer(sublinear_tf=True)
            keys = weigh.fit_transform(self._count(rows, np.full(len(rows), -1))).T.tocsc()
            self._tables[table] = weigh, keys
        return self._tables[table]

    def _count(self, rows: Ints, hidden_header: Ints) -> Any:
        """Return how often each token and each whole cell occurs in each row, one header left out: (R, F)."""
        from scipy.sparse import csr_matrix

        arrays = self._arrays
        lengths, cells = gather_ranges(arrays.row_offsets, rows)
        segment = arrays.row_segments[cells]
        row = np.repeat(np.arange(len(rows)), lengths)
        seen = arrays.segment_header[segment] != hidden_header[row]
        row, segment = row[seen], segment[seen]
        sizes, index = gather_ranges(arrays.value_offsets, arrays.segment_value[segment])
        word = arrays.value_tokens[index].astype(np.int64)
        feature = np.concatenate([word, self._num_words + segment])
        where = np.concatenate([np.repeat(row, sizes), row])
        shape = (len(rows), self._num_words + arrays.num_segments)
        counted = csr_matrix((np.ones(len(feature)), (where, feature)), shape=shape)
        counted.sum_duplicates()
        return counted


def _take_nearest(cosine: NDArray[np.float64], value: Ints, k: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return value and cosine of the k largest of each line."""
    order = np.argpartition(-cosine, k, axis=1)[:, :k] if cosine.shape[1] > k else _count_across(cosine)
    rank = np.lexsort((order, -np.take_along_axis(cosine, order, axis=1)))
    order = np.take_along_axis(order, rank, axis=1)
    nearest = np.take_along_axis(cosine, order, axis=1)
    found = np.where(nearest > 0, value[order] if len(value) else -1, -1)
    pad = ((0, 0), (0, k - order.shape[1]))
    return np.pad(found, pad, constant_values=-1), np.pad(np.maximum(nearest, 0.0), pad)


def _count_across(cosine: NDArray[np.float64]) -> Ints:
    return np.broadcast_to(np.arange(cosine.shape[1]), cosine.shape)
