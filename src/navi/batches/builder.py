"""Batches from row numbers: layout, masks, attribute slots and alignment, on the device where the corpus lies."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import (
    FIRST_SLOT,
    SLOT_NONE,
    SLOT_UNKNOWN,
    Alignment,
    Batch,
    BatchCapacity,
    RelatedColumns,
    Rows,
    Sequences,
    Targets,
    TensorGroup,
)
from navi.batches.layout import (
    CorpusTensors,
    Layout,
    MaskingConfig,
    Masks,
    SpecialTokens,
    as_tensor,
    choose,
    count_up_to,
    find_lists,
    lay_end_to_end,
    lay_out,
    mask_layout,
)
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, SegmentArrays, gather_ranges
from navi.randomness import fold, make_key, order_keys

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes, K columns, G anchors of all tables.

Ints = NDArray[np.int64]
MOVED_PER_TOKEN = 16
"""Numbers a token up to which copying a corpus to a GPU is quicker than packing its rows on the host."""
MOST_MOVED = 2**27
"""Numbers that are copied to a GPU for inference at most: half a GiB, or a whole one."""


@dataclass(frozen=True, kw_only=True)
class AttributeSlots(TensorGroup):
    """Attributes with rows in an attribute table, and which row each has."""

    slot: Tensor
    """(attributes of the corpus,) row of the attribute table; meaningless for attributes that have none."""
    ids: Tensor
    """(A,) the attributes that have one, as the corpus numbers them; -1 for filling."""
    sequences: Sequences
    """Their tokens."""


@dataclass(frozen=True, kw_only=True)
class _Columns(TensorGroup):
    """What alignment asks of the columns of all tables."""

    of_cell: Tensor
    """(cells,) column of each cell."""
    role: Tensor
    """(K,) role of each column."""
    related: Tensor | None
    """(K,) place of each column among those that are compared across tables; -1 for the others."""
    anchor: Tensor
    """(K,) anchor of each low-entropy column; columns of a table with one attribute share it."""
    anchor_table: Tensor
    """(G,) table of each anchor, ascending; the last is of none, so that there is always one."""
    anchor_attribute: Tensor
    """(G,) attribute of each anchor."""


class BatchBuilder:
    """Makes batches of a corpus or of encoded frames; holds no state that changes."""

    def __init__(
        self,
        arrays: SegmentArrays,
        special: SpecialTokens,
        *,
        masking: MaskingConfig | None = None,
        align: bool = True,
        random_routing: bool = False,
        related: Ints | None = None,
        seed: int = 0,
    ) -> None:
        self.arrays = arrays
        self.special = special
        self.masking = masking or MaskingConfig()
        self.align = align
        self.seed = seed
        self.column_role = shuffle_roles(arrays, seed) if random_routing else np.asarray(arrays.column_role)
        """(K,) role of each column."""
        self.related_place: Ints | None = None
        """(K,) place of each column among those that are compared across tables; -1 for the others."""
        if related is not None:
            self.related_place = np.full(arrays.num_columns, -1)
            self.related_place[related] = np.arange(len(related))
        self._num_tables = int(max(arrays.row_table.max(initial=-1), arrays.column_table.max(initial=-1))) + 1
        self._corpus = CorpusTensors.view(arrays)
        self._regular = as_tensor(special.regular)
        self._columns = self._survey_columns() if align else None

    @property
    def device(self) -> torch.device:
        """Where batches are made."""
        return self._regular.device

    def to(self, device: torch.device | str) -> Self:
        """Return a builder that makes the same batches on another device."""
        moved = copy.copy(self)
        moved._corpus, moved._regular = self._corpus.to(device), self._regular.to(device)
        moved._columns = None if self._columns is None else self._columns.to(device)
        return moved

    def build(self, rows: Ints, *, epoch: int) -> Batch:
        """Return the training batch of these rows for this epoch."""
        return self._build(self._move(rows), make_key(self.seed, epoch), None)

    def build_filled(self, rows: Tensor, key: Tensor, capacity: BatchCapacity) -> Batch:
        """Return the batch that `build` returns, filled up to a capacity: nothing waits for the device.

        `rows` are as many as there is capacity for, the batch's own first and -1 behind them; `key` is that of
        (seed, epoch). More masked tokens than there is capacity for are counted, and lost.
        """
        return self._build(rows, key, capacity)

    def lay_out(self, rows: Ints, num_tokens: int | None = None) -> Layout:
        """Return where the tokens of some rows stand; a GPU is not waited for if their number is given."""
        num_segments = int((self.arrays.row_offsets[rows + 1] - self.arrays.row_offsets[rows]).sum())
        return lay_out(self._corpus, self._move(rows), self.special, num_segments=num_segments, num_tokens=num_tokens)

    def mask_layout(self, layout: Layout, *, epoch: int) -> tuple[Masks, Targets]:
        """Return what an epoch masks in a layout, and what is to be predicted there."""
        return self._mask(layout, make_key(self.seed, epoch), None)

    def pack_rows(self, rows: Ints, num_tokens: int | None = None, slots: AttributeSlots | None = None) -> Rows:
        """Return rows as they are, unmasked, for inference."""
        return self.pack_layout(self.lay_out(rows, num_tokens), slots=slots)

    def pack_layout(self, layout: Layout, masks: Masks | None = None, slots: AttributeSlots | None = None) -> Rows:
        """Return one copy of a layout, masked as `masks` say, with slots for the attributes it has or those given."""
        attribute_S = self._corpus.segment_attribute.index_select(0, layout.segment_id).long()
        if slots is None:
            slots = self._number(_mark(attribute_S, len(self._corpus.attribute_offsets) - 1), None)
        return _join_copies(layout, [masks], slots.slot.index_select(0, attribute_S), slots)

    def number_attributes(self, rows: Ints) -> AttributeSlots:
        """Return slots for the attributes of many rows, so that one attribute table serves all their batches."""
        used = np.zeros(len(self.arrays.attribute_offsets) - 1, np.bool_)
        segments = self.arrays.row_segments[gather_ranges(self.arrays.row_offsets, rows)[1]]
        used[self.arrays.segment_attribute[segments]] = True
        return self._number(torch.from_numpy(used).to(self.device), None)

    def _build(self, rows: Tensor, key: int | Tensor, capacity: BatchCapacity | None) -> Batch:
        corpus, columns, num_attributes = self._corpus, self._columns, len(self._corpus.attribute_offsets) - 1
        layout = lay_out(
            corpus,
            rows,
            self.special,
            num_segments=capacity and capacity.segments,
            num_tokens=capacity and capacity.tokens,
            filled=capacity is not None,
        )
        masks, targets = self._mask(layout, key, capacity)
        table_R = corpus.row_table.index_select(0, rows.clamp(min=0)).long()
        in_batch = _mark(torch.where(rows >= 0, table_R, table_R[:1]), self._num_tables + 1)
        attribute_S = corpus.segment_attribute.index_select(0, layout.segment_id).long()
        used = attribute_S
        if columns is not None:
            chosen_G = in_batch.index_select(0, columns.anchor_table)
            used = torch.cat([used, torch.where(chosen_G, columns.anchor_attribute, num_attributes)])
        slots = self._number(_mark(used, num_attributes + 1)[:num_attributes], capacity)
        slot_S = slots.slot.index_select(0, attribute_S)
        packed = _join_copies(layout, [masks, None] if columns is not None else [masks], slot_S, slots)
        alignment = related = None
        if columns is not None:
            column_S = columns.of_cell.index_select(0, layout.segment_cell)
            alignment = self._align(columns, layout, column_S, in_batch, slots.slot, capacity)
            related = self._relate(columns, layout, column_S, capacity)
        num_copies = 1 if columns is None else 2
        twin_R = count_up_to(len(rows), rows) + (num_copies - 1) * (len(layout.starts) - 1)
        return Batch(
            rows=packed,
            targets=targets,
            alignment=alignment,
            columns=related,
            row_ids=rows,
            row_table=torch.where(rows >= 0, table_R, -1),
            row_twin=twin_R,
            num_tokens=len(layout.token_ids),
        )

    def _mask(self, layout: Layout, key: int | Tensor, capacity: BatchCapacity | None) -> tuple[Masks, Targets]:
        return mask_layout(
            layout,
            self.masking,
            key,
            mask_token=self.special.mask,
            regular_tokens=self._regular,
            max_targets=capacity and capacity.targets,
        )

    def _number(self, used_A: Tensor, capacity: BatchCapacity | None) -> AttributeSlots:
        """Give the attributes that are used their slots, in their order."""
        tokens = self._corpus.attribute_tokens
        chosen = choose(used_A, capacity and capacity.attributes)
        first, length = find_lists(self._corpus.attribute_offsets, chosen.places)
        begins, owner, within = lay_end_to_end(
            chosen.fill(length, 0), capacity and capacity.attribute_tokens, capacity is not None
        )
        first = torch.cat([first, first.new_zeros(len(begins) - len(first))])
        place = (first.index_select(0, owner) + within).clamp(max=len(tokens) - 1)
        return AttributeSlots(
            slot=used_A.cumsum(0) + (FIRST_SLOT - 1),
            ids=chosen.fill(chosen.places, -1),
            sequences=Sequences(
                token_ids=tokens.index_select(0, place).long(),
                token_position=within,
                starts=torch.cat([begins, begins.new_full((1,), len(owner))]),
            ),
        )

    def _align(
        self,
        columns: _Columns,
        layout: Layout,
        column_S: Tensor,
        in_batch: Tensor,
        slot_A: Tensor,
        capacity: BatchCapacity | None,
    ) -> Alignment:
        role_S = columns.role.index_select(0, column_S)
        low = choose(layout.segment_real & (role_S == ROLE_LOW), capacity and capacity.low)
        high = choose(layout.segment_real & (role_S == ROLE_HIGH), capacity and capacity.high)
        chosen_G = in_batch.index_select(0, columns.anchor_table)
        anchor = choose(chosen_G, capacity and capacity.anchors)
        attribute_K = columns.anchor_attribute.index_select(0, anchor.places)
        table_K = columns.anchor_table.index_select(0, anchor.places)
        rank_of_table, rank_of_anchor = in_batch.cumsum(0) - 1, chosen_G.cumsum(0) - 1
        table_S = rank_of_table.index_select(0, self._corpus.column_table.index_select(0, column_S))
        low_anchor = columns.anchor.index_select(0, column_S.index_select(0, low.places))
        num_tables = int(in_batch.sum()) if capacity is None else capacity.tables
        plain = len(column_S)  # the plain copy's segments follow those of the masked copy
        return Alignment(
            low_segment=low.fill(low.places + plain, 0),
            low_anchor=low.fill(rank_of_anchor.index_select(0, low_anchor), 0),
            low_table=low.fill(table_S.index_select(0, low.places), num_tables),
            anchor_slot=anchor.fill(slot_A.index_select(0, attribute_K), -1),
            anchor_table=anchor.fill(rank_of_table.index_select(0, table_K), -1),
            anchor_first=anchor.fill(_find_first(attribute_K, len(slot_A)), 0),
            high_segment=high.fill(high.places + plain, 0),
            high_column=high.fill(column_S.index_select(0, high.places), -1),
            high_value=high.fill(
                self._corpus.segment_value.index_select(0, layout.segment_id.index_select(0, high.places)).long(), -1
            ),
            high_table=high.fill(table_S.index_select(0, high.places), num_tables),
            num_tables=num_tables,
        )

    def _relate(
        self, columns: _Columns, layout: Layout, column_S: Tensor, capacity: BatchCapacity | None
    ) -> RelatedColumns | None:
        if columns.related is None:
            return None
        related_S = layout.segment_real & (columns.related.index_select(0, column_S) >= 0)
        num_columns = len(columns.role)
        used = _mark(torch.where(related_S, column_S, num_columns), num_columns + 1)[:num_columns]
        segment = choose(related_S, capacity and capacity.related)
        # One column more than there is capacity for has the segments of the filling.
        column = choose(used, capacity and capacity.columns + 1)
        rank = (used.cumsum(0) - 1).index_select(0, column_S.index_select(0, segment.places))
        return RelatedColumns(
            segment=segment.fill(segment.places + len(column_S), 0),
            segment_column=segment.fill(rank, capacity.columns if capacity else 0),
            column=column.fill(columns.related.index_select(0, column.places), -1),
            table=column.fill(self._corpus.column_table.index_select(0, column.places).long(), -1),
            attribute=column.fill(self._corpus.column_attribute.index_select(0, column.places).long(), -1),
        )

    def _survey_columns(self) -> _Columns:
        """Number the anchors of all tables: one for each attribute that is of low entropy in a table."""
        arrays, low = self.arrays, np.flatnonzero(self.column_role == ROLE_LOW)
        pairs = np.stack([arrays.column_table[low], arrays.column_attribute[low]]).astype(np.int64)
        pairs, own = np.unique(pairs, axis=1, return_inverse=True)
        anchor = np.zeros(arrays.num_columns, np.int64)
        anchor[low] = own.reshape(-1)
        return _Columns(
            of_cell=as_tensor(arrays.cell_column),
            role=as_tensor(self.column_role),
            related=None if self.related_place is None else as_tensor(self.related_place),
            anchor=as_tensor(anchor),
            anchor_table=as_tensor(np.append(pairs[0], self._num_tables)),
            anchor_attribute=as_tensor(np.append(pairs[1], 0)),
        )

    def _move(self, rows: Ints) -> Tensor:
        moved = torch.from_numpy(np.ascontiguousarray(rows, np.int64))
        return moved.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else moved


def is_worth_moving(arrays: SegmentArrays, num_tokens: int) -> bool:
    """Return whether to copy arrays to a GPU to pack rows of so many tokens there: not for few rows of many."""
    size = sum(len(getattr(arrays, field.name)) for field in fields(CorpusTensors))
    return size <= min(MOVED_PER_TOKEN * num_tokens, MOST_MOVED)


def shuffle_roles(arrays: SegmentArrays, seed: int) -> NDArray[np.int8]:
    """Deal each table's roles out again among its columns: the random routing that entropy is compared with."""
    keys = order_keys(fold(make_key(seed), np.arange(len(arrays.column_role))))
    dealt = np.lexsort((keys, arrays.column_table))
    return np.asarray(arrays.column_role)[dealt]


def _join_copies(layout: Layout, copies: list[Masks | None], slot_S: Tensor, slots: AttributeSlots) -> Rows:
    """Put copies of one layout one after the other, each masked or plain."""
    num_copies, num_tokens, num_spans = len(copies), len(layout.token_ids), 2 * len(slot_S)
    slot_copies = [slot_S if masks is None else torch.where(masks.unknown, SLOT_UNKNOWN, slot_S) for masks in copies]
    span_T = torch.where(layout.token_span == num_spans, num_spans * num_copies, layout.token_span)
    return Rows(
        token_ids=torch.cat([layout.token_ids if masks is None else masks.token_ids for masks in copies]),
        token_position=layout.token_position.repeat(num_copies),
        token_slot=torch.cat([layout.units.spread(slots, SLOT_NONE) for slots in slot_copies]),
        token_span=torch.cat([(span_T + num_spans * n).clamp(max=num_spans * num_copies) for n in range(num_copies)]),
        starts=_repeat_starts(layout.starts, num_tokens, num_copies),
        local_starts=_repeat_starts(layout.local_starts, num_tokens, num_copies),
        segment_slot=torch.cat(slot_copies),
        segment_row=torch.cat([layout.segment_row + (len(layout.starts) - 1) * n for n in range(num_copies)]),
        attributes=slots.sequences,
        attribute_ids=slots.ids,
    )


def _repeat_starts(starts: Tensor, step: int, times: int) -> Tensor:
    return torch.cat([*(starts[:-1] + step * number for number in range(times)), starts[-1:] + step * (times - 1)])


def _mark(numbers: Tensor, size: int) -> Tensor:
    """Return which of the numbers below `size` there are."""
    return torch.zeros(size, dtype=torch.bool, device=numbers.device).index_fill_(0, numbers, True)


def _find_first(numbers: Tensor, limit: int) -> Tensor:
    """Return 1 for each number below `limit` that stands there for the first time, 0 for the others."""
    place = count_up_to(len(numbers), numbers)
    earliest = torch.full((limit,), len(place), device=numbers.device).scatter_reduce(0, numbers, place, "amin")
    return (earliest.index_select(0, numbers) == place).long()
