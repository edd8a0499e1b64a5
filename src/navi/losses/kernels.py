"""The cross-entropy of tokens as one Triton kernel a pass, which reads logits in half precision as they are.

A vocabulary of 30,000 makes logits the largest thing in a step. Written in float32 for the loss, as its logarithm and
as its gradient, they would be moved a dozen times.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Shape suffixes: M targets, V vocabulary.

BLOCK = 4096


@torch.library.custom_op("navi::cross_entropy", mutates_args=())
def cross_entropy(logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of each target (0 if its token is negative), its logits' log-sum, and its likeliest token."""
    num_targets = len(token_M)
    loss, log_sum = (torch.empty(num_targets, dtype=torch.float32, device=token_M.device) for _ in range(2))
    best = torch.empty_like(token_M)
    if num_targets:
        _forward[(num_targets,)](
            logits_MV, token_M, loss, log_sum, best, logits_MV.shape[1], logits_MV.stride(0), BLOCK
        )
    return loss, log_sum, best


@torch.library.custom_op("navi::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(gradient_M: Tensor, logits_MV: Tensor, token_M: Tensor, log_sum_M: Tensor) -> Tensor:
    """Return the gradient of the logits, in their precision: (M, V)."""
    found = torch.empty_like(logits_MV)
    if len(token_M):
        _backward[(len(token_M), triton.cdiv(logits_MV.shape[1], BLOCK))](
            gradient_M.contiguous(), logits_MV, token_M, log_sum_M, found,
            logits_MV.shape[1], logits_MV.stride(0), found.stride(0), BLOCK,
        )  # fmt: skip
    return found


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])
    ctx.mark_non_differentiable(*output[1:])


def _differentiate(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, None]:
    return cross_entropy_backward(gradient, *ctx.saved_tensors), None


cross_entropy.register_autograd(_differentiate, setup_context=_save)


@triton.jit
def _forward(logits, token, loss, log_sum, best, width, stride, BLOCK: tl.constexpr):
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
def _backward(gradient, logits, token, log_sum, found, width, stride, found_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(token + row)
    scale = tl.where(wanted >= 0, tl.load(gradient + row), 0.0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    logit = tl.load(logits + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    share = tl.exp(logit - tl.load(log_sum + row))
    change = (share - (columns == wanted).to(tl.float32)) * scale
    tl.store(found + row * found_stride + columns, change.to(found.dtype.element_ty), mask=inside)
