"""Attention over packed sequences, registered with transformers so that its BERT layers can use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

# Shape suffixes: T tokens (packed), H heads, E width of a head, N sequences, P padded length.

PACKED_ATTENTION = "navi_packed"


@dataclass(frozen=True)
class Boundaries:
    """Where each sequence begins on the token axis; no token sees beyond its own sequence."""

    starts: Tensor
    """(N + 1,) int32."""
    max_length: int
    """Tokens of the longest sequence."""

    @cached_property
    def shelves(self) -> list[tuple[Tensor, Tensor | None]]:
        """Sequences of like length padded together: (N, P) places on the token axis, and which of them are real.

        Lengths are rounded up to a power of two, so that at most half of a shelf is padding.
        """
        starts = self.starts[:-1].long()
        lengths = self.starts[1:].long() - starts
        shelf_N = torch.ceil(torch.log2(lengths.clamp(min=1).double())).long()
        found = []
        for shelf in torch.unique(shelf_N).tolist():
            chosen = shelf_N == shelf
            width = int(lengths[chosen].max())
            steps = torch.arange(width, device=starts.device)
            real = steps < lengths[chosen, None]
            places = starts[chosen, None] + torch.minimum(steps, lengths[chosen, None] - 1).clamp(min=0)
            found.append((places, None if bool(real.all()) else real))
        return found


@dataclass(frozen=True)
class Packing:
    """What each group of heads may see."""

    groups: tuple[tuple[int, Boundaries], ...]
    """(number of heads, their boundaries), over all heads in order."""


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend within the sequences of each head group; takes (1, H, T, E) tensors, gives (1, T, H, E)."""
    attend = choose_kernel(query)
    states = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]  # each (T, H, E)
    outputs, first = [], 0
    for num_heads, boundaries in packing.groups:
        part = [state[:, first : first + num_heads] for state in states]
        outputs.append(attend(part[0], part[1], part[2], boundaries, scaling))
        first += num_heads
    mixed = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
    return mixed.unsqueeze(0), None


def choose_kernel(query: Tensor) -> Callable[[Tensor, Tensor, Tensor, Boundaries, float], Tensor]:
    """Return the fastest kernel for these tensors: variable lengths on CUDA in half precision, else padded shelves."""
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return attend_varlen
    return attend_padded


def attend_varlen(query: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Attend over variable lengths by the flash kernel; (T, H, E) in and out."""
    from torch.nn.attention.varlen import varlen_attn

    mixed: Tensor = varlen_attn(
        query.contiguous(),
        key.contiguous(),
        value.contiguous(),
        boundaries.starts,
        boundaries.starts,
        boundaries.max_length,
        boundaries.max_length,
        scale=scaling,
    )
    return mixed


def attend_padded(query: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Attend shelf by shelf, each padded to its longest sequence; (T, H, E) in and out."""
    mixed = torch.zeros_like(query)
    width = query.shape[1:]
    for places_NP, real_NP in boundaries.shelves:
        flat = places_NP.reshape(-1)
        padded = [
            state.index_select(0, flat).view(*places_NP.shape, *width).transpose(1, 2) for state in (query, key, value)
        ]
        mask = None if real_NP is None else real_NP[:, None, None, :]
        out = F.scaled_dot_product_attention(*padded, attn_mask=mask, scale=scaling).transpose(1, 2).flatten(0, 1)
        if real_NP is not None:
            keep = real_NP.reshape(-1)
            flat, out = flat[keep], out[keep]
        mixed = mixed.index_copy(0, flat, out)
    return mixed


ALL_ATTENTION_FUNCTIONS.register(PACKED_ATTENTION, packed_attention)
