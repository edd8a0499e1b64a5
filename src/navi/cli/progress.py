"""Progress of long work: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from navi.cli.console import Screen, format_count, format_duration, format_loss
from navi.errors import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress

    from navi.corpus import ProgressEvent
    from navi.training import StepReport

SECONDS_BETWEEN_LINES = 20.0
"""How often a line is written where there is no terminal to draw a bar on."""
STAGES = {"read": "Reading tables", "merge": "Merging tables", "write": "Writing files"}
"""What the stages of preparing are called."""
LOSSES = ("loss", "masked", "low", "high")
"""The losses in a line of metrics that are shown beside the bar."""


class Meter:
    """Shows how far some work has come."""

    def __init__(self, screen: Screen, bar: Progress | None) -> None:
        self.screen, self._bar = screen, bar
        self._task = bar.add_task("", total=None, detail="") if bar else None
        self._label = ""
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
            self._label, self._started = label, monotonic()
        if seconds_left is None and total is not None and 0 < done <= total:
            seconds_left = self.seconds / done * (total - done)
        if seconds_left is not None and seconds_left >= 0:
            detail = ", ".join(filter(None, (detail, f"{format_duration(seconds_left)} left")))
        if self._bar is not None and self._task is not None:
            shown = escape_controls(detail)
            self._bar.update(self._task, description=label, completed=done, total=total, detail=shown)
        elif not self.screen.quiet and monotonic() - self._written >= SECONDS_BETWEEN_LINES:
            self._written = monotonic()
            state = "" if total is None else f"{format_count(done)} of {format_count(total)}"
            self.screen.note(f"{label}: {', '.join(filter(None, (state, detail)))}")


@contextmanager
def show_progress(screen: Screen) -> Iterator[Meter]:
    """Give a meter for some work; what it drew is gone afterwards."""
    if screen.quiet or not screen.notes.is_terminal:
        yield Meter(screen, None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    description = TextColumn("{task.description}", markup=False)
    detail = TextColumn("{task.fields[detail]}", markup=False)
    columns = (description, BarColumn(bar_width=24), MofNCompleteColumn(), detail)
    with Progress(*columns, console=screen.notes, transient=True) as bar:
        yield Meter(screen, bar)


def follow_preparing(meter: Meter) -> Callable[[ProgressEvent], None]:
    """Return what `navi.prepare` reports to."""

    def report(event: ProgressEvent) -> None:
        detail = f"{format_count(event.rows)} rows, {format_count(event.rows / meter.seconds)} rows/s"
        meter.update(STAGES.get(event.stage, event.stage), event.done, event.total, detail)

    return report


def follow_training(meter: Meter) -> Callable[[StepReport], None]:
    """Return what `navi.pretrain` reports to."""

    def report(at: StepReport) -> None:
        if at.note:
            meter.screen.note(at.note)
        parts = [f"{name} {format_loss(at.metrics[name])}" for name in LOSSES if name in at.metrics]
        if at.rows_per_second:
            parts += [f"{format_count(at.rows_per_second)} rows/s", f"{format_count(at.tokens_per_second)} tokens/s"]
        left = -1.0 if at.seconds_left is None else at.seconds_left
        meter.update(f"Epoch {at.epoch}", at.step, at.num_steps, ", ".join(parts), left)

    return report


def follow_share(meter: Meter, label: str, thing: str) -> Callable[[int, int], None]:
    """Return what work of a known size reports to: how much was just done, and of how much in all."""
    done = 0

    def report(just_done: int, total: int) -> None:
        nonlocal done
        done = min(done + just_done, total)
        meter.update(label, done, total, f"{format_count(done / meter.seconds)} {thing}/s")

    return report


def follow_rows(meter: Meter, label: str) -> Callable[[str, int], None]:
    """Return what work that streams rows reports to: a table, and how many of its rows were just done."""
    done = 0

    def report(table: str, num_rows: int) -> None:
        nonlocal done
        done += num_rows
        detail = f"{table}, {format_count(done)} rows, {format_count(done / meter.seconds)} rows/s"
        meter.update(label, done, None, detail)

    return report
