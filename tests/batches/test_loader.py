"""Tests of batches made ahead in threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from navi.batches import BatchBuilder, prefetch

WORKERS = pytest.mark.parametrize("workers", [0, 1, 4])


@WORKERS
def test_results_come_in_order_whatever_the_number_of_workers(workers):
    def make(number):
        time.sleep(0.002 * ((number * 7) % 3))  # later tasks are often done first
        return number * number

    assert list(prefetch(range(20), make, workers=workers)) == [number * number for number in range(20)]


@WORKERS
def test_batches_are_the_same_whatever_the_number_of_workers(make_arrays, special, workers):
    arrays = make_arrays()
    builder = BatchBuilder(arrays, special)
    plan = np.array_split(np.arange(arrays.num_rows), 6)
    expected = [builder.build(rows, epoch=1) for rows in plan]
    found = list(prefetch(plan, lambda rows: builder.build(rows, epoch=1), workers=workers))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.rows.token_ids.equal(other.rows.token_ids)
        assert one.targets.position.equal(other.targets.position)
        assert one.alignment.low_segment.equal(other.alignment.low_segment)


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


def test_only_a_few_tasks_are_made_ahead():
    made = []
    results = prefetch(range(100), made.append, workers=2, ahead=3)
    next(results)
    time.sleep(0.02)
    assert len(made) <= 3 + 1
    results.close()


def test_a_caller_that_stops_early_leaves_no_threads_behind():
    results = prefetch(range(100), lambda number: number, workers=3)
    next(results)
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("navi-batches")]


def test_without_workers_everything_happens_in_the_callers_thread():
    names = list(prefetch(range(3), lambda _: threading.current_thread().name, workers=0))
    assert set(names) == {threading.current_thread().name}


@WORKERS
def test_no_tasks_give_nothing(workers):
    assert list(prefetch([], str, workers=workers)) == []
