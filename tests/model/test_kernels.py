"""Tests of the tiled kernel against padded attention, on a CUDA device."""

from __future__ import annotations

import pytest
import torch

from navi.model.attention import Boundaries, Packing, packed_attention, use_triton

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SEGMENTS = [[1, 3, 7, 12], [1], [1, 70, 5, 5, 61], [1] + [4] * 40, [1, 129], [1, 2, 3]]
"""Each row begins with a token of its own."""


def bound(lengths):
    return Boundaries(torch.tensor([0, *lengths]).cumsum(0).int().cuda(), sum(lengths))


def draw_states(num_heads, width):
    """Return query, key, value and an upstream gradient, in half precision."""
    generator = torch.Generator().manual_seed(0)
    num_tokens = sum(map(sum, SEGMENTS))
    return [torch.randn(num_tokens, num_heads, width, generator=generator).cuda().bfloat16() for _ in range(4)]


def attend(states, packing, scaling):
    arguments = [state.transpose(0, 1).unsqueeze(0) for state in states]
    return packed_attention(torch.nn.Module(), *arguments, None, packing=packing, scaling=scaling)[0][0]


@pytest.mark.parametrize("width", [8, 16, 26, 32, 64])
@pytest.mark.parametrize("num_wide", [4, 2, 1])
def test_the_tiled_kernel_attends_and_differentiates_as_padded_attention_does(width, num_wide):
    wide, local = bound([sum(row) for row in SEGMENTS]), bound([length for row in SEGMENTS for length in row])
    packing = Packing(num_wide, wide, local if num_wide < 4 else None)
    *states, upstream = draw_states(4, width)
    assert use_triton(states[0]) == (width in (16, 32, 64))
    tiled = [state.clone().requires_grad_() for state in states]
    exact = [state.float().requires_grad_() for state in states]
    scaling = width**-0.5
    found = attend(tiled, packing, scaling)
    expected = attend(exact, packing, scaling)  # float32 attends padded
    found.backward(upstream)
    expected.backward(upstream.float())
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)
    for one, other in zip(tiled, exact, strict=True):
        torch.testing.assert_close(one.grad.float(), other.grad, atol=4e-2, rtol=4e-2)
