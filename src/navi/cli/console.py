"""What a verb shows: its answer to stdout, progress and notes to stderr, figures and tables as a reader likes them."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from navi.errors import escape_controls

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from navi.corpus import ProgressEvent
    from navi.training import StepReport

# What JSON does not escape of itself, and a terminal acts on.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
WIDTH_WITHOUT_TERMINAL = 140
"""Columns of a table that goes to a file or a pipe."""
NARROW = 100
"""Characters of a line below which a table leaves out what only explains its figures."""
SECONDS_BETWEEN_LINES = 20.0
"""How often a line of progress is written where there is no terminal to draw a bar on."""
STAGES = {"read": "Reading tables", "merge": "Merging tables", "write": "Writing files"}
"""What the stages of preparing are called."""
LOSSES = ("loss", "masked", "low", "high")
"""The losses in a line of metrics that are shown beside the bar."""


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

    def note(self, *lines: str) -> None:
        """Print lines to stderr."""
        if not self.quiet:
            for line in lines:
                self.notes.print(escape_controls(line), soft_wrap=True)

    def answer_json(self, content: Any) -> None:
        """Print the JSON document, if that is what is wanted."""
        if self._speaks and self.as_json:
            text = json.dumps(content, ensure_ascii=False, indent=1, default=str)
            typer.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))

    def suggest(self, why: str, command: str) -> None:
        """Say what to type next."""
        self.summarise(f"Next, {why}:  {command}")

    @contextmanager
    def follow(self) -> Iterator[Meter]:
        """Give a meter for some work; what it drew is gone afterwards."""
        if self.quiet or not self.notes.is_terminal:
            yield Meter(self, None)
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        description = TextColumn("{task.description}", markup=False)
        detail = TextColumn("{task.fields[detail]}", markup=False)
        columns = (description, BarColumn(bar_width=24), MofNCompleteColumn(), detail)
        with Progress(*columns, console=self.notes, transient=True) as bar:
            yield Meter(self, bar)


class Meter:
    """Shows how far some work has come: a bar with rate and time left on a terminal, a line now and then elsewhere."""

    def __init__(self, screen: Screen, bar: Progress | None) -> None:
        self.screen, self._bar = screen, bar
        self._task = bar.add_task("", total=None, detail="") if bar else None
        self._label, self._done = "", 0
        self._started = self._written = monotonic()

    @property
    def seconds(self) -> float:
        """Time since the work, or its present stage, began."""
        return max(monotonic() - self._started, 1e-3)

    def wait(self, label: str) -> None:
        """Show that something is under way that may take any time."""
        if self._bar is None:
            self.screen.note(f"{label} …")
        else:
            self.update(label, 0, None, "")

    def update(self, label: str, done: int, total: int | None, detail: str, seconds_left: float | None = None) -> None:
        """Show a new state; the time left follows from how fast this stage went, if it is not given.

        Without a total no time left is shown; a negative one is not known yet.
        """
        if label != self._label:
            self._label, self._done, self._started = label, done, monotonic()
        if seconds_left is None and total is not None and self._done < done <= total:
            seconds_left = self.seconds / (done - self._done) * (total - done)
        if seconds_left is not None and seconds_left >= 0:
            detail = ", ".join(filter(None, (detail, f"{format_duration(seconds_left)} left")))
        if self._bar is not None and self._task is not None:
            shown = escape_controls(detail)
            self._bar.update(self._task, description=label, completed=done, total=total, detail=shown)
        elif not self.screen.quiet and monotonic() - self._written >= SECONDS_BETWEEN_LINES:
            self._written = monotonic()
            state = "" if total is None else f"{format_count(done)} of {format_count(total)}"
            self.screen.note(f"{label}: {', '.join(filter(None, (state, detail)))}")

    def show_preparing(self, event: ProgressEvent) -> None:
        """Show what `navi.prepare` reports."""
        detail = f"{format_count(event.rows)} rows, {format_count(event.rows / self.seconds)} rows/s"
        self.update(STAGES.get(event.stage, event.stage), event.done, event.total, detail)

    def show_training(self, at: StepReport) -> None:
        """Show what `navi.pretrain` reports."""
        if at.note:
            self.screen.note(at.note)
        parts = [f"{name} {format_loss(at.metrics[name])}" for name in LOSSES if name in at.metrics]
        for thing in ("rows", "tokens"):
            if rate := at.metrics.get(f"{thing}_per_second"):
                parts.append(f"{format_count(rate)} {thing}/s")
        left = at.seconds_left or -1.0
        self.update(f"Epoch {at.epoch}", at.step, at.num_steps, ", ".join(parts), left)

    def count_share(self, label: str, thing: str) -> Callable[[int, int], None]:
        """Return what work of a known size reports to: how much was just done, and of how much in all."""
        done = 0

        def report(just_done: int, total: int) -> None:
            nonlocal done
            done = min(done + just_done, total)
            self.update(label, done, total, f"{format_count(done / self.seconds)} {thing}/s")

        return report

    def count_rows(self, label: str) -> Callable[[str, int], None]:
        """Return what work that streams rows reports to: a table, and how many of its rows were just done."""
        done = 0

        def report(table: str, num_rows: int) -> None:
            nonlocal done
            done += num_rows
            detail = f"{table}, {format_count(done)} rows, {format_count(done / self.seconds)} rows/s"
            self.update(label, done, None, detail)

        return report


def _open_console(*, stderr: bool = False) -> Console:
    """Return a console without colours where there is no terminal, which takes text as it is, never as markup."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_WITHOUT_TERMINAL
    return console


def make_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    width: int | None = None,
) -> Table:
    """Return a table; the columns named in `right` are flush right.

    With a `width`, the last column is cut to what the others leave of it, so that each row is one line; without, what
    is too long goes on below.
    """
    from rich import box
    from rich.table import Table

    lines = [[show_line(cell) for cell in row] for row in rows]
    if width is not None:
        taken = sum(
            max(map(len, cells)) + 3 for cells in zip(columns[:-1], *(line[:-1] for line in lines), strict=True)
        )
        lines = [[*line[:-1], shorten(line[-1], max(8, width - taken - 3))] for line in lines]
    shown = title and show_line(title)
    table = Table(title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(show_line(column), justify="right" if column in right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def make_heading(text: str) -> Text:
    """Return a line that stands out."""
    from rich.text import Text

    return Text(show_line(text), style="bold")


def show_line(text: str) -> str:
    """Return a text in one line, what a terminal would act on visibly escaped."""
    return escape_controls(text.replace("\n", "\\n").replace("\t", "\\t"))


def shorten(text: str, length: int = 40) -> str:
    """Return a text in one line, its end left out where it is longer.

    >>> shorten("The Rainy Kiss of Chicago", 12)
    'The Rainy K…'
    """
    shown = show_line(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def quote(*paths: Path | str) -> str:
    """Return paths as a shell takes them."""
    return shlex.join(map(str, paths))


def find_free(path: Path | str) -> Path:
    """Return a path that nothing has: this one, or the first of `all-2.parquet`, `all-3.parquet` … that is free."""
    wanted = free = Path(path)
    for number in count(2):
        if not os.path.lexists(free):
            break
        free = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
    return free


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
