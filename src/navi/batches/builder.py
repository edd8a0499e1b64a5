"""Batches from row numbers: layout, masks, attribute slots and alignment, on the device where the corpus lies."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import (
    FIRST_SLOT,
    SLOT_NONE,
    SLOT_UNKNOWN,
    Alignment,
    Batch,
    BatchCapacity,
    Rows,
    Sequences,
    Targets,
    TensorGroup,
)
from navi.batches.layout import (
    CorpusTensors,
    Layout,
    MaskingConfig,
    SpecialTokens,
    as_tensor,
    choose,
    count_up,
    find_lists,
    lay_end_to_end,
    lay_out,
    mask_layout,
)
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, SegmentArrays, gather_ranges
from navi.corpus.arrays import count_up as count_within
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

    slot: Tensor  # (attributes of the corpus,) row of the attribute table; meaningless for attributes that have none
    ids: Tensor  # (A,) the attributes that have one, as the corpus numbers them; -1 for filling
    sequences: Sequences  # their tokens


@dataclass(frozen=True, kw_only=True)
class _Tensors(CorpusTensors):
    """What a builder gathers batches from; without alignment nothing is known of columns."""

    regular_tokens: Tensor  # every token that may stand in for a masked one
    cell_column: Tensor  # (cells,) column of each cell
    column_role: Tensor  # (K,) role of each column
    column_anchor: Tensor  # (K,) anchor of each low-entropy column; columns of a table with one attribute share it
    anchor_table: Tensor  # (G,) table of each anchor, ascending; the last is of none, so that there is always one
    anchor_attribute: Tensor  # (G,) attribute of each anchor


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
        seed: int = 0,
    ) -> None:
        self.arrays = arrays
        self.special = special
        self.masking = masking or MaskingConfig()
        self.align = align
        self.seed = seed
        self.column_role = shuffle_roles(arrays, seed) if random_routing else np.asarray(arrays.column_role)
        """(K,) role of each column."""
        self._num_attributes = len(arrays.attribute_offsets) - 1
        self._num_tables = int(max(arrays.row_table.max(initial=-1), arrays.column_table.max(initial=-1))) + 1
        self._corpus = self._gather_tensors()
        self._num_numbers = sum(len(getattr(arrays, field.name)) for field in fields(CorpusTensors))

    @property
    def device(self) -> torch.device:
        """Where batches are made."""
        return self._corpus.row_offsets.device

    def to(self, device: torch.device | str) -> Self:
        """Return a builder that makes the same batches on another device; a GPU gets a small corpus without a wait."""
        moved = copy.copy(self)
        pin = torch.device(device).type == "cuda" and self._num_numbers <= MOST_MOVED
        moved._corpus = (self._corpus.pin() if pin else self._corpus).to(device)
        return moved

    def build(self, rows: Ints, *, epoch: int, beside: Ints | None = None) -> Batch:
        """Return the training batch of these rows for this epoch.

        `beside` are the rows of the larger batch that these are a part of: anchors of its tables compete here too.
        """
        others = None if beside is None else self._move(beside)
        return self._build(self._move(rows), make_key(self.seed, epoch), None, others)

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

    def mask_layout(self, layout: Layout, *, epoch: int) -> tuple[Layout, Targets]:
        """Return a layout as an epoch masks it, and what is to be predicted there."""
        key = make_key(self.seed, epoch)
        return mask_layout(layout, self.masking, key, self.special.mask, self._corpus.regular_tokens, None)

    def pack_rows(self, rows: Ints, num_tokens: int | None = None, slots: AttributeSlots | None = None) -> Rows:
        """Return rows as they are, unmasked, for inference."""
        return self.pack_layout(self.lay_out(rows, num_tokens), slots)

    def pack_layout(self, layout: Layout, slots: AttributeSlots | None = None) -> Rows:
        """Return a layout as the encoder takes it, with slots for the attributes it has or those given."""
        attribute_S = self._corpus.segment_attribute[layout.segment_id].long()
        if slots is None:
            slots = self._number(_mark(attribute_S, self._num_attributes), None)
        return _join_copies([layout], slots.slot[attribute_S], slots)

    def is_worth_moving(self, num_tokens: int) -> bool:
        """Return whether to copy the corpus to a GPU to pack rows of so many tokens there: not for few rows of many."""
        return self._num_numbers <= min(MOVED_PER_TOKEN * num_tokens, MOST_MOVED)

    def number_attributes(self, rows: Ints) -> AttributeSlots:
        """Return slots for the attributes of many rows, so that one attribute table serves all their batches."""
        used = np.zeros(self._num_attributes, np.bool_)
        segments = self.arrays.row_segments[gather_ranges(self.arrays.row_offsets, rows)[1]]
        used[self.arrays.segment_attribute[segments]] = True
        return self._number(torch.from_numpy(used).to(self.device), None)

    def _build(
        self, rows: Tensor, key: int | Tensor, capacity: BatchCapacity | None, beside: Tensor | None = None
    ) -> Batch:
        corpus = self._corpus
        sizes = {} if capacity is None else {"num_segments": capacity.segments, "num_tokens": capacity.tokens}
        layout = lay_out(corpus, rows, self.special, **sizes, filled=capacity is not None)
        max_targets, mask_token = capacity and capacity.targets, self.special.mask
        masked, targets = mask_layout(layout, self.masking, key, mask_token, corpus.regular_tokens, max_targets)
        table_R = corpus.row_table[rows.clamp(min=0)].long()
        in_batch = _mark(torch.where(rows >= 0, table_R, table_R[:1]), self._num_tables + 1)
        if beside is not None:
            in_batch[corpus.row_table[beside].long()] = True
        attribute_S = used = corpus.segment_attribute[layout.segment_id].long()
        if self.align:
            low_G = torch.where(in_batch[corpus.anchor_table], corpus.anchor_attribute, self._num_attributes)
            used = torch.cat([attribute_S, low_G])
        slots = self._number(_mark(used, self._num_attributes + 1)[:-1], capacity)
        copies = [masked, layout] if self.align else [masked]
        return Batch(
            rows=_join_copies(copies, slots.slot[attribute_S], slots),
            targets=targets,
            alignment=self._align(layout, in_batch, slots, capacity) if self.align else None,
            row_ids=rows,
            row_table=torch.where(rows >= 0, table_R, -1),
            plain_row=count_up(len(rows), rows) + (len(copies) - 1) * (len(layout.starts) - 1),
        )

    def _number(self, used_A: Tensor, capacity: BatchCapacity | None) -> AttributeSlots:
        """Give the attributes that are used their slots, in their order."""
        tokens, size = self._corpus.attribute_tokens, capacity and capacity.attribute_tokens
        chosen = choose(used_A, capacity and capacity.attributes)
        first, length = find_lists(self._corpus.attribute_offsets, chosen.places)
        begins, owner, within = lay_end_to_end(chosen.fill(length, 0), size, capacity is not None)
        place = F.pad(first, (0, len(begins) - len(first)))[owner] + within
        sequences = Sequences(
            token_ids=tokens[place.clamp(max=len(tokens) - 1)].long(),
            token_position=within,
            starts=F.pad(begins, (0, 1), value=len(owner)),
        )
        slot = used_A.cumsum(0) + (FIRST_SLOT - 1)
        return AttributeSlots(slot=slot, ids=chosen.fill(chosen.places, -1), sequences=sequences)

    def _align(
        self, layout: Layout, in_batch: Tensor, slots: AttributeSlots, capacity: BatchCapacity | None
    ) -> Alignment:
        corpus, column_S = self._corpus, self._corpus.cell_column[layout.segment_cell]
        role_S, is_anchor_G = corpus.column_role[column_S], in_batch[corpus.anchor_table]
        low = choose(layout.segment_real & (role_S == ROLE_LOW), capacity and capacity.low)
        high = choose(layout.segment_real & (role_S == ROLE_HIGH), capacity and capacity.high)
        anchor = choose(is_anchor_G, capacity and capacity.anchors)
        attribute_K, table_K = corpus.anchor_attribute[anchor.places], corpus.anchor_table[anchor.places]
        table_rank, anchor_rank = in_batch.cumsum(0) - 1, is_anchor_G.cumsum(0) - 1
        table_S = table_rank[corpus.column_table[column_S]]
        value_H = corpus.segment_value[layout.segment_id[high.places]].long()
        num_tables = int(in_batch.sum()) if capacity is None else capacity.tables
        plain = len(column_S)  # the plain copy's segments follow those of the masked copy
        return Alignment(
            low_segment=low.fill(low.places + plain, 0),
            low_anchor=low.fill(anchor_rank[corpus.column_anchor[column_S[low.places]]], 0),
            low_table=low.fill(table_S[low.places], num_tables),
            anchor_slot=anchor.fill(slots.slot[attribute_K], -1),
            anchor_table=anchor.fill(table_rank[table_K], -1),
            high_segment=high.fill(high.places + plain, 0),
            high_column=high.fill(column_S[high.places], -1),
            high_value=high.fill(value_H, -1),
            high_table=high.fill(table_S[high.places], num_tables),
            num_tables=num_tables,
        )

    def _gather_tensors(self) -> _Tensors:
        """Number the anchors of all tables, one for each attribute of low entropy in a table, and view the arrays."""
        arrays, low = self.arrays, np.flatnonzero(self.align & (self.column_role == ROLE_LOW))
        pairs = np.stack([arrays.column_table[low], arrays.column_attribute[low]]).astype(np.int64)
        pairs, own = np.unique(pairs, axis=1, return_inverse=True)
        anchor = np.zeros(arrays.num_columns, np.int64)
        anchor[low] = own.reshape(-1)
        return _Tensors(
            **{field.name: as_tensor(getattr(arrays, field.name)) for field in fields(CorpusTensors)},
            regular_tokens=as_tensor(self.special.regular),
            cell_column=as_tensor(arrays.cell_column if self.align else anchor[:0]),
            column_role=as_tensor(self.column_role),
            column_anchor=as_tensor(anchor),
            anchor_table=as_tensor(np.append(pairs[0], self._num_tables)),
            anchor_attribute=as_tensor(np.append(pairs[1], 0)),
        )

    def _move(self, rows: Ints) -> Tensor:
        moved = torch.from_numpy(np.ascontiguousarray(rows, np.int64))
        return moved.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else moved


def shuffle_roles(arrays: SegmentArrays, seed: int) -> NDArray[np.int8]:
    """Deal each table's roles out again among its columns: the random routing that entropy is compared with."""
    keys = order_keys(fold(make_key(seed), np.arange(len(arrays.column_role))))
    dealt = np.lexsort((keys, arrays.column_table))
    return np.asarray(arrays.column_role)[dealt]


def _join_copies(copies: list[Layout], slot_S: Tensor, slots: AttributeSlots) -> Rows:
    """Put copies of one layout one after the other, masked or plain."""
    layout, num_copies = copies[0], len(copies)
    num_tokens, num_spans = layout.num_tokens, 2 * len(slot_S)
    slot_copies = [torch.where(each.segment_unknown, SLOT_UNKNOWN, slot_S) for each in copies]
    span_T = torch.where(layout.token_span == num_spans, num_spans * num_copies, layout.token_span)
    return Rows(
        token_ids=torch.cat([each.token_ids for each in copies]),
        token_position=layout.token_position.repeat(num_copies),
        token_slot=torch.cat([layout.spread(slots, SLOT_NONE) for slots in slot_copies]),
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


def pack_texts(
    offsets: Ints, tokens: NDArray[np.integer], chosen: Ints, special: SpecialTokens | None = None
) -> Sequences:
    """Return some lists of tokens as sequences; given special tokens, as sentences between [CLS] and [SEP]."""
    lengths, index = gather_ranges(offsets, chosen)
    frame = 0 if special is None else 1
    starts = np.concatenate([[0], np.cumsum(lengths + 2 * frame)])
    packed = np.empty(starts[-1], np.int64)
    packed[np.repeat(starts[:-1] + frame, lengths) + count_within(lengths)] = tokens[index]
    if special is not None:
        packed[starts[:-1]], packed[starts[1:] - 1] = special.cls, special.sep
    return Sequences(
        token_ids=torch.from_numpy(packed),
        token_position=torch.from_numpy(count_within(lengths + 2 * frame)),
        starts=torch.from_numpy(starts),
    )
