"""Tests that random numbers are the same on a device as on the host."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.batches.counter import fold, make_key, uniform
from navi.batches.keys import choose_below, draw_uniform, fold_keys, order_keys, sign_key

numbers = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20)


def as_tensor(keys):
    return torch.from_numpy(keys.view(np.int64).copy())


@given(seed=st.integers(0, 2**32), data=numbers)
def test_keys_have_the_same_bits(seed, data):
    data = np.array(data, np.int64)
    expected = fold(make_key(seed), data)
    found = fold_keys(torch.tensor(sign_key(make_key(seed))), torch.from_numpy(data))
    assert torch.equal(found, as_tensor(expected))


@given(seed=st.integers(0, 2**32), count=st.integers(1, 40_000))
def test_draws_choices_and_order_are_the_same(seed, count):
    keys = fold(make_key(seed), np.arange(50))
    assert np.array_equal(draw_uniform(as_tensor(keys)).numpy(), uniform(keys))
    assert np.array_equal(choose_below(as_tensor(keys), count).numpy(), (keys % np.uint64(count)).astype(np.int64))
    assert np.array_equal(np.argsort(order_keys(as_tensor(keys)).numpy()), np.argsort(keys))
