"""Tests of masked segment modelling."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import IGNORED
from navi.losses import predict_masked


@given(st.lists(st.integers(0, 6), max_size=8))
def test_the_loss_is_the_summed_negative_log_probability_of_the_masked_tokens(tokens):
    logits = torch.randn(len(tokens), 7, generator=torch.Generator().manual_seed(len(tokens)))
    expected = 0.0
    for scores, token in zip(logits.tolist(), tokens, strict=True):
        expected -= math.log(math.exp(scores[token]) / sum(math.exp(score) for score in scores))
    found = predict_masked(logits, torch.tensor(tokens, dtype=torch.long)).loss
    torch.testing.assert_close(float(found), expected, atol=1e-5, rtol=1e-5)


def test_half_precision_logits_are_summed_in_float32():
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    tokens = torch.arange(50) % 7
    found = predict_masked(logits, tokens).loss
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, predict_masked(logits.float(), tokens).loss)


@pytest.mark.parametrize("num_targets", [0, 1, 64, 150])
def test_loss_gradient_and_hits_are_those_of_torch(num_targets):
    generator = torch.Generator().manual_seed(num_targets)
    logits = 3 * torch.randn(num_targets, 11, generator=generator)
    tokens = torch.randint(11, (num_targets,), generator=generator)
    tokens[::4] = IGNORED
    own, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    found = predict_masked(own, tokens)
    expected = F.cross_entropy(other, tokens, reduction="sum", ignore_index=IGNORED)
    (found.loss / 7).backward()
    (expected / 7).backward()
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(own.grad, other.grad)
    assert torch.equal(found.hit, logits.argmax(dim=1) == tokens)
    assert torch.equal(own.detach(), logits)


def test_a_second_backward_pass_is_refused_because_the_first_used_its_array_up():
    logits = torch.randn(3, 7).requires_grad_()
    loss = predict_masked(logits, torch.tensor([1, 2, 3])).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
