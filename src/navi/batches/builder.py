"""Batches from row numbers: layout, masks, attribute slots and alignment, all by array operations."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import FIRST_SLOT, SLOT_NONE, SLOT_UNKNOWN, Alignment, Batch, Columns, Rows, Sequences, Targets
from navi.batches.layout import PART_NONE, PART_VALUE, Layout, SpecialTokens, lay_out
from navi.batches.masking import MaskingConfig, Masks, mask_layout
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, SegmentArrays, count_up, gather_ranges
from navi.randomness import fold, make_key, order_keys

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes, K columns.

Ints = NDArray[np.int64]


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
        self.related_place = _number_columns(related, arrays.num_columns) if related is not None else None
        """(K,) place of each column among those that are compared across tables; -1 for the others."""
        self.column_role = shuffle_roles(arrays, seed) if random_routing else np.asarray(arrays.column_role)
        """(K,) role of each column."""

    def build(self, rows: Ints, *, epoch: int) -> Batch:
        """Return the training batch of these rows for this epoch."""
        layout = lay_out(self.arrays, rows, self.special)
        masks = mask_layout(layout, self.masking, self.special, seed=self.seed, epoch=epoch)
        column_S = self._find_columns(layout)
        low_tables, low_columns = self._list_low_columns(rows) if self.align else (None, None)
        extra = self.arrays.column_attribute[low_columns] if low_columns is not None else None
        packed, slot_of = self._pack(layout, masks, extra)
        where = np.flatnonzero(masks.masked)
        targets = Targets(position=_long(where), token=_long(layout.token_ids[where]), kind=_long(masks.kind[where]))
        alignment = None
        if low_columns is not None and low_tables is not None:
            alignment = self._align(layout, column_S, low_tables, low_columns, slot_of)
        return Batch(
            rows=packed,
            targets=targets,
            alignment=alignment,
            columns=self._relate(layout, column_S) if self.align and self.related_place is not None else None,
            row_ids=_long(rows),
            row_table=_long(self.arrays.row_table[rows]),
            row_twin=_long(np.arange(len(rows)) + (len(rows) if self.align else 0)),
            num_tokens=len(layout.token_ids),
        )

    def pack_rows(self, rows: Ints) -> Rows:
        """Return rows as they are, unmasked, for inference."""
        return self.pack_layout(lay_out(self.arrays, rows, self.special))

    def pack_layout(self, layout: Layout, masks: Masks | None = None) -> Rows:
        """Return one copy of a layout, masked as `masks` say."""
        attribute_S = self.arrays.segment_attribute[layout.segment_id].astype(np.int64)
        ids_A, slots = np.unique(attribute_S, return_inverse=True)
        slot_S = slots + FIRST_SLOT
        tokens = layout.token_ids
        if masks is not None:
            slot_S = np.where(masks.unknown, SLOT_UNKNOWN, slot_S)
            tokens = masks.token_ids
        return _join_copies(layout, [(tokens, slot_S)], self.pack_attributes(ids_A), ids_A)

    def _pack(self, layout: Layout, masks: Masks, extra: NDArray[np.int32] | None) -> tuple[Rows, Ints]:
        """Pack the masked and, when aligning, the plain copy; also return the slot of each attribute id."""
        attribute_S = self.arrays.segment_attribute[layout.segment_id].astype(np.int64)
        wanted = attribute_S if extra is None else np.concatenate([attribute_S, extra])
        ids_A = np.unique(wanted)
        slot_of = np.zeros(int(ids_A[-1]) + 1 if len(ids_A) else 0, dtype=np.int64)
        slot_of[ids_A] = np.arange(len(ids_A)) + FIRST_SLOT
        plain_S = slot_of[attribute_S]
        copies = [(masks.token_ids, np.where(masks.unknown, SLOT_UNKNOWN, plain_S))]
        if self.align:
            copies.append((layout.token_ids, plain_S))
        return _join_copies(layout, copies, self.pack_attributes(ids_A), ids_A), slot_of

    def pack_attributes(self, ids_A: Ints) -> Sequences:
        """Return the tokens of some attributes."""
        lengths, index = gather_ranges(self.arrays.attribute_offsets, ids_A)
        return Sequences(
            token_ids=_long(self.arrays.attribute_tokens[index]),
            token_position=_long(count_up(lengths)),
            starts=_long(np.concatenate([[0], np.cumsum(lengths)])),
        )

    def _find_columns(self, layout: Layout) -> Ints:
        table_S = self.arrays.row_table[layout.rows][layout.segment_row]
        return self.arrays.find_columns(table_S, self.arrays.segment_header[layout.segment_id])

    def _list_low_columns(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the tables of these rows, and all their low-entropy columns, seen in these rows or not."""
        tables = np.unique(self.arrays.row_table[rows]).astype(np.int64)
        starts = np.searchsorted(self.arrays.column_table, tables)
        ends = np.searchsorted(self.arrays.column_table, tables, side="right")
        columns = np.repeat(starts, ends - starts) + count_up(ends - starts)
        return tables, columns[self.column_role[columns] == ROLE_LOW]

    def _relate(self, layout: Layout, column_S: Ints) -> Columns:
        assert self.related_place is not None
        related_S = np.flatnonzero(self.related_place[column_S] >= 0)
        column_K, own = np.unique(column_S[related_S], return_inverse=True)
        return Columns(
            segment=_long(related_S + len(layout.segment_id)),
            segment_column=_long(own),
            column=_long(self.related_place[column_K]),
            table=_long(self.arrays.column_table[column_K]),
            attribute=_long(self.arrays.column_attribute[column_K]),
        )

    def _align(self, layout: Layout, column_S: Ints, tables: Ints, low_columns: Ints, slot_of: Ints) -> Alignment:
        arrays, num_segments = self.arrays, len(layout.segment_id)
        # Several columns of a table may share an attribute (actors.0, actors.1): they share one anchor.
        pair = np.stack([arrays.column_table[low_columns], arrays.column_attribute[low_columns]]).astype(np.int64)
        anchors, anchor_of = np.unique(pair, axis=1, return_inverse=True)
        low_S = np.flatnonzero(self.column_role[column_S] == ROLE_LOW)
        high_S = np.flatnonzero(self.column_role[column_S] == ROLE_HIGH)
        own = np.searchsorted(low_columns, column_S[low_S])
        plain = num_segments  # the plain copy's segments follow those of the masked copy
        return Alignment(
            low_segment=_long(low_S + plain),
            low_anchor=_long(anchor_of.reshape(-1)[own]),
            low_table=_long(np.searchsorted(tables, arrays.column_table[column_S[low_S]])),
            anchor_slot=_long(slot_of[anchors[1]]),
            anchor_table=_long(np.searchsorted(tables, anchors[0])),
            anchor_first=_long(find_first(anchors[1])),
            high_segment=_long(high_S + plain),
            high_column=_long(column_S[high_S]),
            high_value=_long(arrays.segment_value[layout.segment_id[high_S]]),
            high_table=_long(np.searchsorted(tables, arrays.column_table[column_S[high_S]])),
            num_tables=len(tables),
        )


def _number_columns(columns: Ints, num_columns: int) -> Ints:
    """Return the place of each column in a list of columns; -1 for those that are not in it."""
    places = np.full(num_columns, -1, dtype=np.int64)
    places[columns] = np.arange(len(columns))
    return places


def find_first(numbers: Ints) -> NDArray[np.bool_]:
    """Tell of each number whether it stands there for the first time."""
    first = np.zeros(len(numbers), dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    return first


def shuffle_roles(arrays: SegmentArrays, seed: int) -> NDArray[np.int8]:
    """Deal each table's roles out anew among its columns: the random routing that entropy is compared with."""
    keys = order_keys(fold(make_key(seed), np.arange(len(arrays.column_role))))
    dealt = np.lexsort((keys, arrays.column_table))
    return np.asarray(arrays.column_role)[dealt]


def _join_copies(layout: Layout, copies: list[tuple[Ints, Ints]], attributes: Sequences, ids_A: Ints) -> Rows:
    """Put copies of one layout, each with its own tokens and slots, one after the other."""
    num_segments, num_tokens, num_rows = len(layout.segment_id), len(layout.token_ids), len(layout.rows)
    inside = layout.token_segment >= 0
    span_T = np.where(layout.token_part == PART_NONE, -1, 2 * layout.token_segment + (layout.token_part == PART_VALUE))
    total = 2 * num_segments * len(copies)
    spans = [np.where(span_T < 0, total, span_T + 2 * num_segments * number) for number in range(len(copies))]
    token_slots = [
        np.where(inside, slot_S[layout.token_segment] if num_segments else 0, SLOT_NONE) for _, slot_S in copies
    ]
    local = layout.local_starts
    return Rows(
        token_ids=_long(np.concatenate([tokens for tokens, _ in copies])),
        token_position=_long(np.tile(layout.token_position, len(copies))),
        token_slot=_long(np.concatenate(token_slots)),
        token_span=_long(np.concatenate(spans)),
        starts=_long(_repeat_starts(layout.row_starts, num_tokens, len(copies))),
        local_starts=_long(_repeat_starts(local, num_tokens, len(copies))),
        segment_slot=_long(np.concatenate([slot_S for _, slot_S in copies])),
        segment_row=_long(np.concatenate([layout.segment_row + num_rows * n for n in range(len(copies))])),
        attributes=attributes,
        attribute_ids=_long(ids_A),
    )


def _repeat_starts(starts: NDArray[np.int32], step: int, times: int) -> NDArray[np.int64]:
    bodies = [starts[:-1].astype(np.int64) + step * number for number in range(times)]
    return np.concatenate([*bodies, [step * times]])


def _long(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
