"""Rows packed for inference on the device that encodes them: the host counts, the device does the rest."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import FIRST_SLOT, SLOT_NONE, Rows
from navi.batches.builder import BatchBuilder
from navi.batches.device_layout import NEEDED, DeviceArrays, move_arrays
from navi.batches.layout import SpecialTokens
from navi.corpus.arrays import SegmentArrays, gather_ranges

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes.

Ints = NDArray[np.int64]
MOVED_PER_TOKEN = 16
"""Numbers a token up to which copying the arrays to a device is quicker than packing on the host."""
MOST_MOVED = 2**27
"""Numbers that are copied to a device at most: half a GiB, or a whole one."""


def is_worth_moving(arrays: SegmentArrays, num_tokens: int) -> bool:
    """Tell whether to copy the arrays to a device to pack rows of so many tokens there: not for few rows of many."""
    size = sum(len(getattr(arrays, name)) for name in NEEDED)
    return size <= min(MOVED_PER_TOKEN * num_tokens, MOST_MOVED)


class DevicePacker:
    """Packs rows on a device as `BatchBuilder.pack_rows` does on the host, but for the numbers of the slots.

    The attributes of all rows have their slots once and for all, so that one attribute table serves every batch.
    """

    def __init__(self, arrays: SegmentArrays, rows: Ints, special: SpecialTokens, device: torch.device) -> None:
        self.device = device
        self._special = special
        self._row_offsets = arrays.row_offsets
        self._pin = device.type == "cuda"
        ids_A, slot_A = _number_attributes(arrays, rows)
        self.attributes = BatchBuilder(arrays, special, align=False).pack_attributes(ids_A)
        """The attributes of all rows, on the host."""
        self._attributes = (self.attributes.pin() if self._pin else self.attributes).to(device)
        self._arrays = DeviceArrays(arrays, special, device, pin=self._pin)
        self._segment_slot, self._attribute_ids = self._move(slot_A[arrays.segment_attribute], ids_A)

    def pack_rows(self, rows: Ints, num_tokens: int) -> Rows:
        """Return rows, at least one, that have so many tokens in all; nothing waits for the device."""
        num_segments = int((self._row_offsets[rows + 1] - self._row_offsets[rows]).sum())
        if num_segments == 0:
            return self._pack_empty(len(rows))
        layout = self._arrays.lay_out(self._move(rows)[0], num_segments, num_tokens)
        slot_S = self._segment_slot[layout.segment_id]
        own_T, inside_T = layout.token_segment.clamp(min=0), layout.token_segment >= 0
        in_part_T = layout.in_header | layout.in_value
        return Rows(
            token_ids=layout.token_ids,
            token_position=layout.token_position,
            token_slot=torch.where(inside_T, slot_S[own_T], SLOT_NONE),
            token_span=torch.where(in_part_T, 2 * own_T + layout.in_value, 2 * num_segments),
            starts=_close(layout.row_starts, num_tokens),
            local_starts=_close(layout.unit_starts, num_tokens),
            segment_slot=slot_S,
            segment_row=layout.segment_row,
            attributes=self._attributes,
            attribute_ids=self._attribute_ids,
        )

    def _pack_empty(self, num_rows: int) -> Rows:
        """Return rows without cells: each is its [CLS] alone."""
        zeros_R = torch.zeros(num_rows, dtype=torch.int64, device=self.device)
        starts = torch.arange(num_rows + 1, device=self.device)
        return Rows(
            token_ids=torch.full_like(zeros_R, self._special.cls),
            token_position=zeros_R,
            token_slot=torch.full_like(zeros_R, SLOT_NONE),
            token_span=zeros_R,
            starts=starts,
            local_starts=starts,
            segment_slot=zeros_R[:0],
            segment_row=zeros_R[:0],
            attributes=self._attributes,
            attribute_ids=self._attribute_ids,
        )

    def _move(self, *arrays: Ints) -> list[Tensor]:
        return move_arrays(arrays, self.device, pin=self._pin)


def _number_attributes(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the attributes of some rows, and the slot of each attribute; those of no row have any."""
    used_A = np.zeros(len(arrays.attribute_offsets) - 1, np.bool_)
    used_A[arrays.segment_attribute[arrays.row_segments[gather_ranges(arrays.row_offsets, rows)[1]]]] = True
    return np.flatnonzero(used_A), np.cumsum(used_A) - 1 + FIRST_SLOT


def _close(starts: Tensor, end: int) -> Tensor:
    return torch.cat([starts, starts.new_full((1,), end)])
