"""Masked segment modelling: the cross-entropy of masked tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import IGNORED
from navi.model.attention import is_for_triton

# Shape suffixes: M targets, V vocabulary.

TARGETS_AT_ONCE = 64
"""Targets whose logits are summed together: those of a vocabulary of 30,000 stay in a CPU's cache from step to step."""


def masked_segment_loss(logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor]:
    """Return |M| L_msm = −Σ_m log softmax(z_m)[m], and (M,) which targets m are the likeliest tokens.

    Targets that are IGNORED add nothing. The caller divides the loss by the number of targets of the whole step, so
    that a step taken in parts has the same loss. The gradient is softmax(z_m), less 1 at the token itself.
    """
    if is_for_triton(logits_MV):
        from navi.model.kernels import cross_entropy

        loss_M, _, best_M = cross_entropy(logits_MV, token_M)
        return loss_M.sum(), best_M == token_M
    if logits_MV.device.type == "cpu":
        loss, hit_M = CrossEntropy.apply(logits_MV.float(), token_M)  # type: ignore[no-untyped-call]
        return loss, hit_M
    loss = F.cross_entropy(logits_MV.float(), token_M, reduction="sum", ignore_index=IGNORED)
    return loss, logits_MV.detach().argmax(dim=1) == token_M


class CrossEntropy(torch.autograd.Function):
    """The summed cross-entropy of tokens on a CPU, and which of them were the likeliest.

    It makes one array of the size of the logits, which becomes their gradient; torch's own makes three.
    """

    @staticmethod
    def forward(ctx: Any, logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, to which targets that are IGNORED add nothing, and where no token was likelier."""
        share_MV = torch.empty_like(logits_MV)
        highest_M, sum_M = logits_MV.new_empty(2, len(logits_MV))
        parts = [torch.split(each, TARGETS_AT_ONCE) for each in (logits_MV, share_MV, highest_M, sum_M)]
        for logits, share, highest, total in zip(*parts, strict=True):
            torch.amax(logits, dim=1, out=highest)
            torch.sub(logits, highest[:, None], out=share).exp_()
            torch.sum(share, dim=1, out=total)
        own_M = logits_MV.gather(1, token_M.clamp(min=0)[:, None]).squeeze(1)
        is_counted = token_M != IGNORED
        hit_M = is_counted & (own_M == highest_M)
        ctx.save_for_backward(share_MV, token_M, sum_M)
        ctx.mark_non_differentiable(hit_M)
        return torch.where(is_counted, sum_M.log() + highest_M - own_M, 0).sum(), hit_M

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the logits: the probabilities, less 1 for the token itself."""
        share_MV, token_M, sum_M = ctx.saved_tensors
        scale_M = torch.where(token_M == IGNORED, 0, gradient)
        share_MV.mul_((scale_M / sum_M)[:, None])  # torch refuses a second backward pass
        share_MV.scatter_add_(1, token_M.clamp(min=0)[:, None], -scale_M[:, None])
        return share_MV, None
