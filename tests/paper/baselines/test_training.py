"""Training baselines as NAVI is trained."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from navi.errors import ConfigError, ModelError, TrainingError
from navi.training.plan import RunPlan
from navi.training.step import make_optimizer
from navi_paper.baselines import BASELINES, train_baseline, training
from navi_paper.baselines.bert import Bert
from navi_paper.baselines.training import BaselineRun

each_baseline = pytest.mark.parametrize("name", BASELINES)


def read_losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@each_baseline
def test_learning_lowers_the_loss(name, study):
    losses = read_losses(study(name))
    assert losses[-1] < 0.6 * losses[0]


@each_baseline
def test_a_run_is_the_same_whatever_the_number_of_threads(name, corpus, make_config, tmp_path):
    alone, helped = (
        read_losses(train_baseline(name, corpus, tmp_path / str(workers), make_config(epochs=1, workers=workers)))
        for workers in (0, 3)
    )
    assert alone == helped


@each_baseline
def test_a_step_taken_in_parts_is_the_same_step(name, corpus, make_config, tmp_path, monkeypatch):
    whole = train_baseline(name, corpus, tmp_path / "whole", make_config(max_steps=4, log_every=1))
    monkeypatch.setattr(training, "MAX_TOKENS", {"cpu": 100})
    parts = train_baseline(name, corpus, tmp_path / "parts", make_config(max_steps=4, log_every=1))
    np.testing.assert_allclose(read_losses(parts), read_losses(whole), rtol=2e-4)


@each_baseline
def test_half_precision_learns_nearly_the_same(name, corpus, make_config, tmp_path):
    exact, rough = (
        read_losses(train_baseline(name, corpus, tmp_path / each, make_config(max_steps=6, precision=each)))
        for each in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(rough, exact, rtol=0.05)
    assert rough != exact


def test_a_run_takes_the_rows_and_steps_that_navi_takes(corpus, make_config, tmp_path, monkeypatch):
    config = make_config()
    plan = RunPlan(corpus.arrays, corpus.rows_of("train"), config)
    made = []
    build = Bert.make_batch
    monkeypatch.setattr(
        Bert, "make_batch", lambda self, arrays, rows, **keys: made.append(rows) or build(self, arrays, rows, **keys)
    )
    train_baseline("bert", corpus, tmp_path / "bert", config)
    expected = [rows for epoch, first in ((0, 0), (1, plan.epoch_ends[0])) for [rows] in plan.list_steps(epoch, first)]
    assert [rows.tolist() for rows in made] == [rows.tolist() for rows in expected]


def test_accumulated_batches_make_one_step(corpus, make_config, tmp_path):
    reports = []
    train_baseline("bert", corpus, tmp_path / "bert", make_config(accumulation=4, epochs=1), reports.append)
    assert reports[-1].step == reports[-1].num_steps == 3


def test_a_finished_baseline_is_taken_as_it_is(corpus, make_config, tmp_path):
    config = make_config(epochs=1)
    folder = train_baseline("bert", corpus, tmp_path / "bert", config)
    reports = []
    other = replace(config, training=replace(config.training, workers=1))
    again = train_baseline("bert", corpus, folder, other, reports.append)
    assert again == folder
    assert reports == []


def test_a_baseline_trained_otherwise_is_refused(corpus, make_config, tmp_path):
    folder = train_baseline("bert", corpus, tmp_path / "bert", make_config(epochs=1))
    with pytest.raises(ConfigError, match="differs in training"):
        train_baseline("bert", corpus, folder, make_config(epochs=1, seed=1))
    with pytest.raises(ConfigError, match="differs in baseline"):
        train_baseline("cm2", corpus, folder, make_config(epochs=1))


def test_a_folder_with_other_files_is_refused(corpus, make_config, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not a baseline's"):
        train_baseline("bert", corpus, tmp_path, make_config())


def test_a_baseline_without_its_record_is_refused(corpus, make_config, tmp_path):
    folder = train_baseline("bert", corpus, tmp_path / "bert", make_config(max_steps=1))
    (folder / "training.json").unlink()
    with pytest.raises(ModelError, match=r"Cannot read .*training\.json"):
        train_baseline("bert", corpus, folder, make_config(max_steps=1))


def test_an_interrupted_run_leaves_no_folder_and_is_begun_anew(corpus, make_config, tmp_path):
    def interrupt(report):
        if report.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_baseline("bert", corpus, tmp_path / "bert", make_config(epochs=1, log_every=1), interrupt)
    assert not (tmp_path / "bert").exists()
    folder = train_baseline("bert", corpus, tmp_path / "bert", make_config(epochs=1, log_every=1))
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


def test_an_unknown_baseline_is_refused(corpus, make_config, tmp_path):
    with pytest.raises(ConfigError, match=r"Unknown baseline 'gpt'\. Expected one of bert, tapas, haetae, cm2"):
        train_baseline("gpt", corpus, tmp_path / "gpt", make_config())


def test_a_loss_that_is_not_finite_changes_nothing_and_ends_the_run(corpus, make_config, make_baseline, tmp_path):
    baseline = make_baseline("bert")
    before = {name: tensor.clone() for name, tensor in baseline.state_dict().items()}
    baseline.compute_loss = lambda batch: sum(p.sum() for p in baseline.parameters()) * torch.nan
    run = BaselineRun(baseline, corpus, make_config(max_bad_steps=2, log_every=1), tmp_path, None)
    with pytest.raises(TrainingError, match="'bert' was not finite 2 steps in a row"):
        run.finish()
    assert all(torch.equal(tensor, before[name]) for name, tensor in baseline.state_dict().items())


@each_baseline
def test_parameters_that_start_cold_have_their_own_rate(name, make_baseline, make_config):
    baseline = make_baseline(name)
    optimizer = make_optimizer(
        baseline, make_config(learning_rate=1e-4, new_learning_rate=5e-4).training, baseline.is_new
    )
    rates = {id(p): group["highest_rate"] for group in optimizer.param_groups for p in group["params"]}
    cold = {name for name, parameter in baseline.named_parameters() if rates[id(parameter)] == 5e-4}
    assert {name for name, _ in baseline.named_parameters() if baseline.is_new(name)} == cold
    assert 0 < len(cold) < len(rates)


def test_nothing_random_is_left_behind(corpus, make_config, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_baseline("bert", corpus, tmp_path / "bert", make_config(max_steps=2))
    assert torch.equal(torch.rand(3), expected)
