"""Masked segment modelling: the cross-entropy of masked tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches.batch import IGNORED
from navi.model.attention import is_for_triton

# Shape suffixes: M targets, V vocabulary.

TARGETS_AT_ONCE = 64
"""Targets whose logits are summed together: those of a vocabulary of 30,000 stay in a CPU's cache from step to step."""


class Predicted(NamedTuple):
    """What was predicted of the masked tokens."""

    loss: Tensor
    """Their summed cross-entropy, L_msm times their number."""
    hit: Tensor
    """(M,) whether the token itself was the likeliest."""


def predict_masked(logits_MV: Tensor, token_M: Tensor) -> Predicted:
    """Compare logits with the tokens that were masked; those that are IGNORED only fill a batch up.

    The caller divides the loss by the number of targets of the whole step, so that a step taken in parts has the same
    loss.
    """
    if is_for_triton(logits_MV):
        from navi.objectives.kernels import cross_entropy

        loss_M, _, best_M = cross_entropy(logits_MV, token_M)
        return Predicted(loss_M.sum(), best_M == token_M)
    if logits_MV.device.type == "cpu":
        loss, best_M = CrossEntropy.apply(logits_MV.float(), token_M)  # type: ignore[no-untyped-call]
        return Predicted(loss, best_M == token_M)
    loss = F.cross_entropy(logits_MV.float(), token_M, reduction="sum", ignore_index=IGNORED)
    return Predicted(loss, logits_MV.detach().argmax(dim=1) == token_M)


class CrossEntropy(torch.autograd.Function):
    """The summed cross-entropy of tokens, and the likeliest ones, on a CPU.

    Of what is as large as the logits it makes their gradient alone; torch's own also makes their logarithms, and the
    gradient of these.
    """

    @staticmethod
    def forward(ctx: Any, logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, to which targets that are IGNORED add nothing, and the likeliest token of each target."""
        parts = torch.split(logits_MV, TARGETS_AT_ONCE)
        log_sum_M = torch.cat([part.logsumexp(dim=1) for part in parts])
        best_M = torch.cat([part.argmax(dim=1) for part in parts])
        own_M = logits_MV.gather(1, token_M.clamp(min=0)[:, None]).squeeze(1)
        ctx.save_for_backward(logits_MV, token_M, log_sum_M)
        ctx.mark_non_differentiable(best_M)
        return torch.where(token_M == IGNORED, 0, log_sum_M - own_M).sum(), best_M

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the logits: the probabilities, less 1 for the token itself."""
        logits_MV, token_M, log_sum_M = ctx.saved_tensors
        found_MV = torch.empty_like(logits_MV)
        scale_M = torch.where(token_M == IGNORED, 0, gradient)
        whole = (found_MV, logits_MV, token_M, log_sum_M, scale_M)
        parts = [torch.split(each, TARGETS_AT_ONCE) for each in whole]
        for found, logits, token, log_sum, scale in zip(*parts, strict=True):
            torch.sub(logits, log_sum[:, None], out=found).exp_().mul_(scale[:, None])
            found.scatter_add_(1, token.clamp(min=0)[:, None], -scale[:, None])
        return found_MV, None
