"""Tests that rows laid out on a device stand as they do on the host, filled up or not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from navi.batches import lay_out
from navi.batches.device_layout import DeviceArrays, move_arrays, spread
from navi.batches.layout import PART_HEADER, PART_VALUE

CPU = torch.device("cpu")


@pytest.mark.parametrize("slack", [0, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_layout_is_that_of_the_host_and_then_filling(make_arrays, special, seed, slack):
    arrays = make_arrays(seed=seed, cells=(0, 6))
    rows = np.random.default_rng(seed).permutation(arrays.num_rows)[:9]
    host = lay_out(arrays, rows, special)
    num_segments, num_tokens = len(host.segment_id), len(host.token_ids)
    asked = torch.cat([torch.from_numpy(rows), torch.full((slack,), -1)])
    found = DeviceArrays(arrays, special, CPU).lay_out(asked, num_segments + slack, num_tokens + slack)
    assert int(found.end) == num_tokens
    for name in ("token_ids", "token_position", "token_segment"):
        assert getattr(found, name)[:num_tokens].tolist() == getattr(host, name).tolist(), name
    for name in ("segment_row", "segment_rank", "segment_id"):
        assert getattr(found, name)[:num_segments].tolist() == getattr(host, name).tolist(), name
    assert found.in_header[:num_tokens].tolist() == (host.token_part == PART_HEADER).tolist()
    assert found.in_value[:num_tokens].tolist() == (host.token_part == PART_VALUE).tolist()
    assert found.row_starts.tolist() == [*host.row_starts[:-1], *[num_tokens] * slack]
    assert found.unit_starts.tolist() == [*host.local_starts[:-1], *[num_tokens] * 2 * slack]
    assert found.row_real.sum() == len(rows)
    assert found.segment_real.sum() == num_segments
    assert (found.token_segment[num_tokens:] == -1).all()


def test_lists_laid_end_to_end_are_told_apart_and_empty_ones_have_no_place():
    lengths = torch.tensor([2, 0, 3])
    owner, within, real = spread(lengths.cumsum(0), lengths, 7)
    assert owner[:5].tolist() == [0, 0, 2, 2, 2]
    assert within.tolist() == [0, 1, 0, 1, 2, 0, 0]
    assert real.tolist() == [True] * 5 + [False] * 2


def test_moved_arrays_keep_their_order_types_and_numbers():
    arrays = [np.arange(3), np.arange(4, dtype=np.int32), np.zeros(0, np.int64), np.array([7, 8], np.int32)]
    moved = move_arrays(arrays, CPU)
    assert [tensor.tolist() for tensor in moved] == [array.tolist() for array in arrays]
    assert [tensor.dtype for tensor in moved] == [torch.int64, torch.int32, torch.int64, torch.int32]


def test_moved_arrays_are_copies():
    array = np.arange(3)
    moved = move_arrays([array], CPU)[0]
    array[0] = 9
    assert moved.tolist() == [0, 1, 2]
