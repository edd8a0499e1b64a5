"""HAETAE: anchors of header tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from navi_paper.baselines import haetae
from navi_paper.baselines.bert import Bert
from navi_paper.encoder import Hidden, list_cells


@pytest.fixture
def model(make_baseline):
    return make_baseline("haetae")


@pytest.fixture
def batch(model, make_arrays):
    return model.make_batch(make_arrays(), np.arange(12), seed=0, epoch=0)


def test_a_row_is_written_as_json(model, make_arrays):
    # The tiny vocabulary has no braces and quotes: unknown words stand for them.
    arrays = make_arrays(cells=(2, 2))
    unknown, colon, comma = (model.tokenizer.token_to_id(sign) for sign in ("[UNK]", ":", ","))
    text = model.write(arrays, np.array([0]))
    marks = text.token_ids[~text.is_word].tolist()
    cell = [unknown, unknown, colon, unknown, unknown]
    assert marks == [model.special.cls, unknown, *cell, comma, *cell, unknown, model.special.sep]


def test_the_share_of_the_anchor_starts_at_one_half_and_is_learned(model, batch):
    assert model.alpha.item() == 0.5
    model.compute_loss(batch).backward()
    assert model.blend_logit.grad.abs() > 0


def test_the_share_stays_between_0_and_1(model):
    with torch.no_grad():
        for logit in (-50.0, 50.0):
            model.blend_logit.fill_(logit)
            assert 0 <= model.alpha.item() <= 1


def test_anchors_start_as_the_words(model):
    assert torch.equal(model.anchors.weight, model.model.bert.embeddings.word_embeddings.weight)
    assert model.anchors.weight is not model.model.bert.embeddings.word_embeddings.weight


def test_the_states_of_header_tokens_alone_are_blended_half_and_half(model, batch):
    with torch.no_grad():
        plain, blended = Bert.encode(model, batch), model.encode(batch)
        is_header = torch.zeros(len(plain), dtype=torch.bool)
        is_header[batch["header_position"]] = True
        assert torch.equal(blended[~is_header], plain[~is_header])
        expected = 0.5 * plain[is_header] + 0.5 * model.anchors(batch["token_ids"][is_header])
        torch.testing.assert_close(blended[is_header], expected)


def test_header_positions_are_those_of_headers(model, make_arrays, batch):
    text = model.write(make_arrays(), np.arange(12))
    assert np.array_equal(batch["header_position"].numpy(), np.flatnonzero(text.is_header))
    masked = set(batch["target_position"].tolist())
    assert batch["plain_position"].tolist() == [p for p in batch["header_position"].tolist() if p not in masked]


def test_a_hidden_header_has_the_anchor_of_the_mask(model, make_arrays):
    arrays, rows = make_arrays(), np.arange(4)
    hidden = Hidden(part="header", cells=np.ones(len(list_cells(arrays, rows)[0]), dtype=bool))
    before = model.embed(arrays, rows, parts=("headers",), hidden=hidden)["headers"]
    with torch.no_grad():
        model.anchors.weight[: model.special.mask] += 1
        model.anchors.weight[model.special.mask + 1 :] += 1
    after = model.embed(arrays, rows, parts=("headers",), hidden=hidden)["headers"]
    assert np.array_equal(before, after)
    assert not np.allclose(model.embed(arrays, rows, parts=("headers",))["headers"], before)


def test_there_is_no_centroid_loss_before_the_first_centroids(model, batch):
    tokens = batch["token_ids"][batch["plain_position"]]
    assert model.measure_centroids(tokens).item() == 0
    torch.testing.assert_close(model.compute_loss(batch), model.score_targets(model.encode(batch), batch))


def test_a_centroid_is_the_mean_contextual_embedding_of_a_header_token(model, batch):
    model.train()
    model.compute_loss(batch)
    with torch.no_grad():
        states = Bert.encode(model, batch)
    model.refresh_centroids()
    tokens, places = batch["token_ids"][batch["plain_position"]], batch["plain_position"]
    for token in tokens.unique():
        torch.testing.assert_close(model.centroids[token], states[places[tokens == token]].mean(dim=0))
    assert model.centroids.isnan().any(dim=1).sum() == 200 - len(tokens.unique())


def test_the_centroid_loss_is_the_mean_distance_and_pulls_the_anchors(model, batch):
    model.train()
    model.compute_loss(batch)
    model.refresh_centroids()
    tokens = batch["token_ids"][batch["plain_position"]]
    distance = (model.anchors.weight[tokens] - model.centroids[tokens]).norm(dim=1).mean()
    before = model.measure_centroids(tokens)
    torch.testing.assert_close(before, distance)
    before.backward()
    with torch.no_grad():
        model.anchors.weight -= 5.0 * model.anchors.weight.grad
    assert model.measure_centroids(tokens) < before
    assert model.blend_logit.grad is None
    assert model.model.bert.embeddings.word_embeddings.weight.grad is None


def test_a_token_keeps_its_centroid_until_it_is_seen_again(model, batch):
    model.train()
    model.compute_loss(batch)
    model.refresh_centroids()
    before = model.centroids.clone()
    model.refresh_centroids()
    torch.testing.assert_close(model.centroids, before, equal_nan=True)


def test_nothing_is_gathered_outside_of_training(model, batch):
    model.eval()
    model.compute_loss(batch)
    assert model.header_counts.sum() == 0


def test_centroids_are_refreshed_every_so_many_steps(model, batch, monkeypatch):
    monkeypatch.setattr(haetae, "CENTROID_STEPS", 3)
    model.train()
    model.compute_loss(batch)
    known = []
    for step in range(1, 4):
        model.after_step(step)
        known.append(bool((~model.centroids.isnan()).any()))
    assert known == [False, False, True]
