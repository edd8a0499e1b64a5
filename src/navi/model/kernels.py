"""Triton kernels for half precision on a GPU: attention over packed sequences, and the cross-entropy of tokens.

The lengths of tables' segments are a handful of tokens; attention made for long sequences spends most of its work on
padding there. Here a tile of queries runs over exactly the keys between the beginning of its first token's sequence
and the end of its last token's, so that short sequences share tiles; one kernel a pass serves all heads.

A vocabulary of 30,000 makes logits the largest thing in a step. Written in float32 for the loss, as its logarithm and
as its gradient, they would be moved a dozen times; here they are read in half precision as they are.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Shape suffixes: T tokens (packed), H heads, E width of a head, M targets, V vocabulary.

TILE, BLOCK = 64, 4096
LOG2_E = tl.constexpr(1.4426950408889634)


@torch.library.custom_op("navi::packed_attention", mutates_args=())
def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, first: Tensor, end: Tensor, num_wide: int, scaling: float
) -> tuple[Tensor, Tensor]:
    """Return (T, H, E) mixed values and (H, T) log-sums; a head sees [first, end) of the token, by its group.

    `first` and `end` are (2, T) int32: one line for the first `num_wide` heads, one for the others. In both, the first
    token of each sequence of the first line, its leader, sees that sequence. On the second line a leader must be a
    sequence of its own, or gradients of keys and values count it twice; what fills a batch up has none to count.
    """
    num_tokens, num_heads, width = query.shape
    mixed = torch.empty((num_tokens, num_heads, width), dtype=query.dtype, device=query.device)
    log_sum = torch.empty((num_heads, num_tokens), dtype=torch.float32, device=query.device)
    _forward[(triton.cdiv(num_tokens, TILE), num_heads)](
        query, key, value, mixed, log_sum, first, end, num_tokens, num_wide, scaling * LOG2_E.value,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        mixed.stride(0), mixed.stride(1), width, TILE, TILE,
    )  # fmt: skip
    return mixed, log_sum


@torch.library.custom_op("navi::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, mixed: Tensor, log_sum: Tensor,
    first: Tensor, end: Tensor, num_wide: int, scaling: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value, each (T, H, E)."""
    num_tokens, num_heads, width = query.shape
    gradient = gradient.contiguous()
    d_query, d_key, d_value = (torch.empty_like(mixed) for _ in range(3))
    delta = torch.empty_like(log_sum)
    grid = (triton.cdiv(num_tokens, TILE), num_heads)
    strides = (query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1))
    _backward_query[grid](
        query, key, value, mixed, gradient, log_sum, delta, d_query, first, end, num_tokens, num_wide, scaling,
        *strides, mixed.stride(0), mixed.stride(1), width, TILE, TILE,
    )  # fmt: skip
    _backward_key_value[grid](
        query, key, value, gradient, log_sum, delta, d_key, d_value, first, end, num_tokens, num_wide, scaling,
        *strides, mixed.stride(0), mixed.stride(1), width, TILE, TILE,
    )  # fmt: skip
    return d_query, d_key, d_value


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, first, end, ctx.num_wide, ctx.scaling = inputs
    ctx.save_for_backward(query, key, value, *output, first, end)


def _differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, mixed, log_sum, first, end = ctx.saved_tensors
    gradients = packed_attention_backward(
        gradient, query, key, value, mixed, log_sum, first, end, ctx.num_wide, ctx.scaling
    )
    return (*gradients, None, None, None, None)


packed_attention.register_autograd(_differentiate, setup_context=_save)


@triton.jit
def _forward(
    query, key, value, mixed, log_sum, first, end, num_tokens, num_wide, scale,
    q_t, q_h, k_t, k_h, v_t, v_h, o_t, o_h, WIDTH: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    group = (head >= num_wide).to(tl.int32) * num_tokens
    rows = tl.program_id(0) * BQ + tl.arange(0, BQ)
    inside = rows < num_tokens
    columns = tl.arange(0, WIDTH)
    low = tl.load(first + group + rows, mask=inside, other=num_tokens)
    high = tl.load(end + group + rows, mask=inside, other=0)
    q = tl.load(query + rows[:, None] * q_t + head * q_h + columns[None, :], mask=inside[:, None], other=0.0)
    highest = tl.full((BQ,), float("-inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    sums = tl.zeros((BQ, WIDTH), tl.float32)
    stop = tl.max(high)
    for begin in range(tl.min(low), stop, BK):
        seen = begin + tl.arange(0, BK)
        real = seen < stop
        k = tl.load(key + seen[:, None] * k_t + head * k_h + columns[None, :], mask=real[:, None], other=0.0)
        v = tl.load(value + seen[:, None] * v_t + head * v_h + columns[None, :], mask=real[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        allowed = (seen[None, :] >= low[:, None]) & (seen[None, :] < high[:, None])
        scores = tl.where(allowed, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - safe[:, None])
        shrink = tl.exp2(highest - safe)
        total = total * shrink + tl.sum(weights, 1)
        sums = sums * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
        highest = higher
    total = tl.where(total == 0.0, 1.0, total)
    sums = sums / total[:, None]
    places = mixed + rows[:, None] * o_t + head * o_h + columns[None, :]
    tl.store(places, sums.to(mixed.dtype.element_ty), mask=inside[:, None])
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    tl.store(log_sum + head * num_tokens + rows, highest + tl.log2(total), mask=inside)


@triton.jit
def _backward_query(
    query, key, value, mixed, gradient, log_sum, delta, d_query, first, end, num_tokens, num_wide, scale,
    q_t, q_h, k_t, k_h, v_t, v_h, o_t, o_h, WIDTH: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    group = (head >= num_wide).to(tl.int32) * num_tokens
    rows = tl.program_id(0) * BQ + tl.arange(0, BQ)
    inside = rows < num_tokens
    columns = tl.arange(0, WIDTH)
    low = tl.load(first + group + rows, mask=inside, other=num_tokens)
    high = tl.load(end + group + rows, mask=inside, other=0)
    places = rows[:, None] * o_t + head * o_h + columns[None, :]
    q = tl.load(query + rows[:, None] * q_t + head * q_h + columns[None, :], mask=inside[:, None], other=0.0)
    g = tl.load(gradient + places, mask=inside[:, None], other=0.0)
    o = tl.load(mixed + places, mask=inside[:, None], other=0.0)
    sums = tl.load(log_sum + head * num_tokens + rows, mask=inside, other=0.0)
    shift = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(delta + head * num_tokens + rows, shift, mask=inside)
    found = tl.zeros((BQ, WIDTH), tl.float32)
    stop = tl.max(high)
    for begin in range(tl.min(low), stop, BK):
        seen = begin + tl.arange(0, BK)
        real = seen < stop
        k = tl.load(key + seen[:, None] * k_t + head * k_h + columns[None, :], mask=real[:, None], other=0.0)
        v = tl.load(value + seen[:, None] * v_t + head * v_h + columns[None, :], mask=real[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
        allowed = (seen[None, :] >= low[:, None]) & (seen[None, :] < high[:, None])
        weights = tl.where(allowed, tl.exp2(scores - sums[:, None]), 0.0)
        d_scores = weights * (tl.dot(g, tl.trans(v)) - shift[:, None]) * scale
        found += tl.dot(d_scores.to(k.dtype), k)
    tl.store(d_query + places, found.to(d_query.dtype.element_ty), mask=inside[:, None])


@triton.jit
def _backward_key_value(
    query, key, value, gradient, log_sum, delta, d_key, d_value, first, end, num_tokens, num_wide, scale,
    q_t, q_h, k_t, k_h, v_t, v_h, o_t, o_h, WIDTH: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    group = (head >= num_wide).to(tl.int32) * num_tokens
    seen = tl.program_id(0) * BK + tl.arange(0, BK)
    inside = seen < num_tokens
    columns = tl.arange(0, WIDTH)
    # Sequences are the same for queries and keys, so a key is seen by the tokens of its own sequence. In local heads
    # the leader of its row sees it too, and a leader is seen by itself alone.
    low = tl.load(first + group + seen, mask=inside, other=num_tokens)
    high = tl.load(end + group + seen, mask=inside, other=0)
    leader = tl.load(first + seen, mask=inside, other=0)
    local = head >= num_wide
    high = tl.where(local & inside & (leader == seen), seen + 1, high)
    k = tl.load(key + seen[:, None] * k_t + head * k_h + columns[None, :], mask=inside[:, None], other=0.0)
    v = tl.load(value + seen[:, None] * v_t + head * v_h + columns[None, :], mask=inside[:, None], other=0.0)
    found_k = tl.zeros((BK, WIDTH), tl.float32)
    found_v = tl.zeros((BK, WIDTH), tl.float32)
    stop = tl.max(high)
    for begin in range(tl.min(low), stop, BQ):
        rows = begin + tl.arange(0, BQ)
        real = rows < stop
        q = tl.load(query + rows[:, None] * q_t + head * q_h + columns[None, :], mask=real[:, None], other=0.0)
        g = tl.load(gradient + rows[:, None] * o_t + head * o_h + columns[None, :], mask=real[:, None], other=0.0)
        sums = tl.load(log_sum + head * num_tokens + rows, mask=real, other=0.0)
        shift = tl.load(delta + head * num_tokens + rows, mask=real, other=0.0)
        scores = tl.dot(k, tl.trans(q)) * (scale * LOG2_E)
        allowed = (rows[None, :] >= low[:, None]) & (rows[None, :] < high[:, None])
        weights = tl.where(allowed, tl.exp2(scores - sums[None, :]), 0.0)
        found_v += tl.dot(weights.to(g.dtype), g)
        d_scores = weights * (tl.dot(v, tl.trans(g)) - shift[None, :]) * scale
        found_k += tl.dot(d_scores.to(q.dtype), q)
    if local:
        led = inside & (leader != seen)
        q = tl.load(query + leader[:, None] * q_t + head * q_h + columns[None, :], mask=led[:, None], other=0.0)
        g = tl.load(gradient + leader[:, None] * o_t + head * o_h + columns[None, :], mask=led[:, None], other=0.0)
        sums = tl.load(log_sum + head * num_tokens + leader, mask=led, other=0.0)
        shift = tl.load(delta + head * num_tokens + leader, mask=led, other=0.0)
        q, g = q.to(tl.float32), g.to(tl.float32)
        scores = tl.sum(k.to(tl.float32) * q, 1) * (scale * LOG2_E)
        weights = tl.where(led, tl.exp2(scores - sums), 0.0)
        found_v += weights[:, None] * g
        found_k += (weights * (tl.sum(v.to(tl.float32) * g, 1) - shift) * scale)[:, None] * q
    places = seen[:, None] * o_t + head * o_h + columns[None, :]
    tl.store(d_key + places, found_k.to(d_key.dtype.element_ty), mask=inside[:, None])
    tl.store(d_value + places, found_v.to(d_value.dtype.element_ty), mask=inside[:, None])


@torch.library.custom_op("navi::cross_entropy", mutates_args=())
def cross_entropy(logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each target (0 if its token is negative), its logits' log-sum, and its likeliest token."""
    num_targets = len(token_M)
    loss, log_sum = (torch.empty(num_targets, dtype=torch.float32, device=token_M.device) for _ in range(2))
    best = torch.empty_like(token_M)
    if num_targets:
        _forward_entropy[(num_targets,)](
            logits_MV, token_M, loss, log_sum, best, logits_MV.shape[1], logits_MV.stride(0), BLOCK
        )
    return loss, log_sum, best


@torch.library.custom_op("navi::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(gradient_M: Tensor, logits_MV: Tensor, token_M: Tensor, log_sum_M: Tensor) -> Tensor:
    """Return the gradient of the logits, in their precision: (M, V)."""
    found = torch.empty_like(logits_MV)
    if len(token_M):
        _backward_entropy[(len(token_M), triton.cdiv(logits_MV.shape[1], BLOCK))](
            gradient_M.contiguous(), logits_MV, token_M, log_sum_M, found,
            logits_MV.shape[1], logits_MV.stride(0), found.stride(0), BLOCK,
        )  # fmt: skip
    return found


def _save_entropy(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])
    ctx.mark_non_differentiable(*output[1:])


def _differentiate_entropy(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, None]:
    return cross_entropy_backward(gradient, *ctx.saved_tensors), None


cross_entropy.register_autograd(_differentiate_entropy, setup_context=_save_entropy)


@triton.jit
def _forward_entropy(logits, token, loss, log_sum, best, width, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(token + row)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    place = tl.zeros((BLOCK,), tl.int32)
    for begin in range(0, width, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        found = tl.load(logits + row * stride + columns, mask=columns < width, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, found)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(highest - safe) + tl.exp(found - safe)
        place = tl.where(found > highest, columns, place)
        highest = higher
    top = tl.max(highest, 0)
    sums = top + tl.log(tl.sum(total * tl.exp(highest - top), 0))
    tl.store(log_sum + row, sums)
    tl.store(best + row, tl.min(tl.where(highest == top, place, width), 0).to(tl.int64))
    own = tl.load(logits + row * stride + tl.maximum(wanted, 0)).to(tl.float32)
    tl.store(loss + row, tl.where(wanted >= 0, sums - own, 0.0))


@triton.jit
def _backward_entropy(gradient, logits, token, log_sum, found, width, stride, found_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(token + row)
    scale = tl.where(wanted >= 0, tl.load(gradient + row), 0.0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    logit = tl.load(logits + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    share = tl.exp(logit - tl.load(log_sum + row))
    change = (share - (columns == wanted).to(tl.float32)) * scale
    tl.store(found + row * found_stride + columns, change.to(found.dtype.element_ty), mask=inside)
