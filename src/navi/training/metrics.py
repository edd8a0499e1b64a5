"""What is measured of a run while it goes: its losses and how fast it is, and how well it fills in held-out rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import REGIME_HEADER, REGIME_VALUE, Batch, BatchBuilder, MaskingConfig, SpecialTokens, prefetch
from navi.corpus import Corpus
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.files import sync
from navi.losses import compute_losses
from navi.randomness import fold, make_key, order_keys
from navi.training.checkpoint import METRICS_FILE, RunState
from navi.training.config import PretrainConfig
from navi.training.processes import Processes
from navi.training.step import MEANS, SUMS, Ints, Stepper, autocast, make_sums

# Shape suffixes: S segments of a batch, M targets, K columns.

MAX_SKIPPED = 10
"""Steps in a row whose loss is not finite, from which on a run stops."""
VALIDATION_EPOCH = -1
"""The epoch that validation masks are drawn for: no epoch of training has them."""
PROBE = MaskingConfig(header_share=0.25, value_share=0.25, token_share=0.0, mask_rate=1.0, random_rate=0.0)
"""What accuracies are measured with: a quarter of a row's headers and a quarter of its values hidden whole."""
INFORMED, BLIND = replace(PROBE, unknown_attribute_rate=0.0), replace(PROBE, unknown_attribute_rate=1.0)
MAJORITY_ROWS = 200_000
"""Training rows that the most frequent header and values are counted in, at most: more take long and change nothing."""
NO_TOKEN = -1
MEASURED = ("masked", "targets", "header_hits", "header_targets", "value_hits", "value_targets")
"""What is added up over validation rows."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Where a run stands: handed to `progress` after each step, and whenever there is something to say."""

    step: int
    """Steps done."""
    num_steps: int
    """Steps of the whole run."""
    epoch: int
    """Epochs begun."""
    seconds_left: float | None
    """Expected time to the end; None before it can be known."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The latest line of metrics.jsonl of the kind `train`, with losses and rates; empty before the first."""
    note: str | None = None
    """Something that a user should know, such as memory that ran out."""


class TrainingLog:
    """All that a run counts and writes down, from a state on; `save` puts the counts into the state again.

    Sums and skipped steps stay on the device until a line is due, so that a GPU never waits for the host. Only the main
    process writes; the others count alike, and are taken to be as fast.
    """

    def __init__(self, out: Path, processes: Processes, state: RunState) -> None:
        self._state, self._folder = state, out if processes.is_main else None
        self._num_processes, self._start = processes.count, monotonic() - state.seconds
        self.num_rows = self._num_steps = self._num_tokens = 0
        self._first: float | None = None
        self._sums = F.pad(make_sums({}, processes.device), (0, 1))
        """What the steps since the last line add up to, and how many were taken."""
        if state.window:
            self._sums += torch.tensor(state.window, dtype=self._sums.dtype, device=self._sums.device)
        self._skipped = torch.tensor([state.skipped, state.bad_run], device=processes.device)
        self._file = out / METRICS_FILE
        if processes.is_main and self._file.exists():  # what was written after the checkpoint will be written again
            os.truncate(self._file, min(self._file.stat().st_size, state.logged))
        self._restart()

    @property
    def seconds(self) -> float:
        """Time spent on the run, before it was resumed too."""
        return monotonic() - self._start

    def add(self, num_rows: int, num_tokens: int, sums: Tensor, finite: Tensor) -> None:
        """Count a step; one that was not finite was skipped, and has no part in the sums."""
        # Not a product: a NaN times zero would stay one.
        self._sums += torch.where(finite, torch.cat([sums, torch.ones_like(sums[:1])]), 0.0)
        self._skipped += ~finite
        self._skipped[1] *= ~finite
        self._first = self._first or monotonic()  # when the first ended, which is slower than all others
        self._num_steps += 1
        self.num_rows += num_rows
        self._num_tokens += num_tokens

    def fetch_skipped(self) -> tuple[int, int]:
        """Return the skipped steps in all and in a row; waits for the device."""
        skipped, in_a_row = self._skipped.tolist()
        return skipped, in_a_row

    def estimate(self, num_steps: int) -> float | None:
        """Return the seconds that so many steps take, going by those after the first; None before there are."""
        if self._first is None or self._num_steps < 2:
            return None
        return (monotonic() - self._first) / (self._num_steps - 1) * num_steps

    def _restart(self) -> None:
        """Leave out of the rates what has passed up to now."""
        self._mark, self._marked = monotonic(), (self.num_rows, self._num_tokens)

    def write_train(self, entries: Mapping[str, Any]) -> None:
        """Write the line of the steps since the last one, and begin again.

        It has means over the steps, accuracies over the targets (None where there was nothing), and rates, in which
        each copy of a row has tokens of its own.
        """
        *sums, taken = self._sums.tolist()
        found = dict(zip(SUMS, sums, strict=True))
        counts = dict.fromkeys(MEANS, taken) | dict.fromkeys(("views", "keeping"), found["steps_with_views"])
        for part in ("header", "value"):
            found[f"{part}_accuracy"], counts[f"{part}_accuracy"] = found[f"{part}_hits"], found[f"{part}_targets"]
        skipped, passed = self.fetch_skipped()[0], max(monotonic() - self._mark, 1e-9) / self._num_processes
        line = {
            **entries,
            **{name: found[name] / count if count else None for name, count in counts.items()},
            "skipped": skipped,
            "seconds": self.seconds,
            "rows_per_second": (self.num_rows - self._marked[0]) / passed,
            "tokens_per_second": (self._num_tokens - self._marked[1]) / passed,
        }
        self._sums.zero_()
        self._restart()
        self._state.train = self._write("train", line)

    def write_validation(self, measures: Mapping[str, float]) -> None:
        """Write the line of a validation, if there was anything to measure, and leave its time out of the rates."""
        line = {"epoch": len(self._state.validation), **measures}
        self._state.validation.append(self._write("validation", line) if measures else {})
        self._restart()

    def _write(self, kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """Write a line of metrics.jsonl and return it; JSON has no NaN: what is not a number becomes null."""
        bare = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in found.items()}
        line = {"kind": kind, "step": self._state.step} | bare
        if self._folder is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return line

    def save(self) -> None:
        """Put into the state all that is counted here; the lines it knows of are then safe on the disk."""
        state = self._state
        state.window = self._sums.tolist()
        state.skipped, state.bad_run = self.fetch_skipped()
        state.seconds = self.seconds
        if self._file.exists():
            sync(self._file)
            state.logged = self._file.stat().st_size


class Validation:
    """Measures a model: masked loss, header and value accuracy on validation rows, and held-out columns found again."""

    def __init__(self, corpus: Corpus, special: SpecialTokens, config: PretrainConfig) -> None:
        self._corpus, self._seed, self._workers = corpus, config.training.seed, config.training.workers
        self.rows = choose_rows(corpus.rows_of("validation"), config.training.validate_rows, self._seed)
        self._rows_per_batch = config.sampler.rows_per_batch
        self._builders = {
            name: BatchBuilder(corpus.arrays, special, masking=masking, align=False, seed=self._seed)
            for name, masking in (("training", config.masking), ("informed", INFORMED), ("blind", BLIND))
        }

    def __call__(self, stepper: Stepper) -> dict[str, float]:
        """Return the measures; nothing where there are no validation rows."""
        if len(self.rows) == 0:
            return {}
        parts = [self.rows[i : i + self._rows_per_batch] for i in range(0, len(self.rows), self._rows_per_batch)]
        mine = parts[stepper.processes.rank :: stepper.processes.count]
        sums = {name: self._add_up(stepper, builder, mine) for name, builder in self._builders.items()}

        def divide(masking: str, part: str, whole: str) -> float:
            return sums[masking][part] / max(sums[masking][whole], 1.0)

        columns = stepper.views.measure_columns(stepper.model, stepper.device) if stepper.views else {}
        return {
            "masked_loss": divide("training", "masked", "targets"),
            "header_accuracy_informed": divide("informed", "header_hits", "header_targets"),
            "header_accuracy_blind": divide("blind", "header_hits", "header_targets"),
            "value_accuracy": divide("informed", "value_hits", "value_targets"),
            **columns,
        }

    def measure_majority(self) -> dict[str, float]:
        """Return the accuracies of the majority baseline on the same masks: what is to be beaten."""
        train = choose_rows(self._corpus.rows_of("train"), MAJORITY_ROWS, self._seed)
        batch = self._builders["informed"].build(self.rows, epoch=VALIDATION_EPOCH)
        return majority_baseline(self._corpus.arrays, train, batch)

    @torch.no_grad()
    def _add_up(self, stepper: Stepper, builder: BatchBuilder, parts: list[Ints]) -> dict[str, float]:
        """Return the masked loss, hits and targets of all rows, added up over all processes."""
        stepper.model.eval()
        total = torch.zeros(len(MEASURED), device=stepper.device)
        for batch in prefetch(parts, lambda rows: builder.build(rows, epoch=VALIDATION_EPOCH), workers=self._workers):
            here = batch.to(stepper.device)
            with autocast(stepper.device, stepper.dtype):
                output, config = stepper.model(here.rows), stepper.config.alignment
                losses = compute_losses(stepper.model, output, here, config, torch.ones(3))
            found = vars(losses) | {"targets": here.targets.num_masked}
            total += torch.stack([found[name].float() for name in MEASURED])
        return dict(zip(MEASURED, stepper.processes.sum(total).tolist(), strict=True))


def majority_baseline(arrays: SegmentArrays, train_rows: Ints, batch: Batch) -> dict[str, float]:
    """Return the token accuracies of always guessing what is most frequent, on the targets of a batch.

    The guess for a header is the header most training rows have; for a value, the value that its column has in most
    training rows. A guess is laid over the masked span token by token.
    """
    header, value_K = find_majority(arrays, train_rows)
    _, cells = gather_ranges(arrays.row_offsets, batch.row_ids.numpy())
    header_S = arrays.segment_header[arrays.row_segments[cells]]
    segment_M = (batch.rows.token_span[batch.targets.position] // 2).numpy()
    place_M = batch.rows.token_position[batch.targets.position].numpy()
    header_length_M = np.diff(arrays.header_offsets)[header_S][segment_M]
    headers = read_tokens(arrays.header_offsets, arrays.header_tokens, np.full(len(place_M), header), place_M)
    value_M, value_place_M = value_K[arrays.cell_column[cells]][segment_M], place_M - header_length_M - 1
    values = read_tokens(arrays.value_offsets, arrays.value_tokens, value_M, value_place_M)
    token, kind = batch.targets.token.numpy(), batch.targets.kind.numpy()
    hits = {
        "most_frequent_header": (headers == token)[kind == REGIME_HEADER],
        "most_frequent_value": (values == token)[kind == REGIME_VALUE],
    }
    return {name: float(hit.mean()) if len(hit) else 0.0 for name, hit in hits.items()}


def find_majority(arrays: SegmentArrays, rows: Ints) -> tuple[int, Ints]:
    """Return the header that most of the rows have, and each column's most frequent value: (K,), NO_TOKEN for none."""
    _, cells = gather_ranges(arrays.row_offsets, rows)
    segment_C = arrays.row_segments[cells].astype(np.int64)
    pair, count = np.unique(arrays.cell_column[cells] * arrays.num_segments + segment_C, return_counts=True)
    column, segment = np.divmod(pair, max(arrays.num_segments, 1))
    value_K = np.full(arrays.num_columns, NO_TOKEN, dtype=np.int64)
    rising = np.argsort(count, kind="stable")
    value_K[column[rising]] = arrays.segment_value[segment[rising]]
    return int(np.bincount(arrays.segment_header[segment_C], minlength=1).argmax()), value_K


def read_tokens(offsets: Ints, tokens: NDArray[np.int32], ids: Ints, place: Ints) -> Ints:
    """Return the token at a place of each id's text; NO_TOKEN beyond its ends or where there is no id."""
    known = np.maximum(ids, 0)
    inside = (ids >= 0) & (place >= 0) & (place < offsets[known + 1] - offsets[known])
    return np.where(inside, tokens[np.where(inside, offsets[known] + place, 0)], NO_TOKEN)


def choose_rows(rows: Ints, count: int, seed: int) -> Ints:
    """Return at most `count` of the rows, drawn evenly and always the same, in the corpus's order."""
    if len(rows) <= count:
        return rows
    keys = order_keys(fold(make_key(seed, VALIDATION_EPOCH), rows))
    return np.sort(rows[np.argsort(keys, kind="stable")[:count]])
