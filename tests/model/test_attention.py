"""Tests of attention over packed sequences, against one sequence at a time."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import BertSelfAttention

from navi.model.attention import (
    LINE,
    PACKED_ATTENTION,
    Boundaries,
    JoinedSelfAttention,
    Packing,
    attend_padded,
    join_attention,
    line_up,
    packed_attention,
    use_triton,
)

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=9)


def bound(lengths):
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    return Boundaries(starts, sum(lengths))


def draw_states(num_tokens, num_heads=2, width=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(num_tokens, num_heads, width, generator=generator) for _ in range(3)]


def attend_slowly(query, key, value, lengths, scaling):
    """Attend sequence by sequence and head by head."""
    mixed, first = torch.empty_like(query), 0
    for length in lengths:
        within = slice(first, first + length)
        for head in range(query.shape[1]):
            scores = query[within, head] @ key[within, head].T * scaling
            mixed[within, head] = scores.softmax(dim=1) @ value[within, head]
        first += length
    return mixed


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_padded_shelves_attend_as_each_sequence_alone(lengths, seed):
    states = draw_states(sum(lengths), seed=seed)
    expected = attend_slowly(*states, lengths, 0.5)
    torch.testing.assert_close(attend_padded(*states, bound(lengths), 0.5), expected, atol=1e-6, rtol=1e-5)


def test_gradients_flow_through_the_shelves_as_through_each_sequence():
    lengths = [3, 1, 40, 7, 5, 33, 8, 17]
    grads = []
    for attend in (lambda *s: attend_padded(*s, bound(lengths), 0.5), lambda *s: attend_slowly(*s, lengths, 0.5)):
        states = [state.requires_grad_() for state in draw_states(sum(lengths))]
        (attend(*states) * torch.arange(sum(lengths))[:, None, None]).sum().backward()
        grads.append([state.grad for state in states])
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@given(LENGTHS)
def test_shelves_hold_each_token_once_and_are_at_least_half_full_but_for_the_last_line(lengths):
    seen = []
    for shelf in bound(lengths).shelves:
        assert 2 * int(shelf.real.sum()) >= shelf.real.numel() - LINE
        seen += shelf.places[shelf.real].tolist()
    assert sorted(seen) == list(range(sum(lengths)))


def test_short_sequences_share_lines_in_their_order():
    shelf = line_up(torch.tensor([0, 40, 50]), torch.tensor([16, 10, 8]))
    assert shelf.real.sum(dim=1).tolist() == [26, 8]
    assert shelf.places[0, :26].tolist() == [*range(16), *range(40, 50)]
    assert shelf.places[1, :8].tolist() == list(range(50, 58))
    assert (shelf.bias[0, 0, 0] == 0).tolist() == [True] * 16 + [False] * 16


@given(LENGTHS)
def test_limits_are_the_beginning_and_end_of_each_tokens_sequence(lengths):
    first, end = bound(lengths).limits
    place = 0
    for length in lengths:
        assert first[place : place + length].tolist() == [place] * length
        assert end[place : place + length].tolist() == [place + length] * length
        place += length
    assert len(first) == len(end) == place


def pack(segments, num_wide):
    """Return the packing of rows given as lists of segment lengths."""
    return Packing(
        num_wide, bound([sum(row) for row in segments]), bound([length for row in segments for length in row])
    )


def attend_packed(states, packing, scaling=0.5):
    arguments = [state.transpose(0, 1).unsqueeze(0) for state in states]
    mixed, weights = packed_attention(torch.nn.Module(), *arguments, None, packing=packing, scaling=scaling)
    assert weights is None
    return mixed[0]


@settings(max_examples=25, deadline=None)
@given(segments=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4))
def test_wide_heads_attend_within_the_row_and_local_ones_within_the_segment_but_for_the_first_token(segments):
    segments = [[1, *row] for row in segments]
    wide, local = [sum(row) for row in segments], [length for row in segments for length in row]
    states = draw_states(sum(wide), num_heads=3)
    expected = [
        attend_slowly(*(state[:, :2] for state in states), wide, 0.5),
        attend_slowly(*(state[:, 2:] for state in states), local, 0.5),
    ]
    starts = torch.tensor([0, *wide[:-1]]).cumsum(0)
    expected[1][starts] = attend_slowly(*(state[:, 2:] for state in states), wide, 0.5)[starts]
    found = attend_packed(states, pack(segments, num_wide=2))
    torch.testing.assert_close(found, torch.cat(expected, dim=1), atol=1e-6, rtol=1e-5)


def test_without_local_heads_every_head_attends_within_the_row():
    lengths = [4, 9, 1]
    states = draw_states(sum(lengths), num_heads=3)
    found = attend_packed(states, Packing(3, bound(lengths)))
    torch.testing.assert_close(found, attend_slowly(*states, lengths, 0.5), atol=1e-6, rtol=1e-5)


def test_the_limits_of_a_packing_are_those_of_wide_then_of_local_heads():
    packing = pack([[1, 2], [1, 1, 1]], num_wide=1)
    assert packing.limits[0].tolist() == [[0, 0, 0, 3, 3, 3], [0, 1, 1, 3, 4, 5]]
    assert packing.limits[1].tolist() == [[3, 3, 3, 6, 6, 6], [3, 3, 3, 6, 5, 6]]
    alone = Packing(2, packing.wide)
    assert alone.limits[0].tolist() == [[0, 0, 0, 3, 3, 3]] * 2


def test_one_product_for_queries_keys_and_values_gives_what_three_do():
    config = BertConfig(hidden_size=12, num_attention_heads=3, attn_implementation=PACKED_ATTENTION)
    apart = BertSelfAttention(config).eval()
    joined = torch.nn.ModuleList([deepcopy(apart)])
    join_attention(joined)
    assert type(joined[0]) is JoinedSelfAttention
    packing, found = pack([[1, 4, 20], [1, 3]], num_wide=2), []
    for module in (apart, joined[0]):
        hidden = torch.randn(1, 29, 12, generator=torch.Generator().manual_seed(0)).requires_grad_()
        mixed = module(hidden, packing=packing)[0].reshape(29, 12)
        (mixed * torch.arange(12)).sum().backward()
        found.append([mixed, hidden.grad, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)


def test_transformers_knows_the_packed_attention():
    assert ALL_ATTENTION_FUNCTIONS[PACKED_ATTENTION] is packed_attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_cpu_no_precision_takes_the_tiled_kernel(dtype):
    assert not use_triton(torch.zeros(1, 1, 64, dtype=dtype))
