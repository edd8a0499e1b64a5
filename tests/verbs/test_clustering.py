"""Tests of clusters from the scores of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.clustering import assign_one_to_one, cluster_scores


def score(num_members, positive, value=2.0, otherwise=-1.0):
    matrix = np.full((num_members, num_members), otherwise, np.float32)
    for first, second in positive:
        matrix[first, second] = matrix[second, first] = value
    return matrix


def never(num_members):
    return np.zeros((num_members, num_members), np.bool_)


def test_members_that_score_above_zero_meet():
    assert cluster_scores(score(5, [(0, 3), (1, 4)]), never(5)).tolist() == [0, 1, 2, 0, 1]


def test_nothing_above_zero_leaves_everyone_alone():
    assert cluster_scores(score(3, []), never(3)).tolist() == [0, 1, 2]


def test_one_link_does_not_join_what_all_others_speak_against():
    links = [(0, 1), (2, 3), (1, 2)]
    assert cluster_scores(score(4, links, otherwise=-2.0), never(4)).tolist() == [0, 0, 1, 1]


def test_many_links_join_in_spite_of_one_against():
    links = [(0, 1), (2, 3), (0, 2), (0, 3), (1, 2)]
    assert cluster_scores(score(4, links), never(4)).tolist() == [0, 0, 0, 0]


def test_members_that_must_stay_apart_do_even_through_others():
    apart = never(3)
    apart[0, 2] = apart[2, 0] = True
    matrix = score(3, [(0, 1), (1, 2), (0, 2)])
    matrix[0, 1] = matrix[1, 0] = 3.0
    assert cluster_scores(matrix, apart).tolist() == [0, 0, 1]


def test_no_members_have_no_clusters():
    assert cluster_scores(score(0, []), never(0)).tolist() == []


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(2, 20))
def test_no_two_clusters_are_left_that_should_merge_and_none_breaks_a_ban(seed, num_members):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(-0.3, 1.0, (num_members, num_members)).astype(np.float32)
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    apart = np.triu(rng.random((num_members, num_members)) < 0.1, 1)
    apart |= apart.T
    labels = cluster_scores(matrix, apart)
    groups = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    for place, ours in enumerate(groups):
        assert not apart[np.ix_(ours, ours)].any()
        for theirs in groups[place + 1 :]:
            banned = apart[np.ix_(ours, theirs)].any()
            linked = (matrix[np.ix_(ours, theirs)] > 0).any()
            assert banned or not linked or matrix[np.ix_(ours, theirs)].mean() <= 1e-5


def test_assignment_gives_each_member_one_partner_a_group():
    matrix = score(4, [(0, 2), (0, 3), (1, 2)])
    matrix[0, 2] = matrix[2, 0] = 2.5
    joined = assign_one_to_one(matrix, np.array([0, 0, 1, 1]))
    assert joined.sum() == 4
    assert joined[0, 3]
    assert joined[1, 2]
