"""The cells of each column that its profile is made from: a sample of the rows, the same whatever their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_text, mix

# Shape suffixes: R rows, C cells, K columns.

MAX_ROWS = 50_000
"""Rows of a table that cells are taken from, at most."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Some cells, by column, those of a column in random order."""

    column: Ints
    """(C,) column of each cell, ascending."""
    value: Ints
    """(C,) value of each cell."""
    row: Ints
    """(C,) row of each cell."""
    rank: Ints
    """(C,) place of the cell among its column's."""

    def keep(self, limit: int) -> Cells:
        """Return at most `limit` cells of each column."""
        kept = self.rank < limit
        return Cells(column=self.column[kept], value=self.value[kept], row=self.row[kept], rank=self.rank[kept])


def sample_cells(encoded: Encoded, rows: Ints, limit: int) -> Cells:
    """Return at most `limit` cells of each column; which of the given rows' depends on their content alone."""
    arrays = encoded.arrays
    rows = shuffle_rows(encoded, rows)
    lengths, places = gather_ranges(arrays.row_offsets, rows)
    segment = arrays.row_segments[places]
    row = np.repeat(rows, lengths)
    column = arrays.find_columns(arrays.row_table[row], arrays.segment_header[segment])
    order = np.argsort(column, kind="stable")
    begins = np.searchsorted(column[order], np.arange(arrays.num_columns))
    rank = np.arange(len(order)) - begins[column[order]]
    order = order[rank < limit]
    return Cells(
        column=column[order],
        value=arrays.segment_value[segment[order]].astype(np.int64),
        row=row[order],
        rank=rank[rank < limit],
    )


def shuffle_rows(encoded: Encoded, rows: Ints, limit: int = MAX_ROWS) -> Ints:
    """Return at most `limit` rows a table, table after table, in an order that their content gives."""
    drawn = mix(encoded.row_hash[rows], hash_text("profiles"))
    table = encoded.arrays.row_table[rows]
    order = np.lexsort((drawn, table))
    begins = np.searchsorted(table[order], table[order])
    shuffled: Ints = rows[order[np.arange(len(order)) - begins < limit]]
    return shuffled
