"""Which rows make which batch of an epoch and which part of it, how large batches get, and making them ahead."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from navi.batches.batch import BatchCapacity
from navi.batches.builder import BatchBuilder
from navi.batches.layout import MaskingConfig
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, gather_ranges
from navi.randomness import fold, make_key, permute, uniform
from navi.settings import check_bounds

Ints = NDArray[np.int64]
Task = TypeVar("Task")
Made = TypeVar("Made")
DEVIATIONS = 8.0
"""Capacity for masked tokens beyond the mean, in standard deviations: enough for every batch that is ever drawn."""


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """How many rows of how many tables make a step."""

    rows_per_batch: int = 256
    """Rows of a step (the paper: 32)."""
    tables_per_batch: int = 16
    """Tables that a step draws from; each gives about rows_per_batch / tables_per_batch rows."""
    max_table_rows: int | None = None
    """Rows that a table gives to an epoch, at most, others in each epoch; None for all."""

    def __post_init__(self) -> None:
        check_bounds(self, "rows_per_batch", "tables_per_batch", "max_table_rows", least=1)


def plan_epoch(rows: Ints, row_table: NDArray[np.int32], config: SamplerConfig, *, seed: int, epoch: int) -> list[Ints]:
    """Return the rows of each batch of an epoch, every row of `rows` exactly once, or `max_table_rows` of a table.

    Each table's rows are shuffled and cut into nearly equal strata; stratum i of n gets a random place in the i-th
    n-th of the epoch, so that large and small tables alike are spread over all of it. `row_table` is that of the whole
    corpus, `rows` the ones to visit. Every epoch has as many batches.
    """
    if len(rows) == 0:
        return []
    key, rows_per_table = make_key(seed, epoch), max(1, config.rows_per_batch // config.tables_per_batch)
    strata: list[Ints] = []
    places: list[NDArray[np.float64]] = []
    table_of_row = row_table[rows]
    by_table = np.argsort(table_of_row, kind="stable")
    tables, first = np.unique(table_of_row[by_table], return_index=True)
    for table, places_of_table in zip(tables, np.split(by_table, first[1:]), strict=True):
        table_key = int(fold(key, np.array([table], np.int64))[0])
        members = rows[places_of_table][permute(table_key, len(places_of_table))][: config.max_table_rows]
        count = -(-len(members) // rows_per_table)
        strata.extend(np.array_split(members, count))
        places.append((np.arange(count) + uniform(fold(table_key, np.arange(count) + len(members)))) / count)
    order = np.argsort(np.concatenate(places), kind="stable")
    most = config.tables_per_batch
    return [np.concatenate([strata[i] for i in order[first : first + most]]) for first in range(0, len(order), most)]


def shard_rows(rows: Ints, row_table: NDArray[np.int32], row_tokens: Ints, count: int) -> list[Ints]:
    """Return what each of `count` processes takes of a step: whole tables, of about as many tokens each.

    A table is cut only where there are fewer than processes; a process without a row has none to take. `row_table` and
    `row_tokens` are those of the whole corpus.
    """
    by_table = rows[np.argsort(row_table[rows], kind="stable")]
    pieces = np.split(by_table, np.flatnonzero(np.diff(row_table[by_table])) + 1)
    while len(pieces) < min(count, len(rows)):
        longest = max(range(len(pieces)), key=lambda place: len(pieces[place]))
        pieces[longest : longest + 1] = np.array_split(pieces[longest], 2)
    shares: list[list[Ints]] = [[] for _ in range(count)]
    taken = [0] * count
    for piece in sorted(pieces, key=lambda piece: -int(row_tokens[piece].sum())):
        least = taken.index(min(taken))
        shares[least].append(piece)
        taken[least] += int(row_tokens[piece].sum())
    return [np.concatenate(share) if share else rows[:0] for share in shares]


def split_rows(rows: Ints, row_table: NDArray[np.int32], row_tokens: Ints, max_tokens: int) -> list[Ints]:
    """Cut a step into parts of at most `max_tokens` tokens, tables whole where they fit; a longer row is a part."""
    least = -(-int(row_tokens[rows].sum()) // max_tokens)
    if least <= 1:
        return [rows]
    for count in range(least, len(rows) + 1):
        parts = shard_rows(rows, row_table, row_tokens, count)
        if all(len(part) == 1 or row_tokens[part].sum() <= max_tokens for part in parts):
            return parts
    return np.split(rows, len(rows))


def prefetch(
    tasks: Iterable[Task], make: Callable[[Task], Made], *, workers: int = 1, ahead: int = 4
) -> Iterator[Made]:
    """Yield `make(task)` for each task in order, up to `ahead` of them made before they are asked for.

    Threads serve because making a batch is torch, which lets go of the interpreter lock; processes forked beside a GPU
    were tried and hung. With `workers=0` everything happens in the caller's thread.
    """
    if workers == 0:
        yield from map(make, tasks)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="navi-batches") as pool:
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(make, task))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def measure_capacity(builder: BatchBuilder, rows: Ints) -> BatchCapacity:
    """Return what the batch of some rows needs, at most, whatever is masked in it."""
    arrays = builder.arrays
    cells = gather_ranges(arrays.row_offsets, rows)[1]
    segment_C, column_C = arrays.row_segments[cells], arrays.cell_column[cells]
    header_C = _count_members(arrays.header_offsets, arrays.segment_header[segment_C])
    value_C = _count_members(arrays.value_offsets, arrays.segment_value[segment_C])
    tables = np.unique(arrays.row_table[rows])
    begins, ends = (np.searchsorted(arrays.column_table, tables, side) for side in ("left", "right"))
    columns = np.concatenate([np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)])
    low = columns[builder.column_role[columns] == ROLE_LOW]
    attributes = np.unique(arrays.column_attribute[columns])
    return BatchCapacity(
        rows=len(rows),
        segments=len(cells),
        tokens=len(rows) + int((header_C + value_C + 2).sum()),
        targets=_bound_targets(builder.masking, header_C, value_C),
        tables=len(tables),
        attributes=len(attributes),
        attribute_tokens=int(_count_members(arrays.attribute_offsets, attributes).sum()),
        low=int((builder.column_role[column_C] == ROLE_LOW).sum()),
        high=int((builder.column_role[column_C] == ROLE_HIGH).sum()),
        anchors=len(set(zip(arrays.column_table[low].tolist(), arrays.column_attribute[low].tolist(), strict=True))),
    )


def _count_members(offsets: Ints, ids: NDArray[np.integer]) -> Ints:
    """Return the length of each id's list."""
    lengths: Ints = offsets[ids + 1] - offsets[ids]
    return lengths


def _bound_targets(config: MaskingConfig, header_C: Ints, value_C: Ints) -> int:
    """Return more masked tokens than cells with headers and values of these lengths will ever have."""
    headers, values = (config.header_share, config.value_share) if config.whole_spans else (0.0, 0.0)
    vanilla = (1 - headers - values) * config.token_share
    mean, square = (
        (headers * header_C**power + values * value_C**power + vanilla * (header_C + value_C) ** power).sum()
        for power in (1, 2)
    )
    # The mean of the squares is more than the variance.
    return math.ceil(float(mean) + DEVIATIONS * math.sqrt(square) + 1)


def choose_capacities(needs: Sequence[BatchCapacity], count: int) -> list[BatchCapacity]:
    """Return at most `count` capacities, small to large, such that each batch fits one of about its size."""
    tokens = np.array([need.tokens for need in needs])
    shares = np.linspace(0, 1, count + 1)[1:]
    # Most batches are alike and a few are large: later parts are smaller, so that these cost the others little.
    limits = np.unique(np.quantile(tokens, 1 - (1 - shares) ** 2, method="higher"))
    part = np.searchsorted(limits, tokens)
    largest = [np.array(needs)[part == number].max(axis=0).tolist() for number in range(len(limits))]
    return [BatchCapacity(*(-(-max(need, 1) // 8) * 8 for need in entry)) for entry in largest]
