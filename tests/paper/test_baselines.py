"""Tests of the baselines: they read rows as they should, learn as NAVI does, and answer in the order asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import normalize
from transformers import BertForMaskedLM, TapasForMaskedLM

from navi.corpus import Corpus, PrepareConfig, prepare
from navi.errors import ConfigError, TrainingError
from navi.model.attention import Packing
from navi.training import PretrainConfig
from navi.training.trainer import RunPlan
from navi_paper.baselines import BASELINES, Baseline, load_baseline, train_baseline, training
from navi_paper.baselines.cm2 import LOG_SCALE, NumberReader
from navi_paper.baselines.haetae import Haetae
from navi_paper.baselines.text import Bert, Extended, Template, mask_tokens, write_text
from navi_paper.baselines.training import BaselineTrainer
from navi_paper.table_encoder import PARTS, Hidden, list_cells, list_hidden_tokens

LANGUAGES = {"drama": "english", "comedy": "french", "horror": "german"}
FAST: dict[str, Any] = {
    "sampler": {"rows_per_batch": 16, "tables_per_batch": 4},
    "training": {
        **{"epochs": 2, "log_every": 2, "workers": 0, "learning_rate": 3e-3, "new_learning_rate": 3e-3},
        "validate_rows": 0,
        "precision": "float32",
    },
}
EPOCHS = {"bert": 50, "tapas": 110, "haetae": 50, "cm2": 50}
PLAIN = Template(begin=(2,), between=(9,), separator=(8,), end=(3,))
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
each_baseline = pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.learns])
each_guesser = pytest.mark.parametrize("name", ["bert", "tapas", "haetae"])
each_part = pytest.mark.parametrize("part", ["header", "value"])


@pytest.fixture(scope="session")
def backbone(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT without dropout: it learns faster, and a step taken in parts can equal the whole."""
    folder = tmp_path_factory.mktemp("calm") / "bert"
    shutil.copytree(tiny_backbone, folder)
    shape = json.loads((folder / "config.json").read_text())
    shape |= {"hidden_dropout_prob": 0.0, "initializer_range": 0.05}
    (folder / "config.json").write_text(json.dumps(shape))
    return folder


@pytest.fixture(scope="session")
def lesson(backbone: Path, write_tables, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two tables of two columns, of which one follows from the other: nothing in it cannot be learned."""
    headers = {"a": ("genre", "language"), "b": ("movie genre", "film language")}
    lines = {name: [dict(zip(own, each, strict=True)) for each in LANGUAGES.items()] for name, own in headers.items()}
    tables = {name: own * 12 for name, own in lines.items()}
    folder = tmp_path_factory.mktemp("lesson")
    config = PrepareConfig(backbone=str(backbone), workers=1, max_unknown_share=None)
    return prepare([write_tables(folder / "tables", tables)], folder / "corpus", config)


@pytest.fixture(scope="session")
def make_config(backbone: Path) -> Callable[..., PretrainConfig]:
    """A maker of settings for fast runs; keywords are settings of training."""

    def make(**training: Any) -> PretrainConfig:
        base = PretrainConfig.from_dict({"backbone": str(backbone), **FAST})
        return PretrainConfig.from_dict({"training": training}, base=base)

    return make


@pytest.fixture(scope="session")
def make_baseline(backbone: Path, toy_corpus: Corpus) -> Callable[[str], Baseline]:
    """A maker of untrained baselines, the same each time."""

    def make(name: str) -> Baseline:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return BASELINES[name].from_backbone(backbone, toy_corpus.tokenizer).eval()

    return make


@pytest.fixture(scope="session")
def trained(lesson: Corpus, make_config, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Baseline]:
    """A trainer of baselines until they know the lesson by heart."""
    folder = tmp_path_factory.mktemp("baselines")

    def train(name: str) -> Baseline:
        config = make_config(epochs=EPOCHS[name], log_every=10)
        return load_baseline(train_baseline(name, lesson, folder / name, config), device="cpu")

    return train


@each_baseline
def test_rows_together_are_embedded_as_rows_one_by_one_in_the_order_asked_for(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(cells=(0, 6))
    rows = np.array([7, 3, 20, 3, 11])
    together = baseline.embed(arrays, rows, parts=PARTS)
    alone = [baseline.embed(arrays, rows[i : i + 1], parts=PARTS) for i in range(len(rows))]
    for part in PARTS:
        assert together[part].dtype == np.float32
        np.testing.assert_allclose(together[part], np.concatenate([each[part] for each in alone]), **CLOSE)


@each_baseline
@each_part
def test_what_is_hidden_leaves_no_trace(name, part, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.arange(8)
    row_C, _ = list_cells(arrays, rows)
    hidden = Hidden(part=part, cells=np.ones(len(row_C), dtype=bool))
    tokens = getattr(arrays, f"{part}_tokens")
    others = replace(arrays, **{f"{part}_tokens": (tokens + 17) % 150 + 6})
    before, after, shown = (
        baseline.embed(some, rows, parts=PARTS, hidden=hiding)
        for some, hiding in ((arrays, hidden), (others, hidden), (others, None))
    )
    for each in PARTS:
        np.testing.assert_allclose(before[each], after[each], **CLOSE)
        assert not np.allclose(after[each], shown[each], atol=1e-2)


@each_baseline
def test_a_baseline_read_from_its_folder_embeds_as_before(name, make_baseline, make_arrays, tmp_path):
    baseline, arrays = make_baseline(name), make_arrays()
    baseline.save(tmp_path)
    again = load_baseline(tmp_path, device="cpu")
    assert type(again) is type(baseline)
    expected, found = (each.embed(arrays, np.arange(6), parts=PARTS) for each in (baseline, again))
    for part in PARTS:
        assert np.array_equal(found[part], expected[part])
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".safetensors"]


def hide_languages(lesson):
    """Return all training rows of the lesson, and their languages hidden."""
    rows = lesson.rows_of("train")
    _, segments = list_cells(lesson.arrays, rows)
    headers = lesson.headers.take(lesson.arrays.segment_header[segments]).to_pylist()
    return rows, Hidden(part="value", cells=np.array(["language" in header for header in headers]))


@each_guesser
def test_what_was_learned_by_heart_is_guessed_right(name, trained, lesson):
    rows, hidden = hide_languages(lesson)
    expected, _ = list_hidden_tokens(lesson.arrays, rows, hidden)
    guessed = trained(name).predict(lesson.arrays, rows, hidden)
    assert hidden.cells.sum() == len(rows)
    assert (guessed == expected).mean() > 0.95


@each_guesser
def test_cells_that_are_cut_have_no_guess_and_no_embedding(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(value_tokens=(50, 50), cells=(5, 5))
    rows = np.arange(3)
    cells = list_cells(arrays, rows)[1]
    guessed = baseline.predict(arrays, rows, Hidden(part="value", cells=np.ones(len(cells), dtype=bool)))
    # Of five cells with 50 tokens and a header, two fit into 128 positions.
    assert (guessed.reshape(3, 5, 50) >= 0).all(axis=2).tolist() == [[True, True, False, False, False]] * 3
    assert (guessed.reshape(3, 5, 50)[:, 2:] == -1).all()
    for part in ("headers", "values", "segments"):
        norms = np.linalg.norm(baseline.embed(arrays, rows, parts=(part,))[part], axis=1).reshape(3, 5)
        assert ((norms > 0) == [[True, True, False, False, False]] * 3).all()


def test_about_15_percent_of_the_words_are_masked_and_nothing_else(make_arrays, special):
    arrays = make_arrays(num_rows=2000)
    text = write_text(arrays, np.arange(2000), PLAIN, limit=500)
    token_ids, targets = mask_tokens(text, special, seed=0, epoch=0)
    assert text.is_word[targets].all()
    assert len(targets) / text.is_word.sum() == pytest.approx(0.15, abs=0.01)
    kept = np.delete(np.arange(len(token_ids)), targets)
    assert np.array_equal(token_ids[kept], text.token_ids[kept])
    assert (token_ids[targets] == special.mask).mean() == pytest.approx(0.8, abs=0.02)
    assert (token_ids[targets] == text.token_ids[targets]).mean() == pytest.approx(0.1, abs=0.02)


def pad(tensor, batch, filler=0):
    """Return what a packed batch has for each token, row by row, padded."""
    rows = torch.tensor_split(tensor, batch["row_starts"][1:-1])
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=filler)


@pytest.mark.parametrize(("name", "kind"), [("bert", BertForMaskedLM), ("tapas", TapasForMaskedLM)])
def test_the_loss_is_that_of_transformers_on_padded_rows(name, kind, make_baseline, make_arrays):
    baseline = make_baseline(name)
    own = kind(type(baseline.model.config)(**baseline.model.config.to_dict(), attn_implementation="eager"))
    own.load_state_dict(baseline.model.state_dict())
    batch = baseline.make_batch(make_arrays(), np.arange(9), seed=0, epoch=0)
    labels = torch.full_like(batch["token_ids"], -100)
    labels[batch["target_position"]] = batch["target_token"]
    # Transformers does not get TAPAS's positions: it finds them from the type ids.
    types = {"token_type_ids": pad(batch["token_types"], batch)} if "token_types" in batch else {}
    ids, real = pad(batch["token_ids"], batch), pad(torch.ones_like(labels), batch)
    with torch.no_grad():
        expected = own.eval()(input_ids=ids, attention_mask=real, labels=pad(labels, batch, -100), **types).loss
        torch.testing.assert_close(baseline.compute_loss(batch), expected, rtol=1e-4, atol=1e-4)


def test_the_target_does_not_move_to_meet_its_guess(make_baseline, make_arrays):
    cm2, arrays = make_baseline("cm2"), make_arrays(cells=(1, 1))
    batch = cm2.make_batch(arrays, np.arange(24), seed=0, epoch=0)
    batch["value_masked"][:] = True
    cm2.compute_loss(batch | {"target_position": torch.arange(24)}).backward()
    only_values = np.setdiff1d(batch["value_ids"].numpy(), batch["header_ids"].numpy())
    assert len(only_values) > 0
    assert cm2.words.weight.grad[only_values].abs().max() == 0
    assert cm2.words.weight.grad[batch["header_ids"]].abs().max() > 0


def test_a_number_is_read_on_a_signed_logarithmic_scale(toy_corpus, make_arrays):
    numbers = {"0": 0, "7": 7, "1999": 1999, "12345": 12345, "3.5": 3.5, "-12.25": -12.25, "1,234,567.5": 1234567.5}
    texts = [*numbers, "a", "2001-02-03", "1 2", "1,2"]
    tokens = [toy_corpus.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in tokens])])
    arrays = replace(make_arrays(), value_offsets=offsets, value_tokens=np.concatenate(tokens).astype(np.int32))
    expected = [np.sign(number) * np.log1p(abs(number)) / LOG_SCALE for number in numbers.values()]
    found = NumberReader(toy_corpus.tokenizer).read(arrays)
    np.testing.assert_allclose(found, [*expected, *[np.nan] * 4], rtol=1e-5)


def read_losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@each_baseline
def test_a_step_taken_in_parts_is_the_same_step(name, toy_corpus, make_config, tmp_path, monkeypatch):
    whole = train_baseline(name, toy_corpus, tmp_path / "whole", make_config(max_steps=4, log_every=1))
    monkeypatch.setattr(training, "MAX_TOKENS", {"cpu": 100})
    parts = train_baseline(name, toy_corpus, tmp_path / "parts", make_config(max_steps=4, log_every=1))
    np.testing.assert_allclose(read_losses(parts), read_losses(whole), rtol=2e-4)


def test_a_run_takes_the_rows_and_steps_that_navi_takes(toy_corpus, make_config, tmp_path, monkeypatch):
    config = make_config()
    plan = RunPlan(toy_corpus.arrays, toy_corpus.rows_of("train"), config)
    made = []
    build = Bert.make_batch
    monkeypatch.setattr(
        Bert, "make_batch", lambda self, arrays, rows, **keys: made.append(rows) or build(self, arrays, rows, **keys)
    )
    train_baseline("bert", toy_corpus, tmp_path / "bert", config)
    expected = [rows for epoch, first in ((0, 0), (1, plan.epoch_steps)) for rows in plan.list_steps(epoch, first)]
    assert [rows.tolist() for rows in made] == [rows.tolist() for rows in expected]


def test_a_finished_baseline_is_taken_as_it_is_and_one_trained_otherwise_refused(toy_corpus, make_config, tmp_path):
    folder = train_baseline("bert", toy_corpus, tmp_path / "bert", make_config(epochs=1))
    reports = []
    assert train_baseline("bert", toy_corpus, folder, make_config(epochs=1, workers=1), reports.append) == folder
    assert reports == []
    with pytest.raises(ConfigError, match="differs in training"):
        train_baseline("bert", toy_corpus, folder, make_config(epochs=1, seed=1))
    with pytest.raises(ConfigError, match="differs in baseline"):
        train_baseline("cm2", toy_corpus, folder, make_config(epochs=1))


def test_an_interrupted_run_leaves_no_folder_and_is_begun_anew(toy_corpus, make_config, tmp_path):
    def interrupt(report):
        if report.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_baseline("bert", toy_corpus, tmp_path / "bert", make_config(epochs=1, log_every=1), interrupt)
    assert not (tmp_path / "bert").exists()
    folder = train_baseline("bert", toy_corpus, tmp_path / "bert", make_config(epochs=1, log_every=1))
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.integers(0, 23), min_size=1, max_size=8), epoch=st.integers(0, 3))
def test_what_is_masked_of_a_row_does_not_depend_on_the_rows_beside_it(make_arrays, special, rows, epoch):
    arrays = make_arrays()
    text = write_text(arrays, np.array(rows), PLAIN, limit=500)
    token_ids, _ = mask_tokens(text, special, seed=3, epoch=epoch)
    alone = [
        mask_tokens(write_text(arrays, np.array([row]), PLAIN, limit=500), special, seed=3, epoch=epoch)[0]
        for row in rows
    ]
    assert np.array_equal(token_ids, np.concatenate(alone))


def test_a_loss_that_is_not_finite_changes_nothing_and_ends_the_run(toy_corpus, make_config, make_baseline, tmp_path):
    baseline, before = make_baseline("bert"), make_baseline("bert").state_dict()
    baseline.compute_loss = lambda batch: sum(p.sum() for p in baseline.parameters()) * torch.nan
    run = BaselineTrainer(baseline, toy_corpus, make_config(log_every=1), tmp_path, None)
    with pytest.raises(TrainingError, match="'bert' was not finite 10 steps in a row"):
        run.finish()
    assert all(torch.equal(tensor, before[name]) for name, tensor in baseline.state_dict().items())


def test_epochs_end_when_the_validation_loss_no_longer_falls(
    toy_corpus, make_config, make_baseline, tmp_path, monkeypatch
):
    run = BaselineTrainer(make_baseline("bert"), toy_corpus, make_config(epochs=None, validate_rows=8), tmp_path, None)
    losses = iter([3.0, 2.0, 2.5, 2.25])
    monkeypatch.setattr(run.baseline, "compute_loss", lambda batch: _follow(run.baseline, losses))
    run.finish()
    assert run.losses == [3.0, 2.0, 2.5, 2.25], "one more epoch, at a falling rate"
    assert run.state.step == 4 * run.plan.epoch_steps


def _follow(baseline, losses):
    if baseline.training:
        return sum(parameter.sum() for parameter in baseline.parameters()) * 0.0
    return torch.tensor(next(losses))


def test_tapas_masks_headers_and_values_whole(make_baseline, make_arrays):
    tapas, arrays = make_baseline("tapas"), make_arrays()
    batch = tapas.make_batch(arrays, np.arange(24), seed=0, epoch=0)
    span = batch["token_span"]
    masked = torch.unique(span[batch["target_position"]])
    assert 0 < len(masked) < len(torch.unique(span))
    assert sorted(batch["target_position"].tolist()) == torch.isin(span, masked).nonzero().squeeze(1).tolist()


def test_cm2_is_its_equations(make_baseline, toy_corpus):
    """x = mean(header) + mean(value), or number * mean(header) + bias, or the mask; loss by cosine or distance."""
    cm2, arrays = make_baseline("cm2"), toy_corpus.arrays
    batch = cm2.make_batch(arrays, toy_corpus.rows_of("train")[:6], seed=0, epoch=0)
    words = cm2.words.weight.detach()
    features, targets, starts = [], {}, batch["row_starts"].tolist()
    for cell in range(len(batch["cell_row"])):
        header = words[batch["header_ids"][batch["header_cell"] == cell]].mean(dim=0)
        number = batch["number"][cell]
        text = words[batch["value_ids"][batch["value_cell"] == cell]].mean(dim=0)
        value = text if number.isnan() else number * header + cm2.number_bias.detach()
        features.append(header + (cm2.mask.detach() if batch["value_masked"][cell] else value))
        targets[cell] = (value, number)
    losses = []
    for row in range(len(starts) - 1):
        own = [cell for cell, number in enumerate(batch["cell_row"].tolist()) if number == row]
        hidden = cm2.norm(torch.stack([cm2.cls.detach(), *(features[cell] for cell in own)]))[None]
        for layer in cm2.encoder:
            packing = Packing(torch.tensor([0, len(own) + 1]), len(own) + 1)
            hidden = layer(hidden, packing=packing)
        for place, cell in enumerate(own, start=1):
            value, number = targets[cell]
            if batch["value_masked"][cell] and number.isnan():
                losses.append(1 - torch.cosine_similarity(cm2.text_decoder(hidden[0, place]), value, dim=0))
            elif batch["value_masked"][cell]:
                losses.append(torch.nn.functional.smooth_l1_loss(cm2.number_decoder(hidden[0, place])[0], number))
    torch.testing.assert_close(cm2.compute_loss(batch), torch.stack(losses).mean(), **CLOSE)


def test_haetae_is_its_equations(make_baseline, toy_corpus):
    """h = a * anchor + (1 - a) * state at header tokens; loss = cross-entropy + 0.1 * mean |anchor - centroid|."""
    haetae, arrays = make_baseline("haetae"), toy_corpus.arrays
    batch = haetae.make_batch(arrays, toy_corpus.rows_of("train")[:6], seed=0, epoch=0)
    states = super(Haetae, haetae).encode(batch).detach()
    share = torch.sigmoid(haetae.blend_logit)
    blended = states.clone()
    for place in batch["header_position"].tolist():
        anchor = haetae.anchors.weight[batch["token_ids"][place]]
        blended[place] = share * anchor + (1 - share) * states[place]
    logits = haetae.model.cls(blended[batch["target_position"]])
    masked = torch.nn.functional.cross_entropy(logits, batch["target_token"])
    torch.testing.assert_close(haetae.compute_loss(batch), masked, **CLOSE)
    haetae.train()  # dropout is off in this backbone
    haetae.compute_loss(batch)
    haetae.refresh_centroids()
    plain = batch["token_ids"][batch["plain_position"]]
    centroid = {int(token): states[batch["plain_position"]][plain == token].mean(dim=0) for token in plain.unique()}
    apart = [torch.linalg.vector_norm(haetae.anchors.weight[token] - centroid[int(token)]) for token in plain]
    expected = masked + 0.1 * torch.stack(apart).mean()
    torch.testing.assert_close(haetae.compute_loss(batch), expected, **CLOSE)


def test_the_frozen_backbone_reads_each_text_alone(make_baseline, toy_corpus):
    frozen, arrays, rows = make_baseline("frozen"), toy_corpus.arrays, np.array([7, 2])
    found = frozen.embed(arrays, rows, parts=("headers", "segments", "rows"))
    alone = frozen.embed(arrays, rows[1:], parts=("headers", "segments", "rows"))
    for part in ("headers", "segments", "rows"):
        np.testing.assert_allclose(found[part][-len(alone[part]) :], alone[part], **CLOSE)
    _, segments = list_cells(arrays, rows)
    header = arrays.header_tokens[slice(*arrays.header_offsets[arrays.segment_header[segments[0]] :][:2])]
    ids = torch.tensor([[frozen.special.cls, *header.tolist(), frozen.special.sep]])
    library = BertForMaskedLM(frozen.config).eval()
    library.load_state_dict(frozen.model.state_dict())
    with torch.inference_mode():
        expected = library.bert(ids).last_hidden_state[0].mean(dim=0)
    np.testing.assert_allclose(found["headers"][0], expected, **CLOSE)


def test_an_extended_baseline_adds_the_headers_text_and_the_words_of_the_row(make_baseline, toy_corpus):
    bert, arrays, rows = make_baseline("bert"), toy_corpus.arrays, np.array([3, 1])
    plain = bert.embed(arrays, rows, parts=("headers", "rows", "segments"))
    found = Extended(bert).embed(arrays, rows, parts=("headers", "rows", "segments"))
    words = bert.average_words(arrays, rows)
    width = bert.config.hidden_size
    expected = (normalize(plain["rows"]) + normalize(words)) * np.sqrt(width / 2)
    np.testing.assert_allclose(found["rows"], expected, **CLOSE)
    assert not np.allclose(found["headers"], plain["headers"])
    np.testing.assert_array_equal(found["segments"], plain["segments"])
