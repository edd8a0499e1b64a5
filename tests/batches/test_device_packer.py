"""Tests that rows packed on a device are those packed on the host, but for the numbers of the attributes' slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import BatchBuilder
from navi.batches.batch import FIRST_SLOT
from navi.batches.device_packer import DevicePacker, is_worth_moving

CPU = torch.device("cpu")
EQUAL = ("token_ids", "token_position", "token_span", "starts", "local_starts", "segment_row")


def pack_both(arrays, special, rows, all_rows=None):
    """Return rows as the host packs them, and as the device does for a run over `all_rows`."""
    packer = DevicePacker(arrays, rows if all_rows is None else all_rows, special, CPU)
    num_tokens = int(arrays.count_row_tokens()[rows].sum())
    return BatchBuilder(arrays, special, align=False).pack_rows(rows), packer.pack_rows(rows, num_tokens)


def name_slots(slots, packed):
    """Return slots with the attributes in their place, as the corpus numbers them."""
    known = slots >= FIRST_SLOT
    return [
        int(packed.attribute_ids[slot - FIRST_SLOT]) if know else -1 for slot, know in zip(slots, known, strict=True)
    ]


def assert_same(host, device):
    for name in EQUAL:
        ours, theirs = getattr(device, name), getattr(host, name)
        assert ours.dtype == theirs.dtype, name
        assert torch.equal(ours, theirs), name
    for name in ("token_slot", "segment_slot"):
        assert name_slots(getattr(device, name), device) == name_slots(getattr(host, name), host), name


@given(st.data())
def test_rows_are_those_of_the_host(make_arrays, special, data):
    cells = data.draw(st.sampled_from([(0, 0), (0, 1), (0, 6), (1, 6)]), label="cells")
    arrays = make_arrays(seed=data.draw(st.integers(0, 50), label="seed"), cells=cells)
    row = st.integers(0, arrays.num_rows - 1)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=12), label="rows"))
    assert_same(*pack_both(arrays, special, rows, np.arange(arrays.num_rows)))


def test_attributes_and_slots_are_the_hosts_for_a_run_of_one_batch(make_arrays, special):
    host, device = pack_both(make_arrays(seed=3, cells=(0, 6)), special, np.array([4, 1, 9]))
    for ours, theirs in zip(device.list_tensors(), host.list_tensors(), strict=True):
        assert torch.equal(ours, theirs)


def test_an_attribute_has_one_slot_in_all_batches(make_arrays, special):
    arrays = make_arrays(seed=5)
    packer = DevicePacker(arrays, np.arange(arrays.num_rows), special, CPU)
    tokens = arrays.count_row_tokens()
    slots = {}
    for row in range(arrays.num_rows):
        packed = packer.pack_rows(np.array([row]), int(tokens[row]))
        segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        for attribute, slot in zip(arrays.segment_attribute[segments], packed.segment_slot.tolist(), strict=True):
            assert slots.setdefault(attribute, slot) == slot
    assert sorted(slots.values()) == list(range(FIRST_SLOT, FIRST_SLOT + len(slots)))


def test_attributes_of_other_rows_are_left_out(make_arrays, special):
    arrays = make_arrays(seed=5, cells=(1, 1))
    packer = DevicePacker(arrays, np.array([2, 2]), special, CPU)
    attribute = arrays.segment_attribute[arrays.row_segments[arrays.row_offsets[2]]]
    tokens = arrays.attribute_tokens[arrays.attribute_offsets[attribute] : arrays.attribute_offsets[attribute + 1]]
    assert packer.attributes.token_ids.tolist() == tokens.tolist()


def test_rows_of_arrays_without_a_single_cell_are_their_cls(make_arrays, special):
    arrays = make_arrays(cells=(0, 0))
    assert_same(*pack_both(arrays, special, np.array([3, 0])))


@pytest.mark.parametrize(("most", "is_worth"), [(10**9, True), (10, False)])
def test_arrays_beyond_a_size_stay_on_the_host(make_arrays, monkeypatch, most, is_worth):
    monkeypatch.setattr("navi.batches.device_packer.MOST_MOVED", most)
    assert is_worth_moving(make_arrays(), 10**6) is is_worth


def test_arrays_stay_on_the_host_for_few_rows_of_many(make_arrays):
    arrays = make_arrays(num_rows=400)
    tokens = arrays.count_row_tokens()
    assert is_worth_moving(arrays, int(tokens.sum()))
    assert not is_worth_moving(arrays, int(tokens[:1].sum()))
    assert not is_worth_moving(replace(arrays, value_tokens=np.zeros(10**6, np.int32)), int(tokens.sum()))
