"""Tests of the groups of tensors that make a batch."""

from __future__ import annotations

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
