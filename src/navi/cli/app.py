"""The `navi` command: its verbs, and errors as a user sees them: one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from navi.cli import ask_columns, ask_rows, demo, evaluate, link, prepare, pretrain, serve
from navi.errors import NaviError, TrainingError, escape_controls
from navi.version import VERSION


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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands: who needs it has just typed the rest."""
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; exit with 2 for what a user can mend, 1 for other failures, a signal's own code for a signal."""
        try:
            return super().invoke(ctx)
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that is not UTF-8 gets question marks for what it cannot show.
            stream.reconfigure(errors="replace")
    app(prog_name="navi")


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


GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (demo.demo, prepare.inspect),
    "Learn": (prepare.prepare, pretrain.pretrain),
    "Ask a model": (
        ask_rows.embed,
        ask_columns.match,
        ask_columns.unify,
        ask_columns.name,
        link.link,
        ask_rows.impute,
        ask_rows.search,
    ),
    "Serve": (serve.studio, serve.serve),
    "Measure": (evaluate.evaluate, evaluate.report),
}
"""The verbs, in the groups that the help shows; the first line of each one's docstring is its help."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    name: examples
    for module in (demo, prepare, pretrain, ask_columns, ask_rows, link, serve, evaluate)
    for name, examples in module.EXAMPLES.items()
}


for _group, _verbs in GROUPS.items():
    for _verb in _verbs:
        _examples = EXAMPLES[_verb.__name__]
        _epilog = "\n\n".join(("Example:" if len(_examples) == 1 else "Examples:", *_examples))
        _needs_arguments = _verb not in (demo.demo, serve.serve)
        app.command(
            _verb.__name__, cls=VerbCommand, epilog=_epilog, rich_help_panel=_group, no_args_is_help=_needs_arguments
        )(_verb)
