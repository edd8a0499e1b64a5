"""What a run writes down while it goes, and how fast it goes."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.errors import TrainingError
from navi.files import sync
from navi.training.checkpoint import METRICS_FILE, RunState
from navi.training.processes import Processes
from navi.training.step import MEANS, SUMS, StepBatches, make_sums


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Where a run stands: handed to `progress` after each step, and whenever there is something to say."""

    step: int
    """Steps done."""
    num_steps: int
    """Steps of the whole run."""
    epoch: int
    """Epochs begun."""
    rows_per_second: float
    """Rows learned from each second, lately."""
    tokens_per_second: float
    """Tokens learned from each second, lately, each copy of a row counted."""
    seconds_left: float | None
    """Expected time to the end; None before it can be known."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The latest line of metrics.jsonl of the kind `train`; empty before the first."""
    note: str | None = None
    """Something that a user should know, such as memory that ran out."""


class Throughput:
    """Rows and tokens by the clock; rates are taken from one mark to the next, when the device has caught up.

    Every process is taken to be as fast as this one.
    """

    def __init__(self, seconds_before: float = 0.0, num_processes: int = 1) -> None:
        self._seconds_before, self._start, self._num_processes = seconds_before, monotonic(), num_processes
        self.num_steps = self.num_rows = self._num_tokens = 0
        self.rows_per_second = self.tokens_per_second = 0.0
        self._first: float | None = None
        self.restart()

    @property
    def seconds(self) -> float:
        """Time spent on the run, before it was resumed too."""
        return self._seconds_before + monotonic() - self._start

    def add(self, num_rows: int, num_tokens: int) -> None:
        """Count a step."""
        self._first = self._first or monotonic()  # when the first ended, which is slower than all others
        self.num_steps += 1
        self.num_rows += num_rows
        self._num_tokens += num_tokens

    def mark(self) -> None:
        """Take the rates since the last mark."""
        passed = max(monotonic() - self._mark, 1e-9) / self._num_processes
        self.rows_per_second = (self.num_rows - self._marked[0]) / passed
        self.tokens_per_second = (self._num_tokens - self._marked[1]) / passed
        self.restart()

    def restart(self) -> None:
        """Leave out of the rates what has passed since the last mark."""
        self._mark, self._marked = monotonic(), (self.num_rows, self._num_tokens)

    def estimate(self, steps_left: int) -> float | None:
        """Return the seconds that so many steps will take, going by those after the first; None before there are."""
        if self._first is None or self.num_steps < 2:
            return None
        return (monotonic() - self._first) / (self.num_steps - 1) * steps_left


class SkippedSteps:
    """Counts the steps that were not finite, in all and in a row, on the device."""

    def __init__(self, device: torch.device, skipped: int = 0, in_a_row: int = 0) -> None:
        self._counts = torch.tensor([skipped, in_a_row], device=device)

    def add(self, finite: Tensor) -> None:
        """Count a step."""
        self._counts += ~finite
        self._counts[1] *= ~finite

    def fetch(self) -> tuple[int, int]:
        """Return the skipped steps in all and in a row; waits for the device."""
        skipped, in_a_row = self._counts.tolist()
        return skipped, in_a_row


class MetricsLog:
    """The lines of metrics.jsonl."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / METRICS_FILE

    def write(self, kind: str, step: int, line: dict[str, Any]) -> None:
        """Write one line; `kind` is `train` or `validation`. JSON has no NaN: what is not a number becomes null."""
        bare = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in line.items()}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step} | bare) + "\n")

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind, oldest first."""
        text = self.file.read_text(encoding="utf-8", errors="replace") if self.file.exists() else ""
        try:
            return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise TrainingError(f"{self.file} is damaged: {error}. Remove the line that is no JSON object.") from error


class TrainingLog:
    """All that a run counts and writes down, from a state on; `save` puts the counts into the state again.

    Sums stay on the device until a line is due, so that a GPU never waits for the host. Only the main process writes;
    the others count alike.
    """

    def __init__(self, out: Path, processes: Processes, state: RunState) -> None:
        self._writes = processes.is_main
        self.metrics = MetricsLog(out)
        self.throughput = Throughput(state.seconds, processes.count)
        self.skipped = SkippedSteps(processes.device, state.skipped, state.bad_run)
        self.latest: dict[str, Any] = {}
        self._sums = F.pad(make_sums({}, processes.device), (0, 1))
        """What the steps since the last line add up to, and how many were taken."""
        if state.window:
            self._sums += torch.tensor(state.window, dtype=self._sums.dtype, device=self._sums.device)
        file = self.metrics.file
        if self._writes and file.exists():  # what was written after the checkpoint will be written again
            os.truncate(file, min(file.stat().st_size, state.logged))

    def add(self, made: StepBatches, sums: Tensor, finite: Tensor) -> None:
        """Count a step; one that was skipped has no part in the sums."""
        # Not a product: a NaN times zero would stay one.
        self._sums += torch.where(finite, torch.cat([sums, torch.ones_like(sums[:1])]), 0.0)
        self.skipped.add(finite)
        self.throughput.add(made.num_rows, made.num_tokens)

    def write_train(self, step: int, entries: dict[str, Any]) -> None:
        """Write the line of the steps since the last one, and begin again."""
        found = self._summarize()
        self.throughput.mark()
        self.latest = {
            **entries,
            **found,
            "skipped": self.skipped.fetch()[0],
            "seconds": self.throughput.seconds,
            "rows_per_second": self.throughput.rows_per_second,
            "tokens_per_second": self.throughput.tokens_per_second,
        }
        self._sums.zero_()
        if self._writes:
            self.metrics.write("train", step, self.latest)

    def save(self, state: RunState) -> None:
        """Put into a state all that is counted here; the lines it knows of are then safe on the disk."""
        state.window = self._sums.tolist()
        state.skipped, state.bad_run = self.skipped.fetch()
        state.seconds = self.throughput.seconds
        if self.metrics.file.exists():
            sync(self.metrics.file)
            state.logged = self.metrics.file.stat().st_size

    def _summarize(self) -> dict[str, float | None]:
        """Return means over the steps, accuracies over the targets, and counts; None where there was nothing."""
        *sums, taken = self._sums.tolist()
        found = dict(zip(SUMS, sums, strict=True))

        def divide(name: str, count: float) -> float | None:
            return found[name] / count if count else None

        steps = dict.fromkeys(MEANS, taken) | dict.fromkeys(("views", "keeping"), found["steps_with_views"])
        return {
            **{name: divide(name, count) for name, count in steps.items()},
            "header_accuracy": divide("header_hits", found["header_targets"]),
            "value_accuracy": divide("value_hits", found["value_targets"]),
            "rows": int(found["rows"]),
            "tokens": int(found["tokens"]),
        }
