"""`navi inspect`: what tables, or a corpus, look like column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import Screen
from navi.cli.options import Backbone, ConfigFile, Json, Quiet
from navi.cli.prepare import make_prepare_config
from navi.cli.progress import follow_preparing, show_progress
from navi.cli.read_summary import NUM_PLACES
from navi.cli.render import count_things, format_count, format_share, make_table, shorten
from navi.errors import TableError

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = ("navi inspect films/ 'more/*.csv.gz'", "navi inspect corpus --table imdb", "navi inspect films/ --json")
COLUMNS = ("header", "attribute", "fill", "distinct", "entropy", "role", "tokens", "trouble", "examples")
NARROW_COLUMNS = ("header", "fill", "distinct", "entropy", "role", "examples")
"""What a terminal of few columns has room for."""
NARROW = 130
UNDECIDED = "undecided"
"""Role of a column that has too few cells to tell one by."""
LONGEST_HEADER, LONGEST_ATTRIBUTE = 24, 16
_RIGHT = ("fill", "distinct", "entropy", "tokens", "rows", "columns", "dropped")


def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATHS|CORPUS", help="Tables, or one corpus directory.", show_default=False),
    ],
    table: Annotated[list[str] | None, typer.Option(help="Show this table alone; may be repeated.")] = None,
    short: Annotated[bool, typer.Option("--short", help="One line a table, no columns.")] = False,
    backbone: Backbone = None,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show columns with their fill, distinct values, entropy and role, tokens, and trouble."""
    screen = Screen(quiet=quiet, as_json=as_json)
    found = look_at(screen, paths, backbone=backbone, config=config)
    found = choose_tables(found, table) if table else found
    screen.answer_json(found)
    if short:
        screen.answer(list_tables(found))
    else:
        for entry in found["tables"]:
            screen.answer(*describe_table(entry, screen.results.width))
    screen.answer(*describe_rest(found))


def look_at(screen: Screen, paths: list[Path], **settings: Any) -> dict[str, Any]:
    """Return what the library finds in a corpus or in paths."""
    from navi.corpus import Corpus, inspect_corpus, inspect_paths

    if len(paths) == 1 and (paths[0] / "corpus.json").is_file():
        return inspect_corpus(Corpus.open(paths[0]))
    file = settings.pop("config")
    with show_progress(screen) as meter:
        return inspect_paths(paths, make_prepare_config(file, **settings), follow_preparing(meter))


def choose_tables(found: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return what was found of some tables alone."""
    known = [entry["name"] for entry in found["tables"]]
    for name in names:
        if name not in known:
            raise TableError(f"There is no table '{name}'. Expected one of {', '.join(known)}.")
    return found | {"tables": [entry for entry in found["tables"] if entry["name"] in names]}


def describe_table(entry: dict[str, Any], width: int) -> list[Any]:
    """Return a table of the columns of one table, each on one line, and what else is to be said of it."""
    title = f"{entry['name']}: {count_things(entry['rows'], 'row')}, {count_things(len(entry['columns']), 'column')}"
    described = [_describe_column(column) for column in entry["columns"]]
    columns = COLUMNS if width >= NARROW else NARROW_COLUMNS
    room = width - sum(_measure(described, name) + 3 for name in columns if name != "examples") - 3
    cut = [cells | {"examples": shorten(cells["examples"], max(room, 8))} for cells in described]
    rows = [[cells[name] for name in columns] for cells in cut]
    return [make_table(columns, rows, title=title, right=_RIGHT), *_list_trouble(entry)]


def list_tables(found: dict[str, Any]) -> Table:
    """Return one line for each table."""
    rows = [
        (
            entry["name"],
            format_count(entry["rows"]),
            format_count(len(entry["columns"])),
            format_count(sum(entry["dropped"].values())),
            ", ".join(column["header"] for column in entry["columns"]),
        )
        for entry in found["tables"]
    ]
    return make_table(("table", "rows", "columns", "dropped", "headers"), rows, right=_RIGHT)


def describe_rest(found: dict[str, Any]) -> list[Any]:
    """Return the totals, and what did not become a table."""
    totals = found["totals"]
    parts = [f"{format_count(totals[name])} {name}" for name in ("tables", "rows", "cells", "columns", "headers")]
    parts += [f"{format_count(totals['attributes'])} attributes", f"{format_count(totals['segments'])} segments"]
    left_out = [f"Left out: {entry['name']} ({_join(entry['dropped']) or 'no rows'})" for entry in found["left_out"]]
    skipped = [f"Skipped: {entry['path']} ({entry['reason']})" for entry in found["skipped"]]
    return [f"In all {', '.join(parts)}, {format_count(totals['tokens'])} tokens.", *left_out, *skipped]


def _describe_column(column: dict[str, Any]) -> dict[str, str]:
    return {
        "header": shorten(column["header"], LONGEST_HEADER),
        "attribute": shorten(column["attribute"], LONGEST_ATTRIBUTE),
        "fill": format_share(column["fill"]),
        "distinct": format_count(column["distinct"]),
        "entropy": "–" if column["entropy"] is None else f"{column['entropy']:.3f}",
        "role": UNDECIDED if column["entropy"] is None else column["role"],
        "tokens": f"{column['mean_tokens']:.1f}",
        "trouble": ", ".join(column["trouble"]),
        "examples": " | ".join(column["examples"]),
    }


def _measure(described: list[dict[str, str]], name: str) -> int:
    return max(len(name), *(len(cells[name]) for cells in described))


def _list_trouble(entry: dict[str, Any]) -> list[str]:
    lines = [f"  {what}: {_join(entry[what])}" for what in ("dropped", "cells") if entry[what]]
    lines += [f"    {place}" for reason in entry["places"] for place in entry["places"][reason][:NUM_PLACES]]
    if any(column["entropy"] is None for column in entry["columns"]):
        lines.append(f"  {UNDECIDED}: fewer than two cells to train on; add rows to tell entropy and role")
    return lines + [f"  {note}" for note in entry["notes"]]


def _join(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} ({format_count(count)})" for reason, count in counts.items())
