"""`navi search`: nearest rows across tables with different schemas, and pairs of rows that are about the same."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import Screen
from navi.cli.options import Device, Json, ModelFolder, Paths, Quiet, require_model
from navi.cli.progress import Meter, follow_rows, show_progress
from navi.cli.render import count_things, make_table, shorten, tell_next
from navi.errors import ConfigError, TableError

if TYPE_CHECKING:
    from navi.tables import Table
    from navi.verbs import Navi
    from navi.verbs.search import Neighbour, Neighbours, SearchIndex

EXAMPLES = (
    "navi search --model model films/ --like 'title=Alien, year=1979'",
    "navi search --model model films/ --row imdb:12 -k 3 --index films.index",
    "navi search --model model imdb.csv netflix.csv --pairs --one-to-one",
)
CELLS_SHOWN = 6
"""Cells of a row that are shown; `--json` has them all."""


def search(
    paths: Paths,
    model: ModelFolder = None,
    like: Annotated[str | None, typer.Option(metavar="ROW", help="Cells to look for: title=Alien, year=1979")] = None,
    row: Annotated[str | None, typer.Option(metavar="TABLE:N", help="A row of these tables to look for.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Rows to find.")] = 10,
    index: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the index here, or use the one here.")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Rows of two tables that are about the same.")] = False,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="How sure a pair must be.")] = 0.5,
    one_to_one: Annotated[bool, typer.Option("--one-to-one", help="Each row in one pair at most.")] = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the nearest rows of any tables, by example or by some of their cells."""
    from navi.verbs import Navi, parse_like

    screen, model = Screen(quiet=quiet, as_json=as_json), require_model(model)
    if sum((like is not None, row is not None, pairs)) != 1:
        raise ConfigError("Give one of --like ROW, --row TABLE:N and --pairs.")
    wanted = None if row is None else parse_row(row)
    # Embedding all rows takes long: what was mistyped is told before.
    if like is not None:
        parse_like(like)
    check_tables(paths, wanted)
    with show_progress(screen) as meter:
        meter.wait("Loading the model")
        opened = Navi.from_pretrained(model, device=device)
        if pairs:
            tables = read_two(paths)
            found = opened.find_pairs(*tables, k=k, threshold=confidence, one_to_one=one_to_one).to_arrow().to_pylist()
        else:
            neighbours = find_rows(make_index(opened, paths, index, meter), like, wanted, k)
    if pairs:
        show_pairs(screen, tables, found)
    else:
        screen.answer_json([asdict(each) for each in neighbours])
        screen.answer(list_neighbours(neighbours))
        if index is not None:
            screen.note(tell_next(f"the index in {index} is kept; name it again with --index", "search faster"))


def parse_row(text: str) -> tuple[str, int]:
    """Return the table and number of `TABLE:N`.

    >>> parse_row("imdb:12")
    ('imdb', 12)
    """
    table, _, number = text.rpartition(":")
    if not table or not number.isdecimal():
        raise ConfigError(f"Cannot read '{text}' as a row: expected TABLE:N, such as imdb:12.")
    return table, int(number)


def check_tables(paths: Sequence[Path], wanted: tuple[str, int] | None) -> None:
    """Refuse paths that hold no table, and a row of a table that is not among them."""
    from navi.tables import find_sources

    known = [source.name for source in find_sources(paths).sources]
    if wanted is not None and wanted[0] not in known:
        raise TableError(f"There is no table '{wanted[0]}'. Expected one of {', '.join(known)}.")


def make_index(navi: Navi, paths: Sequence[Path], folder: Path | None, meter: Meter) -> SearchIndex:
    """Return the index that is kept in a folder, made now if it is not there; one for this once without a folder."""
    from navi.verbs import build_index, open_index

    if folder is not None and folder.exists():
        return open_index(navi, folder, paths)
    report = follow_rows(meter, "Indexing")
    if folder is not None:
        return build_index(navi, paths, folder, progress=report)
    with tempfile.TemporaryDirectory(prefix="navi-search-") as place:
        return build_index(navi, paths, Path(place) / "index", progress=report)


def find_rows(index: SearchIndex, like: str | None, wanted: tuple[str, int] | None, k: int) -> Neighbours:
    """Return the nearest rows to some cells, or to one of the index's own rows."""
    if wanted is not None:
        return index.search_row(*wanted, k)
    return index.search(like, k)[0]


def list_neighbours(neighbours: Neighbours) -> Any:
    """Return the rows found, the nearest first."""
    rows = [(*_show_scores(each), f"{each.table}:{each.row}", show_cells(each.cells)) for each in neighbours]
    columns = ("confidence", "vector", "words", "row", "cells")
    return make_table(columns, rows, right=columns[:3])


def _show_scores(found: Neighbour) -> tuple[str, ...]:
    return tuple(f"{score:.2f}" for score in (found.confidence, found.similarity, found.overlap))


def show_cells(cells: dict[str, str]) -> str:
    """Return a few cells of a row in one line."""
    shown = [f"{header}={shorten(value)}" for header, value in list(cells.items())[:CELLS_SHOWN]]
    return ", ".join(shown) + (", …" if len(cells) > CELLS_SHOWN else "")


def read_two(paths: Sequence[Path]) -> tuple[Table, Table]:
    """Return the two tables that pairs are sought in."""
    from navi.tables import read_tables

    tables = list(read_tables(paths).values())
    if len(tables) != 2:
        raise ConfigError(f"--pairs compares two tables, got {len(tables)}. Name two files.")
    return tables[0], tables[1]


def show_pairs(screen: Screen, tables: tuple[Table, Table], pairs: list[dict[str, Any]]) -> None:
    """Show pairs of rows, or print them for a program."""
    left, right = tables
    screen.answer_json({"left": left.name, "right": right.name, "pairs": pairs})
    places = [dict(zip(table.row_number.tolist(), range(table.num_rows), strict=True)) for table in tables]
    rows = [
        (
            f"{pair['confidence']:.2f}",
            f"{left.name}:{pair['left']}",
            show_cells(_list_cells(left, places[0][pair["left"]])),
            f"{right.name}:{pair['right']}",
            show_cells(_list_cells(right, places[1][pair["right"]])),
        )
        for pair in pairs
    ]
    screen.answer(make_table(("confidence", "left", "", "right", ""), rows, right=("confidence",)))
    screen.summarise(f"{count_things(len(pairs), 'pair')} of rows.")


def _list_cells(table: Table, place: int) -> dict[str, str]:
    row = table.to_arrow().slice(place, 1).to_pylist()[0]
    return {header: value for header, value in row.items() if value is not None}
