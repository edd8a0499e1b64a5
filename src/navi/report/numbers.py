"""Figures as tables, for readers who want the numbers."""

from __future__ import annotations

from navi.report.figures import Bars, Figure, Lines, Reliability
from navi.report.tables import Column, Number, Table

MOST_POINTS = 500
"""Points of lines that are worth a table."""


def list_numbers(figure: Figure) -> Table | None:
    """Return what a figure draws as a table; None for maps and distributions, which have too many numbers to read."""
    if isinstance(figure, Bars):
        return _list_bars(figure)
    if isinstance(figure, Lines) and sum(map(len, figure.series.values())) <= MOST_POINTS:
        rows = tuple((name, x, y) for name, line in figure.series.items() for x, y in line)
        y_column = Column(figure.y_title, percent=figure.percent, digits=4)
        return Table(figure.caption, ("line", Column(figure.x_title), y_column), rows)
    if isinstance(figure, Reliability):
        columns = ("who", Column("confidence", percent=True), Column("right", percent=True), "answers")
        bins = tuple(
            (name, each.confidence, each.accuracy, each.count)
            for name, found in figure.series.items()
            for each in found
        )
        return Table(figure.caption, columns, bins)
    return None


def _list_bars(figure: Bars) -> Table:
    columns: tuple[Column | str, ...] = ("", *(Column(name, percent=figure.percent) for name in figure.series))
    deviations = figure.deviations or {}
    rows = tuple(
        (category, *(_join(values[place], deviations.get(name), place) for name, values in figure.series.items()))
        for place, category in enumerate(figure.categories)
    )
    return Table(figure.caption, columns, rows)


def _join(value: float | None, deviations: tuple[float | None, ...] | None, place: int) -> Number | None:
    return None if value is None else Number(value, deviations[place] if deviations else None)
