"""Batches made on the device itself, from row numbers alone and of a set size, so that a step can be recorded whole.

What `BatchBuilder` makes on the host by arrays of varying length is made here by arrays of fixed length, the rest of
which is filling: nothing waits for the host, and the same random numbers give the same masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import (
    FIRST_SLOT,
    IGNORED,
    SLOT_NONE,
    SLOT_UNKNOWN,
    Alignment,
    Batch,
    Columns,
    Rows,
    Sequences,
    Targets,
)
from navi.batches.builder import BatchBuilder
from navi.batches.device_layout import DeviceArrays, DeviceLayout, spread
from navi.batches.masking import REGIME_HEADER, REGIME_VALUE, REGIME_VANILLA, Purpose
from navi.batches.room import Room
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW
from navi.randomness import choose_below, fold, order_keys, uniform

# Shape suffixes: R rows, S segments, T tokens, G anchors of all tables, A attributes, K columns. All are as long as the
# room has it; what is beyond the batch is filling.

FILLER_LENGTH = 64
"""Tokens of a sequence of filling: short, so that attention over it costs little."""


@dataclass(frozen=True)
class _Masks:
    """What became of the tokens of the masked copy."""

    token_ids: Tensor
    masked: Tensor
    regime: Tensor
    unknown: Tensor


class DeviceBuilder:
    """Makes the training batches of a `BatchBuilder` on a device, where the corpus's arrays are kept."""

    def __init__(self, builder: BatchBuilder, device: torch.device | str) -> None:
        self.builder = builder
        self.device = torch.device(device)
        self._special = builder.special
        self._regular = self._keep(builder.special.regular)
        arrays = builder.arrays
        self._arrays = DeviceArrays(arrays, builder.special, self.device)
        self._row_table = self._keep(arrays.row_table)
        self._segment_attribute = self._keep(arrays.segment_attribute)
        self._attribute_offsets = self._keep(arrays.attribute_offsets)
        self._attribute_tokens = self._keep(arrays.attribute_tokens)
        self._column_table = self._keep(arrays.column_table)
        self._column_attribute = self._keep(arrays.column_attribute)
        self._num_headers = arrays.num_headers
        self._num_attributes = len(arrays.attribute_offsets) - 1
        self._num_tables = int(max(arrays.row_table.max(initial=-1), arrays.column_table.max(initial=-1))) + 1
        self._column_key = self._keep(arrays.column_key)
        self._role = self._keep(builder.column_role)
        self._related = None if builder.related_place is None else self._keep(builder.related_place)
        self._keep_anchors(builder)

    def _keep(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)

    def _keep_anchors(self, builder: BatchBuilder) -> None:
        """Number the anchors of all tables: one for each attribute that is of low entropy in a table."""
        arrays, low = builder.arrays, np.flatnonzero(builder.column_role == ROLE_LOW)
        pairs = np.stack([arrays.column_table[low], arrays.column_attribute[low]]).astype(np.int64)
        anchors, own = np.unique(pairs, axis=1, return_inverse=True)
        anchor_of = np.zeros(len(builder.column_role), np.int64)
        anchor_of[low] = own.reshape(-1)
        self._anchor_table, self._anchor_attribute = self._keep(anchors[0]), self._keep(anchors[1])
        self._anchor_of_column = self._keep(anchor_of)

    def build(self, rows: Tensor, key: Tensor, room: Room) -> tuple[Batch, Tensor]:
        """Return the batch of these rows, and how many tokens are masked in it.

        `rows` are as many as the room has, the batch's own first and -1 behind them; `key` is the epoch's, as
        `make_key(seed, epoch)` makes it. More masked tokens than there is room for are told, and lost.
        """
        layout = self._arrays.lay_out(rows, room.segments, room.tokens)
        masks = self._mask(layout, key)
        num_targets = masks.masked.sum()
        table_R = torch.where(layout.row_real, self._row_table[rows.clamp(min=0)].long(), self._num_tables)
        in_batch = _mark(table_R, self._num_tables + 1)[: self._num_tables]
        slot_A, attributes, ids_A = self._pack_attributes(layout, in_batch, room)
        column_S = self._find_columns(layout, table_R)
        aligned = self.builder.align
        packed = self._pack(layout, masks, slot_A, attributes, ids_A)
        batch = Batch(
            rows=packed,
            targets=self._list_targets(layout, masks, room),
            alignment=self._align(layout, column_S, in_batch, slot_A, room) if aligned else None,
            columns=self._relate(layout, column_S, room) if aligned and self._related is not None else None,
            row_ids=rows,
            row_table=torch.where(layout.row_real, table_R, -1),
            row_twin=torch.arange(room.rows, device=self.device) + (packed.num_rows // 2 if aligned else 0),
            num_tokens=room.tokens,
        )
        return batch, num_targets

    def _mask(self, layout: DeviceLayout, key: Tensor) -> _Masks:
        config, special = self.builder.masking, self._special
        row_keys = fold(key, layout.rows)
        segment_keys = fold(row_keys[layout.segment_row], layout.segment_rank)
        own_T, inside_T = layout.token_segment.clamp(min=0), layout.token_segment >= 0
        token_keys = torch.where(inside_T, fold(segment_keys[own_T], layout.token_position), 0)
        regime_S = self._draw_regimes(layout, row_keys, segment_keys)
        regime_T = torch.where(inside_T, regime_S[own_T], REGIME_VANILLA)
        chosen_T = uniform(fold(token_keys, Purpose.CHOOSE)) < config.token_share
        masked_T = torch.where(
            regime_T == REGIME_HEADER,
            layout.in_header,
            torch.where(regime_T == REGIME_VALUE, layout.in_value, chosen_T & (layout.in_header | layout.in_value)),
        )
        draw_T = torch.where(
            regime_T != REGIME_VANILLA,
            uniform(fold(segment_keys, Purpose.REPLACE))[own_T],
            uniform(fold(token_keys, Purpose.REPLACE)),
        )
        random_T = self._regular[choose_below(fold(token_keys, Purpose.RANDOM), len(self._regular))]
        ids = torch.where(masked_T & (draw_T < config.mask_rate), special.mask, layout.token_ids)
        swap_T = masked_T & (draw_T >= config.mask_rate) & (draw_T < config.mask_rate + config.random_rate)
        hidden_S = uniform(fold(segment_keys, Purpose.UNKNOWN)) < config.unknown_attribute_rate
        return _Masks(
            token_ids=torch.where(swap_T, random_T, ids),
            masked=masked_T,
            regime=regime_T,
            unknown=(regime_S == REGIME_HEADER) & hidden_S,
        )

    def _draw_regimes(self, layout: DeviceLayout, row_keys: Tensor, segment_keys: Tensor) -> Tensor:
        config = self.builder.masking
        vanilla = torch.full_like(layout.segment_row, REGIME_VANILLA)
        if not config.whole_spans:
            return vanilla
        row_S = torch.where(layout.segment_real, layout.segment_row, len(layout.rows))
        by_key = torch.sort(order_keys(fold(segment_keys, Purpose.RANK)), stable=True).indices
        order = by_key[torch.sort(row_S[by_key], stable=True).indices]
        rank_S = torch.zeros_like(layout.segment_rank).scatter(0, order, layout.segment_rank)
        shift_S = uniform(fold(row_keys, Purpose.SHIFT))[layout.segment_row]
        place_S = (rank_S + shift_S) / layout.row_count[layout.segment_row].clamp(min=1)
        regime_S = torch.where(place_S < config.header_share + config.value_share, REGIME_VALUE, vanilla)
        return torch.where(place_S < config.header_share, REGIME_HEADER, regime_S)

    def _list_targets(self, layout: DeviceLayout, masks: _Masks, room: Room) -> Targets:
        place, real = _compact(masks.masked, room.targets)
        return Targets(
            position=place,
            token=torch.where(real, layout.token_ids[place], IGNORED),
            kind=torch.where(real, masks.regime[place], -1),
        )

    def _pack_attributes(self, layout: DeviceLayout, in_batch: Tensor, room: Room) -> tuple[Tensor, Sequences, Tensor]:
        """Return the slot of each attribute of the corpus, the tokens of those of the batch, and which these are."""
        attribute_S = torch.where(
            layout.segment_real, self._segment_attribute[layout.segment_id].long(), self._num_attributes
        )
        used = _mark(attribute_S, self._num_attributes + 1)
        if self.builder.align:
            low_G = torch.where(in_batch[self._anchor_table], self._anchor_attribute, self._num_attributes)
            used = used | _mark(low_G, self._num_attributes + 1)
        used = used[: self._num_attributes]
        ids, real = _compact(used, room.attributes)
        first = self._attribute_offsets[ids]
        length = (self._attribute_offsets[ids + 1] - first) * real
        end = length.cumsum(0)
        owner, within, inside = spread(end, length, room.attribute_tokens)
        tokens = self._attribute_tokens[torch.where(inside, first[owner] + within, 0)].long()
        attributes = Sequences(
            token_ids=torch.where(inside, tokens, 0),
            token_position=within,
            starts=_fill_starts(end - length, end[-1], room.attribute_tokens),
        )
        return used.cumsum(0) - 1 + FIRST_SLOT, attributes, torch.where(real, ids, -1)

    def _pack(self, layout: DeviceLayout, masks: _Masks, slot_A: Tensor, attributes: Sequences, ids_A: Tensor) -> Rows:
        """Put the masked and, when aligning, the plain copy one after the other."""
        slot_S = torch.where(layout.segment_real, slot_A[self._segment_attribute[layout.segment_id].long()], SLOT_NONE)
        copies = [(masks.token_ids, torch.where(masks.unknown & layout.segment_real, SLOT_UNKNOWN, slot_S))]
        if self.builder.align:
            copies.append((layout.token_ids, slot_S))
        num_segments, num_tokens = len(slot_S), len(layout.token_ids)
        starts = _fill_starts(layout.row_starts, layout.end, num_tokens)
        local_starts = _fill_starts(layout.unit_starts, layout.end, num_tokens)
        none = 2 * num_segments * len(copies)
        own_T, inside_T = layout.token_segment.clamp(min=0), layout.token_segment >= 0
        spans = [
            torch.where(layout.in_header | layout.in_value, 2 * (own_T + num_segments * number) + layout.in_value, none)
            for number in range(len(copies))
        ]
        return Rows(
            token_ids=torch.cat([tokens for tokens, _ in copies]),
            token_position=layout.token_position.repeat(len(copies)),
            token_slot=torch.cat([torch.where(inside_T, slots[own_T], SLOT_NONE) for _, slots in copies]),
            token_span=torch.cat(spans),
            starts=_repeat_starts(starts, num_tokens, len(copies)),
            local_starts=_repeat_starts(local_starts, num_tokens, len(copies)),
            segment_slot=torch.cat([slots for _, slots in copies]),
            segment_row=torch.cat([layout.segment_row + (len(starts) - 1) * number for number in range(len(copies))]),
            attributes=attributes,
            attribute_ids=ids_A,
        )

    def _find_columns(self, layout: DeviceLayout, table_R: Tensor) -> Tensor:
        header_S = self._arrays.segment_header[layout.segment_id].long()
        column_S = torch.searchsorted(self._column_key, table_R[layout.segment_row] * self._num_headers + header_S)
        return torch.where(layout.segment_real, column_S, 0).clamp(max=max(len(self._column_key) - 1, 0))

    def _align(self, layout: DeviceLayout, column_S: Tensor, in_batch: Tensor, slot_A: Tensor, room: Room) -> Alignment:
        rank_of_table = in_batch.long().cumsum(0) - 1
        chosen_G = in_batch[self._anchor_table]
        anchor, real_anchor = _compact(chosen_G, room.anchors)
        rank_of_anchor = chosen_G.long().cumsum(0) - 1
        low, real_low = _compact(layout.segment_real & (self._role[column_S] == ROLE_LOW), room.low)
        high, real_high = _compact(layout.segment_real & (self._role[column_S] == ROLE_HIGH), room.high)
        attribute = self._anchor_attribute[anchor] if len(self._anchor_attribute) else anchor
        table_of = self._column_table[column_S].long()
        own = self._anchor_of_column[column_S[low]]
        return Alignment(
            low_segment=torch.where(real_low, low + len(layout.segment_id), 0),
            low_anchor=torch.where(real_low, rank_of_anchor[own] if len(rank_of_anchor) else own, 0),
            low_table=torch.where(real_low, rank_of_table[table_of[low]], room.tables),
            anchor_slot=torch.where(real_anchor, slot_A[attribute], -1),
            anchor_table=torch.where(real_anchor, rank_of_table[self._table_of_anchor(anchor)], -1),
            anchor_first=self._find_first(attribute, real_anchor),
            high_segment=torch.where(real_high, high + len(layout.segment_id), 0),
            high_column=torch.where(real_high, column_S[high], -1),
            high_value=torch.where(real_high, self._arrays.segment_value[layout.segment_id[high]].long(), -1),
            high_table=torch.where(real_high, rank_of_table[table_of[high]], room.tables),
            num_tables=room.tables,
        )

    def _table_of_anchor(self, anchor: Tensor) -> Tensor:
        return self._anchor_table[anchor] if len(self._anchor_table) else anchor

    def _find_first(self, attribute: Tensor, real: Tensor) -> Tensor:
        """Return 1 for the first anchor of each attribute, 0 for the others and for filling."""
        place = torch.arange(len(attribute), device=self.device)
        attribute = torch.where(real, attribute, self._num_attributes)
        earliest = torch.full((self._num_attributes + 1,), len(place), device=self.device)
        earliest = earliest.scatter_reduce(0, attribute, place, "amin")
        return ((earliest[attribute] == place) & real).long()

    def _relate(self, layout: DeviceLayout, column_S: Tensor, room: Room) -> Columns:
        assert self._related is not None
        related_S = layout.segment_real & (self._related[column_S] >= 0)
        segment, real = _compact(related_S, room.related)
        num_columns = len(self._column_key)
        used = _mark(torch.where(related_S, column_S, num_columns), num_columns + 1)[:num_columns]
        # One column more than there is room for holds the filling's segments.
        column, real_column = _compact(used, room.columns + 1)
        rank = used.long().cumsum(0) - 1
        return Columns(
            segment=torch.where(real, segment + len(layout.segment_id), 0),
            segment_column=torch.where(real, rank[column_S[segment]], room.columns),
            column=torch.where(real_column, self._related[column], -1),
            table=torch.where(real_column, self._column_table[column].long(), -1),
            attribute=torch.where(real_column, self._column_attribute[column].long(), -1),
        )


def _mark(numbers: Tensor, size: int) -> Tensor:
    """Tell which of the numbers below `size` there are."""
    return torch.zeros(size, dtype=torch.bool, device=numbers.device).scatter(0, numbers, True)


def _compact(chosen: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the places of what is chosen, in order, then zeros up to `size`; and which of these are real."""
    rank = chosen.long().cumsum(0) - 1
    target = torch.where(chosen & (rank < size), rank, size)
    places = torch.zeros(size + 1, dtype=torch.int64, device=chosen.device)
    places = places.scatter(0, target, torch.arange(len(chosen), device=chosen.device))[:size]
    real = torch.arange(size, device=chosen.device) < chosen.sum()
    return torch.where(real, places, 0), real


def _fill_starts(starts: Tensor, end: Tensor, num_tokens: int) -> Tensor:
    """Cut the filling behind `end` into short sequences; return where every sequence begins, and the end of all."""
    num_fillers = -(-num_tokens // FILLER_LENGTH)
    steps = torch.arange(num_fillers + 1, device=starts.device) * FILLER_LENGTH
    fillers = (end + steps).clamp(max=num_tokens)
    fillers = torch.cat([fillers[:-1], fillers.new_full((1,), num_tokens)])
    return torch.cat([torch.minimum(starts, end), fillers])


def _repeat_starts(starts: Tensor, step: int, times: int) -> Tensor:
    bodies = [starts[:-1] + step * number for number in range(times)]
    return torch.cat([*bodies, starts.new_full((1,), step * times)])
