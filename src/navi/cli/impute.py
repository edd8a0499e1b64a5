"""`navi impute`: a table with its empty cells filled, and an account of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import Screen
from navi.cli.options import Columns, Device, Json, ModelFolder, Quiet, TablePath, require_model, split_names
from navi.cli.progress import follow_share, show_progress
from navi.cli.read_summary import note_lost
from navi.cli.render import count_things, format_count, make_heading, make_table, shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from navi.verbs.impute import Fills

EXAMPLES = (
    "navi impute --model model films.csv -o filled.csv",
    "navi impute --model model films.csv -o filled.csv --confidence 0.9 --columns genre,country",
)
FILLED = "filled"
"""Reason of a cell that was not left empty."""
FILLS_SHOWN = 12
"""Cells shown in the summary, the surest of each column first."""


def impute(
    table: TablePath,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="File to write: .csv, .tsv, .jsonl, .parquet, .feather.")
    ],
    model: ModelFolder = None,
    confidence: Annotated[float, typer.Option(help="Leave a cell empty if less sure than this.")] = 0.6,
    columns: Columns = None,
    cells: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Account of every empty cell.", show_default="OUT with .cells.csv"),
    ] = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill a table's empty cells where the model is sure enough; cells that hold something stay as they are."""
    from navi.tables import check_output, read_table, write_table
    from navi.verbs import Navi

    screen, model = Screen(quiet=quiet, as_json=as_json), require_model(model)
    account = cells or out.with_name(f"{out.stem}.cells.csv")
    check_output(out)
    check_output(account)
    with show_progress(screen) as meter:
        meter.wait("Reading the table")
        read, wanted = read_table(table, whole=True), split_names(columns)
        read.find_headers(wanted or [])
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        report = follow_share(meter, "Filling cells", "cells")
        result = opened.impute(read, confidence=confidence, columns=wanted, progress=report)
    write_table(result.filled, out)
    write_table(result.cells, account)
    screen.answer_json(describe_fills(result, out, account))
    screen.summarise(*summarise_fills(result, out, account))
    note_lost(screen, [read])


def count_reasons(cells: pa.Table) -> Counter[str]:
    """Return how many empty cells were filled, and how many left for each reason."""
    return Counter(cells["reason"].to_pylist())


def describe_fills(result: Fills[Any], out: Path, account: Path) -> dict[str, Any]:
    """Return the result ready for JSON."""
    reliability, cells = result.reliability, result.cells
    return {
        "path": out,
        "account": account,
        "empty": cells.num_rows,
        "filled": result.num_filled,
        "reasons": count_reasons(cells),
        "calibration_error": reliability.ece if reliability else None,
        "notes": result.notes,
        "cells": cells.to_pylist(),
    }


def summarise_fills(result: Fills[Any], out: Path, account: Path) -> list[Any]:
    """Return what was filled, what was left and why."""
    cells = result.cells
    if not cells.num_rows:
        return [make_heading(f"{out}: the table as it was, no cell is empty")]
    filled = f"{format_count(result.num_filled)} of {count_things(cells.num_rows, 'empty cell')} filled"
    lines: list[Any] = [make_heading(f"{out}: {filled}")]
    if result.num_filled:
        lines.append(list_fills(cells))
    left = {reason: count for reason, count in count_reasons(cells).items() if reason != FILLED}
    lines += [f"  {count_things(count, 'cell')} left empty: {reason}" for reason, count in left.items()]
    if result.reliability:
        lines.append(f"Confidence is off by {result.reliability.ece:.3f} on average, measured on cells hidden for it.")
    notes = [f"Note: {note}." for note in result.notes]
    return [*lines, *notes, f"Every empty cell, its best guess and why it was left: {account}"]


def list_fills(cells: pa.Table) -> Any:
    """Return some of the cells that were filled: the surest of each column, then the next."""
    filled = [cell for cell in cells.to_pylist() if cell["reason"] == FILLED]
    met: Counter[str] = Counter()
    ranked = []
    for cell in sorted(filled, key=lambda cell: -cell["probability"]):
        ranked.append((met[cell["column"]], cell))
        met[cell["column"]] += 1
    shown = [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])[:FILLS_SHOWN]]
    rows = [
        (str(cell["row"]), cell["column"], shorten(cell["value"]), f"{cell['probability']:.2f}", cell["kind"])
        for cell in shown
    ]
    return make_table(("row", "column", "value", "confidence", "from"), rows, right=("row", "confidence"))
