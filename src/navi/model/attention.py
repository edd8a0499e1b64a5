"""Attention over packed sequences, registered with transformers so that its BERT layers can use it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert.modeling_bert import BertSelfAttention

# Shape suffixes: T tokens (packed), H heads, E width of a head, N sequences, P padded length.

PACKED_ATTENTION = "navi_packed"
TILED_WIDTHS = (16, 32, 64, 128)
"""Widths of a head that Triton's matrix products take; others attend padded."""
SHORT, LINE, STEP = 16, 32, 16
"""Sequences up to the first length share lines of the second: one product of 32 x 32 is quicker than four of 8 x 8.
Longer ones are padded to a multiple of the third: there the CPU's vectors leave no rest."""
HAS_TRITON = importlib.util.find_spec("triton") is not None


class Shelf(NamedTuple):
    """Sequences laid on N lines of P places, to be attended together."""

    places: Tensor
    """(N, P) where each place's token stands on the token axis; any token where there is none."""
    real: Tensor
    """(N, P) which places hold a token."""
    bias: Tensor | None
    """What is added to the scores, (N, 1, 1 or P, P): -inf where a place may not see another; None if all may."""


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
    def shelves(self) -> list[Shelf]:
        """Sequences padded to be attended together: short ones several to a line, the others by like length."""
        starts = self.starts[:-1]
        lengths = self.starts[1:] - starts
        padded_N = -(-lengths // STEP) * STEP
        short = (lengths > 0) & (lengths <= SHORT)
        found = [line_up(starts[short], lengths[short])] if bool(short.any()) else []
        for padded in torch.unique(padded_N[lengths > SHORT]).tolist():
            chosen = padded_N == padded
            steps = torch.arange(padded, device=starts.device)
            real = steps < lengths[chosen, None]
            places = starts[chosen, None] + torch.minimum(steps, lengths[chosen, None] - 1)
            hidden = None if bool(real.all()) else ~real[:, None, None, :]
            found.append(Shelf(places, real, make_bias(hidden)))
        return found

    @cached_property
    def places(self) -> Tensor:
        """Where the tokens of the shelves, laid end to end, stand on the token axis."""
        return torch.cat([shelf.places.reshape(-1) for shelf in self.shelves])

    @cached_property
    def order(self) -> Tensor:
        """(T,) where each token stands when the shelves are laid end to end, padding and all."""
        place = torch.zeros(self.num_tokens, dtype=torch.int64, device=self.starts.device)
        before = 0
        for shelf in self.shelves:
            flat = torch.arange(before, before + shelf.places.numel(), device=place.device)
            keep = shelf.real.reshape(-1)
            place[shelf.places.reshape(-1)[keep]] = flat[keep]
            before += shelf.places.numel()
        return place


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

    @property
    def heads(self) -> tuple[slice, slice]:
        """The wide heads, and the local ones."""
        return slice(0, self.num_wide), slice(self.num_wide, None)

    @cached_property
    def limits(self) -> tuple[Tensor, Tensor]:
        """(2, T) int32 each: the first token that a token sees, and the end; for wide heads, then for local ones."""
        first, end = self.wide.limits
        if self.local is None:
            return torch.stack([first, first]), torch.stack([end, end])
        local_first, local_end = self.local.limits
        leads = first == torch.arange(len(first), device=first.device)
        return torch.stack([first, local_first]), torch.stack([end, torch.where(leads, end, local_end)])


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
    """Attend as transformers asks for it: takes (1, H, T, E) tensors, gives (1, T, H, E)."""
    query, key, value = (tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value))
    return attend(query, key, value, packing, scaling).unsqueeze(0), None


class JoinedSelfAttention(BertSelfAttention):  # type: ignore[misc]
    """BERT's attention over packed sequences, with queries, keys and values made by one product instead of three."""

    def forward(self, hidden_states: Tensor, *_: Any, packing: Packing, **__: Any) -> tuple[Tensor, None]:
        """Return what each token takes from those that it sees, (1, T, D), and no weights."""
        maps = (self.query, self.key, self.value)
        weight, bias = (torch.cat([getattr(each, name) for each in maps]) for name in ("weight", "bias"))
        joined = F.linear(hidden_states.squeeze(0), weight, bias)
        query, key, value = joined.view(len(joined), 3, self.num_attention_heads, -1).unbind(1)
        return attend(query, key, value, packing, self.scaling).flatten(1).unsqueeze(0), None


def join_attention(model: nn.Module) -> None:
    """Have all of a model's BERT layers attend in this way; their parameters stay as they are."""
    for module in model.modules():
        if type(module) is BertSelfAttention:
            module.__class__ = JoinedSelfAttention


def attend(query: Tensor, key: Tensor, value: Tensor, packing: Packing, scaling: float) -> Tensor:
    """Attend within the sequences of each head group; (T, H, E) in and out."""
    if use_triton(query):
        from navi.model.kernels import packed_attention as attend_tiles

        mixed: Tensor = attend_tiles(query, key, value, *packing.limits, packing.num_wide, scaling)[0]
        return mixed
    if packing.local is None:
        return attend_padded(query, key, value, packing.wide, scaling)
    wide, local = (tuple(state[:, some] for state in (query, key, value)) for some in packing.heads)
    broad = attend_padded(wide[0], wide[1], wide[2], packing.wide, scaling)
    narrow = attend_padded(local[0], local[1], local[2], packing.local, scaling)
    narrow = _lead(narrow, local[0], local[1], local[2], packing, scaling)
    return torch.cat([broad, narrow], dim=1)


def _lead(mixed: Tensor, query: Tensor, key: Tensor, value: Tensor, packing: Packing, scaling: float) -> Tensor:
    """Return what local heads mixed, with what the first token of each row takes from all of it in its place."""
    starts = packing.wide.starts.long()
    real = starts.diff() > 0
    first = starts[:-1].clamp(max=len(query) - 1)  # empty rows begin where the tokens end
    seen = attend_first(query.index_select(0, first), key, value, packing, scaling)
    return mixed.index_copy(0, first[real], seen[real])


def use_triton(query: Tensor) -> bool:
    """Tell whether the tiled kernel serves: half precision on CUDA, heads of a width it tiles, with Triton there."""
    return is_for_triton(query) and query.shape[-1] in TILED_WIDTHS


def is_for_triton(states: Tensor) -> bool:
    """Tell whether kernels for half precision can read a tensor: on CUDA, with Triton there."""
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16) and HAS_TRITON


def attend_padded(query: Tensor, key: Tensor, value: Tensor, boundaries: Boundaries, scaling: float) -> Tensor:
    """Attend shelf by shelf, each padded to its longest sequence; (T, H, E) in and out."""
    shelves = boundaries.shelves
    if not shelves:
        return query
    sizes = [shelf.places.numel() for shelf in shelves]
    lay_out: Callable[[Tensor, Boundaries], Tensor] = _LayOut.apply
    laid = [torch.split(lay_out(state, boundaries), sizes) for state in (query, key, value)]
    mixed = []
    for (places_NP, _, bias), *states in zip(shelves, *laid, strict=True):
        query_P, key_P, value_P = (state.view(*places_NP.shape, *query.shape[1:]).transpose(1, 2) for state in states)
        mask = None if bias is None else bias.to(query.dtype)
        out = F.scaled_dot_product_attention(query_P, key_P, value_P, attn_mask=mask, scale=scaling)
        mixed.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed).index_select(0, boundaries.order)


class _LayOut(torch.autograd.Function):
    """The states of tokens on all shelves, end to end.

    Places without a token send no gradient back, so each token takes that of its one place; torch would add up those
    of all places, shelf by shelf.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, boundaries: Boundaries) -> Tensor:
        ctx.boundaries = boundaries
        return states.index_select(0, boundaries.places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0].index_select(0, ctx.boundaries.order), None


def attend_first(query_N: Tensor, key: Tensor, value: Tensor, packing: Packing, scaling: float) -> Tensor:
    """Return what the first token of each row takes from its row: (N, H, E); `query_N` holds those tokens' queries."""
    starts = packing.wide.starts.long()
    num_rows = len(starts) - 1
    row_T = torch.repeat_interleave(torch.arange(num_rows, device=key.device), starts.diff(), output_size=len(key))
    score_TH = (query_N[row_T] * key).sum(dim=2).float() * scaling
    index_TH = row_T[:, None].expand_as(score_TH)
    highest_NH = score_TH.new_full((num_rows, score_TH.shape[1]), -torch.inf).scatter_reduce(
        0, index_TH, score_TH, "amax"
    )
    weight_TH = torch.exp(score_TH - highest_NH[row_T])
    total_NH = torch.zeros_like(highest_NH).index_add(0, row_T, weight_TH)
    share_TH = (weight_TH / total_NH[row_T]).to(value.dtype)
    return torch.zeros_like(query_N).index_add(0, row_T, share_TH[:, :, None] * value)


def line_up(starts_N: Tensor, lengths_N: Tensor) -> Shelf:
    """Return short sequences one after the other on lines of at most `LINE` places; each sees itself alone."""
    line, used, begins = 0, 0, []
    for length in lengths_N.tolist():
        if used + length > LINE:
            line, used = line + 1, 0
        begins.append(line * LINE + used)
        used += length
    device = starts_N.device
    owner_T = torch.repeat_interleave(torch.arange(len(begins), device=device), lengths_N)
    within_T = torch.arange(len(owner_T), device=device) - (lengths_N.cumsum(0) - lengths_N)[owner_T]
    slot_T = torch.tensor(begins, device=device)[owner_T] + within_T
    places = torch.zeros((line + 1) * LINE, dtype=torch.int64, device=device)
    places[slot_T] = starts_N[owner_T].long() + within_T
    owner = torch.full_like(places, -1)
    owner[slot_T] = owner_T
    owner = owner.view(-1, LINE)
    return Shelf(places.view(-1, LINE), owner >= 0, make_bias(owner[:, None, :, None] != owner[:, None, None, :]))


def make_bias(hidden: Tensor | None) -> Tensor | None:
    """Return what hides some places from others when it is added to the scores; None hides nothing."""
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, float("-inf"))


ALL_ATTENTION_FUNCTIONS.register(PACKED_ATTENTION, packed_attention)
