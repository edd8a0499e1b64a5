"""Tests of packed batches: each against a slow walk over the rows, filled up or not, and pinned to earlier versions."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches import (
    FIRST_SLOT,
    SLOT_NONE,
    SLOT_UNKNOWN,
    BatchBuilder,
    BatchCapacity,
    MaskingConfig,
    choose_capacities,
    measure_capacity,
)
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW
from navi.losses import AlignmentConfig, compute_losses, measure_step
from navi.model import load_backbone
from navi.randomness import make_key

MASKING = MaskingConfig(header_share=0.4, value_share=0.4, unknown_attribute_rate=0.5)
SEEDS = st.integers(0, 2**16)
CHOSEN = st.lists(st.integers(0, 23), min_size=1, max_size=10, unique=True).map(np.array)
ALIGNED = (
    *("low_segment", "low_anchor", "low_table", "anchor_slot", "anchor_table"),
    *("high_segment", "high_column", "high_value", "high_table"),
)


def list_tensors(group):
    """Return every tensor of a batch by name, those of the groups in it too."""
    found = {}
    for field in fields(group):
        member = getattr(group, field.name)
        if isinstance(member, torch.Tensor):
            found[field.name] = member
        elif hasattr(member, "__dataclass_fields__"):
            found |= {f"{field.name}.{name}": tensor for name, tensor in list_tensors(member).items()}
    return found


def serialise(arrays, rows, special):
    """Return the fields of a layout as lists, token by token: [CLS], then header : value [SEP] of each segment."""
    tokens, segments, starts, local = [], [], [], []
    for number, row in enumerate(rows):
        starts.append(len(tokens))
        local.append(len(tokens))
        tokens.append((special.cls, 0, None))
        for rank, cell in enumerate(range(arrays.row_offsets[row], arrays.row_offsets[row + 1])):
            segment, place = arrays.row_segments[cell], len(segments)
            header, value = arrays.segment_header[segment], arrays.segment_value[segment]
            header_tokens = arrays.header_tokens[slice(*arrays.header_offsets[header : header + 2])].tolist()
            value_tokens = arrays.value_tokens[slice(*arrays.value_offsets[value : value + 2])].tolist()
            parts = [*((t, 2 * place) for t in header_tokens), (special.colon, None)]
            parts += [*((t, 2 * place + 1) for t in value_tokens), (special.sep, None)]
            segments.append((number, rank, cell, segment, len(tokens)))
            local.append(len(tokens))
            tokens += [(token, position, span) for position, (token, span) in enumerate(parts)]
    columns = [list(column) for column in zip(*tokens, strict=True)] or [[]] * 3
    columns[2] = [2 * len(segments) if span is None else span for span in columns[2]]
    names = ("token_ids", "token_position", "token_span")
    found = dict(zip(names, columns, strict=True))
    names = ("segment_row", "segment_rank", "segment_cell", "segment_id", "segment_starts")
    found |= dict(zip(names, ([*each] for each in zip(*segments, strict=True)) if segments else [[]] * 5, strict=True))
    return found | {"starts": [*starts, len(tokens)], "local_starts": [*local, len(tokens)], "rows": list(rows)}


@settings(max_examples=60)
@given(seed=SEEDS, rows=st.lists(st.integers(0, 11), max_size=8), cells=st.sampled_from([(1, 6), (0, 3), (0, 0)]))
def test_a_layout_is_what_the_slow_serialiser_writes(make_arrays, special, seed, rows, cells):
    arrays, rows = make_arrays(seed=seed, num_rows=12, cells=cells), np.array(rows, dtype=np.int64)
    layout = BatchBuilder(arrays, special, align=False).lay_out(rows)
    for name, expected in serialise(arrays, rows, special).items():
        assert getattr(layout, name).tolist() == expected, name
    assert layout.starts.diff().tolist() == arrays.count_row_tokens()[rows].tolist()


def walk_segments(arrays, rows):
    """Yield (place, table, column, attribute, value) of every cell of some rows."""
    columns = list(zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True))
    place = 0
    for row in rows:
        table = int(arrays.row_table[row])
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            column = columns.index((table, int(arrays.segment_header[segment])))
            yield place, table, column, int(arrays.segment_attribute[segment]), int(arrays.segment_value[segment])
            place += 1


@settings(max_examples=30)
@given(seed=SEEDS, rows=CHOSEN, cells=st.sampled_from([(1, 6), (0, 2)]))
def test_a_batch_is_the_masked_copy_then_the_plain_copy(make_arrays, special, seed, rows, cells):
    arrays = make_arrays(seed=seed, cells=cells)
    builder = BatchBuilder(arrays, special, masking=MASKING, seed=3)
    batch, layout = builder.build(rows, epoch=2), builder.lay_out(rows)
    masks, targets = builder.mask_layout(layout, epoch=2)
    packed, count, num_spans = batch.rows, len(layout.token_ids), 2 * len(layout.segment_id)
    assert packed.token_ids.tolist() == [*masks.token_ids, *layout.token_ids]
    assert packed.token_position.tolist() == [*layout.token_position, *layout.token_position]
    for name in ("starts", "local_starts"):
        starts = getattr(layout, name)
        assert getattr(packed, name).tolist() == [*starts[:-1], *(starts + count)]
    assert packed.segment_row.tolist() == [*layout.segment_row, *(layout.segment_row + len(rows))]
    masked_span = torch.where(layout.token_span == num_spans, 2 * num_spans, layout.token_span)
    assert packed.token_span.tolist() == [*masked_span, *(layout.token_span + num_spans)]
    assert all(torch.equal(getattr(batch.targets, name), getattr(targets, name)) for name in ("position", "token"))
    assert batch.row_ids.tolist() == rows.tolist()
    assert batch.plain_row.tolist() == list(range(len(rows), 2 * len(rows)))
    # Slots lead to the segments' attributes, each packed once, or to the unknown one; values to their rows.
    attributes = [attribute for *_, attribute, _ in walk_segments(arrays, rows)]
    plain = [packed.attribute_ids.tolist().index(attribute) + FIRST_SLOT for attribute in attributes]
    masked = [SLOT_UNKNOWN if hidden else slot for slot, hidden in zip(plain, masks.segment_unknown, strict=True)]
    assert packed.segment_slot.tolist() == masked + plain
    owner = layout.spread(torch.arange(len(attributes)), -1).tolist()
    expected = [[SLOT_NONE if own < 0 else slots[own] for own in owner] for slots in (masked, plain)]
    assert packed.token_slot.tolist() == expected[0] + expected[1]
    values = [span % 2 == 1 and span < 2 * num_spans for span in packed.token_span.tolist()]
    spans = zip(values, packed.token_span.tolist(), strict=True)
    expected = [int(packed.segment_row[span // 2]) if is_value else 2 * len(rows) for is_value, span in spans]
    assert packed.find_value_rows().tolist() == expected
    for number, attribute in enumerate(packed.attribute_ids.tolist()):
        own = arrays.attribute_tokens[slice(*arrays.attribute_offsets[attribute : attribute + 2])]
        within = slice(*packed.attributes.starts[number : number + 2].tolist())
        assert packed.attributes.token_ids[within].tolist() == own.tolist()
        assert packed.attributes.token_position[within].tolist() == list(range(len(own)))


@settings(max_examples=60)
@given(seed=SEEDS, rows=CHOSEN)
def test_alignment_is_what_a_walk_over_the_cells_finds(make_arrays, special, seed, rows):
    arrays = make_arrays(seed=seed)
    batch = BatchBuilder(arrays, special).build(rows, epoch=0)
    alignment, num_segments = batch.alignment, batch.rows.num_segments // 2
    tables, role = sorted(set(arrays.row_table[rows].tolist())), arrays.column_role
    # Several columns of a table may share an attribute (actors.0, actors.1): they share one anchor.
    columns = zip(arrays.column_table.tolist(), arrays.column_attribute.tolist(), role.tolist(), strict=True)
    anchors = sorted({(table, attribute) for table, attribute, own in columns if own == ROLE_LOW and table in tables})
    attributes = [attribute for _, attribute in anchors]
    low, high = [], []
    for place, table, column, attribute, value in walk_segments(arrays, rows):
        if role[column] == ROLE_LOW:
            low.append((place + num_segments, anchors.index((table, attribute)), tables.index(table)))
        if role[column] == ROLE_HIGH:
            high.append((place + num_segments, column, value, tables.index(table)))
    expected = [*(zip(*low, strict=True) if low else [()] * 3)]
    expected.append([batch.rows.attribute_ids.tolist().index(attribute) + FIRST_SLOT for attribute in attributes])
    expected.append([tables.index(table) for table, _ in anchors])
    expected += [*(zip(*high, strict=True) if high else [()] * 4)]
    for name, entries in zip(ALIGNED, expected, strict=True):
        assert getattr(alignment, name).tolist() == list(entries), name
    assert alignment.num_tables == len(tables)


def test_random_routing_deals_the_roles_of_each_table_out_again(make_arrays, special):
    arrays = make_arrays(cells=(6, 6), roles=(1, 1, 1, 2, 0, 0))
    dealt = [BatchBuilder(arrays, special, random_routing=True, seed=seed).column_role for seed in range(300)]
    for table in range(3):
        within = arrays.column_table == table
        assert all(sorted(role[within]) == sorted(arrays.column_role[within]) for role in dealt)
    low_share = (np.stack(dealt) == ROLE_LOW).mean(axis=0)  # every column has every role in turn
    assert np.abs(low_share - 3 / 6).max() < 5 * np.sqrt(1 / 4 / 300)


@pytest.mark.parametrize(("routing", "digest"), [(False, "813a7563b58b117c"), (True, "c875ee571d251276")])
def test_the_batches_of_a_seed_are_those_of_earlier_versions(make_arrays, special, routing, digest):
    arrays = make_arrays(seed=5, num_tables=4)
    builder = BatchBuilder(arrays, special, seed=3, random_routing=routing)
    batch = builder.build(np.arange(20)[::-1].copy(), epoch=2)
    names = {
        "rows": "token_ids token_position token_slot token_span starts local_starts segment_slot segment_row "
        "attribute_ids attributes.token_ids attributes.token_position attributes.starts",
        "targets": "position token kind",
        "alignment": " ".join(ALIGNED),
    }
    tensors, found = list_tensors(batch), hashlib.sha256()
    for name in [f"{group}.{name}" for group in names for name in names[group].split()]:
        found.update(tensors[name].numpy().tobytes())
    for name in ("row_ids", "row_table", "plain_row"):
        found.update(tensors[name].numpy().tobytes())
    assert found.hexdigest()[:16] == digest


# A recorded pass needs batches of a set size: everything behind the batch's own is filling that changes no loss.

META_KEY = torch.empty((), dtype=torch.int64, device="meta")
SETTINGS = {
    "default": {},
    "paper": {"masking": MASKING},
    "vanilla": {"masking": MaskingConfig(whole_spans=False)},
    "without alignment": {"align": False},
    "random routing": {"random_routing": True},
}


@pytest.fixture(params=range(3))
def arrays(make_arrays, request):
    return make_arrays(num_rows=20, num_tables=4, seed=request.param, cells=(request.param % 2, 6))


@pytest.fixture(params=SETTINGS)
def builder(arrays, special, request):
    return BatchBuilder(arrays, special, seed=5, **SETTINGS[request.param])


def grow(capacity, slack):
    return BatchCapacity(**{name: size + slack for name, size in capacity._asdict().items()})


def build_filled(builder, rows, capacity, epoch=2):
    padded = torch.full((capacity.rows,), -1)
    padded[: len(rows)] = torch.from_numpy(rows)
    return builder.build_filled(padded, torch.tensor(make_key(builder.seed, epoch)), capacity)


def test_filling_a_batch_up_never_waits_for_a_number(builder):
    """On the meta device there are shapes alone: whatever a host would have to read from a GPU raises there."""
    rows = np.arange(7)
    capacity = grow(measure_capacity(builder, rows), 9)
    filled = builder.to("meta").build_filled(torch.empty(capacity.rows).long().to("meta"), META_KEY, capacity)
    measure_step([filled])
    expected = build_filled(builder, rows, capacity)
    assert {name: tensor.shape for name, tensor in list_tensors(filled).items()} == {
        name: tensor.shape for name, tensor in list_tensors(expected).items()
    }


@pytest.fixture(scope="module")
def model(tiny_backbone):
    return load_backbone(tiny_backbone, local_head_share=0.5).eval()


@pytest.mark.parametrize("slack", [0, 13])
@pytest.mark.parametrize("negatives", ["table", "batch"])
def test_losses_and_gradients_of_a_filled_batch_are_those_of_the_batch(builder, model, negatives, slack):
    rows = np.arange(20)[::-1].copy()
    config = AlignmentConfig(weight=1.0, low_negatives=negatives, row_weight=float(builder.align))
    capacity = grow(measure_capacity(builder, rows), slack)
    found = []
    for batch in (builder.build(rows, epoch=2), build_filled(builder, rows, capacity)):
        model.zero_grad()
        losses = compute_losses(model, model(batch.rows), batch, config, measure_step([batch]))
        losses.loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((losses, gradient))
    (plain, plain_gradient), (filled, filled_gradient) = found
    for field in fields(plain):
        theirs, ours = (getattr(each, field.name).detach().double() for each in (plain, filled))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(filled_gradient, plain_gradient, atol=1e-4, rtol=1e-3)


def test_every_step_fits_one_of_few_capacities(builder):
    needs = [measure_capacity(builder, np.arange(low, low + 4)) for low in range(16)]
    capacities = choose_capacities(needs, 3)
    assert 1 <= len(capacities) <= 3
    assert all(any(capacity.holds(need) for capacity in capacities) for need in needs)
    assert [capacity.tokens for capacity in capacities] == sorted(capacity.tokens for capacity in capacities)


def test_more_targets_than_there_is_capacity_for_are_counted(arrays, special):
    builder, rows = BatchBuilder(arrays, special), np.arange(10)
    filled = build_filled(builder, rows, measure_capacity(builder, rows)._replace(targets=2), epoch=0)
    assert len(filled.targets.token) == 2
    assert int(filled.targets.num_masked) == len(builder.build(rows, epoch=0).targets.token)


# Inference on a GPU: one attribute table serves all batches, and sizes are counted on the host.


@settings(max_examples=60)
@given(st.data())
def test_rows_with_slots_for_a_whole_run_differ_in_these_alone(make_arrays, special, data):
    cells = data.draw(st.sampled_from([(0, 0), (0, 1), (0, 6), (1, 6)]), label="cells")
    arrays = make_arrays(seed=data.draw(st.integers(0, 50), label="seed"), cells=cells)
    rows = np.array(data.draw(st.lists(st.integers(0, arrays.num_rows - 1), min_size=1, max_size=12), label="rows"))
    builder = BatchBuilder(arrays, special, align=False)
    slots = builder.number_attributes(np.arange(arrays.num_rows))
    one = builder.pack_rows(rows)
    other = builder.pack_rows(rows, int(arrays.count_row_tokens()[rows].sum()), slots)
    for name in ("token_ids", "token_position", "token_span", "starts", "local_starts", "segment_row"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    for name in ("token_slot", "segment_slot"):
        ids = [torch.cat([torch.tensor([-1, -2]), rows.attribute_ids])[getattr(rows, name)] for rows in (one, other)]
        assert torch.equal(*ids), name
