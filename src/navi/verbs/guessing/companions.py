"""What a row's other cells tell of a column: the values that stood beside them in other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.verbs.guessing.gaps import ColumnCells, Gaps, Ints

# Shape suffixes: M gaps of one column, C cells, S distinct segments beside the gaps, N values of the column's set.

PRIOR_CELLS = 0.7
"""How many cells the column's own shares count for beside those of a companion."""


class Companions:
    """The one other cell of each row that tells most of a column, and what it tells."""

    def __init__(self, arrays: SegmentArrays, cells: ColumnCells) -> None:
        self._arrays, self._cells = arrays, cells

    def tell(self, gaps: Gaps, number_of: Ints, prior: NDArray[np.float64]) -> tuple[Any, NDArray[np.float64]]:
        """Return counts (M, N) of the values beside each gap's best companion, sparse, and their sums (M,).

        All gaps are of one column. `number_of` gives the number in the column's set of each of its cells' values, -1
        for none; `prior` (N,) how likely each value is.
        """
        from scipy.sparse import csr_matrix

        column, num_values = int(gaps.column[0]), len(prior)
        row, _ = self._cells.of(column)
        kept = number_of >= 0
        cell_C, segment_C = self._list_others(row[kept], column)
        gap_C, beside_C = self._list_others(gaps.row, column)
        segments = np.unique(beside_C)
        met = np.isin(segment_C, segments)
        where = np.searchsorted(segments, segment_C[met])
        pairs = (where, number_of[kept][cell_C[met]])
        counts = csr_matrix((np.ones(len(where)), pairs), shape=(len(segments), num_values))
        counts.sum_duplicates()
        best = _choose(counts, gap_C, np.searchsorted(segments, beside_C), len(gaps), prior)
        chosen = csr_matrix(
            (np.ones(int((best >= 0).sum())), (np.flatnonzero(best >= 0), best[best >= 0])),
            shape=(len(gaps), len(segments)),
        )
        told = (chosen @ counts).tocsr()
        return told, np.asarray(told.sum(axis=1)).reshape(-1)

    def _list_others(self, rows: Ints, column: int) -> tuple[Ints, Ints]:
        """Return the cells of rows but those of one column: place of the row in `rows`, and segment."""
        lengths, cells = gather_ranges(self._arrays.row_offsets, rows)
        segment = self._arrays.row_segments[cells]
        others = self._arrays.segment_header[segment] != self._arrays.column_header[column]
        return np.repeat(np.arange(len(rows)), lengths)[others], segment[others].astype(np.int64)


def _choose(counts: Any, gap_C: Ints, segment_C: Ints, num_gaps: int, prior: NDArray[np.float64]) -> Ints:
    """Return for each gap the segment beside it whose likeliest value is likeliest; -1 where none was ever met."""
    best = np.full(num_gaps, -1, np.int64)
    if 0 in counts.shape:
        return best
    total = np.asarray(counts.sum(axis=1)).reshape(-1)
    smoothed = counts.copy()
    smoothed.data = smoothed.data + PRIOR_CELLS * prior[smoothed.indices]
    strength = np.asarray(smoothed.max(axis=1).todense()).reshape(-1) / (total + PRIOR_CELLS)
    known = total[segment_C] > 0
    gap, segment = gap_C[known], segment_C[known]
    rising = np.lexsort((-segment, strength[segment]))
    best[gap[rising]] = segment[rising]
    return best
