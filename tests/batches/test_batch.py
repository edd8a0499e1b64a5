"""Tests of the groups of tensors that make a batch."""

from __future__ import annotations

import pickle
from dataclasses import fields

import numpy as np
import pytest
from torch import Tensor

from navi.batches import BatchBuilder
from navi.batches.batch import Tensors


@pytest.fixture(scope="module")
def batch(make_arrays, special):
    return BatchBuilder(make_arrays(), special).build(np.arange(5), epoch=0)


def list_tensors(group):
    """Yield every tensor of a group and of the groups in it."""
    for field in fields(group):
        member = getattr(group, field.name)
        if isinstance(member, Tensor):
            yield member
        elif isinstance(member, Tensors):
            yield from list_tensors(member)


def test_moving_a_batch_moves_the_tensors_of_every_group_in_it(batch):
    moved = batch.to("meta")
    tensors = list(list_tensors(moved))
    assert len(tensors) == len(list(list_tensors(batch))) > 20
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert {tensor.device.type for tensor in list_tensors(batch)} == {"cpu"}


def test_moving_a_batch_keeps_its_counts(batch):
    moved = batch.to("meta")
    assert moved.num_tokens == batch.num_tokens
    assert moved.alignment.num_tables == batch.alignment.num_tables


def test_moving_a_batch_without_alignment_leaves_it_without(make_arrays, special):
    batch = BatchBuilder(make_arrays(), special, align=False).build(np.arange(5), epoch=0)
    assert batch.to("meta").alignment is None


def test_rows_count_what_they_hold(batch):
    rows = batch.rows
    assert rows.num_rows == 2 * len(batch.row_ids)
    assert rows.num_segments == len(rows.segment_row)
    assert rows.num_tokens == 2 * batch.num_tokens == int(rows.starts[-1])


@pytest.mark.parametrize("align", [True, False])
def test_a_pickled_batch_comes_back_as_it_was(make_arrays, special, align):
    batch = BatchBuilder(make_arrays(), special, align=align).build(np.arange(5), epoch=0)
    restored = pickle.loads(pickle.dumps(batch))
    assert (restored.alignment is None) == (batch.alignment is None)
    assert restored.num_tokens == batch.num_tokens
    pairs = list(zip(list_tensors(restored), list_tensors(batch), strict=True))
    assert all(one.equal(other) and one.dtype == other.dtype for one, other in pairs)


def test_what_is_joined_can_be_spread_again(batch):
    joined = batch.join()
    assert len(joined) == sum(len(tensor) for tensor in list_tensors(batch))
    doubled = batch.spread(2 * joined)
    for one, other in zip(list_tensors(doubled), list_tensors(batch), strict=True):
        assert one.equal(2 * other)


def test_the_rows_of_value_tokens_are_found_and_no_others(batch):
    rows = batch.rows
    expected = [
        int(rows.segment_row[span // 2]) if span % 2 == 1 else rows.num_rows for span in rows.token_span.tolist()
    ]
    assert rows.find_value_rows().tolist() == expected
    assert len(set(expected)) > 3


def test_the_plain_copy_is_there_with_alignment_alone(batch, make_arrays, special):
    assert batch.has_plain
    assert not BatchBuilder(make_arrays(), special, align=False).build(np.arange(5), epoch=0).has_plain
