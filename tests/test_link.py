"""Rows of two tables that are about the same thing: `Navi.find_pairs`, and the laws behind it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus.hashing import inverse_document_frequency
from navi.errors import ConfigError
from navi.verbs.calibration import measure_reliability
from navi.verbs.link import PairOdds
from navi.verbs.row_similarity import Whitening, weigh_similarity

scores = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30)


def list_pairs(navi, left, right, **settings):
    """Return the pairs as dictionaries."""
    return navi.find_pairs(left, right, **settings).to_arrow().to_pylist()


@pytest.fixture(scope="module")
def tables(world):
    """Two catalogues of films, each with a schema of its own."""
    return world.catalogues[0], world.catalogues[1]


@pytest.fixture(scope="module")
def pairs(navi, tables):
    """All pairs of them, however unsure."""
    return list_pairs(navi, tables[0].rows, tables[1].rows, threshold=0.0)


def is_right(pair, tables):
    return tables[0].row_films[pair["left"] - 1] == tables[1].row_films[pair["right"] - 1]


def test_sure_pairs_are_right_and_most_shared_films_are_found(pairs, tables, truth):
    shared = truth.shared_rows(tables[0].name, tables[1].name)
    assert len(shared) >= 8
    sure = [pair for pair in pairs if pair["confidence"] >= 0.5]
    right = [pair for pair in sure if is_right(pair, tables)]
    assert len(right) / len(sure) > 0.8
    assert len(right) / len(shared) > 0.7


def test_confidence_is_reliable_on_simulated_catalogues(pairs, tables):
    right = np.array([is_right(pair, tables) for pair in pairs])
    confidence = np.array([pair["confidence"] for pair in pairs])
    assert measure_reliability(confidence, right).ece < 0.06


def test_confidence_grows_with_similarity_and_overlap_among_pairs_that_have_no_better_rival(pairs):
    met = {"left": set(), "right": set()}
    unrivalled = []
    for pair in pairs:
        if all(pair[side] not in met[side] for side in met):
            unrivalled.append(pair)
        for side in met:
            met[side].add(pair[side])
    for better, worse in pairwise(unrivalled):
        if better["similarity"] >= worse["similarity"] and better["overlap"] >= worse["overlap"]:
            assert better["confidence"] >= worse["confidence"]


def test_the_threshold_leaves_out_the_unsure(navi, tables, pairs):
    found = list_pairs(navi, tables[0].rows, tables[1].rows, threshold=0.7)
    assert found == [pair for pair in pairs if pair["confidence"] >= np.float32(0.7)]


def test_one_to_one_gives_each_row_to_one_pair(navi, tables):
    found = list_pairs(navi, tables[0].rows, tables[1].rows, threshold=0.0, one_to_one=True)
    for side in ("left", "right"):
        assert len({pair[side] for pair in found}) == len(found)


def test_a_table_pairs_with_its_own_copy(navi, tables):
    rows = tables[0].rows[:30]
    found = list_pairs(navi, rows, rows[::-1], one_to_one=True)
    assert {(pair["left"], pair["right"]) for pair in found} == {(n, 31 - n) for n in range(1, 31)}


def test_tables_that_share_nothing_have_no_sure_pairs(navi):
    left = [{"title": f"king {n}", "genre": "drama"} for n in range(12)]
    right = [{"brand": f"star {n + 40}", "color": "red"} for n in range(12)]
    assert list_pairs(navi, left, right) == []


def test_rows_keep_their_numbers_beside_empty_ones(navi):
    left = [{}, {"title": "dark city", "year": "1999"}, {"title": "old king"}]
    right = [{"name": "house"}, {}, {}, {"name": "dark city", "when": "1999"}]
    found = list_pairs(navi, left, right, threshold=0.0, one_to_one=True)
    assert (found[0]["left"], found[0]["right"]) == (2, 4)


def test_settings_out_of_range_are_refused(navi):
    rows = [{"title": "a"}]
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        navi.find_pairs(rows, rows, k=0)
    with pytest.raises(ConfigError, match=r"threshold must lie between 0 and 1, got 1.5"):
        navi.find_pairs(rows, rows, threshold=1.5)


def test_pairs_become_frames_and_show_themselves(navi):
    found = navi.find_pairs([{"title": "dark city"}], [{"name": "dark city"}], threshold=0.0)
    assert len(found) == len(found.to_pandas()) == 1
    assert found.to_polars().columns == ["left", "right", "confidence", "similarity", "overlap"]
    assert "<th>confidence</th>" in found._repr_html_()


@given(best=scores, wrong=scores)
def test_odds_never_fall_with_the_score_and_are_finite(best, wrong):
    curve = PairOdds.fit(np.array(best, np.float32), np.array(wrong, np.float32))
    found = curve.of(np.linspace(0, 1, 50, dtype=np.float32))
    assert (np.diff(found) >= 0).all()
    assert 0 <= found.min() <= found.max() < np.inf


def test_scores_that_wrong_rows_reach_too_have_no_odds():
    rng = np.random.default_rng(0)
    same = rng.uniform(0.2, 0.4, 200).astype(np.float32)
    curve = PairOdds.fit(same, rng.permutation(same))
    assert curve.of(np.array([0.3], np.float32))[0] < 0.1
    apart = PairOdds.fit(same + np.float32(0.5), same)
    assert apart.of(np.array([0.8], np.float32))[0] > 9
    assert apart.of(np.array([0.3], np.float32))[0] == 0


def test_the_share_of_rows_without_a_counterpart_is_found():
    rng = np.random.default_rng(1)
    wrong = rng.uniform(0.1, 0.3, 1000).astype(np.float32)
    best = np.concatenate([rng.uniform(0.1, 0.3, 250), rng.uniform(0.6, 0.9, 750)]).astype(np.float32)
    assert PairOdds.fit(best, wrong).wrong_share == pytest.approx(0.25, abs=0.05)


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


def test_similarity_weighs_the_less_the_more_noise_it_has():
    rng = np.random.default_rng(0)
    overlap = rng.uniform(0, 0.1, 100_000).astype(np.float32)
    quiet, noisy = (rng.uniform(0, width, 100_000).astype(np.float32) for width in (0.1, 0.8))
    assert weigh_similarity(noisy, overlap) < weigh_similarity(quiet, overlap) < 0.5


def test_the_rarer_a_word_the_more_it_weighs():
    weights = inverse_document_frequency(4, np.array([4, 2, 1, 0]))
    assert weights[0] == 0
    assert (np.diff(weights) > 0).all()
