"""`navi name`: headers for columns that have none, or useless ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from navi.cli.console import Screen
from navi.cli.options import Device, Json, ModelFolder, Quiet, TablePath, require_model, split_names
from navi.cli.progress import show_progress
from navi.cli.read_summary import note_lost
from navi.cli.render import count_things, make_table, quote, shorten, tell_next

if TYPE_CHECKING:
    from rich.table import Table

    from navi.tables import Table as TableInMemory
    from navi.verbs.name import ColumnNames, NameCandidate

EXAMPLES = (
    "navi name --model model export.csv",
    "navi name --model model export.csv --columns col_3,x --top 3",
    "navi name --model model export.csv --apply named.csv --confidence 0.8",
)


def name(
    table: TablePath,
    model: ModelFolder = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns to name, `*` for all.", show_default="those with useless headers"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Candidates for each.")] = 5,
    apply: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the table with its columns renamed.")] = None,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="How sure --apply must be of a name.")] = 0.5,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Propose headers for a table's columns from their values, blind to their own header."""
    from navi.tables import WRITERS, check_output, read_table, write_table
    from navi.verbs import Navi
    from navi.verbs.name import apply_names

    screen, model = Screen(quiet=quiet, as_json=as_json), require_model(model)
    if apply is not None:
        check_output(apply)
    with show_progress(screen) as meter:
        meter.wait("Reading the table")
        read = read_table(table, whole=True)
        wanted = list(read.headers) if columns == "*" else split_names(columns)
        read.find_headers(wanted or [])
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        meter.wait("Reading the columns")
        found = opened.name_columns(read, wanted, top=top)
    screen.answer_json({"table": read.name, "columns": [each.as_dict() for each in found]})
    if found:
        screen.answer(list_names(read, found))
    else:
        screen.note("Every header of this table says something. To name columns all the same: --columns A,B or '*'.")
    note_lost(screen, [read])
    if apply is not None:
        renamed = apply_names(read.frame, found, confidence=confidence)
        write_table(renamed, apply)
        count = sum(old != new for old, new in zip(read.frame.column_names, renamed.column_names, strict=True))
        screen.summarise(f"{count_things(count, 'column')} renamed in {apply}.")
    elif found:
        suffix = table.suffix if table.suffix.lower() in WRITERS else ".csv"
        command = f"navi name --model {quote(model)} {quote(table)} --apply named{suffix}"
        screen.summarise(tell_next(command, "write the table with these names"))


def list_names(table: TableInMemory, found: Iterable[ColumnNames]) -> Table:
    """Return the columns with what they may be called, and a value of each."""
    rows = []
    for each in found:
        best = each.candidates[0] if each.candidates else None
        others = ", ".join(f"{other.header} {other.probability:.2f}" for other in each.candidates[1:])
        rows.append((each.column, show_example(table, each.column), *describe_candidate(best), others))
    return make_table(("column", "example", "name", "probability", "like", "or"), rows, right=("probability",))


def describe_candidate(best: NameCandidate | None) -> tuple[str, str, str]:
    """Return the header, its probability, and the known column that it comes from."""
    if best is None:
        return "–", "", ""
    return best.header, f"{best.probability:.2f}", best.like or best.source


def show_example(table: TableInMemory, column: str) -> str:
    """Return the first value of a column; nested ones have no column of their own name."""
    if column not in table.frame.column_names:
        return ""
    cells = table.frame[column].drop_null()
    return shorten(str(cells[0].as_py()), 30) if len(cells) else ""
