"""What every answer of a verb can do: show itself in a notebook, and become a frame of the library in use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from navi.report.cards import show_cards

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

ROWS_SHOWN, CARDS_SHOWN = 20, 20
"""Rows, and cards, that a notebook shows."""


class TabularResult(ABC):
    """An answer that is a table at heart."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the answer as an Arrow table."""

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain lists and dictionaries, ready for JSON."""
        return asdict(cast("Any", self))

    def to_pandas(self) -> pd.DataFrame:
        """Return the answer as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the answer as a Polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame), "an Arrow table becomes a frame"
        return frame

    def _repr_html_(self) -> str:
        table = self.to_arrow()
        rows = [list(row.values()) for row in table.slice(0, ROWS_SHOWN).to_pylist()]
        return show_cards("table", columns=table.column_names, rows=rows, more=table.num_rows - len(rows))


def tabulate(lines: Iterable[Sequence[object]], **types: pa.DataType) -> pa.Table:
    """Return lines as a table of these columns.

    >>> tabulate([(1, "a")], row=pa.int64(), text=pa.string()).to_pylist()
    [{'row': 1, 'text': 'a'}]
    """
    columns = zip(*lines, strict=True)
    return pa.table({name: pa.array(next(columns, ()), kind) for name, kind in types.items()})
