"""Which rows each step of a run takes: a pure function of the seed and the step."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from navi.batches import cut_rows, join_rows, plan_epoch
from navi.corpus.arrays import SegmentArrays
from navi.errors import TrainingError
from navi.training.config import MAX_EPOCHS, PretrainConfig

Ints = NDArray[np.int64]
Parts = list[Ints]
"""The rows of each batch of one step."""


class RunPlan:
    """The steps of a whole run, epoch after epoch, the same for any number of processes."""

    def __init__(self, arrays: SegmentArrays, rows: Ints, config: PretrainConfig) -> None:
        if len(rows) == 0:
            raise TrainingError("There are no training rows. Prepare a corpus with more rows.")
        training, sampler = config.training, config.sampler
        row_tokens = arrays.count_row_tokens() if sampler.tokens_per_batch is not None else None

        @lru_cache(maxsize=1)
        def plan(epoch: int) -> list[Parts]:
            seed, tables = training.seed, arrays.row_table
            batches = plan_epoch(rows, tables, sampler, seed=seed, epoch=epoch, row_tokens=row_tokens)
            return [batches[i : i + training.accumulation] for i in range(0, len(batches), training.accumulation)]

        self._plan = plan
        # Only a token budget makes the lengths of epochs differ.
        lengths = (len(plan(epoch if row_tokens is not None else 0)) for epoch in range(training.epochs or MAX_EPOCHS))
        self.epoch_ends = tuple(accumulate(lengths))
        """How many steps are done when each epoch ends, `max_steps` not regarded."""
        self.most_steps = min(self.epoch_ends[-1], training.max_steps or self.epoch_ends[-1])
        """Steps that epochs and `max_steps` allow."""
        self.num_steps = self.most_steps
        """Steps of the run, once fewer are known to be right."""

    @property
    def boundaries(self) -> list[int]:
        """The steps done when each validation is due: at the start, after each epoch, at the end."""
        return [0, *(end for end in self.epoch_ends if end < self.num_steps), self.num_steps]

    def find_epoch(self, step: int) -> int:
        """Return the epoch, from 0, that a step, from 0, belongs to."""
        return bisect_right(self.epoch_ends, step)

    def list_steps(self, epoch: int, first: int) -> list[Parts]:
        """Return what each step of an epoch takes, from step `first` of the run up to its last."""
        begin = self.epoch_ends[epoch - 1] if epoch > 0 else 0
        return self._plan(epoch)[first - begin : self.num_steps - begin]


def share_rows(rows: Ints, row_table: NDArray[np.int32], row_tokens: Ints, count: int) -> Parts:
    """Return what each of `count` processes takes of a batch: whole tables, of about as many tokens each.

    A table is cut only where there are fewer than processes; a process without a row has none to take.
    """
    by_table = rows[np.argsort(row_table[rows], kind="stable")]
    pieces = np.split(by_table, np.flatnonzero(np.diff(row_table[by_table])) + 1)
    while len(pieces) < min(count, len(rows)):
        longest = max(range(len(pieces)), key=lambda place: len(pieces[place]))
        pieces[longest : longest + 1] = np.array_split(pieces[longest], 2)
    shares: list[Parts] = [[] for _ in range(count)]
    taken = [0] * count
    for piece in sorted(pieces, key=lambda piece: -int(row_tokens[piece].sum())):
        least = taken.index(min(taken))
        shares[least].append(piece)
        taken[least] += int(row_tokens[piece].sum())
    return [np.concatenate(share) if share else rows[:0] for share in shares]


def split_rows(rows: Ints, row_table: NDArray[np.int32], row_tokens: Ints, max_tokens: int) -> Parts:
    """Cut a batch into parts of at most `max_tokens` tokens, between tables where it can be, else between rows.

    A row longer than that is a part of its own. `row_table` and `row_tokens` are those of the whole corpus.
    """
    if row_tokens[rows].sum() <= max_tokens:
        return [rows]
    by_table = rows[np.argsort(row_table[rows], kind="stable")]
    tables = np.split(by_table, np.flatnonzero(np.diff(row_table[by_table])) + 1)
    fitting = [part for table in tables for part in cut_rows(table, row_tokens, max_tokens)]
    return join_rows(fitting, row_tokens, max_tokens)
