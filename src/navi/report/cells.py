"""Cells of a table as a reader sees them, with what sorting needs and which are best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from navi.report.tables import Cell, Column, Number, Table

DASH = "–"
"""Stands for nothing."""
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, kw_only=True)
class ShownCell:
    """A cell ready for the page."""

    text: str
    """What is read."""
    key: str | None
    """What it is sorted by; None for nothing, which always comes last."""
    deviation: str = ""
    """What follows ±."""
    change: str = ""
    """The relative change, in percent."""
    mark: str = ""
    """`best`, `second`, `yes`, `no` or nothing."""
    bar: float | None = None
    """The share of a bar that is filled, in percent."""
    best_change: bool = False
    """Whether the relative change is the best of its column."""


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """A table ready for the page."""

    columns: tuple[Column, ...]
    """The columns."""
    numeric: tuple[bool, ...]
    """Which of them hold figures alone."""
    groups: tuple[tuple[str, int], ...]
    """The headers above the headers, with the columns each spans; none if no column has one."""
    rows: tuple[tuple[ShownCell, ...], ...]
    """The cells."""
    has_marks: bool
    """Whether best figures are marked."""


def show_table(table: Table) -> ShownTable:
    """Return a table ready for the page."""
    columns = table.described_columns
    cells = list(zip(*table.rows, strict=True)) or [()] * len(columns)
    shown = [_show_column(column, values) for column, values in zip(columns, cells, strict=True)]
    groups = tuple((name, len(list(members))) for name, members in groupby(column.group for column in columns))
    return ShownTable(
        columns=columns,
        numeric=tuple(_is_numeric(values) for values in cells),
        groups=groups if any(name for name, _ in groups) else (),
        rows=tuple(zip(*shown, strict=True)),
        has_marks=any(column.best for column in columns),
    )


def show_cell(cell: Cell, column: Column, mark: str = "", best_change: float | None = None) -> ShownCell:
    """Return one cell ready for the page; `best_change` is the best of its column, if that is marked.

    >>> shown = show_cell(Number(0.87304, 0.013, -0.071), Column("F1"))
    >>> shown.text, shown.key, shown.deviation, shown.change
    ('0.873', '0.87304', '0.013', '−7.1 %')
    """
    if cell is None:
        return ShownCell(text=DASH, key=None)
    if isinstance(cell, bool):
        return ShownCell(text="yes" if cell else "no", key=str(int(cell)), mark="yes" if cell else "no")
    if isinstance(cell, str):
        return ShownCell(text=cell, key=cell)
    number = cell if isinstance(cell, Number) else Number(cell)
    return ShownCell(
        text=format_number(number.value, column),
        key=repr(number.value),
        deviation="" if number.deviation is None else format_number(float(number.deviation), column),
        change="" if number.change is None else _format_change(number.change, column),
        mark=mark,
        bar=round(100 * min(max(number.value, 0.0), 1.0), 1) if column.bar else None,
        best_change=number.change is not None and best_change == _round_change(number.change, column),
    )


def format_number(value: float, column: Column) -> str:
    """Return a figure as its column shows it: whole ones with their thousands set apart.

    >>> format_number(12345, Column("rows")), format_number(-0.5, Column("gain", digits=1))
    ('12,345', '−0.5')
    """
    if column.percent:
        text = f"{100 * value:.{max(column.digits - 2, 0)}f} %"
    else:
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.{column.digits}f}"
    return text.replace("-", MINUS)


def find_best(values: Sequence[Cell], column: Column) -> list[str]:
    """Return `best`, `second` or nothing for each cell; figures that read alike are marked alike.

    >>> find_best([0.91, Number(0.95), None, 0.95, 0.5], Column("F1", best="highest"))
    ['second', 'best', '', 'best', '']
    """
    if column.best is None:
        return [""] * len(values)
    figures = [_read_figure(value, column) for value in values]
    ranked = sorted({each for each in figures if each is not None}, reverse=column.best == "highest")
    marks = dict(zip(ranked, ("best", "second"), strict=False))
    return ["" if each is None else marks.get(each, "") for each in figures]


def _show_column(column: Column, values: Sequence[Cell]) -> list[ShownCell]:
    marks = find_best(values, column)
    changes = [cell.change for cell in values if isinstance(cell, Number) and cell.change is not None]
    best_change = max((_round_change(each, column) for each in changes), default=None) if column.best_change else None
    return [show_cell(cell, column, mark, best_change) for cell, mark in zip(values, marks, strict=True)]


def _is_numeric(values: Sequence[Cell]) -> bool:
    held = [value for value in values if value is not None]
    return bool(held) and all(isinstance(each, int | float | Number) and not isinstance(each, bool) for each in held)


def _read_figure(cell: Cell, column: Column) -> float | None:
    if cell is None or isinstance(cell, str | bool):
        return None
    value = cell.value if isinstance(cell, Number) else cell
    return round(value, column.digits)


def _round_change(change: float, column: Column) -> float:
    """Return a change as it reads: those that read alike are marked alike."""
    return round(change, max(column.digits, 3))


def _format_change(change: float, column: Column) -> str:
    return f"{100 * change:+.{max(column.digits - 2, 1)}f} %".replace("-", MINUS)
