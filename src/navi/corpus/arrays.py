"""Rows, segments and tokens as flat integer arrays: what every batch is gathered from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

ROLES = ("mid", "low", "high")
"""Names of the role codes in `SegmentArrays.column_role`."""
ROLE_MID, ROLE_LOW, ROLE_HIGH = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class SegmentArrays:
    """A corpus, or a frame on its way through a model, as integers alone.

    Lists of lists are kept as one flat array and offsets: the segments of row r are
    `row_segments[row_offsets[r]:row_offsets[r + 1]]`, and likewise for tokens. On disk the arrays are memory-mapped.

    **Shape**: R rows, C cells, S distinct segments, H headers, V values, A attributes, K columns (table, header).
    """

    row_offsets: NDArray[np.int64]
    """(R + 1,) where each row begins in `row_segments`."""
    row_segments: NDArray[np.int32]
    """(C,) segment of each cell, row after row."""
    row_table: NDArray[np.int32]
    """(R,) table of each row."""
    segment_attribute: NDArray[np.int32]
    """(S,) attribute of each segment."""
    segment_header: NDArray[np.int32]
    """(S,) header of each segment."""
    segment_value: NDArray[np.int32]
    """(S,) value of each segment."""
    header_offsets: NDArray[np.int64]
    """(H + 1,) where each header's tokens begin."""
    header_tokens: NDArray[np.int32]
    """Tokens of all headers, at least one each."""
    value_offsets: NDArray[np.int64]
    """(V + 1,) where each value's tokens begin."""
    value_tokens: NDArray[np.int32]
    """Tokens of all values, at least one each, cut at the setting `max_value_tokens`."""
    attribute_offsets: NDArray[np.int64]
    """(A + 1,) where each attribute's tokens begin."""
    attribute_tokens: NDArray[np.int32]
    """Tokens of all attributes, at least one each."""
    column_table: NDArray[np.int32]
    """(K,) table of each column; columns are sorted by (table, header)."""
    column_header: NDArray[np.int32]
    """(K,) header of each column."""
    column_attribute: NDArray[np.int32]
    """(K,) attribute of each column."""
    column_role: NDArray[np.int8]
    """(K,) role of each column: ROLE_MID, ROLE_LOW or ROLE_HIGH."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_table)

    @property
    def num_segments(self) -> int:
        """Number of distinct segments."""
        return len(self.segment_value)

    @property
    def num_headers(self) -> int:
        """Number of distinct headers."""
        return len(self.header_offsets) - 1

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.column_table)

    @cached_property
    def column_key(self) -> NDArray[np.int64]:
        """(K,) table * num_headers + header of each column, ascending."""
        keys: NDArray[np.int64] = self.column_table.astype(np.int64) * self.num_headers + self.column_header
        return keys

    @cached_property
    def cell_row(self) -> NDArray[np.int64]:
        """(C,) row of each cell."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.row_offsets))

    @cached_property
    def cell_column(self) -> NDArray[np.int64]:
        """(C,) column of each cell."""
        table_C = np.repeat(self.row_table, np.diff(self.row_offsets))
        return self.find_columns(table_C, self.segment_header[self.row_segments])

    def find_columns(self, table: NDArray[np.integer], header: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the column of each (table, header)."""
        key = np.asarray(table, np.int64) * self.num_headers + header
        column: NDArray[np.int64] = np.searchsorted(self.column_key, key)
        assert np.array_equal(self.column_key.take(column, mode="clip"), key), "a cell without a column"
        return column

    def take_rows(self, rows: NDArray[np.int64]) -> SegmentArrays:
        """Return some rows alone, numbered from 0; segments, headers, values and columns keep their numbers."""
        lengths, places = gather_ranges(self.row_offsets, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return replace(
            self, row_offsets=offsets, row_segments=self.row_segments[places], row_table=self.row_table[rows]
        )

    def count_row_tokens(self) -> NDArray[np.int64]:
        """Tokens of each row as the encoder sees it: [CLS], then header, colon, value and [SEP] of each segment."""
        lengths_S = (
            np.diff(self.header_offsets)[self.segment_header] + np.diff(self.value_offsets)[self.segment_value] + 2
        )
        running = np.concatenate([[0], np.cumsum(lengths_S[self.row_segments], dtype=np.int64)])
        tokens: NDArray[np.int64] = 1 + running[self.row_offsets[1:]] - running[self.row_offsets[:-1]]
        return tokens


def gather_ranges(offsets: NDArray[np.int64], ids: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of each id's list, and the places of all their members in the flat array, list after list."""
    starts = offsets[ids]
    lengths = offsets[np.asarray(ids, dtype=np.int64) + 1] - starts
    return lengths, np.repeat(starts, lengths) + count_up(lengths)


def count_up(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, … length - 1 for each length, one after the other.

    >>> count_up(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
