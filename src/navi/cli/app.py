"""The `navi` command: how verbs join it, and errors as a user sees them: one line and an exit code."""

from __future__ import annotations

import codecs
import os
import shlex
import sys
from collections.abc import Callable
from inspect import Signature, signature
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from navi.cli.options import OPTIONS, Run
from navi.errors import NaviError, TrainingError, escape_controls
from navi.version import VERSION

Verb = Callable[..., None]
SPELLED = {"…": ".", "–": "-", "−": "-", "→": ">"}
UsageError: Any = typer.BadParameter.__mro__[1]
"""What is mistyped; Typer has it, and exports no name for it."""


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
        call.__signature__ = Signature([*named, *(OPTIONS[name] for name in shared)])  # type: ignore[attr-defined]
        join = app.command(
            function.__name__, cls=VerbCommand, epilog=epilog, rich_help_panel=group, no_args_is_help=needs_arguments
        )
        return join(call)

    return register


def repeat_command(*more: Path | str) -> str:
    """Return the command that is running, with some options more, for a user to type next."""
    return shlex.join(["navi", *Commands.typed, *map(str, more)])


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"navi {VERSION}")
        raise typer.Exit


@app.callback()
def _navi(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="NAVI_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Match, unify, link, search and embed tables that share no schema, and learn a model of your own domain."""
    del version
    context.obj = {"debug": debug}
    if debug:
        import logging

        logging.basicConfig(level=logging.INFO)
