"""Progress of long work: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from navi.cli.console import Screen
from navi.cli.render import format_count, format_duration, format_loss

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
        self._screen, self._bar = screen, bar
        self._task = bar.add_task("", total=None, detail="") if bar else None
        self._label = ""
        self._started = self._told = monotonic()

    @property
    def seconds(self) -> float:
        """Time since the work, or its present stage, began."""
        return monotonic() - self._started

    def update(
        self,
        label: str,
        done: int,
        total: int,
        detail: str,
        seconds_left: float | None = None,
        *,
        foreseeable: bool = True,
    ) -> None:
        """Show a new state; without `seconds_left` the time left is told from how fast this stage went so far.

        Where it is not yet foreseeable it is not told.
        """
        if label != self._label:
            self._label, self._started = label, monotonic()
        if seconds_left is None and 0 < done <= total:
            seconds_left = self.seconds / done * (total - done)
        parts = [detail] if detail else []
        if foreseeable and seconds_left is not None:
            parts.append(f"{format_duration(seconds_left)} left")
        self._draw(label, done, total, ", ".join(parts))

    def wait(self, label: str) -> None:
        """Show that something is under way whose end cannot be told."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=label, completed=0, total=None, detail="")
        else:
            self._screen.note(f"{label} …")

    def count(self, label: str, done: int, thing: str) -> None:
        """Show how much is done of something whose end cannot be told."""
        rate = f"{format_count(done)} {thing}, {format_count(done / max(self.seconds, 1e-3))} {thing}/s"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=label, completed=done, total=None, detail=rate)
        elif self._is_due():
            self._screen.note(f"{label}: {rate}")

    def note(self, text: str) -> None:
        """Say something above the bar."""
        self._screen.note(text)

    def _draw(self, label: str, done: int, total: int, detail: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=label, completed=done, total=total, detail=detail)
        elif self._is_due():
            state = f"{label}: {format_count(done)} of {format_count(total)}"
            self._screen.note(f"{state}, {detail}" if detail else state)

    def _is_due(self) -> bool:
        if self._screen.quiet or monotonic() - self._told < SECONDS_BETWEEN_LINES:
            return False
        self._told = monotonic()
        return True


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
        rate = event.rows / max(meter.seconds, 1e-3) if event.rows else 0
        detail = f"{format_count(event.rows)} rows, {format_count(rate)} rows/s"
        meter.update(STAGES.get(event.stage, event.stage), event.done, event.total, detail)

    return report


def follow_training(meter: Meter) -> Callable[[StepReport], None]:
    """Return what `navi.pretrain` reports to."""

    def report(at: StepReport) -> None:
        if at.note:
            meter.note(at.note)
        losses = [f"{name} {format_loss(at.metrics[name])}" for name in LOSSES if name in at.metrics]
        rates = [f"{format_count(at.rows_per_second)} rows/s", f"{format_count(at.tokens_per_second)} tokens/s"]
        detail = ", ".join(losses + (rates if at.rows_per_second else []))
        # The first steps take far longer than the others: the time left is told once the rate is.
        foreseeable = bool(at.rows_per_second)
        meter.update(f"Epoch {at.epoch}", at.step, at.num_steps, detail, at.seconds_left, foreseeable=foreseeable)

    return report


def follow_share(meter: Meter, label: str, thing: str) -> Callable[[int, int], None]:
    """Return what work of a known size reports to: how much was just done, and of how much in all."""
    done = 0

    def report(just_done: int, total: int) -> None:
        nonlocal done
        done = min(done + just_done, total)
        meter.update(label, done, total, f"{format_count(done / max(meter.seconds, 1e-3))} {thing}/s")

    return report


def follow_rows(meter: Meter, label: str) -> Callable[[str, int], None]:
    """Return what work that streams rows reports to: a table, and how many of its rows were just done."""
    done = 0

    def report(table: str, num_rows: int) -> None:
        nonlocal done
        done += num_rows
        meter.count(f"{label} {table}", done, "rows")

    return report
