"""The law behind searching and linking: whitened vectors, and what they weigh beside shared words."""

from __future__ import annotations

import numpy as np
import pytest

from navi.corpus.hashing import inverse_document_frequency
from navi.verbs.row_similarity import FIT_ROWS, USUAL_WEIGHT, Whitening, weigh_similarity


def draw(num_rows, width=4, seed=0):
    """Return vectors whose directions differ much in variance, far from the origin."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(num_rows, width)) * np.geomspace(1, 0.2, width) + 50).astype(np.float32)


def test_rows_become_unit_vectors_spread_evenly_in_all_directions():
    vectors = draw(5000)
    found = Whitening.fit(vectors).transform(vectors)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.T @ found / len(found), np.eye(4) / 4, atol=0.02)


def test_the_mean_becomes_zeros_and_directions_without_variance_stay_small():
    vectors = np.concatenate([draw(100), np.full((100, 1), 3, np.float32)], axis=1)
    whitening = Whitening.fit(vectors)
    np.testing.assert_allclose(whitening.transform(whitening.mean[None]), 0)
    assert np.isfinite(whitening.transform(vectors)).all()
    assert np.isfinite(Whitening.fit(vectors[:1]).transform(vectors[:1])).all()


def test_a_sample_says_about_what_all_rows_say():
    vectors = draw(FIT_ROWS * 2)
    sampled = Whitening.fit(vectors).transform(vectors[:50])
    halves = Whitening.fit(vectors[:FIT_ROWS]).transform(vectors[:50])
    np.testing.assert_allclose(sampled @ sampled.T, halves @ halves.T, atol=0.05)
    np.testing.assert_array_equal(Whitening.fit(vectors).transform(vectors[:50]), sampled)


def test_similarity_weighs_the_less_the_more_noise_it_has():
    rng = np.random.default_rng(0)
    overlap = rng.uniform(0, 0.1, 100_000).astype(np.float32)
    quiet, noisy = (rng.uniform(0, width, 100_000).astype(np.float32) for width in (0.1, 0.8))
    assert weigh_similarity(noisy, overlap) < weigh_similarity(quiet, overlap) < 0.5


def test_a_few_pairs_leave_the_usual_weight():
    few = np.array([0.0, 1.0], np.float32)
    assert weigh_similarity(few, few * 0.01) == pytest.approx(USUAL_WEIGHT, abs=0.01)


def test_the_rarer_a_word_the_more_it_weighs():
    weights = inverse_document_frequency(4, np.array([4, 2, 1, 0]))
    assert weights[0] == 0
    assert (np.diff(weights) > 0).all()
