"""One runner a device: equal rows once, rows shared out among the devices, results in the order asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from navi.batches.layout import gather_ranges
from navi.model.runner import Runner
from navi.segments.arrays import SegmentArrays
from navi.segments.hashing import hash_rows, mix

# Shape suffixes: R rows, D hidden size.

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Told how many rows were just done, and of how many in all."""
SHARES_A_DEVICE = 4
"""Into how many shares the rows of each device are cut, so that a slow device does not keep the others waiting."""
OF_ROWS = ("rows", "means")
"""The parts that have one vector a row; the others have one a segment."""


class RunnerPool:
    """Embeds rows with one runner or several; the result does not depend on how many."""

    def __init__(self, runners: Sequence[Runner]) -> None:
        self.runners = tuple(runners)

    def embed(
        self,
        arrays: SegmentArrays,
        rows: Ints | None = None,
        *,
        parts: Sequence[str] = ("rows",),
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Floats]:
        """Return the asked-for parts in the order of `rows`, as `Runner.embed` does; rows with equal cells run once."""
        rows = np.arange(arrays.num_rows) if rows is None else rows
        distinct, inverse = find_distinct(arrays, rows)
        runners = [_limit(runner, tokens_per_batch) for runner in self.runners]

        def embed_share(runner: Runner, share: Ints) -> dict[str, Floats]:
            tell = None if progress is None else lambda done: progress(done, len(distinct))
            return runner.embed(arrays, share, parts=parts, batch_size=batch_size, progress=tell)

        if len(runners) == 1:
            found = embed_share(runners[0], distinct)
        else:
            found = _share_out(arrays, distinct, runners, embed_share)
        if len(distinct) == len(rows):
            return {part: _reorder_rows(array, part, arrays, distinct, inverse) for part, array in found.items()}
        return {part: _reorder_rows(array, part, arrays, distinct, inverse, rows) for part, array in found.items()}
