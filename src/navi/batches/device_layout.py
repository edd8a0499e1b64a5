"""Rows laid out on a device from arrays that are kept there: of a size set beforehand, nothing waits for the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.layout import SpecialTokens
from navi.corpus.arrays import SegmentArrays

# Shape suffixes: R rows, S segments, T tokens, U units ([CLS] or a segment), N lists. All are as long as they are asked
# for; what is beyond the rows' own is filling.

NEEDED = (
    "row_offsets",
    "row_segments",
    "segment_header",
    "segment_value",
    "header_offsets",
    "header_tokens",
    "value_offsets",
    "value_tokens",
)
"""The arrays of `SegmentArrays` that rows are laid out from."""


@dataclass(frozen=True, kw_only=True)
class DeviceLayout:
    """Where every token of some rows stands, as `navi.batches.layout.Layout` has it, and what is filling."""

    rows: Tensor
    """(R,) the rows, as the corpus numbers them; below 0 where there is none."""
    row_real: Tensor
    """(R,) which rows there are."""
    row_starts: Tensor
    """(R,) first token of each row; of filling, the end."""
    unit_starts: Tensor
    """(R + S,) first token of each [CLS] and of each segment; of filling, the end."""
    end: Tensor
    """() the end of all tokens."""
    segment_row: Tensor
    """(S,) row of each segment, from 0 in this layout."""
    segment_rank: Tensor
    """(S,) place of the segment within its row."""
    segment_id: Tensor
    """(S,) the segment, as the corpus numbers them."""
    segment_real: Tensor
    """(S,) which segments there are."""
    row_count: Tensor
    """(R,) segments of each row."""
    token_ids: Tensor
    """(T,) the tokens, unmasked."""
    token_position: Tensor
    """(T,) position within the segment; 0 for [CLS]."""
    token_segment: Tensor
    """(T,) segment of each token, from 0 in this layout; -1 for [CLS]."""
    in_header: Tensor
    """(T,) which tokens are of a header."""
    in_value: Tensor
    """(T,) which tokens are of a value."""


class DeviceArrays:
    """The arrays that rows are laid out from, on a device; copied from pinned memory, they need not be waited for."""

    def __init__(
        self, arrays: SegmentArrays, special: SpecialTokens, device: torch.device, *, pin: bool = False
    ) -> None:
        self.device = device
        self._special = special
        moved = move_arrays([getattr(arrays, name) for name in NEEDED], device, pin=pin)
        self._row_offsets, self._row_segments, self.segment_header, self.segment_value = moved[:4]
        self._header_offsets, self._header_tokens, self._value_offsets, self._value_tokens = moved[4:]

    def lay_out(self, rows: Tensor, num_segments: int, num_tokens: int) -> DeviceLayout:
        """Return the layout of rows (-1 for none), with room for so many segments, at least one, and tokens."""
        place_R, place_S = self._count(len(rows)), self._count(num_segments)
        real_R = rows >= 0
        row_R = rows.clamp(min=0)
        first_R = self._row_offsets[row_R]
        count_R = (self._row_offsets[row_R + 1] - first_R) * real_R
        end_R = count_R.cumsum(0)
        row_S, rank_S, real_S = spread(end_R, count_R, num_segments)
        id_S = self._row_segments[torch.where(real_S, first_R[row_S] + rank_S, 0)].long()
        header_S, value_S = self.segment_header[id_S].long(), self.segment_value[id_S].long()
        header_start_S, value_start_S = self._header_offsets[header_S], self._value_offsets[value_S]
        header_length_S = self._header_offsets[header_S + 1] - header_start_S
        length_S = (header_length_S + self._value_offsets[value_S + 1] - value_start_S + 2) * real_S

        # Units stand in the order of their tokens: the [CLS] of a row, then its segments.
        num_units = len(rows) + num_segments
        cls_R = torch.where(real_R, end_R - count_R + place_R, num_units)
        unit_S = torch.where(real_S, place_S + row_S + 1, num_units)
        length_U = _scatter(num_units, 0, (cls_R, real_R.long()), (unit_S, length_S))
        segment_U = _scatter(num_units, -1, (unit_S, place_S))
        end_U = length_U.cumsum(0)
        unit_T, within_T, real_T = spread(end_U, length_U, num_tokens)
        segment_T = torch.where(real_T, segment_U[unit_T], -1)
        inside_T, own_T = segment_T >= 0, segment_T.clamp(min=0)
        colon_T = header_length_S[own_T]
        last_T = length_S[own_T] - 1
        header_T = inside_T & (within_T < colon_T)
        value_T = inside_T & (within_T > colon_T) & (within_T < last_T)
        ids = torch.where(real_T, self._special.cls, 0)
        ids = torch.where(inside_T & (within_T == colon_T), self._special.colon, ids)
        ids = torch.where(inside_T & (within_T == last_T), self._special.sep, ids)
        header_place = torch.where(header_T, header_start_S[own_T] + within_T, 0)
        value_place = torch.where(value_T, value_start_S[own_T] + within_T - colon_T - 1, 0)
        ids = torch.where(header_T, self._header_tokens[header_place].long(), ids)
        ids = torch.where(value_T, self._value_tokens[value_place].long(), ids)
        begin_U = torch.cat([end_U - length_U, end_U[-1:]])
        return DeviceLayout(
            rows=rows,
            row_real=real_R,
            row_starts=begin_U[cls_R],
            unit_starts=begin_U[:-1],
            end=end_U[-1],
            segment_row=row_S,
            segment_rank=rank_S,
            segment_id=id_S,
            segment_real=real_S,
            row_count=count_R,
            token_ids=ids,
            token_position=torch.where(inside_T, within_T, 0),
            token_segment=segment_T,
            in_header=header_T,
            in_value=value_T,
        )

    def _count(self, size: int) -> Tensor:
        return torch.arange(size, device=self.device)


def spread(end_N: Tensor, length_N: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each place on an axis of lists laid end to end: its list, its place in it, whether it is real."""
    place = torch.arange(size, device=end_N.device)
    owner = torch.searchsorted(end_N, place, right=True).clamp(max=len(end_N) - 1)
    real = place < end_N[-1]
    return owner, torch.where(real, place - (end_N - length_N)[owner], 0), real


def _scatter(size: int, fill: int, *parts: tuple[Tensor, Tensor]) -> Tensor:
    """Return an axis of `size` with numbers put in their places; those at `size` are for nothing."""
    device = parts[0][0].device
    axis = torch.full((size + 1,), fill, dtype=torch.int64, device=device)
    for places, numbers in parts:
        axis = axis.scatter(0, places, numbers)
    return axis[:size]


def move_arrays(arrays: Sequence[NDArray[Any]], device: torch.device, *, pin: bool = False) -> list[Tensor]:
    """Return arrays on a device, by one copy for all of a type; from pinned memory, copies do not wait."""
    moved: list[Tensor] = [torch.empty(0)] * len(arrays)
    for dtype in {array.dtype for array in arrays}:
        places = [place for place, array in enumerate(arrays) if array.dtype == dtype]
        sizes = [len(arrays[place]) for place in places]
        joined = torch.empty(sum(sizes), dtype=getattr(torch, dtype.name), pin_memory=pin)
        np.concatenate([arrays[place] for place in places], out=joined.numpy())
        parts = torch.split(joined.to(device, non_blocking=pin), sizes)
        for place, part in zip(places, parts, strict=True):
            moved[place] = part
    return moved
