"""Tests of batches from row numbers: copies, slots, targets, roles and anchors, each against a slow walk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import BatchBuilder, MaskingConfig, lay_out, mask_layout
from navi.batches.batch import FIRST_SLOT, SLOT_NONE, SLOT_UNKNOWN
from navi.batches.builder import shuffle_roles
from navi.batches.layout import PART_HEADER, PART_VALUE
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW

MASKING = MaskingConfig(header_share=0.4, value_share=0.4, unknown_attribute_rate=0.5)
SEEDS = st.integers(0, 2**16)
CHOSEN = st.lists(st.integers(0, 23), min_size=1, max_size=10, unique=True).map(np.array)


def find_role(arrays, table, header):
    """Return the role of a column by looking through all of them."""
    (column,) = [
        number
        for number in range(len(arrays.column_role))
        if (arrays.column_table[number], arrays.column_header[number]) == (table, header)
    ]
    return column, arrays.column_role[column]


def walk_segments(arrays, rows):
    """Yield (place, table, header, attribute, value) of every cell of some rows."""
    place = 0
    for row in rows:
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            yield (
                place,
                int(arrays.row_table[row]),
                int(arrays.segment_header[segment]),
                int(arrays.segment_attribute[segment]),
                int(arrays.segment_value[segment]),
            )
            place += 1


def list_low_attributes(arrays, table):
    """Return the set A_low of a table."""
    chosen = (arrays.column_table == table) & (arrays.column_role == ROLE_LOW)
    return set(arrays.column_attribute[chosen].tolist())


def read_anchors(batch):
    """Return each anchor as (table number in the batch, attribute id)."""
    attributes = batch.rows.attribute_ids[batch.alignment.anchor_slot - FIRST_SLOT]
    return list(zip(batch.alignment.anchor_table.tolist(), attributes.tolist(), strict=True))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_a_batch_is_the_masked_copy_then_the_plain_copy(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special, masking=MASKING, seed=3).build(rows, epoch=2)
    layout = lay_out(arrays, rows, special)
    masks = mask_layout(layout, MASKING, special, seed=3, epoch=2)
    packed, count = batch.rows, len(layout.token_ids)
    assert packed.token_ids.tolist() == [*masks.token_ids, *layout.token_ids]
    assert packed.token_position.tolist() == [*layout.token_position, *layout.token_position]
    assert packed.starts.tolist() == [*layout.row_starts[:-1], *(layout.row_starts + count)]
    assert packed.local_starts.tolist() == [*layout.local_starts[:-1], *(layout.local_starts + count)]
    assert packed.segment_row.tolist() == [*layout.segment_row, *(layout.segment_row + len(rows))]
    assert batch.num_tokens == count
    assert batch.row_ids.tolist() == rows.tolist()


def test_spans_tell_headers_values_and_everything_else_apart(make_arrays, special):
    arrays = make_arrays()
    batch = BatchBuilder(arrays, special).build(np.arange(6), epoch=0)
    layout = lay_out(arrays, np.arange(6), special)
    num_segments = len(layout.segment_id)
    expected = []
    for copy in range(2):
        for segment, part in zip(layout.token_segment, layout.token_part, strict=True):
            kind = {PART_HEADER: 0, PART_VALUE: 1}.get(int(part))
            expected.append(4 * num_segments if kind is None else 2 * (segment + copy * num_segments) + kind)
    assert batch.rows.token_span.tolist() == expected


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_slots_lead_to_the_segments_attribute_or_to_the_unknown_one(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special, masking=MASKING).build(rows, epoch=0)
    layout = lay_out(arrays, rows, special)
    masks = mask_layout(layout, MASKING, special, seed=0, epoch=0)
    attributes = [attribute for *_, attribute, _ in walk_segments(arrays, rows)]
    plain = [batch.rows.attribute_ids.tolist().index(attribute) + FIRST_SLOT for attribute in attributes]
    masked = [SLOT_UNKNOWN if hidden else slot for slot, hidden in zip(plain, masks.unknown, strict=True)]
    assert batch.rows.segment_slot.tolist() == masked + plain
    for slots, token_slots in zip((masked, plain), batch.rows.token_slot.chunk(2), strict=True):
        expected = [slots[segment] if segment >= 0 else SLOT_NONE for segment in layout.token_segment]
        assert token_slots.tolist() == expected


def test_attributes_are_packed_once_each_with_their_own_tokens(make_arrays, special):
    arrays = make_arrays()
    packed = BatchBuilder(arrays, special).build(np.arange(8), epoch=0).rows
    ids, starts = packed.attribute_ids.tolist(), packed.attributes.starts.tolist()
    assert len(set(ids)) == len(ids) == len(starts) - 1
    for number, attribute in enumerate(ids):
        tokens = arrays.attribute_tokens[arrays.attribute_offsets[attribute] : arrays.attribute_offsets[attribute + 1]]
        within = slice(starts[number], starts[number + 1])
        assert packed.attributes.token_ids[within].tolist() == tokens.tolist()
        assert packed.attributes.token_position[within].tolist() == list(range(len(tokens)))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_targets_are_the_masked_tokens_as_they_were(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    targets = BatchBuilder(arrays, special, masking=MASKING, seed=seed).build(rows, epoch=1).targets
    layout = lay_out(arrays, rows, special)
    masks = mask_layout(layout, MASKING, special, seed=seed, epoch=1)
    expected = [
        (place, layout.token_ids[place], masks.kind[place]) for place in range(len(masks.masked)) if masks.masked[place]
    ]
    found = zip(targets.position.tolist(), targets.token.tolist(), targets.kind.tolist(), strict=True)
    assert list(found) == expected


def test_without_alignment_there_is_one_copy_and_nothing_to_align(make_arrays, special):
    arrays = make_arrays()
    batch = BatchBuilder(arrays, special, align=False).build(np.arange(6), epoch=0)
    assert batch.alignment is None
    assert batch.rows.num_rows == 6
    seen = {attribute for *_, attribute, _ in walk_segments(arrays, range(6))}
    assert set(batch.rows.attribute_ids.tolist()) == seen


def test_packed_rows_are_the_plain_copy_alone(make_arrays, special):
    arrays = make_arrays()
    builder = BatchBuilder(arrays, special)
    packed, batch = builder.pack_rows(np.arange(7)), builder.build(np.arange(7), epoch=0)
    assert packed.token_ids.tolist() == batch.rows.token_ids[batch.num_tokens :].tolist()
    attributes = packed.attribute_ids[packed.segment_slot - FIRST_SLOT].tolist()
    assert attributes == [attribute for *_, attribute, _ in walk_segments(arrays, range(7))]


def test_a_masked_layout_packs_as_the_masked_copy_does(make_arrays, special):
    arrays = make_arrays()
    builder = BatchBuilder(arrays, special, masking=MASKING, align=False)
    layout = lay_out(arrays, np.arange(7), special)
    masks = mask_layout(layout, MASKING, special, seed=0, epoch=4)
    packed, batch = builder.pack_layout(layout, masks), builder.build(np.arange(7), epoch=4)
    assert packed.token_ids.equal(batch.rows.token_ids)
    assert packed.token_slot.equal(batch.rows.token_slot)
    assert SLOT_UNKNOWN in packed.segment_slot


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_every_low_attribute_of_the_batchs_tables_is_one_anchor_of_its_table(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special).build(rows, epoch=0)
    tables = sorted(set(arrays.row_table[rows].tolist()))
    expected = [
        (number, attribute)
        for number, table in enumerate(tables)
        for attribute in sorted(list_low_attributes(arrays, table))
    ]
    assert sorted(read_anchors(batch)) == expected
    assert batch.alignment.num_tables == len(tables)


def test_low_attributes_are_anchors_even_when_no_row_of_the_batch_has_them(make_arrays, special):
    arrays = make_arrays(cells=(1, 1), roles=(1, 1, 1, 2, 0, 0))
    batch = BatchBuilder(arrays, special).build(np.array([0]), epoch=0)
    seen = {attribute for *_, attribute, _ in walk_segments(arrays, [0])}
    assert {attribute for _, attribute in read_anchors(batch)} - seen


def test_columns_with_the_same_attribute_share_an_anchor(make_arrays, special):
    arrays = make_arrays(num_attributes=2, roles=(1, 1, 1, 1, 1, 1), cells=(6, 6))
    batch = BatchBuilder(arrays, special).build(np.arange(10), epoch=0)
    assert len(read_anchors(batch)) == 2 * batch.alignment.num_tables
    assert len(batch.alignment.low_anchor) == 10 * 6


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_low_segments_are_those_of_low_columns_with_their_own_anchor(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special).build(rows, epoch=0)
    tables, anchors = sorted(set(arrays.row_table[rows].tolist())), read_anchors(batch)
    num_segments = batch.rows.num_segments // 2
    expected = [
        (place + num_segments, anchors.index((tables.index(table), attribute)), tables.index(table))
        for place, table, header, attribute, _ in walk_segments(arrays, rows)
        if find_role(arrays, table, header)[1] == ROLE_LOW
    ]
    found = (batch.alignment.low_segment, batch.alignment.low_anchor, batch.alignment.low_table)
    assert list(zip(*(tensor.tolist() for tensor in found), strict=True)) == expected


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=CHOSEN)
def test_high_segments_are_those_of_high_columns_with_column_and_value(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special).build(rows, epoch=0)
    tables = sorted(set(arrays.row_table[rows].tolist()))
    num_segments = batch.rows.num_segments // 2
    expected = []
    for place, table, header, _, value in walk_segments(arrays, rows):
        column, role = find_role(arrays, table, header)
        if role == ROLE_HIGH:
            expected.append((place + num_segments, column, value, tables.index(table)))
    alignment = batch.alignment
    found = (alignment.high_segment, alignment.high_column, alignment.high_value, alignment.high_table)
    assert list(zip(*(tensor.tolist() for tensor in found), strict=True)) == expected


@settings(max_examples=40, deadline=None)
@given(arrays_seed=SEEDS, seed=SEEDS)
def test_random_routing_keeps_the_number_of_roles_of_each_table(make_arrays, arrays_seed, seed):
    arrays = make_arrays(seed=arrays_seed, roles=(1, 1, 1, 2, 0, 0))
    dealt = shuffle_roles(arrays, seed)
    for table in range(3):
        within = arrays.column_table == table
        assert sorted(dealt[within]) == sorted(arrays.column_role[within])


def test_random_routing_gives_every_column_every_role_in_turn(make_arrays):
    arrays = make_arrays()
    dealt = np.stack([shuffle_roles(arrays, seed) for seed in range(600)])
    low_share = (dealt == ROLE_LOW).mean(axis=0)
    assert np.abs(low_share - 2 / 6).max() < 5 * np.sqrt(2 / 9 / 600)


def test_random_routing_decides_which_segments_are_aligned(make_arrays, special):
    arrays = make_arrays(cells=(6, 6))
    routed = BatchBuilder(arrays, special, random_routing=True, seed=5).build(np.arange(9), epoch=0)
    by_hand = replace(arrays, column_role=shuffle_roles(arrays, 5))
    expected = BatchBuilder(by_hand, special, seed=5).build(np.arange(9), epoch=0)
    entropy = BatchBuilder(arrays, special, seed=5).build(np.arange(9), epoch=0)
    assert routed.alignment.low_segment.tolist() == expected.alignment.low_segment.tolist()
    assert routed.alignment.high_segment.tolist() != entropy.alignment.high_segment.tolist()
    assert routed.rows.token_ids.equal(entropy.rows.token_ids)


@pytest.mark.parametrize("align", [True, False])
def test_rows_without_cells_can_still_be_batched(make_arrays, special, align):
    arrays = replace(
        make_arrays(num_rows=2), row_offsets=np.zeros(3, dtype=np.int64), row_segments=np.zeros(0, dtype=np.int32)
    )
    batch = BatchBuilder(arrays, special, align=align).build(np.arange(2), epoch=0)
    assert batch.rows.num_segments == 0
    assert set(batch.rows.token_ids.tolist()) == {special.cls}
    assert len(batch.targets.position) == 0
