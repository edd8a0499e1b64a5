"""What several verbs share: arguments and options, tables read and what reading lost, files checked before any work."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from navi.cli.console import Meter, Screen, count_things, quote
from navi.errors import ConfigError, TableError

if TYPE_CHECKING:
    from navi.tables import ReadReport, Table
    from navi.verbs import Navi

FILES_SHOWN = 10
"""Files that are named of those left out."""
NUM_PLACES = 3
"""Places shown of each reason; the manifest has them all."""

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Files, folders or quoted glob patterns.", show_default=False),
]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="One table, of any format.", show_default=False)]
ModelFolder = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        help="The model to ask, as `navi pretrain` wrote it.",
        show_default="navi-base, which comes along",
    ),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Whose tokenizer: `minilm`, a folder with a BERT, or a hub name.", show_default=False
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.toml", help="TOML file with further settings.", show_default=False),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="cpu, cuda, or several: cuda:0,cuda:1.", show_default="the best there is"),
]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Where files are worked on: here, or by Ray's workers (RAY_ADDRESS)."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Sheet = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="The sheet to read of each workbook.", show_default="all of them"),
]
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put a quote before cells of CSV that a spreadsheet would run as formulas.")
]


def split_names(text: str | None) -> list[str] | None:
    """Return the names between commas; None for all.

    >>> split_names("genre, country"), split_names(None)
    (['genre', 'country'], None)
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def pick_sheet(paths: Iterable[Path], sheet: str | None) -> list[Path]:
    """Return paths with the sheet behind them that is wanted of each workbook.

    >>> pick_sheet([Path("prices.xlsx"), Path("films.csv")], "2024")
    [PosixPath('prices.xlsx#2024'), PosixPath('films.csv')]
    """
    may_be_workbook = re.compile(r"\.xls[xm](?:\.\w+)?$|[*?\[]", re.IGNORECASE)
    return [
        Path(f"{path}#{sheet}") if sheet and (path.is_dir() or may_be_workbook.search(str(path))) else path
        for path in paths
    ]


def show_inputs(model: Path | None, paths: Iterable[Path]) -> str:
    """Return the model, but for the one that comes along, and the paths, for a command to suggest."""
    return f"{'' if model is None else f'--model {quote(model)} '}{quote(*paths)}"


def open_model(
    meter: Meter, folder: Path | None, device: str | None, *, precision: str | None = None, num_rows: int = 0
) -> Navi:
    """Return the model to ask; for many rows on a CPU in int8, where the extra for it is installed."""
    meter.wait("Loading the model")  # and what it is made with, which takes seconds
    from navi.verbs import Navi
    from navi.verbs.loading import choose_precision

    return Navi.from_pretrained(folder, device=device, precision=precision or choose_precision(device, num_rows))


def check_outputs(
    tables: Iterable[Path | None],
    inputs: Iterable[Path | None],
    *,
    others: Iterable[Path | None] = (),
    overwrite: bool,
) -> list[Path]:
    """Return the files to write, of those that may be asked for.

    Refused before any work: a table of no known format, a folder that is not there, what would be replaced, one file
    for two things, and to write among what is read.
    """
    from navi.files import check_target
    from navi.storage import is_remote
    from navi.tables import check_output

    wanted, read = [path for path in tables if path is not None], [path for path in inputs if path is not None]
    for path in wanted:
        check_output(path)
    wanted += [path for path in others if path is not None]
    places = [path if is_remote(path) else path.resolve() for path in wanted]
    if twice := [path for number, path in enumerate(wanted) if places[number] in places[:number]]:
        raise ConfigError(f"Cannot write two things to {twice[0]}. Give each a name of its own.")
    for path in wanted:
        check_target(path, read, overwrite=overwrite)
    return wanted


class Inputs:
    """The tables that a verb reads, and what of them did not come along."""

    def __init__(self, meter: Meter, paths: Iterable[Path], sheet: str | None, *, max_family: int | None = 3) -> None:
        from navi.tables import ReadConfig, read_tables

        meter.wait("Reading the tables")
        self.paths, self.left_out = pick_sheet(paths, sheet), list[str]()
        self.tables = read_tables(self.paths, ReadConfig(max_family=max_family), unreadable=self.left_out)
        self.num_rows = sum(table.num_rows for table in self.tables.values())

    def leave_out(self, file: Path) -> None:
        """Take the table of a file out of those of a folder that it lies in: nobody compares it with itself."""
        others = {
            name: table
            for name, table in self.tables.items()
            if not (file.exists() and Path(table.report.source).exists() and file.samefile(table.report.source))
        }
        self.tables = others or self.tables

    def require_two(self) -> None:
        """Raise an error where fewer than two tables are left to compare, and say why each other file is none."""
        if len(self.tables) < 2 and self.left_out:
            reasons = [reason.rstrip(".") for reason in self.left_out[:FILES_SHOWN]]
            if (more := len(self.left_out) - FILES_SHOWN) > 0:
                reasons.append(f"and {count_things(more, 'file')} more")
            read = f"Only {count_things(len(self.tables), 'table')} could be read, and two are needed."
            raise TableError(f"{read} Left out: {'; '.join(reasons)}.")

    def note_lost(self, screen: Screen) -> None:
        """Say by the way which files, rows and cells were lost: an answer does not show what it lacks."""
        note_lost(screen, self.tables.values())
        screen.note(*(f"Left out: {reason}" for reason in self.left_out[:FILES_SHOWN]))
        if (more := len(self.left_out) - FILES_SHOWN) > 0:
            screen.note(f"Left out: {count_things(more, 'file')} more; `navi inspect` lists them all.")


def note_lost(screen: Screen, tables: Iterable[Table]) -> None:
    """Say by the way which rows and cells of some tables were lost."""
    if lines := list_lost(summarise_reports({table.name: table.report for table in tables})):
        screen.note("Left out or changed while reading:", *lines)


def summarise_reports(reports: Mapping[str, ReadReport], skipped: Iterable[tuple[Path, str]] = ()) -> dict[str, Any]:
    """Return what reading some tables lost, as `summarise_manifest` does."""
    tables = [vars(each) | {"name": name, "kept": each.kept} for name, each in reports.items()]
    left = [{"path": str(path), "reason": reason} for path, reason in skipped]
    return summarise_manifest({"tables": tables, "skipped": left, "notes": []})


def summarise_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the manifest of a corpus says of all its tables, ready for JSON.

    Rows `dropped` and `cells` lost or changed are counted by reason; `places` has the first of each, `skipped` the
    files.
    """
    dropped, cells, notes = Counter[str](), Counter[str](), list(manifest["notes"])
    places, skipped = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for table in manifest["tables"]:
        dropped.update(table["dropped"])
        cells.update(table["cells"])
        for reason, found in table["places"].items():
            places[reason] += found[: max(0, NUM_PLACES - len(places[reason]))]
        if table["notes"] and not table["kept"] and not table["places"]:
            notes.append(f"{table['name']}: {table['notes'][-1]}")
    for entry in manifest["skipped"]:
        skipped[entry["reason"]].append(entry["path"])
    return {"dropped": dropped, "cells": cells, "places": places, "skipped": skipped, "notes": notes}


def list_lost(lost: Mapping[str, Any]) -> list[str]:
    """Return such a summary as lines to read, none where nothing was lost."""
    lines = []
    for kind, counts in (("row", lost["dropped"]), ("cell", lost["cells"])):
        for reason, count in counts.most_common():
            lines.append(f"  {count_things(count, kind)}: {reason}")
            lines += [f"    {place}" for place in lost["places"].get(reason, [])]
    whole = [reason for reason in lost["places"] if reason not in lost["dropped"] | lost["cells"]]
    lines += [f"  {reason}: {place}" for reason in whole for place in lost["places"][reason]]
    for reason, paths in lost["skipped"].items():
        shown = ", ".join(paths[:NUM_PLACES]) + (", …" if len(paths) > NUM_PLACES else "")
        lines.append(f"  {count_things(len(paths), 'file')} skipped: {reason} ({shown})")
    return lines + [f"  {note}" for note in lost["notes"]]
