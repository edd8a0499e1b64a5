"""The demo's empty cells: filled where the model is sure, the truth beside."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from navi.cli.demo.tour import Score, Tour, find_file
from navi.cli.progress import follow_share, show_progress
from navi.cli.render import count_things, format_count, make_table, shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from navi.cli.demo.page import FilledCell
    from navi.tables import Table

MOST_ROWS = 150
"""Rows of the table that are filled, to keep the demo short."""
CONFIDENCE = 0.6
"""How sure a fill must be."""
SHOWN = 10
"""Fills shown."""


def fill_gaps(tour: Tour) -> None:
    """Fill the gaps of the catalogue that has most, and compare with what they held."""
    from navi.tables import read_table

    name = Counter(table for table, _, _ in tour.truth.gaps).most_common(1)[0][0]
    table = read_table(find_file(tour.tables, name))
    frame = table.frame.slice(0, MOST_ROWS)
    with show_progress(tour.screen) as meter:
        meter.wait(f"Reading {name}")
        report = follow_share(meter, f"Filling {name}", "cells")
        result = tour.model.impute(frame, confidence=CONFIDENCE, progress=report)
    fills = judge_fills(tour, table, result.cells)
    known = [fill for fill in fills if fill["truth"] is not None]
    tour.screen.summarise(
        f"{name}, {count_things(frame.num_rows, 'row')}: {count_things(result.cells.num_rows, 'empty cell')}, "
        f"{format_count(len(fills))} filled with a confidence of {CONFIDENCE} or more.",
        list_fills(known),
    )
    tour.findings.filled = [_describe(name, fill) for fill in known]
    if known:
        right = sum(fill["right"] for fill in known) / len(known)
        guess = sum(is_same(find_usual(frame, fill["column"]), fill["truth"]) for fill in known) / len(known)
        tour.scores.append(
            Score(task="empty cells that it filled", navi=right, guess=guess, guess_name="column's most frequent value")
        )


def _describe(table: str, fill: dict[str, Any]) -> FilledCell:
    from navi.cli.demo.page import FilledCell

    return FilledCell(
        table=table,
        header=fill["column"],
        value=fill["value"],
        confidence=fill["probability"],
        truth=fill["truth"],
        is_right=fill["right"],
    )


def judge_fills(tour: Tour, table: Table, cells: pa.Table) -> list[dict[str, Any]]:
    """Return the cells that were filled, each with the truth where the simulator knows it, the surest first."""
    first = tour.truth.first_place[table.name]
    fills = [cell for cell in cells.to_pylist() if cell["reason"] == "filled"]
    for fill in fills:
        place = int(table.row_number[fill["row"] - 1])
        fill["truth"] = tour.truth.gaps.get((table.name, place - first, fill["column"]))
        fill["right"] = fill["truth"] is not None and is_same(fill["value"], fill["truth"])
    return sorted(fills, key=lambda fill: -fill["probability"])


def is_same(value: str | None, truth: str) -> bool:
    """Tell whether two texts are equal but for case and spaces."""
    return value is not None and " ".join(value.casefold().split()) == " ".join(truth.casefold().split())


def find_usual(frame: pa.Table, column: str) -> str | None:
    """Return the most frequent value of a column."""
    cells = [str(cell) for cell in frame[column].to_pylist() if cell is not None]
    return Counter(cells).most_common(1)[0][0] if cells else None


def list_fills(fills: list[dict[str, Any]]) -> Any:
    """Return some fills, from the surest to the least sure, with the truth beside."""
    step = max(1, len(fills) // SHOWN)
    rows = [
        (
            fill["column"],
            shorten(fill["value"]),
            f"{fill['probability']:.2f}",
            shorten(fill["truth"]),
            "right" if fill["right"] else "wrong",
        )
        for fill in fills[::step][:SHOWN]
    ]
    return make_table(("column", "filled with", "confidence", "truth", ""), rows, right=("confidence",))
