"""Tests of the masked loss, of bags of words, of views of columns, of the total of a batch and of steps in parts."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import IGNORED, REGIME_HEADER, REGIME_VALUE, BatchBuilder, MaskingConfig
from navi.errors import ConfigError
from navi.losses import (
    AlignmentConfig,
    ViewsConfig,
    bag_of_words_loss,
    compute_losses,
    find_read_tokens,
    high_entropy_loss,
    keeping_loss,
    low_entropy_loss,
    masked_segment_loss,
    measure_step,
    views_loss,
)
from navi.model import load_backbone

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
MASKING = MaskingConfig(header_share=0.4, value_share=0.4)
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
ROWS = np.arange(16)


@given(st.lists(st.integers(0, 6) | st.just(IGNORED), max_size=150))
def test_the_masked_loss_is_the_papers_and_its_gradient_the_softmax_less_one_at_the_token(tokens):
    generator = torch.Generator().manual_seed(len(tokens))
    logits = (3 * torch.randn(len(tokens), 7, generator=generator)).requires_grad_()
    expected, gradient, hits = 0.0, [], []
    for scores, token in zip(logits.tolist(), tokens, strict=True):
        shares = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
        expected -= 0.0 if token == IGNORED else math.log(shares[token])
        gradient.append([(share - (place == token)) * (token != IGNORED) for place, share in enumerate(shares)])
        hits.append(token == scores.index(max(scores)))
    found, hit = masked_segment_loss(logits, torch.tensor(tokens, dtype=torch.long))
    found.backward()
    torch.testing.assert_close(float(found.detach()), expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(logits.grad, torch.tensor(gradient).view(-1, 7), atol=1e-6, rtol=1e-5)
    assert hit.tolist() == hits


@CUDA
@pytest.mark.parametrize(("num_targets", "width"), [(37, 5), (37, 4096), (37, 30522), (0, 11)])
def test_the_kernel_has_the_loss_the_gradient_and_the_hits_of_float32(num_targets, width):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(num_targets, width, generator=generator)).cuda().bfloat16()
    token = torch.randint(width, (num_targets,), generator=generator).cuda()
    token[::3] = logits.float().argmax(dim=1)[::3]
    token[5:8] = IGNORED
    tiled, exact = logits.clone().requires_grad_(), logits.float().requires_grad_()
    loss, hit = masked_segment_loss(tiled, token)
    expected = F.cross_entropy(exact, token, reduction="sum", ignore_index=IGNORED)
    (loss / 7).backward()
    (expected / 7).backward()
    torch.testing.assert_close(loss, expected)
    assert torch.equal(hit, exact.argmax(dim=1) == token)
    torch.testing.assert_close(tiled.grad, exact.grad.bfloat16(), atol=1e-6, rtol=1e-2)


@pytest.fixture(scope="module")
def batch(make_arrays, special):
    """Six rows, one of them without values."""
    return BatchBuilder(make_arrays(seed=3, cells=(0, 6)), special).build(np.arange(12, 18), epoch=0)


def list_words(batch, row):
    """Return the distinct tokens of the values of a row, found token by token."""
    rows, found = batch.rows, set()
    for token, span in zip(rows.token_ids.tolist(), rows.token_span.tolist(), strict=True):
        if span % 2 == 1 and int(rows.segment_row[span // 2]) == row:
            found.add(token)
    return sorted(found)


def test_the_bag_of_words_loss_is_the_cross_entropy_over_the_distinct_tokens_of_a_rows_values(batch):
    """−Σ_r 1/|W_r| Σ_w log softmax(z_r)[w]; its gradient is softmax(z_r), less 1/|W_r| at each word."""
    logits = torch.randn(len(batch.plain_row), 200, generator=torch.Generator().manual_seed(0)).requires_grad_()
    expected, gradient = 0.0, logits.detach().softmax(dim=1)
    for place, row in enumerate(batch.plain_row.tolist()):
        if words := list_words(batch, row):
            expected -= float(logits.detach().log_softmax(dim=1)[place, words].mean())
            gradient[place, words] -= 1 / len(words)
        else:
            gradient[place] = 0
    found = bag_of_words_loss(logits, batch.rows, batch.plain_row)
    found.backward()
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(logits.grad, gradient, atol=1e-6, rtol=1e-5)


@pytest.fixture
def model(tiny_backbone):
    return load_backbone(tiny_backbone, hidden_dropout_prob=0.0, projection_dropout=0.0)


def test_telling_words_teaches_the_encoder_and_not_the_head(model, batch):
    output = model(batch.rows)
    first = batch.rows.starts[batch.plain_row]
    torch.testing.assert_close(
        model.predict_tokens(output, first, train_head=False), model.predict_tokens(output, first)
    )
    bag_of_words_loss(model.predict_tokens(output, first, train_head=False), batch.rows, batch.plain_row).backward()
    own = [parameter.grad for name, parameter in model.head.named_parameters() if "decoder" not in name]
    assert own == [None] * len(own)
    assert model.layers[0].intermediate.dense.weight.grad.abs().max() > 0
    told = model.embeddings.word_embeddings.weight.grad.abs().sum(dim=1) > 0
    assert set(told.nonzero().flatten().tolist()) <= set(batch.rows.token_ids.tolist())


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(seed=31, num_tables=4, cells=(2, 6))


@pytest.fixture
def builder(arrays, special):
    return BatchBuilder(arrays, special, masking=MASKING)


def run(model, batch, config=None, size=None):
    size = measure_step([batch]) if size is None else size
    return compute_losses(model, model(batch.rows), batch, config or AlignmentConfig(), size)


def test_alignment_is_the_mean_over_tables_and_the_total_adds_it_with_its_weight(model, builder):
    batch = builder.build(ROWS, epoch=0)
    config = AlignmentConfig(weight=0.3, row_weight=0.5)
    output, alignment = model(batch.rows), batch.alignment
    segments = model.embed_segments(output)
    anchors, values = output.attribute_table[alignment.anchor_slot], output.values[alignment.high_segment]
    low = low_entropy_loss(segments[alignment.low_segment], anchors, alignment, config) / 4
    high = high_entropy_loss(segments[alignment.high_segment], values, alignment, config) / 4
    found = compute_losses(model, output, batch, config, measure_step([batch]))
    torch.testing.assert_close([found.low, found.high], [low, high], **CLOSE)
    torch.testing.assert_close(found.loss, found.masked + 0.3 * (low + high) + 0.5 * found.bag_of_words, **CLOSE)
    told = bag_of_words_loss(model.head(output.cls[batch.plain_row]), batch.rows, batch.plain_row) / len(ROWS)
    torch.testing.assert_close(found.bag_of_words, told.detach(), **CLOSE)  # of the plain copy
    assert min(float(found.low), float(found.high), float(found.bag_of_words)) > 0
    nothing = MaskingConfig(header_share=0.0, value_share=0.0, token_share=0.0)
    unmasked = run(model, BatchBuilder(builder.arrays, builder.special, masking=nothing).build(ROWS, epoch=0))
    assert float(unmasked.masked) == 0.0
    assert unmasked.loss.isfinite()


@pytest.mark.parametrize("negatives", ["table", "batch"])
def test_the_parts_of_a_step_add_up_to_the_whole_when_tables_stay_whole(model, builder, arrays, negatives):
    config = AlignmentConfig(weight=0.5, low_negatives=negatives)
    whole = builder.build(ROWS, epoch=0)
    tables = arrays.row_table[ROWS]
    # Anchors of other tables compete in a part that knows what it is a part of.
    beside = ROWS if negatives == "batch" else None
    parts = [builder.build(ROWS[np.isin(tables, group)], epoch=0, beside=beside) for group in ((0,), (1, 2), (3,))]
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
        losses.loss.backward()
        summed += torch.stack([losses.loss.detach(), losses.masked, losses.low, losses.high])
    return summed, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


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
    "weights", [{}, {"weight": 0.0}, {"row_weight": 0.0}, {"weight": 0.0, "row_weight": 0.0}], ids=str
)
def test_states_that_no_loss_reads_may_be_left_out(model, arrays, special, weights):
    config = AlignmentConfig(**weights)
    builder = BatchBuilder(arrays, special, masking=MASKING, align=max(config.weight, config.row_weight) > 0)
    batch = builder.build(ROWS, epoch=0)
    read = find_read_tokens(batch, config)
    assert 0 < len(read) < batch.rows.num_tokens
    found = []
    for some in (None, read):
        model.zero_grad()
        losses = compute_losses(model, model(batch.rows, read_tokens=some), batch, config, measure_step([batch]))
        losses.loss.backward()
        found.append((losses, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(vars(found[1][0]), vars(found[0][0]), **CLOSE)
    torch.testing.assert_close(found[1][1], found[0][1], **CLOSE)


def test_the_total_reaches_every_parameter(model, builder):
    model.train()
    run(model, builder.build(ROWS, epoch=0)).loss.backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []
    still = [name for name, parameter in model.named_parameters() if not parameter.grad.any()]
    # Softmax is blind to what is added to all scores alike, so a key's bias never learns.
    assert all(name.endswith("key.bias") for name in still), still


def test_permuting_the_columns_of_the_rows_changes_no_loss_of_the_plain_copy(model, arrays, special):
    rng = np.random.default_rng(0)
    order = np.concatenate([first + rng.permutation(last - first) for first, last in pairwise(arrays.row_offsets)])
    found = []
    for each in (arrays, replace(arrays, row_segments=arrays.row_segments[order])):
        losses = run(model.eval(), BatchBuilder(each, special).build(ROWS[:8], epoch=0))
        found.append([losses.low, losses.high, losses.bag_of_words])
    torch.testing.assert_close(found[0], found[1], **CLOSE)


# Columns read as texts


def draw_views():
    """Return vectors of two views of five columns, and the columns' attributes."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(5, 6, generator=generator).requires_grad_() for _ in range(2))
    return first, second, torch.tensor([0, 1, 0, 2, 1])


def test_views_find_each_other_among_columns_of_other_attributes():
    """With scores s = cos / τ, ∂L/∂s_kx = (p_kx + q_kx − 2 [k = x]) / 2K, p and q the shares in rows and columns."""
    first, second, attribute = draw_views()
    found = views_loss(first, second, attribute, 0.2)
    found.backward()
    one, other = (F.normalize(view.detach(), dim=1) for view in (first, second))
    scores, expected, pull = (one @ other.T / 0.2).tolist(), 0.0, torch.zeros(5, 5)
    for own in range(5):
        rivals = [x for x in range(5) if x == own or attribute[x] != attribute[own]]
        rows, columns = (sum(math.exp(scores[i][j]) for i, j in pairs) for pairs in cross(own, rivals))
        expected += (math.log(rows) + math.log(columns) - 2 * scores[own][own]) / 10
        for rival in rivals:
            pull[own, rival] += (math.exp(scores[own][rival]) / rows - (rival == own)) / 10
            pull[rival, own] += (math.exp(scores[rival][own]) / columns - (rival == own)) / 10
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)
    for view, unit, force in ((first, one, pull @ other / 0.2), (second, other, pull.T @ one / 0.2)):
        tangent = force - (force * unit).sum(dim=1, keepdim=True) * unit
        torch.testing.assert_close(view.grad, tangent / view.detach().norm(dim=1, keepdim=True), atol=1e-6, rtol=1e-4)


def cross(own, rivals):
    """Return the pairs in which a column's first view meets the others' second, and those the other way round."""
    return [(own, rival) for rival in rivals], [(rival, own) for rival in rivals]


def test_keeping_is_one_less_the_mean_cosine():
    """Its gradient is −(t − cos(x, t) x) / (N |x|) with x and t of length 1: lengths of targets are nothing to it."""
    vectors, target, _ = draw_views()
    found = keeping_loss(vectors, 3 * target.detach())
    found.backward()
    unit, own = (F.normalize(each.detach(), dim=1) for each in (vectors, target))
    cosine = (unit * own).sum(dim=1, keepdim=True)
    assert float(found.detach()) == pytest.approx(1 - float(cosine.mean()), rel=1e-5)
    expected = -(own - cosine * unit) / (5 * vectors.detach().norm(dim=1, keepdim=True))
    torch.testing.assert_close(vectors.grad, expected, atol=1e-6, rtol=1e-4)
    assert float(keeping_loss(2 * target, target).detach()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["weight", "keep_weight", "temperature", "columns_per_step"])
def test_settings_of_views_that_make_no_sense_are_refused(name):
    with pytest.raises(ConfigError, match="must be"):
        ViewsConfig(**{name: -1})
