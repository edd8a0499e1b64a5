"""The plan of an epoch (every row once, few tables a step) and batches made ahead."""

from __future__ import annotations

import hashlib
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import SamplerConfig, plan_epoch, prefetch
from navi.errors import ConfigError

CORPORA = st.lists(st.integers(0, 40), min_size=1, max_size=8)
CONFIGS = st.builds(SamplerConfig, rows_per_batch=st.integers(1, 20), tables_per_batch=st.integers(1, 6))


def number_tables(sizes):
    return np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)


@settings(max_examples=150, deadline=None)
@given(sizes=CORPORA, config=CONFIGS, seed=st.integers(0, 99), epoch=st.integers(0, 5), data=st.data())
def test_each_chosen_row_comes_once_in_as_many_batches_of_few_tables_and_rows(sizes, config, seed, epoch, data):
    row_table = number_tables(sizes)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(len(row_table)) < data.draw(st.floats(0, 1)))
    plan = plan_epoch(chosen, row_table, config, seed=seed, epoch=epoch)
    assert len(plan) == len(plan_epoch(chosen, row_table, config, seed=seed, epoch=epoch + 1))
    assert sorted(row for batch in plan for row in batch.tolist()) == chosen.tolist()
    for batch in plan:
        assert 1 <= len(np.unique(row_table[batch])) <= config.tables_per_batch
        assert len(batch) <= config.tables_per_batch * max(1, config.rows_per_batch // config.tables_per_batch)


def test_the_order_of_a_seed_is_that_of_earlier_versions():
    row_table, config = number_tables([640, 320, 80, 7]), SamplerConfig(rows_per_batch=16, tables_per_batch=2)
    plan = plan_epoch(np.arange(len(row_table)), row_table, config, seed=3, epoch=5)
    assert plan[0].tolist() == [283, 345, 375, 93, 593, 43, 243, 543, 810, 952, 804, 900, 826, 789, 728, 940]
    assert hashlib.sha256(np.concatenate(plan).tobytes()).hexdigest()[:16] == "2f2d2cc8a8cb2885"


def test_a_full_batch_takes_about_as_many_rows_from_each_of_its_tables():
    row_table = number_tables([400] * 40)
    config = SamplerConfig(rows_per_batch=32, tables_per_batch=4)
    plan = plan_epoch(np.arange(len(row_table)), row_table, config, seed=0, epoch=0)
    distinct = []
    for batch in plan:
        tables, counts = np.unique(row_table[batch], return_counts=True)
        assert (counts % 8 == 0).all()
        distinct.append(len(tables))
    assert np.mean(distinct) > 3.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows_per_batch": 0}, "rows_per_batch must be at least 1, got 0"),
        ({"tables_per_batch": 0}, "tables_per_batch must be at least 1, got 0"),
    ],
)
def test_sizes_below_one_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        SamplerConfig(**settings)


WORKERS = pytest.mark.parametrize("workers", [0, 1, 4])


@WORKERS
def test_results_come_in_order_whatever_the_number_of_workers(workers):
    def make(number):
        time.sleep(0.002 * ((number * 7) % 3))  # later tasks are often done first
        return number * number

    assert list(prefetch(range(20), make, workers=workers)) == [number * number for number in range(20)]


@WORKERS
def test_an_exception_reaches_the_caller_after_the_results_before_it(workers):
    def make(number):
        if number == 5:
            raise ValueError(f"task {number} is bad")
        return number

    handed_out = []
    with pytest.raises(ValueError, match="task 5 is bad"):
        handed_out.extend(prefetch(range(9), make, workers=workers))
    assert handed_out == [0, 1, 2, 3, 4]


def test_a_caller_that_stops_early_leaves_no_threads_behind():
    results = prefetch(range(100), lambda number: number, workers=3)
    next(results)
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("navi-batches")]
