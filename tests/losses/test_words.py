"""Tests of what [CLS] tells of its row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder
from navi.losses import AlignmentConfig, compute_losses, tell_words
from navi.losses.total import measure_step
from navi.losses.words import mark_words
from navi.model import load_backbone

VOCABULARY = 4000


@pytest.fixture(scope="module")
def batch(make_arrays, special):
    return BatchBuilder(make_arrays(seed=3), special).build(np.arange(6), epoch=0)


def list_words(batch, row):
    """Return the distinct tokens of the values of a row, found token by token."""
    rows, found = batch.rows, set()
    for token, span in zip(rows.token_ids.tolist(), rows.token_span.tolist(), strict=True):
        if span % 2 == 1 and int(rows.segment_row[span // 2]) == row:
            found.add(token)
    return sorted(found)


def test_the_words_of_a_row_are_the_distinct_tokens_of_its_values(batch):
    marked = mark_words(batch.rows, batch.row_twin, VOCABULARY)
    for place, row in enumerate(batch.row_twin.tolist()):
        assert marked[place].nonzero().flatten().tolist() == list_words(batch, row)


def test_the_loss_is_the_mean_negative_log_probability_of_a_rows_words(batch):
    logits = torch.randn(len(batch.row_twin), VOCABULARY, generator=torch.Generator().manual_seed(0))
    shares = logits.log_softmax(dim=1)
    expected = sum(-float(shares[i, list_words(batch, row)].mean()) for i, row in enumerate(batch.row_twin.tolist()))
    assert float(tell_words(logits, batch.rows, batch.row_twin)) == pytest.approx(expected, rel=1e-5)


def test_rows_without_values_have_no_loss_and_no_gradient(make_arrays, special):
    arrays = make_arrays(seed=3)
    rows = BatchBuilder(arrays, special).pack_rows(np.arange(2))
    bare = torch.full_like(rows.token_span, 2 * rows.num_segments)
    rows = type(rows)(**{**vars(rows), "token_span": bare})
    logits = torch.randn(2, VOCABULARY, requires_grad=True)
    loss = tell_words(logits, rows, torch.arange(2))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


@pytest.fixture(scope="module")
def model(tiny_backbone):
    torch.manual_seed(0)
    return load_backbone(str(tiny_backbone)).eval()


def test_telling_words_teaches_the_encoder_and_not_the_head(model, batch):
    model.zero_grad()
    output = model(batch.rows)
    first = batch.rows.starts[batch.row_twin]
    torch.testing.assert_close(model.tell_tokens(output, first), model.predict_tokens(output, first))
    tell_words(model.tell_tokens(output, first), batch.rows, batch.row_twin).backward()
    own = [parameter.grad for name, parameter in model.head.named_parameters() if "decoder" not in name]
    assert own == [None] * len(own)
    assert model.layers[0].intermediate.dense.weight.grad.abs().max() > 0
    told = model.embeddings.word_embeddings.weight.grad.abs().sum(dim=1) > 0
    assert set(told.nonzero().flatten().tolist()) <= set(batch.rows.token_ids.tolist())


def test_the_words_are_told_from_the_plain_copy(model, batch):
    output = model(batch.rows)
    config = AlignmentConfig(row_weight=0.5, column_weight=0.0)
    losses = compute_losses(model, output, batch, config, measure_step([batch]))
    logits = model.head(output.cls[batch.row_twin])
    expected = tell_words(logits, batch.rows, batch.row_twin) / len(batch.row_twin)
    assert float(losses.rows) == pytest.approx(float(expected.detach()), rel=1e-5)
