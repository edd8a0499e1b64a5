from __future__ import annotations

import copy

import numpy as np
import pytest

from navi.verbs.caching import AttributeCache
from navi.verbs.pool import RunnerPool, find_distinct


@pytest.fixture
def arrays(make_arrays):
    """Random rows, some of them alike."""
    return make_arrays(num_rows=60, cells=(1, 2), num_values=3, num_headers=6)


def content_of(arrays, row):
    return frozenset(arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]].tolist())


def test_distinct_rows_are_the_first_of_each_content_in_order(arrays):
    rows = np.random.default_rng(0).permutation(60)
    distinct, inverse = find_distinct(arrays, rows)
    assert len(distinct) < 60
    assert [content_of(arrays, row) for row in distinct[inverse]] == [content_of(arrays, row) for row in rows]
    assert len({content_of(arrays, row) for row in distinct}) == len(distinct)
    first = [rows.tolist().index(row) for row in distinct]
    assert first == sorted(first)


def test_rows_in_any_order_and_more_than_once_come_back_in_that_order(navi, world):
    arrays = navi.encode(world.catalogues[0].rows[:8]).arrays
    whole = navi.pool.embed(arrays, parts=("rows", "segments"))
    rows = np.array([5, 1, 5, 7])
    some = navi.pool.embed(arrays, rows, parts=("rows", "segments"))
    np.testing.assert_allclose(some["rows"], whole["rows"][rows], atol=1e-5)
    segments = np.concatenate([np.arange(arrays.row_offsets[row], arrays.row_offsets[row + 1]) for row in rows])
    np.testing.assert_allclose(some["segments"], whole["segments"][segments], atol=1e-5)


def test_no_rows_give_no_vectors(navi):
    arrays = navi.encode([{"title": "king"}]).arrays
    assert navi.pool.embed(arrays, np.zeros(0, np.int64))["rows"].shape == (0, navi.hidden_size)


def test_progress_counts_distinct_rows(navi):
    told = []
    rows = [{"title": "king"}, {"title": "war"}, {"title": "king"}]
    navi.pool.embed(navi.encode(rows).arrays, batch_size=1, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (1, 2)]


def test_a_full_cache_of_attributes_begins_anew_and_gives_the_same(navi, monkeypatch):
    monkeypatch.setattr("navi.verbs.caching.MAX_ATTRIBUTES", 1)
    expected = navi.embed_attributes({"title": "a", "year": "b", "genre": "c"})
    monkeypatch.setattr(navi.runner, "attributes", AttributeCache(navi.runner.model, navi.runner.device))
    for _ in range(2):
        found = navi.embed_attributes({"title": "a", "year": "b", "genre": "c"})
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert len(navi.runner.attributes) == 3


@pytest.mark.parametrize("num_runners", [1, 2])
def test_rows_packed_on_the_devices_have_the_same_vectors_and_leave_their_attributes_in_the_cache(
    navi, world, monkeypatch, num_runners
):
    arrays = navi.encode(world.catalogues[0].rows[:30] + world.catalogues[1].rows[:30]).arrays
    expected = navi.pool.embed(arrays)["rows"]
    runners = [copy.copy(navi.runner) for _ in range(num_runners)]
    for runner in runners:
        runner.packs_on_device = True
        runner.attributes = AttributeCache(runner.model, runner.device)
    monkeypatch.setattr("navi.batches.builder.MOVED_PER_TOKEN", 10**6)
    monkeypatch.setattr("navi.model.runner.Runner._make_here", None)  # nothing is laid out on the host
    rows = np.random.default_rng(0).permutation(arrays.num_rows)
    found = RunnerPool(runners).embed(arrays, rows, tokens_per_batch=500)["rows"]
    np.testing.assert_allclose(found, expected[rows], atol=1e-5)
    used = np.unique(arrays.segment_attribute[arrays.row_segments])
    kept = set().union(*(runner.attributes._vectors for runner in runners))
    assert len(kept) == len(used)
