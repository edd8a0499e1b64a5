"""One runner a device: equal rows once, rows shared out among the devices, results in the order asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.corpus.hashing import hash_rows, mix
from navi.model.runner import ROW_PARTS
from navi.verbs.caching import CachingRunner

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Parts = dict[str, Floats]
Progress = Callable[[int, int], None]
"""Told how many rows were just done, and of how many in all."""
SHARES_A_DEVICE = 4
"""Shares of the rows for each device: with more than one, a slow device does not keep the others waiting."""


class RunnerPool:
    """Embeds rows with one runner or several; the result does not depend on how many."""

    def __init__(self, runners: Sequence[CachingRunner]) -> None:
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
    ) -> Parts:
        """Return the asked-for parts in the order of `rows`, as `Runner.embed` does; rows with equal cells run once."""
        rows = np.arange(arrays.num_rows) if rows is None else rows
        distinct, inverse = find_distinct(arrays, rows)
        runners = [_limit(runner, tokens_per_batch) for runner in self.runners]

        def tell(done: int) -> None:
            if progress is not None:
                progress(done, len(distinct))

        def embed_share(runner: CachingRunner, share: Ints) -> Parts:
            return runner.embed(arrays, share, parts=parts, batch_size=batch_size, progress=tell)

        if len(runners) == 1:
            found = embed_share(runners[0], distinct)
        else:
            found = _share_out(arrays, distinct, runners, embed_share)
        if len(distinct) == len(rows):
            return found
        cells = _match_cells(arrays, rows, distinct, inverse) if set(parts) - set(ROW_PARTS) else inverse
        return {part: array[inverse if part in ROW_PARTS else cells] for part, array in found.items()}


def find_distinct(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each content, in order, and the place among them of every row's content."""
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    # Segments, not the corpus's row hashes: these do not know attributes, nor what max_tokens left out.
    content = hash_rows(mix(arrays.row_segments[cells].astype(np.uint64), np.uint64(0)), offsets)
    _, first, inverse = np.unique(content, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[first[order]], rank[inverse]


def _match_cells(arrays: SegmentArrays, rows: Ints, distinct: Ints, inverse: Ints) -> Ints:
    """Return where each cell of `rows` stands among those of `distinct`: equal rows may order their cells otherwise."""
    _, sorted_cells = _sort_cells(arrays, rows)
    distinct_lengths, sorted_distinct = _sort_cells(arrays, distinct)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(distinct_lengths)])
    places = np.empty(len(sorted_cells), np.int64)
    places[sorted_cells] = sorted_distinct[gather_ranges(offsets, inverse)[1]]
    return places


def _sort_cells(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the number of cells of each row, and the places of all cells, sorted by segment within their row."""
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    return lengths, np.lexsort((arrays.row_segments[cells], np.repeat(np.arange(len(rows)), lengths)))


def _share_out(
    arrays: SegmentArrays, rows: Ints, runners: Sequence[CachingRunner], embed: Callable[[CachingRunner, Ints], Parts]
) -> Parts:
    """Let idle runners take shares of like length, and put their results where the rows stand."""
    order = np.argsort(arrays.count_row_tokens()[rows], kind="stable")
    shares = [share for share in np.array_split(order, SHARES_A_DEVICE * len(runners)) if len(share)]
    idle: SimpleQueue[CachingRunner] = SimpleQueue()
    for runner in runners:
        idle.put(runner)

    def work(share: Ints) -> Parts:
        runner = idle.get()
        try:
            return embed(runner, rows[share])
        finally:
            idle.put(runner)

    with ThreadPoolExecutor(len(runners), thread_name_prefix="navi-devices") as pool:
        results = list(pool.map(work, shares or [order]))
    lengths = np.diff(arrays.row_offsets)[rows]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    cell_places = [gather_ranges(offsets, share)[1] for share in shares]
    return {part: _put(part, results, shares if part in ROW_PARTS else cell_places) for part in results[0]}


def _put(part: str, results: Sequence[Parts], places: Sequence[Ints]) -> Floats:
    size = sum(map(len, places))
    array = np.zeros((size, results[0][part].shape[1]), np.float32)
    for result, place in zip(results, places, strict=False):
        array[place] = result[part]
    return array


def _limit(runner: CachingRunner, tokens_per_batch: int | None) -> CachingRunner:
    """Return the runner, or one that shares its model and keeps to another token budget."""
    if tokens_per_batch is None:
        return runner
    limited = copy.copy(runner)
    limited.tokens_per_batch = tokens_per_batch
    return limited
