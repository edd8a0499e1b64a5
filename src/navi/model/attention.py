"""Attention over packed sequences: tiles of a Triton kernel on a GPU, padded buckets elsewhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertSelfAttention

# Shape suffixes: T tokens (packed), H heads, E width of a head, D hidden size, N sequences, L padded length.

TILED_WIDTHS = (16, 32, 64, 128)
"""Widths of a head that Triton's matrix products take; others attend padded."""
LENGTH_STEP = 16
"""What sequences are padded to a multiple of: there a CPU's vectors leave no rest."""
HAS_TRITON = importlib.util.find_spec("triton") is not None


class PaddedBucket(NamedTuple):
    """Sequences of like length padded to one length L, to be attended together."""

    places: Tensor
    """(N, L) where each place's token stands on the token axis; any token where there is none."""
    segment: Tensor
    """(N, L) where the segment of each token begins in its sequence: 0 for the first; -1 where there is no token."""


@dataclass(frozen=True)
class Packing:
    """What each token may see: its own sequence and, in the last `num_local` heads, its own segment of it.

    The first token of a sequence, its [CLS], sees all of it in every head: it has no segment, and stands for all.
    """

    starts: Tensor
    """(N + 1,) first token of each sequence, and the end."""
    num_tokens: int
    """Tokens of all sequences."""
    local_starts: Tensor | None = None
    """First token of each segment, the first token of a sequence being one of its own, and the end."""
    num_local: int = 0
    """Heads that see their segment alone."""

    @cached_property
    def limits(self) -> tuple[Tensor, Tensor]:
        """(2, T) int32 each: the first token that a token sees, and the end; for wide heads, then for local ones."""
        first, end = self._spread(self.starts)
        if self.local_starts is None or not self.num_local:
            return torch.stack([first, first]), torch.stack([end, end])
        local_first, local_end = self._spread(self.local_starts)
        leads = first == torch.arange(len(first), device=first.device)
        return torch.stack([first, local_first]), torch.stack([end, torch.where(leads, end, local_end)])

    def _spread(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the sequence of each token begins and ends: (T,) int32 each."""
        first, end = (
            torch.repeat_interleave(each.int(), starts.diff(), output_size=self.num_tokens)
            for each in (starts[:-1], starts[1:])
        )
        return first, end

    @cached_property
    def buckets(self) -> list[PaddedBucket]:
        """All sequences, in buckets of like length; those without tokens are in none."""
        first_N, length_N = self.starts[:-1], self.starts.diff()
        first_T, segment_T = self.limits[0]
        padded_N = -(-length_N // LENGTH_STEP) * LENGTH_STEP
        buckets = []
        for padded in torch.unique(padded_N[length_N > 0]).tolist():
            chosen = padded_N == padded
            step_L, length_N1 = torch.arange(padded, device=first_N.device), length_N[chosen, None]
            places = first_N[chosen, None] + torch.minimum(step_L, length_N1 - 1)
            buckets.append(PaddedBucket(places, torch.where(step_L < length_N1, (segment_T - first_T)[places], -1)))
        return buckets

    @cached_property
    def biases(self) -> list[list[Tensor | None]]:
        """What is added to the scores of each bucket, -inf where a place may not see another.

        For wide heads it is (N, 1, 1, L), None where all may see all; for local heads, if there are any, (N, 1, L, L).
        """
        found = []
        for _, segment in self.buckets:
            asking, asked = segment[:, None, :, None], segment[:, None, None, :]
            biases = [None if bool((segment >= 0).all()) else hide(asked < 0)]
            if self.num_local:  # padding sees padding, so that its softmax is defined
                biases.append(hide((asked != asking) & ((asking != 0) | (asked < 0))))
            found.append(biases)
        return found

    @cached_property
    def places(self) -> Tensor:
        """Where the tokens of the buckets, laid end to end, stand on the token axis."""
        return torch.cat([bucket.places.reshape(-1) for bucket in self.buckets])

    @cached_property
    def order(self) -> Tensor:
        """(T,) where each token stands when the buckets are laid end to end, padding and all."""
        real = torch.cat([bucket.segment.reshape(-1) >= 0 for bucket in self.buckets])
        order = torch.zeros(self.num_tokens, dtype=torch.int64, device=self.starts.device)
        order[self.places[real]] = real.nonzero().squeeze(1)
        return order


def hide(hidden: Tensor) -> Tensor:
    """Return what hides some places from others when it is added to the scores."""
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))


class PackedSelfAttention(nn.Module):
    """BERT's attention over packed sequences, with queries, keys and values made by one product instead of three."""

    def __init__(self, attention: BertSelfAttention) -> None:
        super().__init__()
        self.query, self.key, self.value = attention.query, attention.key, attention.value
        self.num_heads: int = attention.num_attention_heads
        self.scaling: float = attention.scaling

    def forward(self, hidden_states: Tensor, *_: Any, packing: Packing, **__: Any) -> tuple[Tensor, None]:
        """Return what each token takes from those that it sees, (1, T, D), and no weights."""
        maps = (self.query, self.key, self.value)
        weight, bias = (torch.cat([getattr(each, name) for each in maps]) for name in ("weight", "bias"))
        joined = F.linear(hidden_states.squeeze(0), weight, bias)
        query, key, value = joined.view(len(joined), 3, self.num_heads, -1).unbind(1)
        return attend(query, key, value, packing, self.scaling).flatten(1).unsqueeze(0), None


def pack_attention(model: nn.Module) -> None:
    """Have all BERT layers of a model attend over packed sequences; their parameters keep their names and places."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is BertSelfAttention:
                setattr(module, name, PackedSelfAttention(child))


def attend(query: Tensor, key: Tensor, value: Tensor, packing: Packing, scaling: float) -> Tensor:
    """Attend within what each head may see; (T, H, E) in and out."""
    num_wide = query.shape[1] - packing.num_local
    if use_triton(query):
        from navi.model.kernels import packed_attention

        tiled: Tensor = packed_attention(query, key, value, *packing.limits, num_wide, scaling)[0]
        return tiled
    if not packing.buckets:
        return query
    sizes = [bucket.places.numel() for bucket in packing.buckets]
    lay_out: Callable[[Tensor, Packing], Tensor] = _LayOut.apply
    laid = [torch.split(lay_out(state, packing), sizes) for state in (query, key, value)]
    mixed = []
    for (places_NL, _), biases, *states in zip(packing.buckets, packing.biases, *laid, strict=True):
        query_L, key_L, value_L = (state.view(*places_NL.shape, *query.shape[1:]).transpose(1, 2) for state in states)
        groups = [
            _attend_padded(query_L[:, heads], key_L[:, heads], value_L[:, heads], bias, scaling)
            for heads, bias in zip((slice(num_wide), slice(num_wide, None)), biases, strict=False)
        ]
        mixed.append(torch.cat(groups, dim=1).transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, packing.order)


def _attend_padded(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scaling: float) -> Tensor:
    """Attend over all places of a bucket; (N, H, L, E) in and out."""
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:
        # Going back through torch's own attention takes half of a step there; this takes an eighth.
        scores = torch.matmul(query, key.transpose(-1, -2)).float() * scaling
        weights = torch.softmax(scores if bias is None else scores + bias, dim=-1)
        return torch.matmul(weights.to(value.dtype), value)
    mask = None if bias is None else bias.to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)


def use_triton(query: Tensor) -> bool:
    """Return whether the tiled kernel serves: half precision on CUDA, heads of a width it tiles, with Triton there."""
    return is_for_triton(query) and query.shape[-1] in TILED_WIDTHS


def is_for_triton(states: Tensor) -> bool:
    """Return whether kernels for half precision can read a tensor: on CUDA, with Triton there."""
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16) and HAS_TRITON


class _LayOut(torch.autograd.Function):
    """The states of tokens in all buckets, end to end.

    Places without a token send no gradient back, so each token takes that of its one place; torch would add up those
    of all places, bucket by bucket.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return states.index_select(0, packing.places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, ctx.packing.order), None
