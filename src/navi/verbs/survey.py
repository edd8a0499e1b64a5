"""The empty cells of a frame: where a model can be asked for them, and why it cannot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import ROLES
from navi.tables import Table
from navi.verbs.filling import Frame, Parse, find_present
from navi.verbs.guessing.gaps import Gaps, Ints

# Shape suffixes: M empty cells.

NOT_ASKED = "column not asked for"
NEVER_FILLED = "column never filled"
NO_OTHER_CELL = "row has no other cell"
UNFILLABLE = "column holds nested or binary cells"
"""Why an empty cell cannot be guessed."""
ASKED = ""
"""The reason of a cell that can."""
NEW_COLUMNS = "columns never filled"
"""Name of the table that stands for columns without any cell."""


@dataclass(frozen=True, kw_only=True)
class EmptyCells:
    """All empty cells of a frame, row after row.

    **Shape**: M cells.
    """

    row: Ints
    """(M,) row in the frame, from 0."""
    column: Ints
    """(M,) column in the frame, from 0."""
    reason: NDArray[np.str_]
    """(M,) why the cell cannot be guessed; ASKED if it can."""

    def list_asked(self) -> Ints:
        """Return the numbers of the cells that can be guessed."""
        return np.flatnonzero(self.reason == ASKED)


class Survey:
    """A frame's cells, told apart: present, empty and asked for, or empty and out of reach."""

    def __init__(self, frame: Frame, table: Table, asked: Collection[str] | None) -> None:
        self.frame = frame
        self.table = table
        self._present = find_present(table, frame.headers)
        gaping = [not filled.all() for filled in self._present]
        wanted = [asked is None or header in asked for header in frame.headers]
        self._asked = [gap and want for gap, want in zip(gaping, wanted, strict=True)]
        self.parsers: list[Parse | None] = [
            frame.make_parser(column) if ask else None for column, ask in enumerate(self._asked)
        ]

    def list_new(self) -> list[str]:
        """Return the headers of asked-for columns that no row fills."""
        return [
            header
            for column, header in enumerate(self.frame.headers)
            if self.parsers[column] is not None and not self._present[column].any()
        ]

    def list_cells(self, known: Collection[str]) -> EmptyCells:
        """Return the empty cells; of the columns that no row fills, those `known` to the model can be guessed."""
        row, column = np.nonzero(~self._present.T)
        reason_K = [self._explain(number, header, known) for number, header in enumerate(self.frame.headers)]
        reason = np.array(reason_K, dtype=np.str_)[column] if reason_K else np.zeros(0, np.str_)
        alone: NDArray[np.bool_] = np.logical_not(self._present.any(axis=0))
        reason = np.where((reason == ASKED) & alone[row], NO_OTHER_CELL, reason)
        return EmptyCells(row=row, column=column, reason=reason)

    def _explain(self, column: int, header: str, known: Collection[str]) -> str:
        if self._present[column].all():
            return ASKED
        if not self._asked[column]:
            return NOT_ASKED
        if self.parsers[column] is None:
            return UNFILLABLE
        return ASKED if self._present[column].any() or header in known else NEVER_FILLED

    def find_gaps(self, encoded: Encoded, cells: EmptyCells, chosen: Ints) -> Gaps:
        """Return where the chosen cells stand in the encoded tables."""
        arrays = encoded.arrays
        own = np.flatnonzero(arrays.row_table == 0)
        place = np.full(self.frame.num_rows, -1, np.int64)
        place[self.table.find_rows(encoded.row_number[own])] = own
        texts = encoded.headers.take(pa.array(arrays.column_header)).to_pylist()
        # Columns are sorted by table, so that the frame's own come last and stay.
        column_of = {header: number for number, header in reversed(list(enumerate(texts)))}
        numbers = np.array([column_of.get(header, -1) for header in self.frame.headers], dtype=np.int64)
        return Gaps(row=place[cells.row[chosen]], column=numbers[cells.column[chosen]])


def name_new_columns(headers: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return a table of one row that makes columns without any cell known; nothing for no headers."""
    return {NEW_COLUMNS: [{header: header for header in headers}]} if headers else {}


def list_roles(encoded: Encoded, gaps: Gaps) -> NDArray[np.str_]:
    """Return the role of each gap's column."""
    return np.array(ROLES)[encoded.arrays.column_role[gaps.column]]
