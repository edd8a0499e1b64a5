"""Masked segment modelling: the cross-entropy of masked tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from navi.batches.batch import IGNORED
from navi.model.attention import is_for_triton

# Shape suffixes: M targets, V vocabulary.


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
    loss = F.cross_entropy(logits_MV.float(), token_M, reduction="sum", ignore_index=IGNORED)
    return Predicted(loss, logits_MV.detach().argmax(dim=1) == token_M)
