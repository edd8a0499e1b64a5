"""Which rows each step of a run takes: a pure function of the seed and the step."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from navi.batches import SamplerConfig, plan_epoch
from navi.corpus.arrays import SegmentArrays
from navi.errors import TrainingError
from navi.training.config import TrainingConfig

Ints = NDArray[np.int64]
Parts = list[Ints]
"""The rows of each batch that one process takes in one step."""


class RunPlan:
    """The steps of a whole run, epoch after epoch, for one of `num_processes` processes."""

    def __init__(
        self,
        arrays: SegmentArrays,
        rows: Ints,
        sampler: SamplerConfig,
        training: TrainingConfig,
        *,
        process: int = 0,
        num_processes: int = 1,
    ) -> None:
        if len(rows) < num_processes:
            raise TrainingError(
                f"{len(rows)} training rows are too few for {num_processes} processes. Prepare a corpus with more rows."
            )
        self._arrays, self._rows, self._sampler, self._training = arrays, rows, sampler, training
        self._process, self._num_processes = process, num_processes
        self._row_tokens = arrays.count_row_tokens() if sampler.tokens_per_batch is not None else None
        self._latest: tuple[int, list[Parts]] | None = None
        self.epoch_ends = tuple(accumulate(self._count_steps()))
        """How many steps are done when each epoch ends, `max_steps` not regarded."""
        self.num_steps = min(self.epoch_ends[-1], training.max_steps or self.epoch_ends[-1])
        """Steps of the run."""

    def find_epoch(self, step: int) -> int:
        """Return the epoch, from 0, that a step, from 0, belongs to."""
        return bisect_right(self.epoch_ends, step)

    def list_boundaries(self) -> list[int]:
        """Return the steps done when each validation is due: at the start, after each epoch, at the end."""
        inner = [end for end in self.epoch_ends if end < self.num_steps]
        return [0, *inner, self.num_steps]

    def list_steps(self, epoch: int, first: int) -> list[Parts]:
        """Return what this process takes in each step of an epoch, from step `first` of the run up to its last."""
        begin = self.epoch_ends[epoch - 1] if epoch > 0 else 0
        end = min(self.epoch_ends[epoch], self.num_steps)
        return self._plan(epoch)[first - begin : end - begin]

    def _plan(self, epoch: int) -> list[Parts]:
        if self._latest is None or self._latest[0] != epoch:
            self._latest = (epoch, self._make_plan(epoch))
        return self._latest[1]

    def _make_plan(self, epoch: int) -> list[Parts]:
        batches = plan_epoch(
            self._rows,
            self._arrays.row_table,
            self._sampler,
            seed=self._training.seed,
            epoch=epoch,
            row_tokens=self._row_tokens,
        )
        steps = group_batches(batches, self._training.accumulation * self._num_processes, self._num_processes)
        return [step[self._process :: self._num_processes] for step in steps]

    def _count_steps(self) -> list[int]:
        """Count the steps of each epoch; only a token budget makes them differ."""
        if self._row_tokens is None:
            return [len(self._plan(0))] * self._training.epochs
        return [len(self._make_plan(epoch)) for epoch in range(self._training.epochs)]


def group_batches(batches: Parts, per_step: int, num_processes: int) -> list[Parts]:
    """Group batches into steps such that every process has at least one batch in each.

    The last step may have fewer batches than processes; then its batches are cut, and if they have fewer rows than
    there are processes, they join the step before.
    """
    steps = [batches[i : i + per_step] for i in range(0, len(batches), per_step)]
    if len(steps) > 1 and sum(map(len, steps[-1])) < num_processes:
        last = steps.pop()
        steps[-1] = steps[-1] + last
    while len(steps[-1]) < num_processes:
        largest = max(range(len(steps[-1])), key=lambda i: len(steps[-1][i]))
        steps[-1][largest : largest + 1] = np.array_split(steps[-1][largest], 2)
    return steps


def split_rows(rows: Ints, row_table: NDArray[np.int32], row_tokens: Ints, max_tokens: int) -> Parts:
    """Cut a batch into parts of at most `max_tokens` tokens, between tables where it can be, else between rows.

    A row longer than that is a part of its own. `row_table` and `row_tokens` are those of the whole corpus.
    """
    if row_tokens[rows].sum() <= max_tokens:
        return [rows]
    by_table = rows[np.argsort(row_table[rows], kind="stable")]
    tables = np.split(by_table, np.flatnonzero(np.diff(row_table[by_table])) + 1)
    fitting = [part for table in tables for part in _fill(np.split(table, len(table)), row_tokens, max_tokens)]
    return _fill(fitting, row_tokens, max_tokens)


def _fill(pieces: Parts, row_tokens: Ints, max_tokens: int) -> Parts:
    """Join neighbouring pieces while they hold no more than `max_tokens`."""
    filled: Parts = []
    held = 0
    for piece in pieces:
        size = int(row_tokens[piece].sum())
        if filled and held + size <= max_tokens:
            filled[-1] = np.concatenate([filled[-1], piece])
            held += size
        else:
            filled.append(piece)
            held = size
    return filled
