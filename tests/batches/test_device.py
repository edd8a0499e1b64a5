"""Tests that a batch made on the device is the batch made on the host, filled up."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder, MaskingConfig
from navi.batches.batch import IGNORED
from navi.batches.device import DeviceBuilder
from navi.batches.room import NEEDS, Room, choose_rooms, measure_needs
from navi.losses import AlignmentConfig, compute_losses
from navi.losses.total import measure_filled, measure_step
from navi.model import load_backbone
from navi.randomness import make_key


def make_batches(builder, rows, epoch=2, slack=0):
    """Return the batch as the host makes it, and as the device does."""
    needs = measure_needs(builder, [rows])[0]
    room = Room(**{name: int(need) + slack for name, need in zip(NEEDS, needs, strict=True)})
    padded = torch.full((room.rows,), -1)
    padded[: len(rows)] = torch.from_numpy(rows)
    key = torch.tensor(make_key(builder.seed, epoch))
    made, num_targets = DeviceBuilder(builder, "cpu").build(padded, key, room)
    return builder.build(rows, epoch=epoch), made, num_targets, room


SETTINGS = {
    "default": {},
    "paper": {"masking": MaskingConfig(header_share=0.4, value_share=0.4)},
    "vanilla": {"masking": MaskingConfig(whole_spans=False)},
    "without alignment": {"align": False},
    "random routing": {"random_routing": True},
    "related": {"related": "all"},
}


@pytest.fixture(params=range(3))
def arrays(make_arrays, request):
    return make_arrays(num_rows=20, num_tables=4, seed=request.param)


@pytest.fixture(params=SETTINGS)
def builder(arrays, special, request):
    settings = dict(SETTINGS[request.param])
    if settings.get("related") == "all":
        settings["related"] = np.arange(len(arrays.column_table))[::2]
    return BatchBuilder(arrays, special, seed=5, **settings)


@pytest.mark.parametrize("slack", [0, 13])
def test_tokens_positions_and_masks_are_those_of_the_host(builder, slack):
    rows = np.array([3, 11, 0, 17, 8, 9])
    host, made, num_targets, room = make_batches(builder, rows, slack=slack)
    copies = 2 if builder.align else 1
    for copy in range(copies):
        ours = slice(copy * room.tokens, copy * room.tokens + host.num_tokens)
        theirs = slice(copy * host.num_tokens, (copy + 1) * host.num_tokens)
        for name in ("token_ids", "token_position", "token_slot"):
            assert torch.equal(getattr(made.rows, name)[ours], getattr(host.rows, name)[theirs]), name
    num = len(host.targets.token)
    assert int(num_targets) == num
    assert torch.equal(made.targets.position[:num], host.targets.position)
    assert torch.equal(made.targets.token[:num], host.targets.token)
    assert torch.equal(made.targets.kind[:num], host.targets.kind)
    assert (made.targets.token[num:] == IGNORED).all()
    num_rows = len(rows)
    assert torch.equal(made.rows.starts[:num_rows], host.rows.starts[:num_rows])
    num_attributes = len(host.rows.attribute_ids)
    assert torch.equal(made.rows.attribute_ids[:num_attributes], host.rows.attribute_ids)
    assert (made.rows.attribute_ids[num_attributes:] == -1).all()
    tokens = len(host.rows.attributes.token_ids)
    assert torch.equal(made.rows.attributes.token_ids[:tokens], host.rows.attributes.token_ids)


@pytest.fixture(scope="module")
def model(tiny_backbone):
    return load_backbone(tiny_backbone, local_head_share=0.5).eval()


@pytest.mark.parametrize("slack", [0, 13])
@pytest.mark.parametrize("negatives", ["table", "batch"])
def test_losses_and_gradients_are_those_of_the_host(builder, model, negatives, slack):
    rows = np.arange(20)[::-1].copy()
    host, made, _, _ = make_batches(builder, rows, slack=slack)
    config = AlignmentConfig(weight=1.0, low_negatives=negatives, row_weight=float(builder.align), column_weight=1.0)
    size = measure_step([host])
    num_related = 0 if builder.related_place is None else int((builder.related_place >= 0).sum())
    affinity = torch.rand(num_related, num_related, generator=torch.Generator().manual_seed(0))
    found = []
    for one, of in ((host, size), (made, measure_filled(made))):
        model.zero_grad()
        losses = compute_losses(model, model(one.rows), one, config, of, affinity)
        losses.total.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((losses, gradient))
    (plain, plain_gradient), (padded, padded_gradient) = found
    for field in fields(plain):
        theirs, ours = (getattr(each, field.name).detach().double() for each in (plain, padded))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded_gradient, plain_gradient, atol=1e-4, rtol=1e-3)


def test_needs_are_what_batches_hold(builder):
    steps = [np.arange(5), np.array([19]), np.arange(3, 18)]
    for rows, needs in zip(steps, measure_needs(builder, steps), strict=True):
        need = dict(zip(NEEDS, needs.tolist(), strict=True))
        batch = builder.build(rows, epoch=0)
        copies = 2 if builder.align else 1
        assert need["rows"] == len(rows)
        assert need["tokens"] == batch.num_tokens
        assert need["segments"] == batch.rows.num_segments // copies
        assert need["targets"] >= len(batch.targets.token)
        assert need["attributes"] >= len(batch.rows.attribute_ids)
        assert need["attribute_tokens"] >= len(batch.rows.attributes.token_ids)
        if batch.alignment is not None:
            assert need["low"] == len(batch.alignment.low_segment)
            assert need["high"] == len(batch.alignment.high_segment)
            assert need["anchors"] == len(batch.alignment.anchor_slot)
            assert need["tables"] == batch.alignment.num_tables
        if batch.columns is not None:
            assert need["related"] == len(batch.columns.segment)
            assert need["columns"] >= len(batch.columns.column)


def test_every_step_has_room(builder):
    steps = [np.arange(low, low + 4) for low in range(16)]
    needs = measure_needs(builder, steps)
    rooms, place = choose_rooms(needs, 3)
    assert 1 <= len(rooms) <= 3
    for need, number in zip(needs, place, strict=True):
        assert rooms[number].holds(need)


def test_more_targets_than_room_are_told(arrays, special):
    builder = BatchBuilder(arrays, special)
    rows = np.arange(10)
    needs = dict(zip(NEEDS, measure_needs(builder, [rows])[0].tolist(), strict=True))
    room = Room(**(needs | {"targets": 2}))
    key = torch.tensor(make_key(0, 0))
    made, num_targets = DeviceBuilder(builder, "cpu").build(torch.from_numpy(rows), key, room)
    assert len(made.targets.token) == 2
    assert int(num_targets) == len(builder.build(rows, epoch=0).targets.token)
