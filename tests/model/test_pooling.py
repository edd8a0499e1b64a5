"""Tests of averages over spans of the token axis."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.model.pooling import pool_sequences, pool_spans


@given(st.lists(st.integers(0, 5), min_size=1, max_size=15))
def test_each_span_is_the_mean_of_its_tokens_and_zero_without_any(spans):
    hidden = torch.randn(len(spans), 3, generator=torch.Generator().manual_seed(0))
    pooled = pool_spans(hidden, torch.tensor(spans), 5)
    for span in range(5):
        members = [hidden[place] for place, found in enumerate(spans) if found == span]
        expected = torch.stack(members).mean(dim=0) if members else torch.zeros(3)
        torch.testing.assert_close(pooled[span], expected)
    assert pooled.shape == (5, 3)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_each_sequence_is_the_mean_of_its_tokens(lengths):
    hidden = torch.randn(sum(lengths), 3, generator=torch.Generator().manual_seed(0))
    pooled = pool_sequences(hidden, torch.tensor([0, *lengths]).cumsum(0).int())
    expected = torch.stack([part.mean(dim=0) for part in hidden.split(lengths)])
    torch.testing.assert_close(pooled, expected)


def test_half_precision_is_averaged_in_float32():
    hidden = torch.ones(1001, 1, dtype=torch.bfloat16)
    hidden[0] = 1.5
    pooled = pool_spans(hidden, torch.zeros(1001, dtype=torch.long), 1)
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, torch.tensor([[1001.5 / 1001]]))
