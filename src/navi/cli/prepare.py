"""`navi inspect` and `navi prepare`: what tables look like, the corpus made of them, and what reading left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from navi.cli.console import (
    Screen,
    count_things,
    find_free,
    format_count,
    format_duration,
    format_loss,
    format_share,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.cli.options import (
    Backbone,
    ConfigFile,
    EngineName,
    Json,
    Overwrite,
    Paths,
    Quiet,
    Sheet,
    pick_sheet,
    split_names,
)
from navi.cli.progress import follow_preparing, show_progress
from navi.errors import TableError
from navi.settings import override, read_settings

if TYPE_CHECKING:
    from rich.table import Table

    from navi.corpus import Corpus, InspectedTable, Inspection, PrepareConfig
    from navi.tables import ReadReport
    from navi.tables import Table as TableInMemory

EXAMPLES = {
    "inspect": (
        "navi inspect films/ 'more/*.csv.gz'",
        "navi inspect corpus --table imdb",
        "navi inspect films/ --json",
    ),
    "prepare": (
        "navi prepare films/ -o corpus",
        "navi prepare feeds/ -o corpus --unseen-tables 10 --attributes mapping.json",
    ),
}
NUM_PLACES = 3
"""Places shown of each reason; the manifest has them all."""
NUM_COLUMNS, NUM_NOTES = 500, 50
"""Columns and notes shown of a table; `--json` has them all."""
COLUMNS = ("header", "attribute", "fill", "distinct", "entropy", "role", "tokens", "trouble", "examples")
NARROW, NARROW_COLUMNS = 130, ("header", "fill", "distinct", "entropy", "role", "examples")
"""What a terminal has room for that is narrower than so many characters."""
UNDECIDED = "undecided"
"""Role of a column that has too few cells to tell one by."""
_RIGHT = ("fill", "distinct", "entropy", "tokens", "rows", "columns", "dropped")


def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATHS|CORPUS", help="Tables, or one corpus directory.", show_default=False),
    ],
    table: Annotated[list[str] | None, typer.Option(help="Show this table alone; repeatable.")] = None,
    short: Annotated[bool, typer.Option("--short", help="One line a table, no columns.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every byte of a corpus with its checksums.")
    ] = False,
    sheet: Sheet = None,
    backbone: Backbone = None,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what is in tables or a corpus: columns, fill, distinct values, entropy, roles, and trouble."""
    from navi.corpus import Corpus, inspect_corpus, inspect_paths

    screen = Screen(quiet=quiet, as_json=as_json)
    if len(paths) == 1 and (paths[0] / "corpus.json").is_file():
        found = inspect_corpus(Corpus.open(paths[0], verify=verify))
    else:
        with show_progress(screen) as meter:
            found = inspect_paths(
                pick_sheet(paths, sheet), make_prepare_config(config, backbone=backbone), follow_preparing(meter)
            )
    known = {each.name: each for each in found.tables}
    for name in set(table or ()) - known.keys():
        raise TableError(f"There is no table '{name}'. Expected one of {', '.join(known)}.")
    if table:
        found = replace(found, tables=[each for name, each in known.items() if name in table])
    screen.answer_json(found.as_dict())
    if short:
        screen.answer(list_tables(found))
    else:
        for each in found.tables:
            screen.answer(*describe_table(each, screen.results.width))
    screen.answer(*_describe_rest(found))


def describe_table(table: InspectedTable, width: int) -> list[Any]:
    """Return a table of the columns of one table, each on one line, and what else is to be said of it."""
    title = f"{table.name}: {count_things(table.rows, 'row')}, {count_things(len(table.columns), 'column')}"
    described = [
        {
            "header": shorten(column.header, 24),
            "attribute": shorten(column.attribute, 16),
            "fill": format_share(column.fill),
            "distinct": format_count(column.distinct),
            "entropy": format_loss(column.entropy),
            "role": UNDECIDED if column.entropy is None else column.role,
            "tokens": f"{column.mean_tokens:.1f}",
            "trouble": ", ".join(column.trouble),
            "examples": " | ".join(column.examples),
        }
        for column in table.columns[:NUM_COLUMNS]
    ]
    columns = COLUMNS if width >= NARROW else NARROW_COLUMNS
    taken = [max(len(name), *(len(cells[name]) for cells in described)) for name in columns[:-1]]
    room = max(8, width - sum(taken) - 3 * len(columns))
    rows = [[*(cells[name] for name in columns[:-1]), shorten(cells["examples"], room)] for cells in described]
    lines = [
        f"  {what}: {_join(counts)}" for what, counts in (("dropped", table.dropped), ("cells", table.cells)) if counts
    ]
    lines += [f"    {place}" for places in table.places.values() for place in places[:NUM_PLACES]]
    if "trouble" not in columns:
        lines += [f"  {cells['header']}: {cells['trouble']}" for cells in described if cells["trouble"]]
    if any(column.entropy is None for column in table.columns):
        lines.append(f"  {UNDECIDED}: fewer than two cells to train on; add rows to tell entropy and role")
    lines += [f"  {note}" for note in table.notes[:NUM_NOTES]]
    for rest, what in ((len(table.columns) - NUM_COLUMNS, "column"), (len(table.notes) - NUM_NOTES, "note")):
        if rest > 0:
            lines.append(f"  and {count_things(rest, what)} more: --json lists all")
    return [make_table(columns, rows, title=title, right=_RIGHT), *lines]


def list_tables(found: Inspection) -> Table:
    """Return one line for each table."""
    rows = []
    for table in found.tables:
        counts = (table.rows, len(table.columns), sum(table.dropped.values()))
        headers = ", ".join(column.header for column in table.columns)
        rows.append((table.name, *map(format_count, counts), headers))
    return make_table(("table", "rows", "columns", "dropped", "headers"), rows, right=_RIGHT)


def _describe_rest(found: Inspection) -> list[str]:
    """Return the totals, and what did not become a table."""
    counted = ("tables", "rows", "cells", "columns", "headers", "attributes", "segments", "tokens")
    totals = ", ".join(f"{format_count(found.totals[name])} {name}" for name in counted)
    left_out = [f"Left out: {each.name} ({_join(each.dropped) or 'no rows'})" for each in found.left_out]
    skipped = [f"Skipped: {entry['path']} ({entry['reason']})" for entry in found.skipped]
    return [f"In all {totals}.", *left_out, *skipped]


def _join(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} ({format_count(count)})" for reason, count in counts.items())


def prepare(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="CORPUS", help="Directory to write.")],
    backbone: Backbone = None,
    seed: Annotated[int | None, typer.Option(help="Decides splits and samples.", show_default="0")] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Attributes of headers, as `navi match --mapping` writes them."),
    ] = None,
    unseen_tables: Annotated[
        str | None, typer.Option(metavar="N|NAMES", help="Tables kept out of training: how many, or which (a,b).")
    ] = None,
    validation_tables: Annotated[
        str | None, typer.Option(metavar="N|NAMES", help="Tables kept out of training to choose settings on.")
    ] = None,
    largest_tables: Annotated[int | None, typer.Option(metavar="N", help="Keep the N tables with most rows.")] = None,
    total_rows: Annotated[int | None, typer.Option(metavar="N", help="Sample down to N rows in all.")] = None,
    max_value_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cut values at N tokens.", show_default="20")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes.", show_default="one a core")] = None,
    sheet: Sheet = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row or cell that would be lost.")] = False,
    engine: EngineName = "local",
    overwrite: Overwrite = False,
    config: ConfigFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn tables into a corpus: rows split into training and test, values tokenised, losses listed."""
    from navi.corpus import SPLITS
    from navi.corpus import prepare as prepare_corpus

    screen, started = Screen(quiet=quiet, as_json=as_json), monotonic()
    settings = make_prepare_config(
        config,
        backbone=backbone,
        seed=seed,
        attributes=attributes,
        unseen_tables=parse_tables(unseen_tables),
        validation_tables=parse_tables(validation_tables),
        largest_tables=largest_tables,
        total_rows=total_rows,
        max_value_tokens=max_value_tokens,
        workers=workers,
        strict=strict,
    )
    with show_progress(screen) as meter:
        chosen, report = pick_sheet(paths, sheet), follow_preparing(meter)
        corpus = prepare_corpus(chosen, out, settings, report, overwrite=overwrite, engine=engine)
    seconds = monotonic() - started
    screen.answer_json(
        {
            "corpus": corpus.path,
            "fingerprint": corpus.fingerprint,
            "totals": corpus.manifest["totals"],
            "splits": {split: len(corpus.rows_of(split)) for split in SPLITS},
            **summarise_manifest(corpus.manifest).as_dict(),
            "seconds": round(seconds, 3),
        }
    )
    screen.summarise(*summarise_corpus(corpus, seconds))
    model = out.with_name("model") if out.name == "corpus" else out.with_name(f"{out.name}-model")
    screen.suggest(f"navi pretrain {quote(out)} -o {quote(find_free(model))}", "learn from it")


def make_prepare_config(file: Path | None, *, strict: bool = False, **flags: Any) -> PrepareConfig:
    """Return the settings of `navi prepare`: the file's section [prepare], then flags that were given."""
    from navi.corpus import PrepareConfig

    content = read_settings(file)
    section = {name: content[name] for name in ("backbone",) if name in content} | content.get("prepare", {})
    config = override(PrepareConfig(), section, "prepare.")
    read = replace(config.read, strict=True) if strict else config.read
    return replace(config, read=read, **{name: value for name, value in flags.items() if value is not None})


def parse_tables(text: str | None) -> int | tuple[str, ...] | None:
    """Return how many tables are to be kept out, or their names.

    >>> parse_tables("3"), parse_tables("reelbase, filmhub")
    (3, ('reelbase', 'filmhub'))
    """
    if text is None or text.strip().isdecimal():
        return None if text is None else int(text)
    return tuple(split_names(text) or ())


def summarise_corpus(corpus: Corpus, seconds: float) -> list[Any]:
    """Return what was made, what was left out and where the full list is."""
    from navi.corpus import SPLITS

    losses, read = summarise_manifest(corpus.manifest), corpus.manifest["totals"]["read"]
    totals = {name: format_count(count) for name, count in corpus.manifest["totals"].items()}
    sizes = {split: len(corpus.rows_of(split)) for split in SPLITS}
    splits = ", ".join(f"{format_count(size)} {split}" for split, size in sizes.items() if size)
    lines: list[Any] = [
        make_heading(f"Corpus {corpus.path}: {count_things(len(corpus.tables), 'table')}, {totals['rows']} rows"),
        f"{totals['read']} rows read, {totals['rows']} kept ({splits}), {format_count(losses.rows.total())} dropped.",
        f"{totals['cells']} cells as {totals['segments']} segments of {totals['headers']} headers, "
        f"{totals['attributes']} attributes; {totals['tokens']} tokens.",
        f"{format_duration(seconds)}, {format_count(read / max(seconds, 1e-3))} rows/s.",
    ]
    if left_out := losses.list_lines():
        lines += ["Left out or changed:", *left_out, f"The full list is in {corpus.path / 'corpus.json'}."]
    return lines


@dataclass(kw_only=True)
class ReadSummary:
    """Rows dropped, cells lost or changed, and files skipped, by reason; the first places of each reason; notes."""

    rows: Counter[str] = field(default_factory=Counter)
    cells: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary ready for JSON."""
        return {"dropped": self.rows, "cells": self.cells, "places": self.places, "skipped": self.skipped}

    def list_lines(self) -> list[str]:
        """Return the summary as lines to read, nothing where nothing was lost."""
        lines = []
        for kind, counts in (("row", self.rows), ("cell", self.cells)):
            for reason, count in counts.most_common():
                lines.append(f"  {count_things(count, kind)}: {reason}")
                lines += [f"    {place}" for place in self.places.get(reason, [])[:NUM_PLACES]]
        whole = [reason for reason in self.places if reason not in self.rows and reason not in self.cells]
        lines += [f"  {reason}: {place}" for reason in whole for place in self.places[reason][:NUM_PLACES]]
        for reason, paths in self.skipped.items():
            shown = ", ".join(paths[:NUM_PLACES]) + (", …" if len(paths) > NUM_PLACES else "")
            lines.append(f"  {count_things(len(paths), 'file')} skipped: {reason} ({shown})")
        return lines + [f"  {note}" for note in self.notes]


def summarise_reports(reports: Mapping[str, ReadReport], skipped: Iterable[tuple[Path, str]] = ()) -> ReadSummary:
    """Return what reading some tables for a model lost."""
    tables = [vars(each) | {"name": name, "kept": each.kept} for name, each in reports.items()]
    left = [{"path": str(path), "reason": reason} for path, reason in skipped]
    return summarise_manifest({"tables": tables, "skipped": left, "notes": []})


def note_lost(screen: Screen, tables: Iterable[TableInMemory]) -> None:
    """Say by the way which rows and cells of some tables were lost: an answer does not show what it lacks."""
    if lines := summarise_reports({table.name: table.report for table in tables}).list_lines():
        screen.note("\n".join(["Left out or changed while reading:", *lines]))


def summarise_manifest(manifest: Mapping[str, Any]) -> ReadSummary:
    """Return what the manifest of a corpus says of all its tables."""
    summary = ReadSummary(notes=list(manifest["notes"]))
    for table in manifest["tables"]:
        summary.rows.update(table["dropped"])
        summary.cells.update(table["cells"])
        for reason, found in table["places"].items():
            summary.places[reason] += found[: max(0, NUM_PLACES - len(summary.places[reason]))]
        if table["notes"] and not table["kept"] and not table["places"]:
            summary.notes.append(f"{table['name']}: {table['notes'][-1]}")
    for entry in manifest["skipped"]:
        summary.skipped[entry["reason"]].append(entry["path"])
    return summary
