"""Everything a run counts and writes down between two checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelerate import Accelerator

from navi.training.checkpoint import RunState
from navi.training.curves import CURVES_FILE, can_draw, draw_curves
from navi.training.metrics import BadSteps, Journal, MetricsLog, Window
from navi.training.pace import Pace
from navi.training.samples import SAMPLES_FILE
from navi.training.step import StepBatches, StepOutcome


class Logbook:
    """Metrics, skipped steps, pace and samples of a run, from a state on; `save` puts them into the state again.

    Only the main process writes; the others count alike.
    """

    def __init__(self, out: Path, accelerator: Accelerator, state: RunState, *, curves: bool = True) -> None:
        device = accelerator.device
        self.device, self.writes, self._curves = device, bool(accelerator.is_main_process), curves
        self.metrics = MetricsLog(out, events=curves)
        self.samples = Journal(out / SAMPLES_FILE)
        self.latest: dict[str, Any] = {}
        self._window = Window(device, state.window)
        self._bad_steps = BadSteps(device, state.skipped, state.bad_run)
        self.pace = Pace(state.seconds, accelerator.num_processes)
        if self.writes:
            for journal in (self.metrics.journal, self.samples):
                journal.cut(state.sizes.get(journal.path.name, 0))

    def add(self, made: StepBatches, outcome: StepOutcome) -> None:
        """Count a step."""
        self._window.add(outcome)
        self._bad_steps.add(outcome.finite)
        self.pace.add(made.num_rows, made.num_tokens)

    def count_bad_steps(self) -> int:
        """Return how many steps in a row were skipped; waits for the device."""
        return self._bad_steps.fetch()[1]

    def count_skipped(self) -> int:
        """Return how many steps were skipped in all; waits for the device."""
        return self._bad_steps.fetch()[0]

    def write_train(self, step: int, entries: dict[str, Any]) -> None:
        """Write the line of the steps since the last one, and begin anew."""
        found = self._window.summarize()
        self.pace.mark()
        self.latest = {
            **entries,
            **found,
            "skipped": self.count_skipped(),
            "seconds": self.pace.seconds,
            "rows_per_second": self.pace.rows_per_second,
            "tokens_per_second": self.pace.tokens_per_second,
        }
        self._window = Window(self.device)
        if self.writes:
            self.metrics.write("train", step, self.latest)

    def write_validation(self, step: int, entries: dict[str, Any], samples: str = "") -> None:
        """Write the line of a validation and the samples of it, and draw the curves anew."""
        if self.writes:
            self.metrics.write("validation", step, entries)
            if samples:
                self.samples.append(f"step {step}\n{samples}\n")
            self.draw()

    def draw(self) -> None:
        """Draw the learning curves up to now, where that is wanted and can be done."""
        train = self.metrics.read("train")
        if self.writes and self._curves and can_draw() and train:
            draw_curves(train, self.metrics.read("validation"), self.metrics.journal.path.with_name(CURVES_FILE))

    def save(self, state: RunState) -> None:
        """Put into a state all that is counted here."""
        state.window = self._window.save()
        state.skipped, state.bad_run = self._bad_steps.fetch()
        state.seconds = self.pace.seconds
        state.sizes = {journal.path.name: journal.size for journal in (self.metrics.journal, self.samples)}
