"""The `navi` command: verbs and the options they share, and errors as a user sees them: one line and an exit code."""

from __future__ import annotations

import codecs
import os
import re
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from navi.cli.console import Meter, Screen, count_things, quote
from navi.errors import ConfigError, NaviError, TableError, TrainingError, escape_controls
from navi.version import VERSION

if TYPE_CHECKING:
    from navi.tables import ReadReport, Table
    from navi.verbs import Navi

Verb = Callable[..., None]
SPELLED = {"…": ".", "–": "-", "−": "-", "→": ">"}
UsageError: Any = typer.BadParameter.__mro__[1]
"""What is mistyped; Typer has it, and exports no name for it."""
FILES_SHOWN = 10
"""Files that are named of those left out."""
NUM_PLACES = 3
"""Places shown of each reason; the manifest has them all."""

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATHS", help="Files, folders or quoted glob patterns.", show_default=False)
]
TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="One table, of any format.", show_default=False)]


class PlainFlags:
    """Shows flags in the help without the word that says they are flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class VerbCommand(PlainFlags, TyperCommand):
    """One verb."""


class Commands(PlainFlags, TyperGroup):
    """The verbs; whatever one raises on purpose becomes one line on stderr, `--debug` shows the traceback."""

    typed: ClassVar[list[str]] = []
    """What stands behind `navi` in the command that is running."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands: who needs it has just typed the rest."""
        Commands.typed = list(args)
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; exit with 2 for what a user can mend, 1 for other failures, a signal's own code for a signal."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            line, place = error.format_message().replace("Value error, ", ""), getattr(error, "ctx", None)
            if place is None or not line or "\n" in line:  # nothing was typed: Typer shows the help
                raise
            end = "" if line.endswith(("?", ".", ")")) else "."
            typer.echo(f"navi: {escape_controls(line)}{end} See `{place.command_path} --help`.", err=True)
            raise typer.Exit(2) from error
        except (NaviError, OSError, KeyboardInterrupt) as error:
            # A pipe that was closed early is Typer's to handle.
            if isinstance(error, BrokenPipeError) or (ctx.obj or {}).get("debug"):
                raise
            line = " ".join(str(error).split())
            code = getattr(error, "exit_code", 1 if isinstance(error, TrainingError | OSError) else 2)
            if isinstance(error, KeyboardInterrupt):
                line, code = "Interrupted.", 130
            elif isinstance(error, OSError) and error.strerror and error.filename:
                line = f"{error.filename}: {error.strerror}."
            typer.echo(f"navi: {escape_controls(line)}", err=True)
            raise typer.Exit(code) from error


app = typer.Typer(
    name="navi",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Start with a folder of your own tables, `navi match FOLDER`, or see everything: `navi demo`.",
)


def main() -> None:
    """Run the command line with the arguments of this process."""
    # Libraries draw bars and give advice of their own while they load; here only ours are wanted.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # A terminal that is not UTF-8 gets ASCII for our own signs, and question marks for what else it cannot show.
    codecs.register_error("navi", _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="navi")
    app(prog_name="navi")


def _spell(error: Any) -> tuple[str, int]:
    """Return what stands for characters that a terminal cannot show, one each, so that tables stay straight."""
    return "".join(SPELLED.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"navi {VERSION}")
        raise typer.Exit


@app.callback()
def _navi(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", envvar="NAVI_DEBUG", help="Show the traceback of an error."),
) -> None:
    """Match, unify, link, search and embed tables that share no schema, and learn a model of your own domain."""
    del version
    context.obj = {"debug": debug}
    if debug:
        import logging

        logging.basicConfig(level=logging.INFO)


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


@dataclass(kw_only=True)
class Run:
    """One run of a verb: the options that many verbs have, and what all of them do with these."""

    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="DIR",
            help="The model to ask, as `navi pretrain` wrote it.",
            show_default="navi-base, which comes along",
        ),
    ] = None
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose tokenizer: `minilm`, a folder with a BERT, or a hub name.", show_default=False
        ),
    ] = None
    sheet: Annotated[
        str | None, typer.Option(metavar="NAME", help="The sheet to read of each workbook.", show_default="all of them")
    ] = None
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where files are worked on: here, or by Ray's workers (RAY_ADDRESS)."),
    ] = "local"
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False
    safe_csv: Annotated[
        bool,
        typer.Option("--safe-csv", help="Put a quote before cells of CSV that a spreadsheet would run as formulas."),
    ] = False
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="TOML file with further settings.", show_default=False)
    ] = None
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cpu, cuda, or several: cuda:0,cuda:1.", show_default="the best there is"),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone.")] = False

    def __post_init__(self) -> None:
        self.screen = Screen(quiet=self.quiet, as_json=self.as_json)
        self.written: list[Path] = []
        """The files to write, of those that may be asked for."""
        self.paths: list[Path] = []
        self.tables: dict[str, Table] = {}
        """What was read, and where."""
        self.left_out: list[str] = []
        """Files that could not be read, and why."""

    def check_outputs(
        self,
        tables: Iterable[Path | None],
        inputs: Iterable[Path | None] = (),
        others: Iterable[Path | None] = (),
        *,
        overwrite: bool = False,
    ) -> None:
        """Note the files to write.

        Refused before any work: a table of no known format, a folder that is not there, what would be replaced, one
        file for two things, and to write among what is read.
        """
        from navi.files import check_target
        from navi.storage import is_remote
        from navi.tables import check_output

        wanted, read = list(filter(None, tables)), list(filter(None, inputs))
        for path in wanted:
            check_output(path)
        wanted += filter(None, others)
        places = [path if is_remote(path) else path.resolve() for path in wanted]
        if twice := [path for number, path in enumerate(wanted) if places[number] in places[:number]]:
            raise ConfigError(f"Cannot write two things to {twice[0]}. Give each a name of its own.")
        for path in wanted:
            check_target(path, read, overwrite=overwrite or self.overwrite)
        self.written = [*(path for path in self.written if path not in wanted), *wanted]

    def write(self, path: Path | None, make_table: Callable[[], Any]) -> None:
        """Write a table to a file, if one was asked for."""
        from navi.tables import write_table

        if path is not None:
            write_table(make_table(), path, safe_csv=self.safe_csv)

    def read(self, meter: Meter, paths: Iterable[Path], *, max_family: int | None = 3) -> dict[str, Table]:
        """Read the tables of some paths; what cannot be read is left out."""
        from navi.tables import ReadConfig, read_tables

        meter.wait("Reading the tables")
        self.paths = pick_sheet(paths, self.sheet)
        self.tables = read_tables(self.paths, ReadConfig(max_family=max_family), unreadable=self.left_out)
        return self.tables

    def read_one(self, meter: Meter, path: Path, columns: str | None) -> tuple[Table, list[str] | None]:
        """Read one table, with its cells as they are, and find the columns that are named; `*` names all."""
        from navi.tables import read_table

        meter.wait("Reading the table")
        table = read_table(pick_sheet([path], self.sheet)[0], whole=True)
        wanted = list(table.headers) if columns == "*" else split_names(columns)
        table.find_headers(wanted or [])
        self.tables = {table.name: table}
        return table, wanted

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

    def open_model(self, meter: Meter, *, precision: str | None = None, num_rows: int = 0) -> Navi:
        """Return the model to ask; for many rows on a CPU in int8, where the extra for it is installed."""
        meter.wait("Loading the model")  # and what it is made with, which takes seconds
        from navi.verbs import Navi
        from navi.verbs.loading import choose_precision

        precision = precision or choose_precision(self.device, num_rows)
        return Navi.from_pretrained(self.model, device=self.device, precision=precision)

    def finish(self, *notes: str) -> None:
        """Say what was written, and by the way what else is to be known."""
        self.screen.summarise(*(f"Written: {path}" for path in self.written))
        self.screen.note(*notes)
        self.note_lost()

    def show_inputs(self, *, asks: bool = True) -> str:
        """Return the model that is asked, but for the one that comes along, and the paths, for a command to suggest."""
        return f"{f'--model {quote(self.model)} ' if asks and self.model else ''}{quote(*self.paths)}"

    def list_overwrite(self) -> list[str]:
        """Return what the same command needs besides, to be typed again."""
        return [] if self.overwrite else ["--overwrite"]

    def note_lost(self) -> None:
        """Say by the way which files, rows and cells were lost: an answer does not show what it lacks."""
        if lines := list_lost(summarise_reports({table.name: table.report for table in self.tables.values()})):
            self.screen.note("Left out or changed while reading:", *lines)
        self.screen.note(*(f"Left out: {reason}" for reason in self.left_out[:FILES_SHOWN]))
        if (more := len(self.left_out) - FILES_SHOWN) > 0:
            self.screen.note(f"Left out: {count_things(more, 'file')} more; `navi inspect` lists them all.")


_HINTS = get_type_hints(Run, include_extras=True)
OPTIONS = {
    each.name: Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=_HINTS[each.name])
    for each in fields(Run)
}
"""The options that a verb may share with others, as its signature has them."""


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


def verb(group: str, *examples: str, options: str = "", needs_arguments: bool = True) -> Callable[[Verb], Verb]:
    """Make a function a verb, in a group of the help; the first line of its docstring is its help there.

    It is called with the `Run` of the `options` that it shares with other verbs, and with its own arguments.
    """
    epilog = "\n\n".join(("Example:" if len(examples) == 1 else "Examples:", *examples))
    shared = [*options.split(), "quiet"]

    def register(function: Verb) -> Verb:
        def call(**given: Any) -> None:
            function(Run(**{name: given.pop(name) for name in shared}), **given)

        call.__doc__ = function.__doc__
        _, *own = signature(function, eval_str=True).parameters.values()
        named = [each.replace(kind=each.KEYWORD_ONLY) for each in own]
        for each in named:  # a flag that is off by itself needs no --no-…
            if each.annotation is bool and each.default.default is False and not each.default.param_decls:
                each.default.param_decls = (f"--{each.name.replace('_', '-')}",)
        call.__signature__ = Signature([*named, *(OPTIONS[name] for name in shared)])  # type: ignore[attr-defined]
        join = app.command(
            function.__name__, cls=VerbCommand, epilog=epilog, rich_help_panel=group, no_args_is_help=needs_arguments
        )
        return join(call)

    return register


def repeat_command(*more: Path | str) -> str:
    """Return the command that is running, with some options more, for a user to type next."""
    return shlex.join(["navi", *Commands.typed, *map(str, more)])
