"""Attention over packed sequences, registered with transformers so that its BERT layers can use it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

# Shape suffixes: T tokens (packed), H heads, E width of a head, N sequences, P padded length.

PACKED_ATTENTION = "navi_packed"
TILED_WIDTHS = (16, 32, 64, 128)
"""Widths of a head that Triton's matrix products take; others attend padded."""
HAS_TRITON = importlib.util.find_spec("triton") is not None


@dataclass(frozen=True)
class Boundaries:
    """Where each sequence begins on the token axis; no token sees beyond its own sequence."""

    starts: Tensor
    """(N + 1,) first token of each, and the end."""
    num_tokens: int
    """Tokens of all sequences."""

    @cached_property
    def limits(self) -> tuple[Tensor, Tensor]:
        """(T,) int32 each: where the sequence of each token begins and ends."""
        first, end = self.starts[:-1], self.starts[1:]
        return (
            torch.repeat_interleave(first.int(), end - first, output_size=self.num_tokens),
            torch.repeat_interleave(end.int(), end - first, output_size=self.num_tokens),
        )

    @cached_property
    def shelves(self) -> list[tuple[Tensor, Tensor | None]]:
        """Sequences of like length padded together: (N, P) places on the token axis, and which of them are real.

        Lengths are rounded up to a power of two, so that at most half of a shelf is padding.
        """
        starts = self.starts[:-1]
        lengths = self.starts[1:] - starts
        shelf_N = torch.ceil(torch.log2(lengths.double())).long()
        found = []
        for shelf in torch.unique(shelf_N[lengths > 0]).tolist():
            chosen = shelf_N == shelf
            width = int(lengths[chosen].max())
            steps = torch.arange(width, device=starts.device)
            real = steps < lengths[chosen, None]
            places = starts[chosen, None] + torch.minimum(steps, lengths[chosen, None] - 1).clamp(min=0)
            found.append((places, None if bool(real.all()) else real))
        return found

    @cached_property
    def order(self) -> Tensor:
        """(T,) where each token stands when the shelves are laid end to end, padding and all."""
        place = torch.zeros(self.num_tokens, dtype=torch.int64, device=self.starts.device)
        before = 0
        for places_NP, real_NP in self.shelves:
            flat = torch.arange(before, before + places_NP.numel(), device=place.device)
            keep = slice(None) if real_NP is None else real_NP.reshape(-1)
            place[places_NP.reshape(-1)[keep]] = flat[keep]
            before += places_NP.numel()
        return place


@dataclass(frozen=True)
class Packing:
    """What each head may see: the first `num_wide` heads their row, the others their own segment."""

    num_wide: int
    """Heads that see the whole row."""
    wide: Boundaries
    """Where each row begins."""
    local: Boundaries | None = None
    """Where each segment begins; None when all heads see the row."""

    @cached_property
    def limits(self) -> tuple[Tensor, Tensor]:
        """(2, T) int32 each: the first token that a token sees, and the end; for wide heads, then for local ones."""
        groups = [self.wide.limits, (self.local or self.wide).limits]
        return torch.stack([first for first, _ in groups]), torch.stack([end for _, end in groups])


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
    query, key, value = (tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value))
    if use_triton(query):
        from navi.model.kernels import packed_attention as attend_tiles

        mixed: Tensor = attend_tiles(query, key, value, *packing.limits, packing.num_wide, scaling)[0]
        return mixed.unsqueeze(0), None
    if packing.local is None:
        return attend_padded(query, key, value, packing.wide, scaling).unsqueeze(0), None
    heads = [slice(0, packing.num_wide), slice(packing.num_wide, None)]
    parts = [
        attend_padded(query[:, some], key[:, some], value[:, some], boundaries, scaling)
        for some, boundaries in zip(heads, (packing.wide, packing.local), strict=True)
    ]
    return torch.cat(parts, dim=1).unsqueeze(0), None


def use_triton(query: Tensor) -> bool:
    """Tell whether the tiled kernel serves: half precision on CUDA, heads of a width it tiles, with Triton there."""
    half = query.dtype in (torch.bfloat16, torch.float16)
    return query.is_cuda and half and query.shape[-1] in TILED_WIDTHS and HAS_TRITON


def attend_padded(query: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Attend shelf by shelf, each padded to its longest sequence; (T, H, E) in and out."""
    width = query.shape[1:]
    mixed = []
    for places_NP, real_NP in boundaries.shelves:
        flat = places_NP.reshape(-1)
        query_P, key_P, value_P = (
            state.index_select(0, flat).view(*places_NP.shape, *width).transpose(1, 2) for state in (query, key, value)
        )
        mask = None if real_NP is None else real_NP[:, None, None, :]
        out = F.scaled_dot_product_attention(query_P, key_P, value_P, attn_mask=mask, scale=scaling)
        mixed.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, boundaries.order) if mixed else query


ALL_ATTENTION_FUNCTIONS.register(PACKED_ATTENTION, packed_attention)
