"""Where the tokens of some rows stand, and which of them are masked: one program for CPU and GPU, eager and recorded.

Rows are packed on one axis: [CLS], then header, colon, value and [SEP] of each segment. In a recorded pass nothing may
wait for the host, so sizes are set beforehand and what is beyond the rows' own is filling.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from navi.batches.batch import IGNORED, Sequences, Targets, TensorGroup
from navi.errors import ConfigError, ModelError
from navi.randomness import choose_below, fold, order_keys, uniform
from navi.settings import check_bounds

# Shape suffixes: R rows, S segments, T tokens (packed), M targets, P spans (headers and values), F lists of filling,
# U units (the [CLS] of each row, then each segment, then filling), N lists of any kind.

FILLER_LENGTH = 64
"""Tokens of a sequence of filling: short, so that attention over it costs little."""
REGIME_HEADER, REGIME_VALUE, REGIME_VANILLA = 0, 1, 2
"""Codes of the three masking regimes; the kinds of a target are numbered likewise."""
RANK, SHIFT, UNKNOWN, REPLACE, RANDOM, CHOOSE = range(6)
"""What a random number is for: each purpose has its own."""
_RESERVED = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of the tokens that a row is put together with."""

    cls: int
    """Begins each row."""
    sep: int
    """Ends each segment."""
    colon: int
    """Stands between header and value."""
    comma: int
    """Ends each cell of a row that is read as a text; [SEP] in a vocabulary that has none."""
    mask: int
    """Takes the place of a masked token."""
    regular: NDArray[np.int64]
    """Every id that may stand in for a masked token at random: the vocabulary without its special tokens."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Return the special tokens of a BERT vocabulary; raise `ModelError` if one is missing."""
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        missing = [token for token in ("[CLS]", "[SEP]", "[MASK]", ":") if token not in vocabulary]
        if missing:
            raise ModelError(
                f"The vocabulary has no {', '.join(missing)}. Expected that of a BERT-architecture backbone."
            )
        regular = sorted(number for token, number in vocabulary.items() if not _RESERVED.fullmatch(token))
        return cls(
            cls=vocabulary["[CLS]"],
            sep=vocabulary["[SEP]"],
            colon=vocabulary[":"],
            comma=vocabulary.get(",", vocabulary["[SEP]"]),
            mask=vocabulary["[MASK]"],
            regular=np.array(regular, dtype=np.int64),
        )


@dataclass(frozen=True, kw_only=True)
class CorpusTensors(TensorGroup):
    """The arrays of `SegmentArrays` that batches are gathered from, as tensors; see there."""

    row_offsets: Tensor
    row_segments: Tensor
    row_table: Tensor
    segment_attribute: Tensor
    segment_header: Tensor
    segment_value: Tensor
    header_offsets: Tensor
    header_tokens: Tensor
    value_offsets: Tensor
    value_tokens: Tensor
    attribute_offsets: Tensor
    attribute_tokens: Tensor
    column_table: Tensor


def as_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor in the same memory, which nothing here writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


@dataclass(frozen=True, kw_only=True)
class Layout(Sequences):
    """Where every token of some packed rows stands and what it belongs to; behind the rows perhaps filling."""

    rows: Tensor  # (R,) the rows, as the corpus numbers them; -1 for filling
    row_count: Tensor  # (R,) segments of each row
    local_starts: Tensor  # (U + 1,) first token of each unit, in the order of the tokens, and the end
    segment_row: Tensor  # (S,) row of each segment, from 0 in this layout
    segment_rank: Tensor  # (S,) place of the segment within its row
    segment_real: Tensor  # (S,) which segments are the rows' own; filling is a copy of the first
    segment_cell: Tensor  # (S,) the cell, as the corpus numbers them
    segment_id: Tensor  # (S,) the segment, as the corpus numbers them
    segment_starts: Tensor  # (S,) first token of each segment
    segment_unknown: Tensor  # (S,) whether the encoder is not to know the segment's attribute
    token_unit: Tensor  # (T,) unit of each token
    token_span: Tensor  # (T,) 2s for the header of segment s, 2s + 1 for its value, 2S for everything else

    def spread(self, of_S: Tensor, other: int) -> Tensor:
        """Return what each token's segment has, `other` for tokens of no segment: (T,)."""
        return _spread(of_S, other, self.token_unit, len(self.rows), len(self.starts) - 1 - len(self.rows))


def lay_out(
    corpus: CorpusTensors,
    rows: Tensor,
    special: SpecialTokens,
    *,
    num_segments: int | None = None,
    num_tokens: int | None = None,
    filled: bool = False,
) -> Layout:
    """Return the packed token sequence of `rows`; each segment's positions start at 0.

    Sizes that are given need not be counted, which would wait for a GPU. With `filled`, they may be more than the rows
    have, and rows may end in -1 for none.
    """
    num_rows, real_R = len(rows), rows >= 0
    first_R, count_R = find_lists(corpus.row_offsets, torch.where(real_R, rows, rows[:1]))
    count_R = count_R * real_R
    before_R, row_S, rank_S = lay_end_to_end(count_R, num_segments, filled)
    real_S, row_S = row_S < num_rows, row_S.clamp(max=num_rows - 1)
    cell_S = first_R.index_select(0, row_S) + rank_S
    cell_S = torch.where(real_S, cell_S, cell_S[:1]).clamp(max=len(corpus.row_segments) - 1)
    id_S = corpus.row_segments.index_select(0, cell_S).long()
    headers = find_lists(corpus.header_offsets, corpus.segment_header.index_select(0, id_S))
    values = find_lists(corpus.value_offsets, corpus.segment_value.index_select(0, id_S))

    # In the order of the tokens each row's [CLS] stands before its segments, and filling behind all of them.
    place_U = torch.cat([before_R[:num_rows] + count_up(num_rows, rows), count_up(len(id_S), rows) + row_S + 1])
    num_units = len(place_U)
    order_U = torch.empty_like(place_U).scatter(0, place_U, count_up(num_units, rows))
    length_U = torch.cat([real_R.long(), (headers[1] + values[1] + 2) * real_S]).index_select(0, order_U)
    begins, ordered_T, within_T = lay_end_to_end(length_U, num_tokens, filled)
    fillers = count_up(len(begins), rows)[num_units:]
    unit_T = torch.cat([order_U, fillers]).index_select(0, ordered_T)
    begin_U = begins.index_select(0, torch.cat([place_U, fillers]))
    end = begins.new_full((1,), len(unit_T))
    spread = partial(_spread, token_unit=unit_T, num_rows=num_rows, num_fillers=len(fillers))
    span_T, token_ids = _write_tokens(corpus, special, headers, values, within_T, spread)
    return Layout(
        rows=rows,
        row_count=count_R,
        starts=torch.cat([begin_U[:num_rows], begin_U[num_units:], end]),
        local_starts=torch.cat([begins, end]),
        segment_row=row_S,
        segment_rank=rank_S,
        segment_real=real_S,
        segment_cell=cell_S,
        segment_id=id_S,
        segment_starts=begin_U[num_rows:num_units],
        segment_unknown=torch.zeros_like(real_S),
        token_ids=token_ids,
        token_position=within_T,
        token_unit=unit_T,
        token_span=span_T,
    )


def _spread(of_S: Tensor, other: int, token_unit: Tensor, num_rows: int, num_fillers: int) -> Tensor:
    return F.pad(of_S, (num_rows, num_fillers), value=other).index_select(0, token_unit)


def _write_tokens(
    corpus: CorpusTensors,
    special: SpecialTokens,
    headers: tuple[Tensor, Tensor],
    values: tuple[Tensor, Tensor],
    within_T: Tensor,
    spread: Callable[[Tensor, int], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the span of each token, and the tokens themselves, given where headers and values begin: (T,) each."""
    (header_first_S, header_length_S), (value_first_S, value_length_S) = headers, values
    num_spans, colon_T = 2 * len(header_first_S), spread(header_length_S, 0)
    in_header_T = within_T < colon_T
    in_value_T = (within_T > colon_T) & (within_T <= spread(header_length_S + value_length_S, 0))
    span_T = spread(count_up(len(header_first_S), within_T) * 2, 0) + in_value_T
    span_T = torch.where(in_header_T | in_value_T, span_T, num_spans)
    middle_T = spread(torch.full_like(header_first_S, special.colon), special.cls)
    token_ids = torch.where(within_T == colon_T, middle_T, special.sep)
    if num_spans == 0:
        return span_T, token_ids
    shift_P = torch.stack([header_first_S, value_first_S - header_length_S - 1], dim=1).view(-1)
    source_T = F.pad(shift_P, (0, 1)).index_select(0, span_T) + within_T
    for tokens, inside_T in ((corpus.header_tokens, in_header_T), (corpus.value_tokens, in_value_T)):
        read_T = tokens.index_select(0, torch.where(inside_T, source_T, 0))
        token_ids = torch.where(inside_T, read_T, token_ids)
    return span_T, token_ids


def find_lists(offsets: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the list of each id begins in the flat array, and its length."""
    first = offsets.index_select(0, ids)
    return first, offsets.index_select(0, ids + 1) - first


def lay_end_to_end(length_N: Tensor, size: int | None, filled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return where each of some lists begins when they are laid end to end, and each place's list and place in it.

    They are `size` long in all, which is counted if it is not given; with `filled`, lists of filling make up for it.
    """
    size = int(length_N.sum()) if size is None else size
    if filled:
        begins_F = count_up(-(-size // FILLER_LENGTH), length_N) * FILLER_LENGTH
        length_N = torch.cat([length_N, (size - length_N.sum() - begins_F).clamp(0, FILLER_LENGTH)])
    begin_N = length_N.cumsum(0) - length_N
    owner = torch.repeat_interleave(length_N, output_size=size)
    return begin_N, owner, count_up(size, length_N) - begin_N.index_select(0, owner)


def count_up(size: int, like: Tensor) -> Tensor:
    """Return 0, 1, … size - 1 where another tensor lies."""
    return torch.arange(size, device=like.device)


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How a row's segments are divided among the three masking regimes, and what takes a masked token's place."""

    header_share: float = 0.15
    """Share of a row's segments whose header is masked (the paper: 0.4)."""
    value_share: float = 0.25
    """Share of a row's segments whose value is masked (the paper: 0.4); the rest is vanilla."""
    token_share: float = 0.15
    """Share of the header and value tokens masked in vanilla segments."""
    unknown_attribute_rate: float = 0.8
    """How often a header-masked segment's attribute is hidden too (the paper: 0)."""
    mask_rate: float = 0.8
    """How often a masked span becomes [MASK]."""
    random_rate: float = 0.1
    """How often a masked span becomes random tokens; otherwise it stays as it is."""
    whole_spans: bool = True
    """Mask headers and values whole; off, every segment is vanilla (the ablation without segment masking)."""

    def __post_init__(self) -> None:
        check_bounds(self, *(field.name for field in fields(self) if field.name != "whole_spans"), least=0, most=1)
        if self.header_share + self.value_share > 1.0:
            raise ConfigError(
                f"header_share + value_share must be at most 1, got {self.header_share} + {self.value_share}."
            )
        if self.mask_rate + self.random_rate > 1.0:
            raise ConfigError(f"mask_rate + random_rate must be at most 1, got {self.mask_rate} + {self.random_rate}.")


def mask_layout(
    layout: Layout, config: MaskingConfig, key: int | Tensor, mask: int, regular: Tensor, max_targets: int | None
) -> tuple[Layout, Targets]:
    """Return a masked layout and its targets, given the key of (seed, epoch), [MASK] and tokens that replace others.

    The outcome for a row does not depend on the rows beside it. With `max_targets` targets are filled up to so many.
    """
    row_keys = fold(key, layout.rows)
    segment_keys = fold(row_keys.index_select(0, layout.segment_row), layout.segment_rank)
    token_keys = fold(layout.spread(segment_keys, 0), layout.token_position)
    regime_S = _draw_regimes(layout, config, row_keys, segment_keys)
    # The part that a segment's regime names is masked in any case, the other never, and vanilla spans here and there.
    vanilla_S = (regime_S == REGIME_VANILLA).double() * config.token_share
    rate_P = torch.stack([vanilla_S + (regime_S == REGIME_HEADER), vanilla_S + (regime_S == REGIME_VALUE)], dim=1)
    rate_T = F.pad(rate_P.view(-1), (0, 1)).index_select(0, layout.token_span)
    masked_T = uniform(fold(token_keys, CHOOSE)) < rate_T

    chosen = choose(masked_T, max_targets)
    old_M, keys_M = layout.token_ids.index_select(0, chosen.places), token_keys.index_select(0, chosen.places)
    segment_M = layout.token_span.index_select(0, chosen.places) // 2
    segment_M = segment_M.clamp(max=len(regime_S) - 1)  # filling stands at the first [CLS], in no segment
    regime_M = regime_S.index_select(0, segment_M)
    # A whole span shares one draw, so that no kept token of it gives the others away.
    drawn_M = torch.where(regime_M == REGIME_VANILLA, keys_M, segment_keys.index_select(0, segment_M))
    draw_M = uniform(fold(drawn_M, REPLACE))
    random_M = regular.index_select(0, choose_below(fold(keys_M, RANDOM), len(regular)))
    new_M = torch.where(draw_M < config.mask_rate + config.random_rate, random_M, old_M)
    new_M = torch.where(draw_M < config.mask_rate, mask, new_M)
    hidden_S = uniform(fold(segment_keys, UNKNOWN)) < config.unknown_attribute_rate
    masked = replace(
        layout,
        token_ids=layout.token_ids.scatter(0, chosen.places, chosen.fill(new_M, old_M)),
        segment_unknown=(regime_S == REGIME_HEADER) & hidden_S,
    )
    return masked, Targets(
        position=chosen.places,
        token=chosen.fill(old_M, IGNORED),
        kind=chosen.fill(regime_M, -1),
        num_masked=masked_T.sum(),
    )


def _draw_regimes(layout: Layout, config: MaskingConfig, row_keys: Tensor, segment_keys: Tensor) -> Tensor:
    """Divide each row's segments in the set shares: ranks in random order, shifted by one draw a row.

    The shift rounds at random, so that the shares hold on average in short rows too.
    """
    vanilla_S = torch.full_like(layout.segment_row, REGIME_VANILLA)
    if not config.whole_spans:
        return vanilla_S
    by_key = torch.sort(order_keys(fold(segment_keys, RANK)), stable=True).indices
    row_S = torch.where(layout.segment_real, layout.segment_row, len(layout.rows))
    by_row = torch.sort(row_S.index_select(0, by_key), stable=True).indices
    rank_S = torch.empty_like(row_S).scatter(0, by_key.index_select(0, by_row), layout.segment_rank)
    shift_S = uniform(fold(row_keys, SHIFT)).index_select(0, layout.segment_row)
    place_S = (rank_S + shift_S) / layout.row_count.index_select(0, layout.segment_row).clamp(min=1)
    regime_S = torch.where(place_S < config.header_share + config.value_share, REGIME_VALUE, vanilla_S)
    return torch.where(place_S < config.header_share, REGIME_HEADER, regime_S)


@dataclass(frozen=True)
class Chosen:
    """The places of what is chosen from an axis, in order, perhaps filled up."""

    places: Tensor  # Where each stands; 0 for filling
    real: Tensor | None  # Which of them are not filling; None if none is

    def fill(self, entries: Tensor, filling: int | Tensor) -> Tensor:
        """Return one entry for each, with something else for the filling."""
        return entries if self.real is None else torch.where(self.real, entries, filling)


def choose(is_chosen: Tensor, size: int | None = None) -> Chosen:
    """Return the places of what is chosen, all of them or filled up to `size`, which need not wait for a GPU."""
    if size is None:
        return Chosen(is_chosen.nonzero().squeeze(1), None)
    rank = is_chosen.cumsum(0)
    target = torch.where(is_chosen & (rank <= size), rank - 1, size)
    places = torch.zeros(size + 1, dtype=torch.int64, device=is_chosen.device)
    places = places.scatter(0, target, count_up(len(is_chosen), is_chosen))[:size]
    real = count_up(size, is_chosen) < is_chosen.sum()
    return Chosen(places, real)
