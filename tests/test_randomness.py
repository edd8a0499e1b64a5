"""Tests of the counter-based random numbers: their bits, in numpy and in torch, and that they look random."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.randomness import choose_below, fold, make_key, order_keys, permute, uniform

INTEGERS = st.integers(-(2**63), 2**63 - 1)
BITS = 2**64 - 1


def splitmix(key, number):
    """Return what `fold` should, by Python's integers alone, unsigned."""
    state = (key * 0x9E3779B97F4A7C15 + number + 0x9E3779B97F4A7C15) & BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & BITS
    return state ^ (state >> 31)


@given(seed=INTEGERS, data=st.lists(INTEGERS, min_size=1, max_size=20), count=st.integers(1, 40_000))
def test_numpy_and_torch_have_the_bits_of_splitmix64(seed, data, count):
    key = splitmix(0, seed)
    expected = [splitmix(key, number) for number in data]
    assert make_key(seed) & BITS == key
    for numbers in (np.array(data), torch.tensor(data)):
        keys = fold(make_key(seed), numbers)
        assert [entry & BITS for entry in keys.tolist()] == expected
        assert uniform(keys).tolist() == [(entry >> 11) / 2**53 for entry in expected]
        assert choose_below(keys, count).tolist() == [entry % count for entry in expected]
        assert [entry + 2**63 for entry in order_keys(keys).tolist()] == expected


@given(st.integers(0, 200), INTEGERS)
def test_a_permutation_holds_every_number_once(count, seed):
    assert sorted(permute(make_key(seed), count).tolist()) == list(range(count))
    assert permute(make_key(seed, 0), 50).tolist() != permute(make_key(seed, 1), 50).tolist()
    assert make_key(seed, count + 1) != make_key(count + 1, seed) or seed == count + 1
