"""Where output goes: results to stdout, progress and notes to stderr, colours to terminals alone."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDTH_WITHOUT_TERMINAL = 140
"""Columns of a table that goes to a file or a pipe."""


class Screen:
    """What one verb shows. `quiet` keeps its answer alone, `as_json` leaves stdout to one JSON document."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        # Of the processes that train together only the first has something to say.
        is_first = os.environ.get("RANK", "0") == "0"
        self.quiet, self.as_json, self._speaks = quiet or not is_first, as_json, is_first

    @cached_property
    def results(self) -> Console:
        """The console of stdout."""
        return make_console()

    @cached_property
    def notes(self) -> Console:
        """The console of stderr."""
        return make_console(stderr=True)

    def answer(self, *renderables: RenderableType) -> None:
        """Show what was asked for."""
        if self._speaks and not self.as_json:
            for renderable in renderables:
                # Lines are left to the terminal to wrap, so that commands and paths can be copied whole.
                self.results.print(renderable, soft_wrap=isinstance(renderable, str))

    def summarise(self, *renderables: RenderableType) -> None:
        """Show what was done."""
        if not self.quiet:
            self.answer(*renderables)

    def note(self, text: str) -> None:
        """Say something by the way."""
        if not self.quiet:
            self.notes.print(text, soft_wrap=True)

    def answer_json(self, content: Any) -> None:
        """Print the JSON document, if that is what is wanted."""
        if self._speaks and self.as_json:
            typer.echo(json.dumps(content, ensure_ascii=False, indent=1, default=str))


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that takes text as it is: what tables hold must not be read as markup."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console
