"""Tests of bags of terms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.columns.bags import SMOOTHING, TermWeights, compare_bags, empty_bags, join_bags, make_bags, measure_overlap
from navi.corpus.hashing import hash_texts

SPACE = 2**64 // 1000


def make(*columns, limit=1000, sampled=False):
    """Return bags of columns given as lists of terms, each once a cell."""
    owner = np.repeat(np.arange(len(columns)), [len(terms) for terms in columns]).astype(np.int64)
    terms = np.array([term for each in columns for term in each], dtype=np.uint64)
    cells = np.array([max(len(terms), 1) for terms in columns], dtype=np.int64)
    return make_bags(owner, terms, cells, limit=limit, sampled=sampled)


def test_a_bag_tells_the_share_of_cells_that_hold_each_term():
    bags = make([5, 3, 5, 5], [9])
    assert bags.terms.tolist() == [3, 5, 9]
    assert bags.shares.tolist() == [0.25, 0.75, 1.0]
    assert bags.sizes.tolist() == [2, 1]


def test_the_most_frequent_terms_are_kept():
    bags = make([7, 7, 1, 2, 2, 2], limit=2)
    assert bags.terms.tolist() == [2, 7]


def test_a_sampled_bag_keeps_the_smallest_hashes_whatever_their_frequency():
    bags = make([7, 7, 7, 1, 2], limit=2, sampled=True)
    assert bags.terms.tolist() == [1, 2]


def test_taking_and_joining_are_inverse():
    bags = make([1, 2], [3], [2, 4, 5])
    again = join_bags([bags.take(np.array([0, 1])), bags.take(np.array([2]))])
    assert again.offsets.tolist() == bags.offsets.tolist()
    assert again.terms.tolist() == bags.terms.tolist()


def test_equal_bags_have_cosine_one_and_strangers_none():
    bags = make([1, 2, 3], [1, 2, 3], [8, 9])
    cosine = compare_bags(bags, bags, TermWeights([bags]))
    np.testing.assert_allclose(cosine, [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-9)


def test_a_rare_term_in_common_says_more_than_a_frequent_one():
    bags = make([1, 2], [1, 3], [2, 4], [1, 5], [1, 6])
    cosine = compare_bags(bags, bags, TermWeights([bags]))
    assert cosine[0, 2] > cosine[0, 1]


def test_an_empty_bag_is_like_nothing():
    bags = make([1], [])
    cosine = compare_bags(bags, join_bags([bags, empty_bags(1)]), TermWeights([bags]))
    assert cosine[1].tolist() == [0, 0, 0]
    assert cosine[0].tolist() == [1, 0, 0]


def test_terms_that_the_weights_have_never_met_still_count():
    known, new = make([1, 2], [2, 3]), make([50, 60], [50, 60])
    assert compare_bags(new, new, TermWeights([known]))[0, 1] == pytest.approx(1)


def test_one_value_in_common_is_little_evidence_and_many_are_much():
    flags, titles = make([1, 2], [1, 2]), make(range(100), range(100))
    contained_flags, _ = measure_overlap(flags, flags, TermWeights([flags]), limit=1000)
    contained_titles, _ = measure_overlap(titles, titles, TermWeights([titles]), limit=1000)
    assert contained_flags[0, 1] < 0.5 < contained_titles[0, 1]


@given(st.integers(0, 2**32), st.integers(150, 400), st.integers(150, 400), st.integers(0, 400))
def test_overlap_can_be_told_from_samples(seed, num_first, num_second, num_shared):
    num_shared = min(num_shared, num_first, num_second)
    texts = hash_texts([f"{seed} {number}" for number in range(num_first + num_second - num_shared)])
    first, second = texts[:num_first], texts[num_first - num_shared :]
    whole = measure_overlap(make(first), make(second), unweighted(), limit=1000)
    sample = [make(each, limit=100, sampled=True) for each in (first, second)]
    estimate = measure_overlap(*sample, unweighted(), limit=100)
    least = min(num_first, num_second)
    assert whole[0][0, 0] == pytest.approx(num_shared / (least + SMOOTHING))
    assert estimate[0][0, 0] == pytest.approx(whole[0][0, 0], abs=0.3)


def unweighted():
    """Return weights that are 1 for every term."""
    return TermWeights([empty_bags(0)])
