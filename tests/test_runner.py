"""The laws of the runner: order, batches, equal rows, attributes, devices, masks."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import BatchBuilder, MaskingConfig, pack_texts
from navi.corpus.tokens import TokenLists
from navi.errors import ConfigError
from navi.model import Runner, load_backbone
from navi.model.runner import PARTS, group_by_length, sort_cells

CLOSE = {"atol": 1e-5, "rtol": 0.0}


@pytest.fixture(scope="module")
def arrays(make_arrays):
    """Random rows; some are empty, some alike."""
    return make_arrays(seed=41, num_rows=60, cells=(0, 3), num_values=4, num_headers=6)


@pytest.fixture
def runner(tiny_backbone, special):
    return Runner(load_backbone(tiny_backbone), special, devices=["cpu"], tokens_per_batch=60)


def write_sentences(arrays, special, limit=256):
    """Return each row as the tokens of its sentence, without [CLS] and [SEP]."""
    arrays, texts = sort_cells(arrays), []
    parts = {"header": arrays.segment_header, "value": arrays.segment_value}
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        text = []
        for segment in arrays.row_segments[begin:end]:
            for part, sign in (("header", special.colon), ("value", special.comma)):
                offsets, number = getattr(arrays, f"{part}_offsets"), parts[part][segment]
                text += [*getattr(arrays, f"{part}_tokens")[offsets[number] : offsets[number + 1]], sign]
        texts.append(text[:-1][:limit])
    lengths = [len(text) for text in texts]
    return TokenLists(
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tokens=np.array(list(chain.from_iterable(texts)), np.int32),
        unknown=np.zeros(len(texts), np.int32),
        cut=np.zeros(len(texts), np.bool_),
    )


def encode_directly(runner, arrays, rows):
    """Return every part for rows in one batch, as the model gives it; rows without cells have no text."""
    packed, texts = (
        BatchBuilder(arrays, runner.special, align=False).pack_rows(rows),
        write_sentences(arrays, runner.special),
    )
    with torch.no_grad():
        output = runner.model(packed)
        read = runner.model.embed_texts(pack_texts(texts.offsets, texts.tokens, rows, runner.special)).numpy()
        found = {"cls": output.cls, "header_states": output.headers, "values": output.values}
        found |= {"rows": runner.model.pool_rows(output), "headers": runner.model.pool_headers(output)}
        found["segments"] = runner.model.embed_segments(output)
        found = {name: embedded.numpy() for name, embedded in found.items()} | {"texts": read}
    found |= {"means": np.zeros_like(found["rows"]), "value_means": np.zeros_like(found["rows"])}
    for row in np.unique(packed.segment_row.numpy()):
        within = packed.segment_row.numpy() == row
        found["value_means"][row] = found["values"][within].mean(axis=0)
        found["means"][row] = (found["header_states"][within].mean(axis=0) + found["value_means"][row]) / 2
    return found


@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_every_part_comes_in_the_order_of_the_rows_whatever_the_batches(runner, arrays, batch_size):
    rows = np.random.default_rng(0).integers(0, arrays.num_rows, 80)
    expected = encode_directly(runner, arrays, rows)
    found = runner.embed(arrays, rows, parts=PARTS, batch_size=batch_size)
    assert tuple(found) == PARTS
    for part in PARTS:
        seen = np.diff(arrays.row_offsets)[rows] > 0 if part == "texts" else slice(None)
        np.testing.assert_allclose(found[part][seen], expected[part][seen], **CLOSE, err_msg=part)
    np.testing.assert_allclose(runner.embed(arrays, rows, batch_size=batch_size)["rows"], expected["rows"], **CLOSE)


@pytest.mark.parametrize("on_device", [True, False])
def test_batches_may_be_laid_out_where_the_model_is_or_on_the_host(runner, arrays, on_device, monkeypatch):
    expected = encode_directly(runner, arrays, np.arange(arrays.num_rows))
    moved, move = [], BatchBuilder.to
    monkeypatch.setattr(BatchBuilder, "is_worth_moving", lambda *_: on_device)
    monkeypatch.setattr(BatchBuilder, "to", lambda self, device: (moved.append(device), move(self, device))[1])
    filled = np.diff(arrays.row_offsets) > 0
    for part, own in (("rows", filled), ("texts", filled), ("segments", slice(None))):
        np.testing.assert_allclose(runner.embed(arrays, parts=(part,))[part][own], expected[part][own], **CLOSE)
    assert len(moved) == 3 * on_device


def test_several_replicas_share_the_batches_and_count_what_is_done(special, arrays, runner):
    several, done = Runner(copy.deepcopy(runner.model), special, devices=["cpu"] * 3, tokens_per_batch=60), []
    assert several.devices == [torch.device("cpu")] * 3
    for part in ("rows", "texts", "segments"):
        expected = runner.embed(arrays, parts=(part,))[part]
        found = several.embed(arrays, parts=(part,), progress=lambda *counted: done.append(counted))[part]
        np.testing.assert_allclose(found, expected, **CLOSE)
    assert sum(count for count, _ in done) == 3 * arrays.num_rows
    assert {total for _, total in done} == {arrays.num_rows}
    assert several.embed(arrays, np.zeros(0, np.int64))["rows"].shape == (0, 32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("on_device", [True, False])
def test_a_gpu_gives_what_the_cpu_gives(special, arrays, runner, on_device, monkeypatch):
    monkeypatch.setattr(BatchBuilder, "is_worth_moving", lambda *_: on_device)
    settings = {"devices": ["cuda"], "precision": "float32", "tokens_per_batch": 60}
    on_gpu, read = Runner(copy.deepcopy(runner.model), special, **settings), {}
    for part in ("rows", "texts", "segments", "value_means"):
        found, expected = (each.embed(arrays, parts=(part,))[part] for each in (on_gpu, runner))
        np.testing.assert_allclose(found, expected, atol=1e-3)

    def look(output, layout):
        read.update(zip(layout.rows.tolist(), output.cls.cpu().numpy(), strict=True))

    on_gpu.run(arrays, np.arange(9), look)
    expected = encode_directly(runner, arrays, np.arange(9))["cls"]
    np.testing.assert_allclose([read[row] for row in range(9)], expected, atol=1e-3)


def test_attributes_come_in_the_order_asked_for_however_many_are_read_at_once(runner, arrays, monkeypatch):
    expected = runner.embed_attributes(arrays)
    np.testing.assert_allclose(runner.embed_attributes(arrays, np.array([4, 2])), expected[[4, 2]], **CLOSE)
    monkeypatch.setattr("navi.model.runner.ATTRIBUTES_AT_ONCE", 3)
    np.testing.assert_allclose(runner.embed_attributes(arrays), expected, **CLOSE)


def test_texts_come_in_the_order_asked_for_in_batches_within_the_budget_on_all_devices(runner, arrays, special):
    texts, chosen = write_sentences(arrays, special), np.array([5, 3, 3, 40, 0, 17])
    expected = runner.embed_texts(texts)[chosen]
    several = Runner(copy.deepcopy(runner.model), special, devices=["cpu"] * 2, tokens_per_batch=1)
    np.testing.assert_allclose(several.embed_texts(texts, chosen), expected, **CLOSE)


def test_a_row_of_many_cells_is_read_to_the_limit_of_a_text(runner, make_arrays, special):
    wide = {"num_headers": 90, "columns_per_table": 80, "roles": (0,) * 80}
    arrays = make_arrays(seed=47, num_rows=6, cells=(60, 80), **wide)
    limit = runner.model.config.max_position_embeddings  # here below that of texts
    assert arrays.count_row_tokens().min() > limit
    expected = runner.embed_texts(write_sentences(arrays, special, limit - 2))
    np.testing.assert_allclose(runner.embed(arrays, parts=("texts",))["texts"], expected, **CLOSE)


def test_a_model_computes_while_its_own_device_is_the_active_one(runner, arrays, special, monkeypatch):
    """Triton's kernels run on the active GPU, wherever their tensors are."""
    active, seen = [], []

    @contextmanager
    def activate(device):
        active.append(device)
        yield
        active.pop()

    monkeypatch.setattr("navi.model.runner.activate", activate)
    for name in ("forward", "embed_attributes", "embed_texts"):
        own = getattr(runner.model, name)
        monkeypatch.setattr(
            runner.model,
            name,
            lambda *given, own=own, name=name, **more: seen.append((name, *active)) or own(*given, **more),
        )
    runner.embed(arrays)
    runner.embed(arrays, parts=("texts",))
    assert set(seen) == {(name, runner.device) for name in ("forward", "embed_attributes", "embed_texts")}


def test_a_mask_is_laid_over_the_rows_before_they_are_encoded_and_equal_rows_then_run_apart(runner, arrays, special):
    config = MaskingConfig(header_share=0.0, value_share=1.0, mask_rate=1.0, random_rate=0.0)
    builder, masked_rows = BatchBuilder(arrays, special, masking=config, align=False), []

    def mask(layout):
        masked_rows.extend(layout.rows.tolist())
        return builder.mask_layout(layout, epoch=0)[0]

    rows = np.flatnonzero(np.diff(arrays.row_offsets) > 0)
    masked, plain = runner.embed(arrays, rows, mask=mask)["rows"], runner.embed(arrays, rows)["rows"]
    assert sorted(masked_rows) == rows.tolist()
    assert (np.abs(masked - plain).max(axis=1) > 1e-3).all()


def test_a_reader_sees_each_row_once_with_its_layout(runner, arrays):
    rows, read = np.array([7, 3, 3, 11]), {}

    def look(output, layout):
        read.update(zip(layout.rows.tolist(), output.cls.numpy(), strict=True))
        assert output.rows.num_tokens == layout.num_tokens

    runner.run(arrays, rows, look)
    expected = encode_directly(runner, arrays, rows)["cls"]
    assert sorted(read) == [3, 7, 11]
    np.testing.assert_allclose([read[row] for row in rows.tolist()], expected, **CLOSE)


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
    with pytest.raises(ConfigError, match=r"Unknown part 'columns'. Expected some of texts, rows, cls, means"):
        runner.embed(arrays, parts=("rows", "columns"))
