"""CM2: rows as sets of features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from navi.errors import ModelError
from navi_paper.baselines.cm2 import MASKED_SHARE
from navi_paper.encoder import Hidden, list_cells


@pytest.fixture
def model(make_baseline):
    return make_baseline("cm2")


def reverse_columns(arrays):
    pieces = np.split(arrays.row_segments, arrays.row_offsets[1:-1])
    return replace(arrays, row_segments=np.concatenate([piece[::-1] for piece in pieces]))


def hide_all(arrays, rows, part="value"):
    return Hidden(part=part, cells=np.ones(len(list_cells(arrays, rows)[0]), dtype=bool))


def test_the_order_of_columns_leaves_no_trace(model, make_arrays):
    arrays, rows = make_arrays(), np.arange(12)
    before, after = (model.embed(each, rows, parts=("rows", "segments")) for each in (arrays, reverse_columns(arrays)))
    np.testing.assert_allclose(before["rows"], after["rows"], rtol=1e-4, atol=1e-5)
    row_C, _ = list_cells(arrays, rows)
    for row in range(12):
        cells = row_C == row
        np.testing.assert_allclose(before["segments"][cells], after["segments"][cells][::-1], rtol=1e-4, atol=1e-5)


def test_the_feature_of_text_is_the_mean_of_its_words(model, make_arrays):
    arrays, rows = make_arrays(), np.arange(6)
    batch = model.make_input(arrays, rows, None)
    header_CD, value_CD = model._embed_parts(batch)
    _, segments = list_cells(arrays, rows)
    for cell, segment in enumerate(segments):
        header, value = arrays.segment_header[segment], arrays.segment_value[segment]
        words = arrays.header_tokens[arrays.header_offsets[header] : arrays.header_offsets[header + 1]]
        torch.testing.assert_close(header_CD[cell], model.words.weight[words.astype(np.int64)].mean(dim=0))
        if np.isnan(model.numbers.read(arrays)[value]):
            words = arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]]
            torch.testing.assert_close(value_CD[cell], model.words.weight[words.astype(np.int64)].mean(dim=0))


def test_a_number_scales_its_header_and_adds_a_bias(model, corpus):
    rows = corpus.rows_of("train")[:5]
    batch = model.make_input(corpus.arrays, rows, None)
    header_CD, value_CD = model._embed_parts(batch)
    numbers = batch["number"]
    is_number = ~numbers.isnan()
    assert is_number.sum() == 5  # the years
    expected = numbers[is_number, None] * header_CD[is_number] + model.number_bias
    torch.testing.assert_close(value_CD[is_number], expected)
    assert numbers[is_number].min() > np.log(1999) / 5 - 1e-3


def test_about_a_quarter_of_the_features_is_masked_whatever_the_rows_beside(model, make_arrays):
    arrays = make_arrays(num_rows=2000)
    batch = model.make_batch(arrays, np.arange(2000), seed=0, epoch=0)
    assert batch["value_masked"].float().mean().item() == pytest.approx(MASKED_SHARE, abs=0.02)
    alone = model.make_batch(arrays, np.array([77]), seed=0, epoch=0)["value_masked"]
    assert torch.equal(batch["value_masked"][batch["cell_row"] == 77], alone)
    assert batch["target_cell"].tolist() == batch["value_masked"].nonzero()[:, 0].tolist()


def test_epochs_mask_other_features(model, make_arrays):
    masks = [model.make_batch(make_arrays(), np.arange(24), seed=0, epoch=epoch)["value_masked"] for epoch in (0, 1)]
    assert not torch.equal(*masks)


def test_a_masked_value_has_the_mask_in_its_place_and_keeps_its_header(model, make_arrays):
    arrays, rows = make_arrays(), np.arange(4)
    hidden = hide_all(arrays, rows)
    before = model.embed(arrays, rows, parts=("segments",), hidden=hidden)["segments"]
    with torch.no_grad():
        model.mask.mul_(-1)
    after = model.embed(arrays, rows, parts=("segments",), hidden=hidden)["segments"]
    assert not np.allclose(before, after, atol=1e-2)
    others = replace(arrays, header_tokens=(arrays.header_tokens + 9) % 150 + 6)
    assert not np.allclose(model.embed(others, rows, parts=("segments",), hidden=hidden)["segments"], after, atol=1e-2)


def test_the_target_does_not_move_to_meet_its_guess(model, make_arrays):
    arrays = make_arrays(cells=(1, 1))
    batch = model.make_batch(arrays, np.arange(24), seed=0, epoch=0)
    batch["value_masked"][:] = True
    model.compute_loss(batch | {"target_cell": torch.arange(24)}).backward()
    only_values = np.setdiff1d(batch["value_ids"].numpy(), batch["header_ids"].numpy())
    assert len(only_values) > 0
    assert model.words.weight.grad[only_values].abs().max() == 0
    assert model.words.weight.grad[batch["header_ids"]].abs().max() > 0


def test_what_was_learned_by_heart_is_reconstructed(trained, make_baseline, lesson):
    rows = lesson.rows_of("train")
    _, segments = list_cells(lesson.arrays, rows)
    headers = lesson.headers.take(lesson.arrays.segment_header[segments]).to_pylist()
    hidden = Hidden(part="value", cells=np.array(["language" in header for header in headers]))
    learned, fresh = (
        baseline.reconstruct(lesson.arrays, rows, hidden) for baseline in (trained("cm2"), make_baseline("cm2"))
    )
    assert learned.min() > 0.9
    assert fresh.max() < 0.7


def test_the_reconstruction_of_a_number_is_compared_as_a_number(model, corpus):
    rows = corpus.rows_of("train")[:8]
    years = ~model.make_input(corpus.arrays, rows, None)["number"].isnan().numpy()
    hidden = Hidden(part="value", cells=years)
    with torch.no_grad():
        model.number_decoder[2].weight.zero_()
        model.number_decoder[2].bias.fill_(float(np.log1p(2001) / 5))
    assert model.reconstruct(corpus.arrays, rows, hidden).min() > 0.999


def test_rows_of_any_length_are_seen_whole(model, make_arrays):
    arrays = make_arrays(value_tokens=(60, 60), cells=(6, 6))
    assert (np.linalg.norm(model.embed(arrays, np.arange(3), parts=("values",))["values"], axis=1) > 0).all()


def test_it_cannot_guess_tokens(model, make_arrays):
    with pytest.raises(ModelError, match="cm2 cannot predict tokens"):
        model.predict(make_arrays(), np.arange(2), hide_all(make_arrays(), np.arange(2)))


def test_a_batch_without_targets_has_no_loss(model, make_arrays):
    batch = model.make_batch(make_arrays(cells=(0, 0)), np.arange(2), seed=0, epoch=0)
    assert model.compute_loss(batch).item() == 0
