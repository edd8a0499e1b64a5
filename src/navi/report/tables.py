"""Tables of a report: cells, columns, and how each is to be shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from navi.errors import ConfigError

BEST = ("highest", "lowest")
"""What may be the best figure of a column."""


@dataclass(frozen=True)
class Number:
    """A figure with what belongs to it."""

    value: float
    """The figure."""
    deviation: float | None = None
    """Its standard deviation, shown behind ±."""
    change: float | None = None
    """Its relative change against a reference, shown in percent: -0.071 as (−7.1 %)."""

    def __post_init__(self) -> None:
        for name in ("value", "deviation", "change"):
            object.__setattr__(self, name, make_plain(getattr(self, name)))
        if not isinstance(self.value, int | float):
            raise ConfigError(f"A Number needs a finite value, got {self.value!r}. Use None for a cell without one.")


Cell = str | int | float | bool | None | Number
"""What a table may hold; None is shown as a dash."""


@dataclass(frozen=True)
class Column:
    """A column and how its cells are shown."""

    name: str
    """The header."""
    group: str = ""
    """A header above it, shared with its neighbours of the same group."""
    digits: int = 3
    """Digits behind the point of figures that are not whole."""
    percent: bool = False
    """Shows shares in percent."""
    best: str | None = None
    """Marks the best and second-best figure: the `highest` or the `lowest`; None marks nothing."""
    bar: bool = False
    """Draws shares, from 0 to 1, as bars beside the figure."""
    best_change: bool = False
    """Marks the best relative change too: the highest, that is the smallest loss."""

    def __post_init__(self) -> None:
        if self.best is not None and self.best not in BEST:
            raise ConfigError(f"best of column '{self.name}' must be one of {', '.join(BEST)}, got '{self.best}'.")
        if not 0 <= self.digits <= 12:
            raise ConfigError(f"digits of column '{self.name}' must be between 0 and 12, got {self.digits}.")


@dataclass(frozen=True)
class Table:
    """A table that a reader can sort; the first column names the rows."""

    caption: str
    """What it shows, in one sentence."""
    columns: tuple[Column | str, ...]
    """Its columns; a name alone stands for a column shown plainly."""
    rows: tuple[tuple[Cell, ...], ...]
    """Its cells, row after row."""
    note: str = ""
    """What is to be said below it."""
    highlight: tuple[str, ...] = ()
    """First cells of the rows that stand out."""

    def __post_init__(self) -> None:
        columns = tuple(Column(column) if isinstance(column, str) else column for column in self.columns)
        rows = tuple(tuple(make_plain(cell) for cell in row) for row in self.rows)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "highlight", tuple(self.highlight))
        if not columns:
            raise ConfigError(f"Table '{self.caption}' has no columns.")
        for number, row in enumerate(rows, start=1):
            if len(row) != len(columns):
                raise ConfigError(
                    f"Table '{self.caption}': row {number} has {len(row)} cells for {len(columns)} columns."
                )

    @property
    def described_columns(self) -> tuple[Column, ...]:
        """The columns, none of them a name alone."""
        return tuple(column if isinstance(column, Column) else Column(column) for column in self.columns)


def make_plain(cell: Any) -> Any:
    """Return a cell as JSON knows it: NumPy's scalars as Python's, and None for figures that are not finite.

    >>> make_plain(float("nan")), make_plain(2)
    (None, 2)
    """
    if hasattr(cell, "item"):
        cell = cell.item()
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    if cell is not None and not isinstance(cell, str | int | float | Number):
        raise ConfigError(f"A cell must be a text, a figure, true, false or None, got {type(cell).__name__}.")
    return cell
