"""Tests of the total loss of a batch, and of steps taken in parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from navi.batches import REGIME_HEADER, REGIME_VALUE, BatchBuilder, MaskingConfig
from navi.losses import AlignmentConfig, align_high, align_low, compute_losses
from navi.losses.total import StepSize, find_read_tokens, measure_step
from navi.model import load_backbone

MASKING = MaskingConfig(header_share=0.4, value_share=0.4)
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
ROWS = np.arange(16)


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(seed=31, num_tables=4, cells=(2, 6))


@pytest.fixture
def model(tiny_backbone):
    return load_backbone(tiny_backbone, hidden_dropout_prob=0.0, projection_dropout=0.0)


@pytest.fixture
def builder(arrays, special):
    return BatchBuilder(arrays, special, masking=MASKING)


def run(model, batch, config=None, size=None):
    return compute_losses(model, model(batch.rows), batch, config or AlignmentConfig(), size or measure_step([batch]))


def test_the_masked_loss_is_the_mean_over_the_union_of_the_masked_sets(model, builder, arrays, special):
    batch = builder.build(ROWS, epoch=0)
    layout = builder.lay_out(ROWS)
    _, targets = builder.mask_layout(layout, epoch=0)
    output = model(batch.rows)
    logits = model.predict_tokens(output, torch.arange(batch.num_tokens)).tolist()
    losses = []
    for place in targets.position.tolist():
        scores, token = logits[place], int(layout.token_ids[place])
        losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[token])
    found = compute_losses(model, output, batch, AlignmentConfig(), measure_step([batch])).masked
    assert float(found) == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_alignment_is_the_mean_over_tables_and_the_total_adds_it_with_its_weight(model, builder):
    batch = builder.build(ROWS, epoch=0)
    config = AlignmentConfig(weight=0.3, row_weight=0.0)
    output, alignment = model(batch.rows), batch.alignment
    segments = model.embed_segments(output, batch.rows)
    anchors, values = output.attribute_table[alignment.anchor_slot], output.values[alignment.high_segment]
    low = align_low(segments[alignment.low_segment], anchors, alignment, config) / 4
    high = align_high(segments[alignment.high_segment], values, alignment, config) / 4
    found = compute_losses(model, output, batch, config, measure_step([batch]))
    torch.testing.assert_close([found.low, found.high], [low, high], **CLOSE)
    torch.testing.assert_close(found.total, found.masked + 0.3 * (low + high), **CLOSE)
    assert min(float(found.low), float(found.high)) > 0


def test_segments_are_aligned_as_they_are_unmasked(model, builder, arrays, special):
    batch = builder.build(ROWS, epoch=0)
    other_masks = BatchBuilder(arrays, special, masking=MASKING, seed=9).build(ROWS, epoch=5)
    one, other = run(model, batch), run(model, other_masks)
    torch.testing.assert_close([one.low, one.high], [other.low, other.high], **CLOSE)
    assert abs(float(one.masked) - float(other.masked)) > 1e-3


@pytest.mark.parametrize("negatives", ["table", "batch"])
def test_the_parts_of_a_step_add_up_to_the_whole_when_tables_stay_whole(model, builder, arrays, negatives):
    config = AlignmentConfig(weight=0.5, low_negatives=negatives)
    whole = builder.build(ROWS, epoch=0)
    tables = arrays.row_table[ROWS]
    groups = [(0,), (1, 2), (3,)] if negatives == "table" else [(0, 1, 2, 3)]
    parts = [builder.build(ROWS[np.isin(tables, group)], epoch=0) for group in groups]
    expected, gradient = backward(model, [whole], config)
    found, summed = backward(model, parts, config)
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(summed, gradient, **CLOSE)


def backward(model, batches, config):
    """Return the summed losses of a step and the gradient they leave behind."""
    model.zero_grad()
    size, summed = measure_step(batches), torch.zeros(4)
    for batch in batches:
        losses = run(model, batch, config, size)
        losses.total.backward()
        summed += torch.stack([losses.total.detach(), losses.masked, losses.low, losses.high])
    return summed, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_a_step_is_as_large_as_its_targets_and_its_tables(builder):
    batches = [builder.build(ROWS[:8], epoch=0), builder.build(ROWS[8:], epoch=0)]
    expected = StepSize(
        num_targets=sum(len(batch.targets.token) for batch in batches),
        num_tables=sum(batch.alignment.num_tables for batch in batches),
        num_rows=len(ROWS),
    )
    assert {name: int(count) for name, count in vars(measure_step(batches)).items()} == vars(expected)
    assert expected.num_tables > 4


def test_without_alignment_the_total_is_the_masked_loss(model, arrays, special):
    batch = BatchBuilder(arrays, special, masking=MASKING, align=False).build(ROWS, epoch=0)
    losses = run(model, batch)
    assert float(losses.low) == float(losses.high) == 0.0
    assert float(losses.total.detach()) == float(losses.masked) > 0


def test_a_batch_without_targets_has_a_finite_loss(model, arrays, special):
    nothing = MaskingConfig(header_share=0.0, value_share=0.0, token_share=0.0)
    losses = run(model, BatchBuilder(arrays, special, masking=nothing).build(ROWS, epoch=0))
    assert float(losses.masked) == 0.0
    assert losses.total.isfinite()


def test_hits_count_masked_headers_and_values_predicted_right(model, builder, monkeypatch):
    batch = builder.build(ROWS, epoch=0)
    token, kind = batch.targets.token, batch.targets.kind
    right = torch.arange(len(token)) % 3 == 0
    guess = torch.where(right, token, (token + 1) % 200)
    monkeypatch.setattr(model, "predict_tokens", lambda output, positions: torch.eye(200)[guess])
    losses = run(model, batch, AlignmentConfig(row_weight=0.0))
    assert int(losses.header_hits) == sum((right & (kind == REGIME_HEADER)).tolist()) > 0
    assert int(losses.value_hits) == sum((right & (kind == REGIME_VALUE)).tolist()) > 0
    assert int(losses.header_hits) != int(losses.value_hits)


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"weight": 0.0},
        {"row_weight": 0.0},
        {"column_weight": 0.0},
        {"row_weight": 0.0, "column_weight": 0.0},
        {"weight": 0.0, "row_weight": 0.0, "column_weight": 0.0},
    ],
    ids=str,
)
def test_states_that_no_loss_reads_may_be_left_out(model, arrays, special, weights):
    config = AlignmentConfig(**weights)
    num_columns = len(arrays.column_table)
    affinity = torch.rand(num_columns, num_columns, generator=torch.Generator().manual_seed(0))
    builder = BatchBuilder(
        arrays, special, masking=MASKING, align=config.needs_plain, related=np.arange(num_columns) % 7 - 1
    )
    batch = builder.build(ROWS, epoch=0)
    read = find_read_tokens(batch, config)
    assert 0 < len(read) < batch.num_tokens
    found = []
    for some in (None, read):
        model.zero_grad()
        losses = compute_losses(
            model, model(batch.rows, read_tokens=some), batch, config, measure_step([batch]), affinity
        )
        losses.total.backward()
        found.append((losses, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(vars(found[1][0]), vars(found[0][0]), **CLOSE)
    torch.testing.assert_close(found[1][1], found[0][1], **CLOSE)


def test_the_total_reaches_every_parameter(model, builder):
    model.train()
    run(model, builder.build(ROWS, epoch=0)).total.backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []
    still = [name for name, parameter in model.named_parameters() if not parameter.grad.any()]
    # Softmax is blind to what is added to all scores alike, so a key's bias never learns.
    assert all(name.endswith("key.bias") for name in still), still
