"""Attention over packed sequences, against one sequence at a time; the tiled kernel, on a CUDA device."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.model.attention import LENGTH_STEP, Packing, attend, use_triton

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=9)
ROWS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4)
TILED_ROWS = [[1, 3, 7, 12], [1], [1, 70, 5, 5, 61], [1] + [4] * 40, [1, 129], [1, 2, 3]]


def add_up(lengths, device="cpu"):
    return torch.tensor([0, *lengths], device=device).cumsum(0)


def pack(rows, num_local=0, device="cpu"):
    """Return the packing of rows given as lists of segment lengths, each of which begins with a token of its own."""
    local_starts = add_up([length for row in rows for length in row], device)
    return Packing(add_up(map(sum, rows), device), sum(map(sum, rows)), local_starts, num_local)


def draw_states(num_tokens, num_heads=2, width=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(num_tokens, num_heads, width, generator=generator) for _ in range(3)]


def attend_slowly(query, key, value, lengths, scaling=0.5):
    """Attend sequence by sequence and head by head."""
    mixed, first = torch.empty_like(query), 0
    for length in lengths:
        within = slice(first, first + length)
        for head in range(query.shape[1]):
            scores = query[within, head] @ key[within, head].T * scaling
            mixed[within, head] = scores.softmax(dim=1) @ value[within, head]
        first += length
    return mixed


@settings(max_examples=40)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_packed_sequences_attend_as_each_alone(lengths, seed):
    states = draw_states(sum(lengths), seed=seed)
    found = attend(*states, Packing(add_up(lengths), sum(lengths)), 0.5)
    torch.testing.assert_close(found, attend_slowly(*states, lengths), atol=1e-6, rtol=1e-5)


@settings(max_examples=25)
@given(rows=ROWS)
def test_wide_heads_attend_within_the_row_and_local_ones_within_the_segment_but_for_the_first_token(rows):
    rows = [[1, *row] for row in rows]
    wide, local = [sum(row) for row in rows], [length for row in rows for length in row]
    states = draw_states(sum(wide), num_heads=3)
    expected = attend_slowly(*states, wide)
    narrow = attend_slowly(*states, local)
    narrow[torch.tensor([0, *wide[:-1]]).cumsum(0)] = expected[torch.tensor([0, *wide[:-1]]).cumsum(0)]
    expected[:, 2:] = narrow[:, 2:]
    torch.testing.assert_close(attend(*states, pack(rows, num_local=1), 0.5), expected, atol=1e-6, rtol=1e-5)


def test_gradients_flow_through_the_buckets_as_through_each_sequence():
    lengths = [3, 1, 40, 7, 5, 33, 8, 17]
    gradients = []
    packing = Packing(add_up(lengths), sum(lengths))
    for run in (lambda *s: attend(*s, packing, 0.5), lambda *s: attend_slowly(*s, lengths)):
        states = [state.requires_grad_() for state in draw_states(sum(lengths))]
        (run(*states) * torch.arange(sum(lengths))[:, None, None]).sum().backward()
        gradients.append([state.grad for state in states])
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


def test_half_precision_on_a_cpu_attends_and_differentiates_nearly_as_float32():
    lengths = [3, 1, 40, 7, 5, 33, 8, 17]
    packing, found = Packing(add_up(lengths), sum(lengths)), []
    for run, dtype in ((lambda *s: attend(*s, packing, 0.5), torch.bfloat16), (None, torch.float32)):
        states = [state.to(dtype).requires_grad_() for state in draw_states(sum(lengths))]
        mixed = run(*states) if run else attend_slowly(*states, lengths)
        mixed.float().square().sum().backward()
        found.append([mixed.detach(), *(state.grad for state in states)])
    for half, full in zip(*found, strict=True):
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), full, atol=0.02 * float(full.abs().max()), rtol=0.02)


def test_rows_without_tokens_change_nothing():
    states, rows = draw_states(9), pack([[1, 3], [1, 4]], num_local=1)
    starts, local = torch.tensor([0, 0, 4, 4, 9, 9]), torch.tensor([0, 0, 1, 4, 4, 5, 9, 9])
    found = attend(*states, Packing(starts, 9, local, 1), 0.5)
    torch.testing.assert_close(found, attend(*states, rows, 0.5))


@given(LENGTHS)
def test_buckets_hold_each_token_once_and_pad_no_sequence_by_a_whole_step(lengths):
    seen = []
    for places, segment in Packing(add_up(lengths), sum(lengths)).buckets:
        assert int((segment < 0).sum(dim=1).max()) < LENGTH_STEP
        seen += places[segment >= 0].tolist()
    assert sorted(seen) == list(range(sum(lengths)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("width", [8, 16, 26, 32, 64])
@pytest.mark.parametrize("num_local", [0, 2, 3])
def test_the_tiled_kernel_attends_and_differentiates_as_padded_attention_does(width, num_local):
    packing = pack(TILED_ROWS, num_local, "cuda")
    states = [state.cuda().bfloat16() for state in draw_states(sum(map(sum, TILED_ROWS)), 4, width)]
    assert use_triton(states[0]) == (width in (16, 32, 64))
    tiled = [state.clone().requires_grad_() for state in states]
    exact = [state.float().requires_grad_() for state in states]  # float32 attends padded
    found, expected = (attend(*each, packing, width**-0.5) for each in (tiled, exact))
    found.backward(states[0])
    expected.backward(states[0].float())
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)
    for one, other in zip(tiled, exact, strict=True):
        torch.testing.assert_close(one.grad.float(), other.grad, atol=4e-2, rtol=4e-2)
