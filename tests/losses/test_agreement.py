"""Tests of what is added to the paper's losses: columns with like values agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from navi.batches import BatchBuilder, RelatedColumns
from navi.losses import AlignmentConfig, agree_columns, compute_losses
from navi.losses.total import StepSize, measure_step

WIDTH = 5


def draw(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def make_columns(table, attribute, segment_column=None):
    owners = torch.arange(len(table)) if segment_column is None else torch.tensor(segment_column)
    return RelatedColumns(
        segment=torch.arange(len(owners)),
        segment_column=owners,
        column=torch.arange(len(table)),
        table=torch.tensor(table),
        attribute=torch.tensor(attribute),
    )


def compare_columns_one_by_one(means, table, attribute, affinity, temperature):
    total = 0.0
    for query in range(len(table)):
        targets, candidates = {}, []
        for other in range(len(table)):
            likeness = 1.0 if attribute[other] == attribute[query] else float(affinity[query][other])
            if table[other] == table[query]:
                if attribute[other] != attribute[query]:
                    candidates.append(other)
            elif likeness >= 0.5:
                targets[other] = likeness
                candidates.append(other)
            elif likeness <= 0.05:
                candidates.append(other)
        if not targets:
            continue
        cosines = {other: float(F.cosine_similarity(means[query], means[other], dim=0)) for other in candidates}
        partition = math.log(sum(math.exp(cosines[other] / temperature) for other in candidates))
        whole = sum(targets.values())
        total -= sum(share / whole * (cosines[other] / temperature - partition) for other, share in targets.items())
    return total


def test_columns_agree_as_a_loop_would_have_it():
    table, attribute = [0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 3, 4]
    affinity = torch.zeros(6, 6)
    for first, second, likeness in ((1, 3, 0.9), (1, 4, 0.6), (3, 4, 0.3), (5, 1, 0.02)):
        affinity[first, second] = affinity[second, first] = likeness
    owners = [0, 0, 1, 2, 3, 3, 3, 4, 5]
    segments = draw(len(owners), WIDTH)
    means = torch.stack([segments[[o == k for o in owners]].mean(dim=0) for k in range(6)])
    found = agree_columns(segments, make_columns(table, attribute, owners), affinity, 0.2)
    assert float(found) == pytest.approx(compare_columns_one_by_one(means, table, attribute, affinity, 0.2), rel=1e-4)


def test_columns_without_a_like_have_no_loss():
    columns = make_columns([0, 1], [0, 1])
    segments = draw(2, WIDTH).requires_grad_()
    loss = agree_columns(segments, columns, torch.zeros(2, 2), 0.1)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert torch.count_nonzero(segments.grad) == 0


def test_one_column_alone_has_no_loss():
    segments = draw(1, WIDTH)
    assert float(agree_columns(segments, make_columns([0], [0]), torch.ones(1, 1), 0.1)) == 0.0


def test_following_the_gradient_draws_like_columns_together():
    columns, affinity = make_columns([0, 1, 2], [0, 1, 2]), torch.eye(3)
    affinity[0, 1] = affinity[1, 0] = 1.0
    segments = draw(3, WIDTH).requires_grad_()
    optimizer = torch.optim.SGD([segments], lr=0.3)
    for _ in range(400):
        optimizer.zero_grad()
        agree_columns(segments, columns, affinity, 0.2).backward()
        optimizer.step()
    cosines = F.normalize(segments, dim=1) @ F.normalize(segments, dim=1).T
    assert cosines[0, 1] > 0.8 > 0.0 > cosines[0, 2]


@pytest.fixture
def model(tiny_backbone):
    from navi.model import load_backbone

    torch.manual_seed(0)
    return load_backbone(str(tiny_backbone)).eval()


def test_the_losses_of_a_batch_hold_what_is_added_to_the_papers(model, make_arrays, special):
    arrays = make_arrays(seed=3)
    columns = np.arange(len(arrays.column_table))
    builder = BatchBuilder(arrays, special, related=columns)
    batch = builder.build(np.arange(min(8, arrays.num_rows)), epoch=0)
    affinity = torch.ones(len(columns), len(columns))
    config = AlignmentConfig(row_weight=0.5, column_weight=0.25)
    losses = compute_losses(model, model(batch.rows), batch, config, measure_step([batch]), affinity)
    expected = losses.masked + config.weight * (losses.low + losses.high) + 0.5 * losses.rows + 0.25 * losses.columns
    assert float(losses.total.detach()) == pytest.approx(float(expected), rel=1e-5)
    assert float(losses.rows) > 0
    assert float(losses.columns) > 0


def test_columns_agree_in_their_segments_and_in_their_headers(model, make_arrays, special):
    arrays = make_arrays(seed=3)
    columns = np.arange(len(arrays.column_table))
    batch = BatchBuilder(arrays, special, related=columns).build(np.arange(min(8, arrays.num_rows)), epoch=0)
    affinity, config = torch.ones(len(columns), len(columns)), AlignmentConfig(column_weight=0.25)
    output, related = model(batch.rows), batch.columns.segment
    losses = compute_losses(model, output, batch, config, measure_step([batch]), affinity)
    views = (model.embed_segments(output, batch.rows)[related], output.headers[related])
    apart = [float(agree_columns(view.detach(), batch.columns, affinity, config.column_temperature)) for view in views]
    assert abs(apart[0] - apart[1]) > 1e-3
    assert float(losses.columns) == pytest.approx(sum(apart) / 2 / len(batch.columns.column), rel=1e-5)


def test_the_twin_of_a_row_is_its_plain_copy(model, make_arrays, special):
    arrays = make_arrays(seed=3)
    rows = np.arange(min(6, arrays.num_rows))
    batch = BatchBuilder(arrays, special).build(rows, epoch=0)
    output = model(batch.rows)
    plain = model(BatchBuilder(arrays, special).pack_rows(rows)).cls
    torch.testing.assert_close(output.cls[batch.row_twin], plain, atol=1e-5, rtol=1e-4)


def test_a_step_counts_its_rows_and_columns(make_arrays, special):
    arrays = make_arrays(seed=3)
    builder = BatchBuilder(arrays, special, related=np.arange(len(arrays.column_table)))
    first, second = (builder.build(rows, epoch=0) for rows in (np.arange(2), np.arange(2, 5)))
    assert first.columns is not None
    assert second.columns is not None
    size = measure_step([first, second])
    assert size.num_rows == 5
    assert size.num_columns == len(first.columns.column) + len(second.columns.column)
    assert isinstance(size, StepSize)
