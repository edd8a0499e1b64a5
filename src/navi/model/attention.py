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

# Shape suffixes: T tokens (packed), H heads, E width of a head, D hidden size, R rows, N sequences, L padded length.

TILED_WIDTHS = (16, 32, 64, 128)
"""Widths of a head that Triton's matrix products take; others attend padded."""
LENGTH_STEP = 16
"""What sequences are padded to a multiple of: there a CPU's vectors leave no rest."""
SHARED_LENGTH = 32
"""Sequences of up to `LENGTH_STEP` share lines of this length: one product of 32 x 32 is quicker than four of 8 x 8."""
HAS_TRITON = importlib.util.find_spec("triton") is not None


class PaddedBucket(NamedTuple):
    """Sequences of like length padded to one length L, to be attended together."""

    places: Tensor
    """(N, L) where each place's token stands on the token axis; any token where there is none."""
    real: Tensor
    """(N, L) which places hold a token."""
    bias: Tensor | None = None
    """What is added to the scores, (N, 1, 1 or L, L): -inf where a place may not see another; None if all may."""


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

    def pad(self, min_length: int = 1) -> list[PaddedBucket]:
        """Return the sequences of at least so many tokens, one a line, in buckets of like length."""
        starts, lengths = self.starts[:-1], self.starts.diff()
        padded_N = -(-lengths // LENGTH_STEP) * LENGTH_STEP
        buckets = []
        for padded in torch.unique(padded_N[lengths >= min_length]).tolist():
            chosen = padded_N == padded
            steps = torch.arange(padded, device=starts.device)
            real = steps < lengths[chosen, None]
            places = starts[chosen, None] + torch.minimum(steps, lengths[chosen, None] - 1)
            buckets.append(PaddedBucket(places, real))
        return buckets

    @cached_property
    def buckets(self) -> list[PaddedBucket]:
        """All sequences in buckets, each seeing itself alone; short ones share lines."""
        starts, lengths = self.starts[:-1], self.starts.diff()
        short = (lengths > 0) & (lengths <= LENGTH_STEP)
        buckets = [share_lines(starts[short], lengths[short])] if bool(short.any()) else []
        for bucket in self.pad(LENGTH_STEP + 1):
            bias = None if bool(bucket.real.all()) else hide(~bucket.real[:, None, None, :])
            buckets.append(bucket._replace(bias=bias))
        return buckets

    @cached_property
    def places(self) -> Tensor:
        """Where the tokens of the buckets, laid end to end, stand on the token axis."""
        return torch.cat([bucket.places.reshape(-1) for bucket in self.buckets])

    @cached_property
    def order(self) -> Tensor:
        """(T,) where each token stands when the buckets are laid end to end, padding and all."""
        real = torch.cat([bucket.real.reshape(-1) for bucket in self.buckets])
        order = torch.zeros(self.num_tokens, dtype=torch.int64, device=self.starts.device)
        order[self.places[real]] = real.nonzero().squeeze(1)
        return order


def share_lines(starts_N: Tensor, lengths_N: Tensor) -> PaddedBucket:
    """Return short sequences one after the other on lines of `SHARED_LENGTH` places; each sees itself alone."""
    line, used, begins = 0, 0, []
    for length in lengths_N.tolist():
        if used + length > SHARED_LENGTH:
            line, used = line + 1, 0
        begins.append(line * SHARED_LENGTH + used)
        used += length
    device = starts_N.device
    owner_T = torch.repeat_interleave(lengths_N)
    within_T = torch.arange(len(owner_T), device=device) - (lengths_N.cumsum(0) - lengths_N)[owner_T]
    slot_T = torch.tensor(begins, device=device)[owner_T] + within_T
    places = torch.zeros((line + 1) * SHARED_LENGTH, dtype=torch.int64, device=device)
    places[slot_T] = starts_N[owner_T].long() + within_T
    owner = torch.full_like(places, -1)
    owner[slot_T] = owner_T
    owner = owner.view(-1, SHARED_LENGTH)
    bias = hide(owner[:, None, :, None] != owner[:, None, None, :])
    return PaddedBucket(places.view(-1, SHARED_LENGTH), owner >= 0, bias)


def hide(hidden: Tensor) -> Tensor:
    """Return what hides some places from others when it is added to the scores."""
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))


@dataclass(frozen=True)
class Packing:
    """What each head may see: the first `num_wide` heads their row, the others their own segment.

    The first token of a row, its [CLS], sees the row in every head: it has no segment to look at, and stands for all.
    """

    num_wide: int
    """Heads that see the whole row."""
    wide: Boundaries
    """Where each row begins."""
    local: Boundaries | None = None
    """Where each segment begins, the first token of a row being one of its own; None when all heads see the row."""

    @cached_property
    def limits(self) -> tuple[Tensor, Tensor]:
        """(2, T) int32 each: the first token that a token sees, and the end; for wide heads, then for local ones."""
        first, end = self.wide.limits
        if self.local is None:
            return torch.stack([first, first]), torch.stack([end, end])
        local_first, local_end = self.local.limits
        leads = first == torch.arange(len(first), device=first.device)
        return torch.stack([first, local_first]), torch.stack([end, torch.where(leads, end, local_end)])


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
    """Attend within the sequences of each head group; (T, H, E) in and out."""
    if use_triton(query):
        from navi.model.kernels import packed_attention

        mixed: Tensor = packed_attention(query, key, value, *packing.limits, packing.num_wide, scaling)[0]
        return mixed
    if packing.local is None:
        return attend_padded(query, key, value, packing.wide, scaling)
    num_heads = [packing.num_wide, query.shape[1] - packing.num_wide]
    (query, local_query), (key, local_key), (value, local_value) = (
        torch.split(state, num_heads, dim=1) for state in (query, key, value)
    )
    mixed = attend_padded(query, key, value, packing.wide, scaling)
    local = attend_padded(local_query, local_key, local_value, packing.local, scaling)
    first_N = packing.wide.starts[:-1][packing.wide.starts.diff() > 0].long()
    seen = attend_first(local_query.index_select(0, first_N), local_key, local_value, packing.wide, scaling)
    return torch.cat([mixed, local.index_copy(0, first_N, seen)], dim=1)


def use_triton(query: Tensor) -> bool:
    """Return whether the tiled kernel serves: half precision on CUDA, heads of a width it tiles, with Triton there."""
    return is_for_triton(query) and query.shape[-1] in TILED_WIDTHS


def is_for_triton(states: Tensor) -> bool:
    """Return whether kernels for half precision can read a tensor: on CUDA, with Triton there."""
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16) and HAS_TRITON


def attend_padded(query: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Attend bucket by bucket; (T, H, E) in and out."""
    buckets = boundaries.buckets
    if not buckets:
        return query
    sizes = [bucket.places.numel() for bucket in buckets]
    lay_out: Callable[[Tensor, Boundaries], Tensor] = _LayOut.apply
    laid = [torch.split(lay_out(state, boundaries), sizes) for state in (query, key, value)]
    mixed = []
    for (places_NL, _, bias), *states in zip(buckets, *laid, strict=True):
        query_L, key_L, value_L = (state.view(*places_NL.shape, *query.shape[1:]).transpose(1, 2) for state in states)
        mask = None if bias is None else bias.to(query.dtype)
        out = F.scaled_dot_product_attention(query_L, key_L, value_L, attn_mask=mask, scale=scaling)
        mixed.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, boundaries.order)


class _LayOut(torch.autograd.Function):
    """The states of tokens in all buckets, end to end.

    Places without a token send no gradient back, so each token takes that of its one place; torch would add up those
    of all places, bucket by bucket.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, boundaries: Boundaries) -> Tensor:
        ctx.boundaries = boundaries
        return states.index_select(0, boundaries.places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, ctx.boundaries.order), None


def attend_first(query_N: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Return what the first token of each sequence takes from it, given these tokens' queries: (N, H, E) in and out."""
    lengths_N = boundaries.starts.diff()
    owner_T = torch.repeat_interleave(lengths_N[lengths_N > 0], output_size=len(key))
    score_TH = (query_N[owner_T] * key).sum(dim=2).float() * scaling
    highest_NH = score_TH.new_full((len(query_N), score_TH.shape[1]), -torch.inf).scatter_reduce(
        0, owner_T[:, None].expand_as(score_TH), score_TH, "amax"
    )
    weight_TH = torch.exp(score_TH - highest_NH[owner_T])
    total_NH = torch.zeros_like(highest_NH).index_add(0, owner_T, weight_TH)
    share_TH = (weight_TH / total_NH[owner_T]).to(value.dtype)
    return torch.zeros_like(query_N).index_add(0, owner_T, share_TH[:, :, None] * value)
