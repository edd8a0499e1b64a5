"""Which rows each step of a run takes: a pure function of the seed and the step."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from navi.batches import plan_epoch
from navi.corpus.arrays import SegmentArrays
from navi.errors import TrainingError
from navi.training.config import PretrainConfig

Ints = NDArray[np.int64]
Parts = list[Ints]
"""The rows of each batch that one process takes in one step."""


class RunPlan:
    """The steps of a whole run, epoch after epoch, for one of `num_processes` processes."""

    def __init__(
        self, arrays: SegmentArrays, rows: Ints, config: PretrainConfig, *, process: int = 0, num_processes: int = 1
    ) -> None:
        if len(rows) < num_processes:
            raise TrainingError(
                f"{len(rows)} training rows are too few for {num_processes} processes. Prepare a corpus with more rows."
            )
        training, sampler = config.training, config.sampler
        row_tokens = arrays.count_row_tokens() if sampler.tokens_per_batch is not None else None

        @lru_cache(maxsize=1)
        def plan(epoch: int) -> list[Parts]:
            seed, tables = training.seed, arrays.row_table
            batches = plan_epoch(rows, tables, sampler, seed=seed, epoch=epoch, row_tokens=row_tokens)
            steps = group_batches(batches, training.accumulation * num_processes, num_processes)
            return [step[process::num_processes] for step in steps]

        self._plan = plan
        # Only a token budget makes the lengths of epochs differ.
        lengths = (len(plan(epoch if row_tokens is not None else 0)) for epoch in range(training.epochs))
        self.epoch_ends = tuple(accumulate(lengths))
        """How many steps are done when each epoch ends, `max_steps` not regarded."""
        self.num_steps = min(self.epoch_ends[-1], training.max_steps or self.epoch_ends[-1])
        """Steps of the run."""

    @property
    def boundaries(self) -> list[int]:
        """The steps done when each validation is due: at the start, after each epoch, at the end."""
        return [0, *(end for end in self.epoch_ends if end < self.num_steps), self.num_steps]

    def find_epoch(self, step: int) -> int:
        """Return the epoch, from 0, that a step, from 0, belongs to."""
        return bisect_right(self.epoch_ends, step)

    def list_steps(self, epoch: int, first: int) -> list[Parts]:
        """Return what this process takes in each step of an epoch, from step `first` of the run up to its last."""
        begin = self.epoch_ends[epoch - 1] if epoch > 0 else 0
        return self._plan(epoch)[first - begin : self.num_steps - begin]


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
    fitting = [part for table in tables for part in _join(np.split(table, len(table)), row_tokens, max_tokens)]
    return _join(fitting, row_tokens, max_tokens)


def _join(pieces: Parts, row_tokens: Ints, max_tokens: int) -> Parts:
    """Join neighbouring pieces while they hold no more than `max_tokens`."""
    joined = pieces[:1]
    for piece in pieces[1:]:
        both = np.concatenate([joined[-1], piece])
        if row_tokens[both].sum() <= max_tokens:
            joined[-1] = both
        else:
            joined.append(piece)
    return joined
