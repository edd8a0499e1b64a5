"""Masked segment modelling: the cross-entropy of masked tokens."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from navi.batches.batch import IGNORED

# Shape suffixes: M targets, V vocabulary.


def predict_masked(logits_MV: Tensor, token_M: Tensor) -> Tensor:
    """Return the summed cross-entropy of the masked tokens, L_msm times their number.

    Targets with the token IGNORED only fill a batch up. The caller divides by the number of targets of the whole step,
    so that a step taken in parts has the same loss.
    """
    return F.cross_entropy(logits_MV.float(), token_M, reduction="sum", ignore_index=IGNORED)
