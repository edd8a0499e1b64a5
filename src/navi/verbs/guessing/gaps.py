"""Rows with a gap: each asks a model for the value of one cell, all other cells of its row in sight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges

# Shape suffixes: M gaps, S distinct segments, C cells, K columns.

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Cells whose value is asked for; whatever a row holds there is out of sight."""

    row: Ints
    """(M,) row of each cell."""
    column: Ints
    """(M,) column of each cell."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Ints | NDArray[np.bool_]) -> Gaps:
        """Return some of the gaps."""
        return Gaps(row=self.row[chosen], column=self.column[chosen])


def open_gaps(arrays: SegmentArrays, gaps: Gaps, offsets: Ints, tokens: NDArray[np.integer]) -> SegmentArrays:
    """Return arrays with one row a gap: the row without the cell, then the cell with the given tokens for its value.

    `offsets` (M + 1,) says where the tokens of each gap begin. Other cells that are empty stay absent.
    """
    header_M, attribute_M = arrays.column_header[gaps.column], arrays.column_attribute[gaps.column]
    lengths, cells = gather_ranges(arrays.row_offsets, gaps.row)
    segment_C = arrays.row_segments[cells]
    gap_C = np.repeat(np.arange(len(gaps)), lengths)
    others = arrays.segment_header[segment_C] != header_M[gap_C]
    gap = np.concatenate([gap_C[others], np.arange(len(gaps))])
    segment = np.concatenate([segment_C[others], arrays.num_segments + np.arange(len(gaps), dtype=np.int32)])
    value_M = len(arrays.value_offsets) - 1 + np.arange(len(gaps), dtype=np.int32)
    return replace(
        arrays,
        row_offsets=np.concatenate([[0], np.cumsum(np.bincount(gap, minlength=len(gaps)))]).astype(np.int64),
        row_segments=segment[np.argsort(gap, kind="stable")].astype(np.int32),
        row_table=arrays.row_table[gaps.row],
        segment_attribute=np.concatenate([arrays.segment_attribute, attribute_M]),
        segment_header=np.concatenate([arrays.segment_header, header_M]),
        segment_value=np.concatenate([arrays.segment_value, value_M]),
        value_offsets=np.concatenate([arrays.value_offsets, arrays.value_offsets[-1] + offsets[1:]]),
        value_tokens=np.concatenate([arrays.value_tokens, tokens.astype(np.int32)]),
    )


@dataclass(frozen=True, kw_only=True)
class ColumnCells:
    """The cells of some rows, sorted by column."""

    row: Ints
    """(C,) row of each cell."""
    value: Ints
    """(C,) value of each cell."""
    starts: Ints
    """(K + 1,) first cell of each column."""

    def of(self, column: int) -> tuple[Ints, Ints]:
        """Return rows and values of a column's cells."""
        part = slice(self.starts[column], self.starts[column + 1])
        return self.row[part], self.value[part]


def sort_cells(arrays: SegmentArrays, rows: Ints) -> ColumnCells:
    """Return the cells of the rows, column after column, rows in order within each."""
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segment_C = arrays.row_segments[cells]
    row_C = np.repeat(rows, lengths)
    column_C = arrays.find_columns(arrays.row_table[row_C], arrays.segment_header[segment_C])
    order = np.argsort(column_C, kind="stable")
    counts_K = np.bincount(column_C, minlength=arrays.num_columns)
    return ColumnCells(
        row=row_C[order],
        value=arrays.segment_value[segment_C[order]].astype(np.int64),
        starts=np.concatenate([[0], np.cumsum(counts_K)]).astype(np.int64),
    )
