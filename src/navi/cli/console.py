"""What a verb shows: results to stdout, progress and notes to stderr, numbers and tables as a reader likes them."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from navi.errors import escape_controls

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

# What JSON does not escape of itself, and a terminal acts on.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
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
        return _open_console()

    @cached_property
    def notes(self) -> Console:
        """The console of stderr."""
        return _open_console(stderr=True)

    def answer(self, *renderables: RenderableType) -> None:
        """Show what was asked for."""
        if self._speaks and not self.as_json:
            for renderable in renderables:
                # Lines are left to the terminal to wrap, so that commands and paths can be copied whole.
                shown = escape_controls(renderable) if isinstance(renderable, str) else renderable
                self.results.print(shown, soft_wrap=isinstance(renderable, str))

    def summarise(self, *renderables: RenderableType) -> None:
        """Show what was done."""
        if not self.quiet:
            self.answer(*renderables)

    def note(self, text: str) -> None:
        """Print a note to stderr."""
        if not self.quiet:
            self.notes.print(escape_controls(text), soft_wrap=True)

    def answer_json(self, content: Any) -> None:
        """Print the JSON document, if that is what is wanted."""
        if self._speaks and self.as_json:
            text = json.dumps(content, ensure_ascii=False, indent=1, default=str)
            typer.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))

    def suggest(self, command: str, why: str) -> None:
        """Say what to type next."""
        self.summarise(f"Next, {why}:  {command}")


def _open_console(*, stderr: bool = False) -> Console:
    """Return a console without colours where there is no terminal, which takes text as it is, never as markup."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, right: Sequence[str] = ()
) -> Table:
    """Return a table; the columns named in `right` are flush right, and each row is one line."""
    from rich import box
    from rich.table import Table

    shown = title and show_line(title)
    table = Table(title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(show_line(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(show_line, row))
    return table


def make_heading(text: str) -> Text:
    """Return a line that stands out."""
    from rich.text import Text

    return Text(show_line(text), style="bold")


def show_line(text: str) -> str:
    """Return a text in one line, what a terminal would act on visibly escaped."""
    return escape_controls(text.replace("\n", "\\n").replace("\t", "\\t"))


def quote(*paths: Path | str) -> str:
    """Return paths as a shell takes them."""
    return shlex.join(map(str, paths))


def find_free(path: Path) -> Path:
    """Return a path that nothing has: this one, or the first of `all-2.parquet`, `all-3.parquet` … that is free."""
    free = path
    for number in count(2):
        if not os.path.lexists(free):
            break
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def shorten(text: str, length: int = 40) -> str:
    """Return a text, its end left out where it is longer.

    >>> shorten("The Rainy Kiss of Chicago", 12)
    'The Rainy K…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def count_things(count: int, thing: str) -> str:
    """Return a count and what is counted, in the plural where that is right.

    >>> count_things(1, "table"), count_things(1200, "row")
    ('1 table', '1,200 rows')
    """
    return f"{format_count(count)} {thing}{'' if count == 1 else 's'}"


def format_count(count: float) -> str:
    """Return a count with its thousands set apart; small rates keep a digit behind the point.

    >>> format_count(12345), format_count(7.25), format_count(7)
    ('12,345', '7.2', '7')
    """
    return f"{count:,.1f}" if isinstance(count, float) and count < 100 else f"{round(count):,}"


def format_share(share: float | None) -> str:
    """Return a share in percent; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def format_loss(loss: float | None) -> str:
    """Return a loss with three digits behind the point; a dash where there is none."""
    return "–" if loss is None else f"{loss:.3f}"


def format_duration(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> format_duration(8.24), format_duration(187), format_duration(7322)
    ('8.2 s', '3 min 07 s', '2 h 02 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
