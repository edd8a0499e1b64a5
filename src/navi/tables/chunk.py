"""A chunk: some rows of one table as one long list of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a table, flat, absent cells left out.

    The long form costs nothing for a sparse table with a thousand headers, and what the next stage does with it (find
    the distinct values, hash, count) is one vectorised call each.

    **Shape**: C cells, R rows.
    """

    headers: tuple[str, ...]
    """Distinct headers of this chunk, in order of first appearance."""
    cell_row: NDArray[np.int32]
    """(C,) row of each cell within the chunk, non-decreasing."""
    cell_header: NDArray[np.int32]
    """(C,) index into `headers`; within a row the cells stand in the row's own column order."""
    cell_value: pa.StringArray
    """(C,) text of each cell, stripped and never empty or null."""
    row_number: NDArray[np.int64]
    """(R,) place of each row in its source, from 1: the line of a text file, else the record."""

    @property
    def num_rows(self) -> int:
        """Number of rows, those without any cell not among them."""
        return len(self.row_number)

    @property
    def num_cells(self) -> int:
        """Number of cells that hold something."""
        return len(self.cell_row)

    def cut(self, num_rows: int) -> tuple[Chunk, Chunk]:
        """Return the first rows and the others, each with all headers of the chunk."""
        cell = int(np.searchsorted(self.cell_row, num_rows))
        first = Chunk(
            headers=self.headers,
            cell_row=self.cell_row[:cell],
            cell_header=self.cell_header[:cell],
            cell_value=self.cell_value[:cell],
            row_number=self.row_number[:num_rows],
        )
        others = Chunk(
            headers=self.headers,
            cell_row=self.cell_row[cell:] - np.int32(num_rows),
            cell_header=self.cell_header[cell:],
            cell_value=self.cell_value[cell:],
            row_number=self.row_number[num_rows:],
        )
        return first, others
