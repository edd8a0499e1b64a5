"""Dropout that is quick on a CPU, where torch draws each number of a mask alone, one after another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NUM_DRAWS = 1 << 16
"""What two bytes can be: a share is rounded to a multiple of one in so many."""


class Dropout(nn.Dropout):
    """Dropout as torch's; on a CPU four numbers of its mask are drawn at a time, from torch's own generator."""

    def forward(self, states: Tensor) -> Tensor:
        """Return states of which a share is zero and the others are scaled up."""
        num_dropped = round(self.p * NUM_DRAWS)
        if not self.training or states.device.type != "cpu" or num_dropped in (0, NUM_DRAWS):
            return super().forward(states)
        draws = torch.empty(-(-states.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        kept = draws.view(torch.int16)[: states.numel()].view(states.shape) >= num_dropped - NUM_DRAWS // 2
        return states * kept.to(states.dtype).mul_(NUM_DRAWS / (NUM_DRAWS - num_dropped))


def replace_dropout(model: nn.Module) -> None:
    """Put the quick kind in the place of each of torch's own in a model."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p))
