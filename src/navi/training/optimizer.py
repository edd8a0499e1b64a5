"""AdamW with a warm-up and a straight decline, both pure functions of the step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import AdamW

from navi.training.config import TrainingConfig

FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Devices for which torch has a fused AdamW, which can also skip an update without asking the host."""


def make_optimizer(model: nn.Module, config: TrainingConfig, is_new: Callable[[str], bool]) -> AdamW:
    """Return AdamW over the model's parameters: new ones, which start cold, at their own rate; only matrices decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        groups.setdefault((is_new(name), parameter.ndim > 1), []).append(parameter)
    device = next(model.parameters()).device.type
    return AdamW(
        [
            {
                "params": members,
                "weight_decay": config.weight_decay if decays else 0.0,
                "highest_rate": config.new_learning_rate if new else config.learning_rate,
            }
            for (new, decays), members in groups.items()
        ],
        lr=config.learning_rate,
        fused=device in FUSED_DEVICES,
    )


def scale_rate(step: int, num_steps: int, warmup_share: float) -> float:
    """Return what the highest learning rate is multiplied by at a step, counted from 0; 0 when the steps are done.

    >>> [scale_rate(step, 6, 0.3) for step in (0, 1, 2, 5, 6)]
    [0.5, 1.0, 1.0, 0.25, 0.0]
    """
    warmup = round(num_steps * warmup_share)
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (num_steps - step) / max(1, num_steps - warmup))


def set_rate(optimizer: AdamW, scale: float) -> None:
    """Give each group of parameters its highest rate times `scale`."""
    for group in optimizer.param_groups:
        group["lr"] = group["highest_rate"] * scale


def take_step(optimizer: AdamW, finite: torch.Tensor) -> None:
    """Update the parameters, or leave them and the optimiser as they were where `finite` is false.

    The fused kernels read `found_inf` on the device, as they do for gradient scalers, so a GPU need not wait for the
    host; elsewhere the host looks.
    """
    if all(group["fused"] for group in optimizer.param_groups):
        optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        optimizer.step()
    elif bool(finite):
        optimizer.step()
