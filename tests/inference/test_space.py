from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from navi.inference.embedding import average_cells
from navi.inference.space import SAMPLE_ROWS, Space


def draw(num_rows, width=4, seed=0):
    """Return vectors whose directions differ much in variance, far from the origin."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(num_rows, width)) * np.geomspace(1, 0.2, width) + 50).astype(np.float32)


def test_rows_become_unit_vectors_spread_evenly_in_all_directions():
    vectors = draw(5000)
    found = Space.fit(vectors).apply(vectors)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.T @ found / len(found), np.eye(4) / 4, atol=0.02)


def test_the_mean_becomes_zeros():
    space = Space.fit(draw(100))
    np.testing.assert_allclose(space.apply(space.mean[None]), 0)


def test_directions_without_variance_stay_small():
    vectors = np.concatenate([draw(100), np.full((100, 1), 3, np.float32)], axis=1)
    found = Space.fit(vectors).apply(vectors)
    assert np.isfinite(found).all()


def test_one_row_is_enough():
    vectors = draw(1)
    assert np.isfinite(Space.fit(vectors).apply(vectors)).all()


def test_a_sample_tells_about_what_all_rows_tell():
    vectors = draw(SAMPLE_ROWS * 2)
    some = vectors[:50]
    close = Space.fit(vectors).apply(some) @ Space.fit(vectors[: SAMPLE_ROWS - 1]).apply(some).T
    assert (np.abs(np.linalg.svd(close)[1][:4]) > 0).all()
    same = Space.fit(vectors).apply(some) @ Space.fit(vectors).apply(some).T
    np.testing.assert_allclose(same, same.T, atol=1e-5)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_the_mean_of_a_rows_cells_is_that_of_its_stretch(counts):
    cells = np.random.default_rng(0).normal(size=(sum(counts), 3)).astype(np.float32)
    found = average_cells(cells, np.array(counts))
    begin = 0
    for row, count in enumerate(counts):
        expected = cells[begin : begin + count].mean(axis=0) if count else np.zeros(3)
        np.testing.assert_allclose(found[row], expected, atol=1e-6)
        begin += count
