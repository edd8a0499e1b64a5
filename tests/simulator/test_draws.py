"""Draws: numbers by seed, name and index."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.simulator.draws import Draws

MANY = np.arange(20_000)


def test_a_number_does_not_depend_on_what_is_drawn_beside_it():
    together = Draws(3).uniform("year", np.array([4, 9, 2]))
    assert together[1] == Draws(3).uniform("year", 9)[0]


@pytest.mark.parametrize("other", [Draws(4).bits("year", MANY), Draws(3).bits("month", MANY)])
def test_another_seed_or_name_gives_other_numbers(other):
    assert not np.any(Draws(3).bits("year", MANY) == other)


def test_uniform_numbers_fill_the_unit_interval_evenly():
    counts, _ = np.histogram(Draws(0).uniform("x", MANY), bins=10, range=(0, 1))
    assert counts.sum() == len(MANY)
    assert np.all(np.abs(counts - 2000) < 200)


def test_neighbouring_indices_are_not_correlated():
    numbers = Draws(0).uniform("x", MANY)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_normal_numbers_have_mean_zero_and_deviation_one():
    numbers = Draws(0).normal("x", MANY)
    assert abs(numbers.mean()) < 0.03
    assert abs(numbers.std() - 1) < 0.03


def test_below_takes_a_bound_for_each_index():
    bounds = 1 + MANY % 7
    numbers = Draws(0).below("x", MANY, bounds)
    assert np.all((numbers >= 0) & (numbers < bounds))
    assert set(numbers[bounds == 7].tolist()) == set(range(7))


def test_choice_follows_the_weights():
    shares = np.bincount(Draws(0).choice("x", MANY, (1, 0, 3)), minlength=3) / len(MANY)
    assert shares == pytest.approx([0.25, 0.0, 0.75], abs=0.02)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 3000))
def test_shuffle_meets_every_number_once(seed, size):
    shuffled = Draws(seed).shuffle("rows", np.arange(size), size)
    assert sorted(shuffled.tolist()) == list(range(size))


def test_shuffle_mixes():
    shuffled = Draws(0).shuffle("rows", MANY, len(MANY))
    assert abs(np.corrcoef(MANY, shuffled)[0, 1]) < 0.05


def test_order_is_a_permutation_that_the_name_decides():
    assert sorted(Draws(0).order("a", 9)) == list(range(9))
    assert Draws(0).order("a", 9) != Draws(0).order("b", 9)
