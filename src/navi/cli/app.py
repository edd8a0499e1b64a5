"""The `navi` command: its verbs and what they share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from navi.cli import demo, embed, evaluate, impute, inspect, match, name, prepare, pretrain, report, search
from navi.cli.errors import Commands
from navi.version import VERSION

app = typer.Typer(
    name="navi",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Begin with `navi demo`, or with a folder of your own tables: navi inspect FOLDER",
)


def main() -> None:
    """Run the command line with the arguments of this process."""
    # Libraries draw bars and give advice of their own while they load; here only ours are wanted.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
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
        bool, typer.Option("--debug", envvar="NAVI_DEBUG", help="Show the traceback of an error; goes anywhere.")
    ] = False,
) -> None:
    """Learn one encoder from many tables of a domain that share no schema, and ask it."""
    del version
    context.obj = {"debug": debug}
    if debug:
        import logging

        logging.basicConfig(level=logging.INFO)


BEGIN, LEARN, ASK, MEASURE = "Begin", "Learn", "Ask a model", "Measure"
"""The groups of verbs that the help shows."""


def _add(group: str, verb: Callable[..., Any], examples: tuple[str, ...]) -> None:
    heading = "Example:" if len(examples) == 1 else "Examples:"
    epilog = "\n\n".join((heading, *examples))
    app.command(verb.__name__, epilog=epilog, rich_help_panel=group, no_args_is_help=verb is not demo.demo)(verb)


_add(BEGIN, demo.demo, demo.EXAMPLES)
_add(BEGIN, inspect.inspect, inspect.EXAMPLES)
_add(LEARN, prepare.prepare, prepare.EXAMPLES)
_add(LEARN, pretrain.pretrain, pretrain.EXAMPLES)
_add(ASK, embed.embed, embed.EXAMPLES)
_add(ASK, match.match, match.EXAMPLES)
_add(ASK, name.name, name.EXAMPLES)
_add(ASK, impute.impute, impute.EXAMPLES)
_add(ASK, search.search, search.EXAMPLES)
_add(MEASURE, evaluate.evaluate, evaluate.EXAMPLES)
_add(MEASURE, report.report, report.EXAMPLES)
