"""What a run writes down while it goes: sums on the device, lines in a file, TensorBoard events."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from navi.training.step import MEANS, SUMS, StepOutcome, choose_wide_dtype

METRICS_FILE, EVENTS_FOLDER = "metrics.jsonl", "events"
TIMINGS = ("seconds", "rows_per_second", "tokens_per_second")
"""The entries of a line that depend on the machine and not on the run."""


class Journal:
    """A text file that a run appends to and that can be cut back to what a checkpoint knows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """Bytes written; when asked for, they are safe on the disk."""
        if not self.path.exists():
            return 0
        with self.path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def append(self, text: str) -> None:
        """Add text at the end."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def cut(self, size: int) -> None:
        """Drop what was written after `size` bytes."""
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)


class Window:
    """Sums over the steps since the last line, on the device, so that a GPU never waits for the host."""

    def __init__(self, device: torch.device, saved: list[float] | None = None) -> None:
        start = saved or [0.0] * (len(SUMS) + 1)
        self._sums = torch.tensor(start, device=device, dtype=choose_wide_dtype(device))

    def add(self, outcome: StepOutcome) -> None:
        """Add a step, unless it was skipped."""
        one = torch.ones_like(outcome.sums[:1])
        # Not a product: a NaN times zero would stay one.
        self._sums += torch.where(outcome.finite, torch.cat([outcome.sums, one]), 0.0)

    def save(self) -> list[float]:
        """Return the sums for a checkpoint."""
        saved: list[float] = self._sums.tolist()
        return saved

    def summarize(self) -> dict[str, float | None]:
        """Return means over the steps, accuracies over the targets, and counts; None where there was nothing."""
        *sums, taken = self._sums.tolist()
        found = dict(zip(SUMS, sums, strict=True))
        return {
            **{name: _divide(found[name], taken) for name in MEANS},
            "header_accuracy": _divide(found["header_hits"], found["header_targets"]),
            "value_accuracy": _divide(found["value_hits"], found["value_targets"]),
            "rows": int(found["rows"]),
            "tokens": int(found["tokens"]),
        }


class BadSteps:
    """Counts the steps that were skipped, in all and in a row, on the device."""

    def __init__(self, device: torch.device, skipped: int = 0, in_a_row: int = 0) -> None:
        self._skipped = torch.tensor(skipped, device=device)
        self._in_a_row = torch.tensor(in_a_row, device=device)

    def add(self, finite: Tensor) -> None:
        """Count a step."""
        self._skipped += ~finite
        self._in_a_row = torch.where(finite, 0, self._in_a_row + 1)

    def fetch(self) -> tuple[int, int]:
        """Return the skipped steps in all and in a row; waits for the device."""
        return int(self._skipped), int(self._in_a_row)


class MetricsLog:
    """The lines of metrics.jsonl, and the same as TensorBoard events where tensorboard is installed."""

    def __init__(self, folder: Path, *, events: bool = True) -> None:
        self.journal = Journal(folder / METRICS_FILE)
        self._folder, self.events = folder, events and importlib.util.find_spec("tensorboard") is not None
        self._writer: Any = None

    def write(self, kind: str, step: int, line: dict[str, Any]) -> None:
        """Write one line; `kind` is `train` or `validation`."""
        text = json.dumps({"kind": kind, "step": step} | {name: _plain(value) for name, value in line.items()})
        self.journal.append(text + "\n")
        self._open_events(step)
        if self._writer is not None:
            for name, value in line.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(f"{kind}/{name}", value, step)

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind, oldest first."""
        if not self.journal.path.exists():
            return []
        lines = self.journal.path.read_text(encoding="utf-8").splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def close(self) -> None:
        """Close the events file."""
        if self._writer is not None:
            self._writer.close()

    def _open_events(self, step: int) -> None:
        if self._writer is None and self.events:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder / EVENTS_FOLDER), purge_step=step)


def _divide(total: float, count: float) -> float | None:
    return total / count if count else None


def _plain(value: Any) -> Any:
    """JSON has no NaN; what is not a number is written as null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
