"""Which rows each step takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import SamplerConfig
from navi.corpus.arrays import SegmentArrays
from navi.errors import TrainingError
from navi.training import TrainingConfig
from navi.training.plan import RunPlan, count_tokens, group_batches, split_rows

SAMPLER = SamplerConfig(rows_per_batch=6, tables_per_batch=3)


@pytest.fixture
def arrays(make_arrays: Callable[..., SegmentArrays]) -> SegmentArrays:
    return make_arrays(num_rows=50, num_tables=4)


def make_plan(arrays: SegmentArrays, *, sampler: SamplerConfig = SAMPLER, process=0, num_processes=1, **training):
    rows, config = np.arange(50), TrainingConfig(**training)
    return RunPlan(arrays, rows, sampler, config, process=process, num_processes=num_processes)


def test_each_epoch_takes_every_row_once(arrays: SegmentArrays) -> None:
    plan = make_plan(arrays, epochs=3)
    for epoch in range(3):
        first = plan.epoch_ends[epoch - 1] if epoch else 0
        taken = np.concatenate([rows for parts in plan.list_steps(epoch, first) for rows in parts])
        assert sorted(taken) == list(range(50))


def test_two_epochs_have_different_orders(arrays: SegmentArrays) -> None:
    plan = make_plan(arrays)
    one, two = (np.concatenate([np.concatenate(p) for p in plan.list_steps(e, plan.epoch_ends[0] * e)]) for e in (0, 1))
    assert not np.array_equal(one, two)


def test_the_steps_from_the_middle_on_are_the_same_as_from_the_beginning(arrays: SegmentArrays) -> None:
    plan, again = make_plan(arrays), make_plan(arrays)
    whole, rest = plan.list_steps(0, 0), again.list_steps(0, 3)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(whole[3:], rest, strict=True))


def test_a_limit_of_steps_cuts_the_run(arrays: SegmentArrays) -> None:
    plan = make_plan(arrays, max_steps=4)
    assert plan.num_steps == 4
    assert len(plan.list_steps(0, 0)) == 4
    assert plan.list_boundaries() == [0, 4]


def test_a_limit_beyond_the_epochs_changes_nothing(arrays: SegmentArrays) -> None:
    assert make_plan(arrays, max_steps=10_000).num_steps == make_plan(arrays).num_steps


def test_validation_is_due_at_the_start_and_after_each_epoch(arrays: SegmentArrays) -> None:
    plan = make_plan(arrays, epochs=3)
    assert plan.list_boundaries() == [0, *plan.epoch_ends]
    assert [plan.find_epoch(step) for step in (0, plan.epoch_ends[0] - 1, plan.epoch_ends[0])] == [0, 0, 1]


def test_a_token_budget_gives_epochs_of_their_own_lengths(arrays: SegmentArrays) -> None:
    sampler = SamplerConfig(rows_per_batch=6, tables_per_batch=3, tokens_per_batch=120)
    plan = make_plan(arrays, sampler=sampler, epochs=3)
    firsts = [0, *plan.epoch_ends[:-1]]
    lengths = [len(plan.list_steps(epoch, first)) for epoch, first in enumerate(firsts)]
    assert lengths == np.diff([0, *plan.epoch_ends]).tolist()
    assert len(set(lengths)) > 1


def test_accumulation_puts_several_batches_in_a_step(arrays: SegmentArrays) -> None:
    one, two = make_plan(arrays), make_plan(arrays, accumulation=2)
    assert two.epoch_ends[0] == -(-one.epoch_ends[0] // 2)
    assert len(two.list_steps(0, 0)[0]) == 2


@pytest.mark.parametrize("num_processes", [2, 3])
def test_processes_share_the_rows_of_a_step(arrays: SegmentArrays, num_processes: int) -> None:
    plans = [make_plan(arrays, process=p, num_processes=num_processes) for p in range(num_processes)]
    steps = [plan.list_steps(0, 0) for plan in plans]
    assert len({len(listed) for listed in steps}) == 1
    assert all(parts and all(len(rows) for rows in parts) for listed in steps for parts in listed)
    taken = np.concatenate([rows for listed in steps for parts in listed for rows in parts])
    assert sorted(taken) == list(range(50))


def test_fewer_rows_than_processes_are_too_few(arrays: SegmentArrays) -> None:
    with pytest.raises(TrainingError, match="2 training rows are too few for 3 processes"):
        RunPlan(arrays, np.arange(2), SAMPLER, TrainingConfig(), num_processes=3)


def test_no_rows_at_all_are_too_few(arrays: SegmentArrays) -> None:
    with pytest.raises(TrainingError, match="0 training rows are too few for 1 process"):
        RunPlan(arrays, np.arange(0), SAMPLER, TrainingConfig())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.integers(1, 3), st.integers(1, 3))
def test_grouping_keeps_the_rows_and_leaves_no_process_idle(sizes: list[int], accumulation: int, world: int) -> None:
    ends = np.cumsum(sizes)
    if ends[-1] < world:
        return
    batches = np.split(np.arange(ends[-1]), ends[:-1])
    steps = group_batches(batches, accumulation * world, world)
    assert np.concatenate([rows for step in steps for rows in step]).tolist() == list(range(ends[-1]))
    assert all(len(step) >= world and all(len(rows) for rows in step) for step in steps)


def test_tokens_are_counted_as_the_arrays_count_them(arrays: SegmentArrays) -> None:
    rows = np.array([7, 3, 3, 49])
    assert np.array_equal(count_tokens(arrays, rows), arrays.count_row_tokens()[rows])


@pytest.mark.parametrize("max_tokens", [1, 40, 100, 1000, 10**6])
def test_a_split_keeps_the_rows_and_the_limit(arrays: SegmentArrays, max_tokens: int) -> None:
    rows = np.random.default_rng(0).permutation(50)
    parts = split_rows(arrays, rows, max_tokens)
    assert sorted(np.concatenate(parts)) == list(range(50))
    assert all(len(part) == 1 or count_tokens(arrays, part).sum() <= max_tokens for part in parts)


def test_a_split_goes_between_tables_where_it_can(arrays: SegmentArrays) -> None:
    rows = np.random.default_rng(0).permutation(50)
    tokens = count_tokens(arrays, rows)
    largest = max(tokens[arrays.row_table[rows] == table].sum() for table in range(4))
    parts = split_rows(arrays, rows, int(largest))
    assert len(parts) > 1
    tables = [set(arrays.row_table[part].tolist()) for part in parts]
    assert sum(map(len, tables)) == 4


def test_what_fits_is_not_split(arrays: SegmentArrays) -> None:
    rows = np.array([9, 2, 30])
    assert [part.tolist() for part in split_rows(arrays, rows, 10**6)] == [[9, 2, 30]]
