"""A copy of the model in half precision that computes for it: weights go in, gradients come out."""

from __future__ import annotations

from copy import deepcopy

import torch

from navi.model import NaviModel


class HalfCopy:
    """Computes in half precision throughout, while the model itself keeps its weights and gradients in float32.

    Autocast instead casts at every linear layer and normalises in float32, which on a GPU costs as much time as a third
    of the matrix products.
    """

    def __init__(self, model: NaviModel, dtype: torch.dtype) -> None:
        self.model: NaviModel = deepcopy(model).to(dtype)
        self._whole = list(model.parameters())
        self._half = list(self.model.parameters())

    def pull(self) -> None:
        """Take over the model's weights, and forget the gradients of last time."""
        with torch.no_grad():
            torch._foreach_copy_([half.data for half in self._half], [whole.data for whole in self._whole])
        for half in self._half:
            half.grad = None

    def push(self) -> None:
        """Add the gradients to the model's; what had no part in the loss stays without one."""
        used = [
            (whole, half.grad) for whole, half in zip(self._whole, self._half, strict=True) if half.grad is not None
        ]
        for whole, _ in used:
            if whole.grad is None:
                whole.grad = torch.zeros_like(whole)
        torch._foreach_add_([whole.grad for whole, _ in used], [gradient.float() for _, gradient in used])
