"""`navi link`: rows of one table or of many that are about the same thing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from navi.cli.ask_columns import check_targets, note_unreadable
from navi.cli.ask_rows import list_cells, show_cells
from navi.cli.console import (
    Screen,
    count_things,
    find_free,
    format_count,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.cli.options import (
    Device,
    Json,
    ModelFolder,
    Overwrite,
    Paths,
    Quiet,
    SafeCsv,
    Sheet,
    choose_precision,
    pick_sheet,
    show_model,
)
from navi.cli.prepare import note_lost
from navi.cli.progress import follow_share, show_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from navi.tables import Table as TableInMemory
    from navi.verbs.link import Links, RowPair, RowRef

EXAMPLES = {
    "link": (
        "navi link imdb.csv netflix.csv --one-to-one -o pairs.csv",
        "navi link feeds/ --clusters things.csv",
        "navi link imdb.csv netflix.csv --labels pairs.csv --explain",
    ),
}
PAIRS_SHOWN = 20
"""Pairs and clusters that are shown; `-o` and `--json` have them all."""
LEAST_WEIGHT = 0.05
"""What contributes less to a pair is not shown."""


def link(
    paths: Paths,
    model: ModelFolder = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write one line a pair: .csv, .parquet …")
    ] = None,
    clusters: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one line a row that has a partner, with its cluster.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Probability from which rows are linked.")] = 0.5,
    one_to_one: Annotated[
        bool, typer.Option("--one-to-one", help="At most one partner of a row in each other table.")
    ] = False,
    within: Annotated[
        bool, typer.Option("--within", help="Duplicates inside a table, too.", show_default="for one table alone")
    ] = False,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs with `same` filled in, to learn from.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what spoke for each pair, and against it.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Candidates for each row.")] = 10,
    encoder: Annotated[
        bool | None,
        typer.Option(help="Candidates by the model's vectors, too.", show_default="up to 20,000 rows"),
    ] = None,
    sheet: Sheet = None,
    overwrite: Overwrite = False,
    safe_csv: SafeCsv = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the rows that are about the same thing, in two tables, in many, or in one."""
    from navi.tables import check_output, read_tables, write_table
    from navi.verbs import Navi

    screen = Screen(quiet=quiet, as_json=as_json)
    written = [path for path in (out, clusters) if path is not None]
    for path in written:
        check_output(path)
    check_targets(written, [*paths, *([labels] if labels else [])], overwrite=overwrite)
    with show_progress(screen) as meter:
        meter.wait("Reading the tables")
        unreadable: list[str] = []
        paths = pick_sheet(paths, sheet)
        tables = read_tables(paths, unreadable=unreadable)
        meter.wait("Loading the model")
        num_rows = sum(table.num_rows for table in tables.values())
        opened = Navi.from_pretrained(model, device=device, precision=choose_precision(device, num_rows))
        meter.wait("Comparing the rows")
        found = opened.link(
            tables,
            threshold=threshold,
            one_to_one=one_to_one,
            within=within,
            labels=labels,
            k=k,
            encoder=encoder,
            progress=follow_share(meter, "Reading rows", "rows"),
        )
    if out is not None:
        write_table(found.to_arrow(), out, safe_csv=safe_csv)
    if clusters is not None:
        write_table(found.clusters_to_arrow(), clusters, safe_csv=safe_csv)
    screen.answer_json(describe_links(found, explain=explain))
    screen.answer(list_pairs(found, tables) if len(tables) == 2 else list_clusters(found, tables))
    if explain:
        for pair in list(found)[:PAIRS_SHOWN]:
            screen.answer(list_evidence(pair))
    more = max(len(found) - PAIRS_SHOWN, 0) if len(tables) == 2 else max(len(found.clusters) - PAIRS_SHOWN, 0)
    screen.summarise(
        make_heading(f"{count_things(len(found), 'pair')} of rows in {count_things(len(found.clusters), 'cluster')}."),
        *([f"{format_count(more)} more are not shown; -o FILE has them all."] if more else []),
        *(f"Written: {path}" for path in written),
    )
    note_lost(screen, tables.values())
    note_unreadable(screen, unreadable)
    asked = f"navi link {show_model(model)}{quote(*paths)}{' --one-to-one' if one_to_one else ''}"
    if out is None:
        screen.suggest(f"{asked} -o {quote(find_free(Path('pairs.csv')))}", "write the pairs")
    elif not explain:
        screen.suggest(f"{asked} --explain", "see what speaks for each pair")


def describe_links(found: Links, *, explain: bool) -> dict[str, object]:
    """Return pairs and clusters as plain lists and dictionaries, ready for JSON."""
    pairs = found.to_arrow().to_pylist()
    if explain:
        pairs = [line | {"evidence": asdict(pair)["evidence"]} for line, pair in zip(pairs, found, strict=True)]
    return {"tables": found.rows.tables, "pairs": pairs, "clusters": [asdict(each) for each in found.clusters]}


def show_row(tables: Mapping[str, TableInMemory], row: RowRef) -> str:
    """Return a few cells of a row in one line."""
    return show_cells(list_cells(tables[row.table], row.row))


def list_pairs(found: Links, tables: Mapping[str, TableInMemory]) -> Table:
    """Return the surest pairs, side by side."""
    rows = []
    for place in range(min(len(found), PAIRS_SHOWN)):
        pair = found[place]
        sides = [text for row in (pair.left, pair.right) for text in (str(row), show_row(tables, row))]
        rows.append((f"{pair.probability:.2f}", *sides))
    return make_table(("probability", "left", "", "right", ""), rows, right=("probability",))


def list_clusters(found: Links, tables: Mapping[str, TableInMemory]) -> Table:
    """Return the surest clusters, a line for each row."""
    rows = []
    for number, cluster in enumerate(found.clusters[:PAIRS_SHOWN]):
        for place, row in enumerate(cluster.rows):
            head = (str(number), f"{cluster.probability:.2f}") if place == 0 else ("", "")
            rows.append((*head, str(row), show_row(tables, row)))
    return make_table(("cluster", "probability", "row", ""), rows, right=("cluster", "probability"))


def list_evidence(pair: RowPair) -> Table:
    """Return what spoke for a pair and against it, what counts most first."""
    rows = [
        (f"{each.weight:+.1f}", each.column, shorten(each.left or ""), shorten(each.right or ""))
        for each in pair.evidence
        if abs(each.weight) >= LEAST_WEIGHT
    ]
    title = f"{pair.left} and {pair.right}: {pair.probability:.2f}"
    return make_table(("log odds", "compared", "left", "right"), rows, title=title, right=("log odds",))
