"""Tests of entropy and roles."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import ROLE_HIGH, ROLE_LOW, ROLE_MID
from navi.corpus.roles import assign_roles, measure_entropy

COLUMNS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60)
ENTROPIES = st.lists(st.floats(0, 1).map(lambda entropy: round(entropy, 2)), min_size=1, max_size=30)


def measure(values, normalise="rows"):
    counts = np.array(list(Counter(values).values()))
    return measure_entropy(np.zeros(len(counts), np.int64), counts, 1, normalise)[0]


@given(COLUMNS)
def test_entropy_is_that_of_its_definition(values):
    shares = [count / len(values) for count in Counter(values).values()]
    expected = -sum(share * log(share) for share in shares) / log(len(values)) if len(values) > 1 else 0
    assert measure(values) == pytest.approx(expected, abs=1e-9)


@given(COLUMNS, st.sampled_from(["rows", "distinct"]))
def test_entropy_lies_between_0_and_1(values, normalise):
    assert 0 <= measure(values, normalise) <= 1


@given(st.integers(1, 10_000), st.sampled_from(["rows", "distinct"]))
def test_entropy_of_one_repeated_value_is_exactly_0(count, normalise):
    assert measure(["same"] * count, normalise) == 0


@given(st.integers(2, 1000), st.sampled_from(["rows", "distinct"]))
def test_entropy_of_values_all_different_is_exactly_1(count, normalise):
    assert measure(range(count), normalise) == 1


@given(COLUMNS, st.randoms())
def test_entropy_ties_whatever_the_order_of_values(values, random):
    assert measure(values) == measure(random.sample(values, len(values)))


def test_fifty_fifty_flag_is_diverse_only_by_distinct_values():
    flags = ["yes", "no"] * 50
    assert measure(flags, "distinct") == 1
    assert measure(flags, "rows") == pytest.approx(log(2) / log(100))


def test_column_without_cells_has_no_entropy():
    entropy = measure_entropy(np.array([0, 2]), np.array([3, 0]), 3)
    assert np.isnan(entropy).tolist() == [False, True, True]


def test_constant_columns_are_all_low():
    entropy = np.array([0.0, 0.0, 0.0, 0.2, 0.5, 0.8, 0.9, 1.0])
    assert assign_roles(entropy, 0.05, 0.95).tolist() == [ROLE_LOW] * 3 + [ROLE_MID] * 4 + [ROLE_HIGH]


@given(ENTROPIES, st.floats(0, 0.5), st.floats(0.5, 1))
def test_columns_that_tie_share_a_role_and_both_ends_are_taken(entropies, theta_low, theta_high):
    roles = assign_roles(np.array(entropies), theta_low, theta_high)
    assert len(set(zip(entropies, roles.tolist(), strict=True))) == len(set(entropies))
    assert roles[np.argmin(entropies)] == ROLE_LOW or min(entropies) >= 0.5
    assert roles[np.argmax(entropies)] == ROLE_HIGH or max(entropies) < 0.5
    assert (np.array(entropies)[roles == ROLE_HIGH] > 0).all()


@pytest.mark.parametrize(("entropy", "role"), [(0.0, ROLE_LOW), (0.49, ROLE_LOW), (0.5, ROLE_HIGH), (1.0, ROLE_HIGH)])
def test_single_column_is_low_below_one_half_and_high_from_there(entropy, role):
    assert assign_roles(np.array([entropy]), 0.05, 0.95).tolist() == [role]


def test_column_without_entropy_is_mid_and_does_not_count():
    entropy = np.array([np.nan, 0.1, 0.5, 0.9])
    assert assign_roles(entropy, 0.05, 0.95).tolist() == [ROLE_MID, ROLE_LOW, ROLE_MID, ROLE_HIGH]
    assert assign_roles(np.array([np.nan]), 0.05, 0.95).tolist() == [ROLE_MID]
