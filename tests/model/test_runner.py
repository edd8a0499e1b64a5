"""Tests of running a model over many rows: order, batches, equal rows, memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import BatchBuilder, MaskingConfig
from navi.errors import ConfigError, ModelError
from navi.model import load_backbone
from navi.model.runner import Runner, group_by_length

CLOSE = {"atol": 1e-5, "rtol": 0.0}


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(seed=41, num_rows=30, cells=(0, 6))


@pytest.fixture
def runner(tiny_backbone, special):
    return Runner(load_backbone(tiny_backbone), special, device="cpu", tokens_per_batch=60, workers=0)


@pytest.fixture
def packing_runner(runner):
    """A runner that packs rows by the device's means, be it a CPU."""
    runner.packs_on_device = True
    return runner


def encode_directly(runner, arrays, rows):
    """Return every part for rows in one batch, as the model gives it."""
    packed = BatchBuilder(arrays, runner.special).pack_rows(rows)
    with torch.no_grad():
        output = runner.model(packed)
        found = {"cls": output.cls, "header_states": output.headers, "values": output.values}
        found |= {"rows": runner.model.pool_rows(output, packed), "headers": runner.model.pool_headers(output, packed)}
        found["segments"] = runner.model.embed_segments(output, packed)
        found = {name: embedded.numpy() for name, embedded in found.items()}
    means = np.zeros_like(found["rows"])
    for row in range(len(rows)):
        within = packed.segment_row.numpy() == row
        if within.any():
            means[row] = ((found["header_states"][within] + found["values"][within]) / 2).mean(axis=0)
    return found | {"means": means}


@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_embeddings_come_in_the_order_of_the_rows_whatever_the_batches(runner, arrays, batch_size):
    rows = np.random.default_rng(0).permutation(arrays.num_rows)
    parts = ("rows", "cls", "headers", "header_states", "values", "segments", "means")
    found = runner.embed(arrays, rows, parts=parts, batch_size=batch_size)
    expected = encode_directly(runner, arrays, rows)
    assert tuple(found) == parts
    for part in parts:
        np.testing.assert_allclose(found[part], expected[part], **CLOSE, err_msg=part)


def test_without_chosen_rows_all_are_embedded(runner, arrays):
    expected = encode_directly(runner, arrays, np.arange(arrays.num_rows))["rows"]
    np.testing.assert_allclose(runner.embed(arrays)["rows"], expected, **CLOSE)


def test_no_rows_give_no_embeddings(runner, arrays):
    assert runner.embed(arrays, np.array([], dtype=np.int64))["rows"].shape == (0, 32)


def test_equal_rows_are_encoded_once(runner, arrays):
    rows = np.array([3, 5, 3, 3, 7, 5])
    encoded = []
    row_hash = np.arange(arrays.num_rows).astype(np.uint64)
    found = runner.embed(arrays, rows, row_hash=row_hash, progress=encoded.append)
    assert sum(encoded) == 3
    np.testing.assert_allclose(found["rows"], encode_directly(runner, arrays, rows)["rows"], **CLOSE)


def test_a_mask_is_laid_over_the_rows_before_they_are_encoded(runner, arrays, special):
    config = MaskingConfig(header_share=0.0, value_share=1.0, mask_rate=1.0, random_rate=0.0)

    def mask(layout):
        return BatchBuilder(arrays, special, masking=config).mask_layout(layout, epoch=0)[0]

    rows = np.flatnonzero(np.diff(arrays.row_offsets) > 0)
    masked, plain = runner.embed(arrays, rows, mask=mask)["rows"], runner.embed(arrays, rows)["rows"]
    assert (np.abs(masked - plain).max(axis=1) > 1e-3).all()


def fail_beyond(runner, monkeypatch, limit):
    """Make the runner run out of memory with more than `limit` rows; return the sizes that were tried."""
    tried, forward = [], runner._forward

    def run(one, read):
        tried.append(len(one.places))
        if len(one.places) > limit:
            raise torch.OutOfMemoryError("no memory left")
        return forward(one, read)

    monkeypatch.setattr(runner, "_forward", run)
    return tried


def test_a_batch_that_does_not_fit_in_memory_is_tried_in_halves(runner, arrays, monkeypatch, caplog):
    expected = encode_directly(runner, arrays, np.arange(arrays.num_rows))["rows"]
    tried = fail_beyond(runner, monkeypatch, limit=2)
    found = runner.embed(arrays, batch_size=8)["rows"]
    assert max(tried) > 2
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert "trying again with half as many" in caplog.text


def test_a_single_row_that_does_not_fit_is_said(runner, arrays, monkeypatch):
    fail_beyond(runner, monkeypatch, limit=0)
    with pytest.raises(ModelError, match=r"One row of [0-9]+ tokens does not fit in the memory of cpu"):
        runner.embed(arrays)


@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_rows_packed_on_the_device_are_embedded_as_others_in_their_order(
    packing_runner, arrays, batch_size, monkeypatch
):
    rows = np.random.default_rng(1).permutation(arrays.num_rows)
    expected = encode_directly(packing_runner, arrays, rows)["rows"]
    monkeypatch.setattr(packing_runner, "_make_here", None)  # nothing is laid out on the host
    done = []
    found = packing_runner.embed(arrays, rows, batch_size=batch_size, progress=done.append)["rows"]
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert sum(done) == len(rows)
    assert batch_size is None or max(done) <= batch_size


def test_equal_rows_packed_on_the_device_are_encoded_once(packing_runner, arrays):
    rows, encoded = np.array([3, 5, 3, 3, 7, 5]), []
    row_hash = np.arange(arrays.num_rows).astype(np.uint64)
    found = packing_runner.embed(arrays, rows, row_hash=row_hash, progress=encoded.append)["rows"]
    assert sum(encoded) == 3
    np.testing.assert_allclose(found, encode_directly(packing_runner, arrays, rows)["rows"], **CLOSE)


def test_attributes_of_rows_packed_on_the_device_are_encoded_once_a_run(packing_runner, arrays, monkeypatch):
    asked, embed = [], packing_runner._embed_attributes
    monkeypatch.setattr(packing_runner, "_embed_attributes", lambda attributes: (asked.append(1), embed(attributes))[1])
    packing_runner.embed(arrays, batch_size=3)
    assert len(asked) == 1


def test_halves_of_a_batch_are_packed_on_the_device_again(packing_runner, arrays, monkeypatch):
    expected = encode_directly(packing_runner, arrays, np.arange(arrays.num_rows))["rows"]
    tried = fail_beyond(packing_runner, monkeypatch, limit=2)
    found = packing_runner.embed(arrays, batch_size=8)["rows"]
    assert max(tried) > 2
    np.testing.assert_allclose(found, expected, **CLOSE)


def test_memory_that_ends_while_the_device_packs_is_met_with_halves(packing_runner, arrays, monkeypatch):
    expected = encode_directly(packing_runner, arrays, np.arange(arrays.num_rows))["rows"]
    pack = BatchBuilder.pack_rows

    def pack_few(self, rows, *settings):
        if len(rows) > 2:
            raise torch.OutOfMemoryError("no memory left")
        return pack(self, rows, *settings)

    monkeypatch.setattr(BatchBuilder, "pack_rows", pack_few)
    np.testing.assert_allclose(packing_runner.embed(arrays)["rows"], expected, **CLOSE)


def test_a_single_row_packed_on_the_device_that_does_not_fit_is_said(packing_runner, arrays, monkeypatch):
    monkeypatch.setattr(packing_runner, "_make_here", None)
    fail_beyond(packing_runner, monkeypatch, limit=0)
    with pytest.raises(ModelError, match=rf"One row of {arrays.count_row_tokens().min()} tokens does not fit"):
        packing_runner.embed(arrays)


@pytest.mark.parametrize("parts", [("rows", "values"), ("cls",)])
def test_other_parts_than_rows_are_laid_out_on_the_host(packing_runner, arrays, parts, monkeypatch):
    monkeypatch.setattr(packing_runner, "_make_there", None)
    found = packing_runner.embed(arrays, parts=parts)
    expected = encode_directly(packing_runner, arrays, np.arange(arrays.num_rows))
    for part in parts:
        np.testing.assert_allclose(found[part], expected[part], **CLOSE)


def test_masked_rows_are_laid_out_on_the_host(packing_runner, arrays, special, monkeypatch):
    monkeypatch.setattr(packing_runner, "_make_there", None)

    def hide(layout):
        seen.append(layout)
        return BatchBuilder(arrays, special).mask_layout(layout, epoch=0)[0]

    seen = []
    packing_runner.embed(arrays, mask=hide)
    assert sum(len(layout.rows) for layout in seen) == arrays.num_rows


def test_few_rows_of_many_are_laid_out_on_the_host(packing_runner, make_arrays, monkeypatch):
    many = make_arrays(num_rows=400)
    monkeypatch.setattr(packing_runner, "_make_there", None)
    found = packing_runner.embed(many, np.array([7]))["rows"]
    np.testing.assert_allclose(found, encode_directly(packing_runner, many, np.array([7]))["rows"], **CLOSE)


@given(
    lengths=st.lists(st.integers(1, 40), max_size=30),
    tokens=st.integers(1, 100),
    batch_size=st.none() | st.integers(1, 5),
)
def test_groups_hold_each_place_once_within_the_budget_and_by_length(lengths, tokens, batch_size):
    lengths = np.array(lengths, dtype=np.int64)
    groups = group_by_length(lengths, tokens, batch_size)
    order = np.concatenate(groups) if groups else np.array([], dtype=np.int64)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    assert (np.diff(lengths[order]) >= 0).all()
    for group in groups:
        assert len(group) == 1 or lengths[group].sum() <= tokens
        assert batch_size is None or len(group) <= batch_size


def test_an_unknown_part_is_refused(runner, arrays):
    with pytest.raises(ConfigError, match=r"Unknown part 'columns'. Expected some of rows, cls, means"):
        runner.embed(arrays, parts=("rows", "columns"))


def test_an_unknown_precision_is_refused(tiny_backbone, special):
    with pytest.raises(ConfigError, match=r"Unknown precision 'int4'. Expected one of float32"):
        Runner(load_backbone(tiny_backbone), special, precision="int4")


def test_half_precision_gives_float32_embeddings_near_the_exact_ones(tiny_backbone, special, arrays):
    exact = Runner(load_backbone(tiny_backbone), special, device="cpu").embed(arrays)["rows"]
    runner = Runner(load_backbone(tiny_backbone), special, device="cpu", precision="bfloat16")
    found = runner.embed(arrays)["rows"]
    cosines = (found * exact).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)
    assert found.dtype == np.float32
    assert cosines.min() > 0.99
