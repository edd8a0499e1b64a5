"""Errors as a user sees them: one line and an exit code."""

from __future__ import annotations

from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from navi.errors import NaviError, TrainingError

USER_MISTAKE = 2
"""Exit code of what a user can mend: a path, a setting, a missing extra."""
FAILURE = 1
"""Exit code of what went wrong though nothing was wrongly asked."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class Commands(TyperGroup):
    """The verbs; whatever one raises on purpose becomes one line on stderr, `--debug` shows the traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands: who needs it has just typed the rest."""
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except (NaviError, OSError, KeyboardInterrupt) as error:
            # A pipe that was closed early is Typer's to handle.
            if isinstance(error, BrokenPipeError) or (ctx.obj or {}).get("debug"):
                raise
            fail(error)


def fail(error: NaviError | OSError | KeyboardInterrupt) -> NoReturn:
    """Say what is wrong in one line and leave."""
    typer.echo(f"navi: {describe_error(error)}", err=True)
    raise typer.Exit(find_exit_code(error)) from error


def describe_error(error: NaviError | OSError | KeyboardInterrupt) -> str:
    """Return what an error says, in one line."""
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split())


def find_exit_code(error: NaviError | OSError | KeyboardInterrupt) -> int:
    """Return the exit code that an error calls for; one that a signal caused carries its own."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    default = FAILURE if isinstance(error, TrainingError | OSError) else USER_MISTAKE
    return int(getattr(error, "exit_code", default))
