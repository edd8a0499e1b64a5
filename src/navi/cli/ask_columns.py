"""`navi match` and `navi name`: what columns mean, and what they may be called."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from navi.cli.console import Screen, count_things, make_heading, make_table, quote, shorten
from navi.cli.options import Device, Json, ModelFolder, Paths, Quiet, TablePath, show_model, split_names
from navi.cli.prepare import note_lost
from navi.cli.progress import show_progress
from navi.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from navi.tables import Table as TableInMemory
    from navi.verbs.match import ColumnCluster, Matches
    from navi.verbs.name import ColumnNames

EXAMPLES = {
    "match": (
        "navi match films/",
        "navi match --model model films/ --mapping mapping.json --csv columns.csv",
        "navi match --model model a.csv b.csv --one-to-one --unify both.parquet",
    ),
    "name": (
        "navi name export.csv",
        "navi name --model model export.csv --columns col_3,x --top 3",
        "navi name --model model export.csv --apply named.csv --confidence 0.8",
    ),
}


def match(
    paths: Paths,
    model: ModelFolder = None,
    threshold: Annotated[float, typer.Option(help="Probability from which columns match.")] = 0.5,
    one_to_one: Annotated[bool, typer.Option("--one-to-one", help="At most one column of each table a match.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one line a column: .csv, .parquet …")] = None,
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write attributes for `navi prepare --attributes`.")
    ] = None,
    unify: Annotated[
        Path | None, typer.Option(metavar="OUT.parquet", help="Write all rows as one table under the unified names.")
    ] = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the columns that mean the same over all tables, and a unified name for each."""
    from navi.files import write_json
    from navi.tables import check_output, read_tables, write_table
    from navi.verbs import Navi
    from navi.verbs.unify import unify as unify_tables

    screen = Screen(quiet=quiet, as_json=as_json)
    for path in (csv, unify):
        if path is not None:
            check_output(path)
    if mapping is not None and not mapping.parent.is_dir():
        raise ConfigError(f"Cannot write {mapping}: there is no folder {mapping.parent}. Make it first.")
    with show_progress(screen) as meter:
        meter.wait("Reading the tables")
        unreadable: list[str] = []
        tables = read_tables(paths, unreadable=unreadable)
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        meter.wait(f"Comparing the columns of {count_things(len(tables), 'table')}")
        found = opened.match(tables, threshold=threshold, one_to_one=one_to_one)
    if csv is not None:
        write_table(found.to_arrow(), csv)
    if mapping is not None:
        write_json(mapping, found.as_mapping())
    if unify is not None:
        write_table(unify_tables(tables, found), unify)
    screen.answer_json(found.as_dict())
    screen.answer(list_clusters(found))
    sizes = [len(cluster.columns) for cluster in found.clusters]
    alone, clusters = sizes.count(1), count_things(len(sizes) - sizes.count(1), "cluster")
    screen.summarise(
        make_heading(f"{count_things(sum(sizes), 'column')}: {sum(sizes) - alone} in {clusters}, {alone} alone."),
        "Headers and values: what each said for a match on average, as logarithms of odds; negative speaks against.",
        *(f"Written: {path}" for path in (csv, mapping, unify) if path is not None),
    )
    note_lost(screen, tables.values())
    note_unreadable(screen, unreadable)
    shown = " ".join(map(quote, paths))
    if mapping is None:
        command = f"navi match {show_model(model)}{shown} --mapping mapping.json"
        screen.suggest(command, "keep these names as attributes, to prepare and pretrain with")
    else:
        command = f"navi prepare {shown} -o corpus --attributes {quote(mapping)}"
        screen.suggest(command, "pretrain on these attributes")


def note_unreadable(screen: Screen, reasons: Iterable[str]) -> None:
    """Say which files are not in an answer because they could not be read."""
    for reason in reasons:
        screen.note(f"Left out: {reason}")


def list_clusters(found: Matches) -> Table:
    """Return the clusters of more than one column, and what headers and values said for each.

    That is the mean over its pairs, as logarithms of odds.
    """
    rows = []
    for cluster in (each for each in found.clusters if len(each.columns) > 1):
        members = set(cluster.columns)
        pairs = [pair for pair in found.pairs if pair.first in members and pair.second in members]
        said = [
            f"{fmean(getattr(pair, name) for pair in pairs):+.1f}" if pairs else "" for name in ("headers", "values")
        ]
        rows.append((cluster.name, f"{cluster.score:.2f}", *said, list_columns(cluster)))
    columns = ("unified name", "score", "headers", "values", "columns")
    return make_table(columns, rows, right=columns[1:4])


def list_columns(cluster: ColumnCluster) -> str:
    """Return a cluster's columns: each header once, with its tables."""
    tables: dict[str, list[str]] = {}
    for column in cluster.columns:
        tables.setdefault(column.header, []).append(column.table)
    return ", ".join(f"{header} ({', '.join(names)})" for header, names in tables.items())


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

    screen = Screen(quiet=quiet, as_json=as_json)
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
        command = f"navi name {show_model(model)}{quote(table)} --apply named{suffix}"
        screen.suggest(command, "write the table with these names")


def list_names(table: TableInMemory, found: Iterable[ColumnNames]) -> Table:
    """Return the columns with a value of each, what they may be called, and the known column that it comes from."""
    rows = []
    for each in found:
        best = ("–", "", "")
        for one in each.candidates[:1]:
            best = (one.header, f"{one.probability:.2f}", one.like or one.source)
        others = ", ".join(f"{other.header} {other.probability:.2f}" for other in each.candidates[1:])
        rows.append((each.column, show_example(table, each.column), *best, others))
    return make_table(("column", "example", "name", "probability", "like", "or"), rows, right=("probability",))


def show_example(table: TableInMemory, column: str) -> str:
    """Return the first value of a column; nested ones have no column of their own name."""
    if column not in table.frame.column_names:
        return ""
    cells = table.frame[column].drop_null()
    return shorten(str(cells[0].as_py()), 30) if len(cells) else ""
