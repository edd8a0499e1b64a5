from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError
from navi.verbs.calibration import measure_reliability
from navi.verbs.pairs import Odds, PairsConfig, find_pairs, share_odds, take_once

scores = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def tables(world):
    """Two catalogues of films, each with a schema of its own."""
    return world.catalogues[0], world.catalogues[1]


@pytest.fixture(scope="module")
def pairs(navi, tables):
    """All pairs of them, however unsure."""
    return find_pairs(navi, tables[0].rows, tables[1].rows, PairsConfig(threshold=0.0)).to_pylist()


def is_right(pair, tables):
    return tables[0].row_films[pair["left"] - 1] == tables[1].row_films[pair["right"] - 1]


def test_sure_pairs_are_right_and_most_shared_films_are_found(pairs, tables, truth):
    shared = truth.shared_rows(tables[0].name, tables[1].name)
    assert len(shared) >= 8
    sure = [pair for pair in pairs if pair["confidence"] >= 0.5]
    right = [pair for pair in sure if is_right(pair, tables)]
    assert len(right) / len(sure) > 0.8
    assert len(right) / len(shared) > 0.7


def test_pairs_fall_in_confidence(pairs):
    found = [pair["confidence"] for pair in pairs]
    assert found == sorted(found, reverse=True)
    assert 0 <= found[-1] <= found[0] <= 1


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
    found = find_pairs(navi, tables[0].rows, tables[1].rows, PairsConfig(threshold=0.7)).to_pylist()
    assert found == [pair for pair in pairs if pair["confidence"] >= np.float32(0.7)]


def test_one_to_one_gives_each_row_to_one_pair(navi, tables):
    found = navi.find_pairs(tables[0].rows, tables[1].rows, threshold=0.0, one_to_one=True)
    for side in ("left", "right"):
        assert len(set(found[side].to_pylist())) == found.num_rows


def test_a_table_pairs_with_its_own_copy(navi, tables):
    rows = tables[0].rows[:30]
    found = find_pairs(navi, rows, rows[::-1], PairsConfig(one_to_one=True)).to_pylist()
    assert {(pair["left"], pair["right"]) for pair in found} == {(n, 31 - n) for n in range(1, 31)}


def test_tables_that_share_nothing_have_no_sure_pairs(navi):
    left = [{"title": f"king {n}", "genre": "drama"} for n in range(12)]
    right = [{"brand": f"star {n + 40}", "color": "red"} for n in range(12)]
    assert find_pairs(navi, left, right).num_rows == 0


def test_rows_keep_their_numbers_beside_empty_ones(navi):
    left = [{}, {"title": "dark city", "year": "1999"}, {"title": "old king"}]
    right = [{"name": "house"}, {}, {}, {"name": "dark city", "when": "1999"}]
    found = find_pairs(navi, left, right, PairsConfig(threshold=0.0, one_to_one=True)).to_pylist()
    assert (found[0]["left"], found[0]["right"]) == (2, 4)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        PairsConfig(k=0)
    with pytest.raises(ConfigError, match=r"threshold must lie between 0 and 1, got 1.5"):
        PairsConfig(threshold=1.5)


@given(best=scores, wrong=scores)
def test_odds_never_fall_with_the_score_and_are_finite(best, wrong):
    curve = Odds.fit(np.array(best, np.float32), np.array(wrong, np.float32))
    found = curve.of(np.linspace(0, 1, 50, dtype=np.float32))
    assert (np.diff(found) >= 0).all()
    assert 0 <= found.min() <= found.max() < np.inf


def test_scores_that_wrong_rows_reach_too_have_no_odds():
    rng = np.random.default_rng(0)
    same = rng.uniform(0.2, 0.4, 200).astype(np.float32)
    curve = Odds.fit(same, rng.permutation(same))
    assert curve.of(np.array([0.3], np.float32))[0] < 0.1
    apart = Odds.fit(same + np.float32(0.5), same)
    assert apart.of(np.array([0.8], np.float32))[0] > 9
    assert apart.of(np.array([0.3], np.float32))[0] == 0


def test_the_share_of_rows_without_a_counterpart_is_found():
    rng = np.random.default_rng(1)
    wrong = rng.uniform(0.1, 0.3, 1000).astype(np.float32)
    best = np.concatenate([rng.uniform(0.1, 0.3, 250), rng.uniform(0.6, 0.9, 750)]).astype(np.float32)
    assert Odds.fit(best, wrong).wrong_share == pytest.approx(0.25, abs=0.05)


def test_a_pair_is_less_sure_where_a_row_has_a_better_partner_and_equal_partners_do_not_hurt():
    pairs = np.array([[0, 2], [0, 3], [1, 3]])
    alone = share_odds(pairs[1:2], np.array([4.0]), 4)[0]
    rivalled = share_odds(pairs, np.array([9.0, 4.0, 4.0]), 4)
    assert alone == rivalled[2] == pytest.approx(0.8)
    assert rivalled[1] == pytest.approx(0.4)


def test_confidence_is_reliable_on_simulated_catalogues(pairs, tables):
    right = np.array([is_right(pair, tables) for pair in pairs])
    confidence = np.array([pair["confidence"] for pair in pairs])
    assert measure_reliability(confidence, right).ece < 0.06


def test_a_row_goes_to_the_first_pair_in_order():
    pairs = np.array([[0, 5], [0, 6], [1, 5], [1, 6]])
    assert take_once(pairs, np.array([1, 0, 3, 2])).tolist() == [1, 2]
