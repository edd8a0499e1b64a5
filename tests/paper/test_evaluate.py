"""Tests of the whole evaluation: every cell once, only what is missing, no cell stops another; results are kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from navi.errors import ConfigError
from navi.training import PretrainConfig
from navi_paper import (
    Cell,
    EvaluationConfig,
    EvaluationData,
    Gold,
    Grid,
    GridConfig,
    Record,
    Results,
    Task,
    TaskResult,
    evaluate,
)
from navi_paper import grid as grids
from navi_paper.grid import SPECS, ModelSpec, make_config
from navi_paper.results import RESULTS_FILE
from navi_paper.table_encoder import PREDICTS_TOKENS

SMALL = EvaluationConfig(rows=20, runs=2, column_rows=4)
ABILITIES = frozenset({PREDICTS_TOKENS})
CELL = Cell(corpus="films", task="generative", model="bert", seed=0)


@pytest.fixture(scope="module")
def settings(tiny_backbone):
    return PretrainConfig.from_dict(
        {
            "backbone": str(tiny_backbone),
            "sampler": {"rows_per_batch": 16, "tables_per_batch": 2},
            "training": {"max_steps": 2, "validate_rows": 0, "workers": 0},
        }
    )


@pytest.fixture(scope="module")
def evaluated(data, settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluated")
    again = partial(
        evaluate, data.corpus, out, gold=data.gold, name="films", models=("bert", "navi"), pretrain=settings
    )
    return out, again(config=SMALL, device="cpu"), again


def test_every_task_of_every_model_has_figures(evaluated):
    out, summary, _ = evaluated
    assert [(record.task, record.model, record.error) for record in summary.failed] == []
    tasks = {(record.task, record.model) for record in Results.open(out)}
    for task in ("generative", "clustering", "robustness", "row_vectors"):
        assert {(task, "bert"), (task, "navi")} <= tasks
    assert "Header prediction and value imputation" in (out / "report.html").read_text(encoding="utf-8")


def test_the_same_again_trains_nothing(evaluated, monkeypatch):
    _, summary, again = evaluated
    monkeypatch.setattr(grids, "train_model", None)
    assert again(config=SMALL).done == summary.done


@pytest.fixture
def journal(monkeypatch):
    """What was done, in order; nothing is asked of the models."""
    kept = []

    def train(spec, *_):
        kept.append(("train", spec.name))
        if spec.name == "broken":
            raise RuntimeError("no such weights")

    monkeypatch.setattr(grids, "load_model", lambda spec, folder, **_: SimpleNamespace(name=spec.name))
    monkeypatch.setattr(grids, "train_model", train)
    return kept


@pytest.fixture
def make_grid(corpus, tmp_path, journal):
    def ask(encoder, data):
        journal.append(("task", encoder.name))
        return TaskResult({"seen": 1.0}, {"vectors": np.ones((2, 3), np.float16)})

    def follow(arrays, data):
        journal.append("arrays")
        return TaskResult({"size": float(arrays["vectors"].size)})

    def make(*models, tasks=None, gold=None, **settings):
        tasks = tasks or (Task(name="asked", run=ask), Task(name="followed", after="asked", run=follow))
        specs = [ModelSpec(name=name, abilities=ABILITIES if name != "dumb" else frozenset()) for name in models]
        config = GridConfig(name="films", models=tuple(specs), tasks=tasks, **settings)
        return Grid(EvaluationData(corpus=corpus, gold=gold or Gold()), Results.open(tmp_path / "results"), config)

    make.ask = ask
    return make


def find(grid, task, model="one"):
    return grid.results.find(Cell(corpus="films", task=task, model=model, seed=0))


def test_a_failing_task_stops_no_other(make_grid):
    def fail(encoder, data):
        raise ValueError("odd rows")

    grid = make_grid("one", tasks=(Task(name="bad", run=fail), Task(name="asked", run=make_grid.ask)))
    summary = grid.run()
    assert [record.error for record in summary.failed] == ["ValueError: odd rows"]
    assert find(grid, "asked") is not None


def test_a_model_that_cannot_be_trained_stops_no_other(make_grid):
    summary = make_grid("broken", "one").run()
    assert [(record.model, record.error) for record in summary.failed] == [("broken", "RuntimeError: no such weights")]
    assert summary.done == 2


def test_models_that_predict_no_tokens_are_spared_tasks_that_want_them(make_grid, journal):
    make_grid("dumb", "one", tasks=(Task(name="asked", run=make_grid.ask, requires=ABILITIES),)).run()
    assert journal == [("train", "one"), ("task", "one")]


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ({"needs": ("concepts", "labels")}, "there is no gold for concepts, labels (--gold)"),
        ({"missing": lambda: "install it"}, "install it"),
    ],
)
def test_what_lacks_gold_or_a_package_is_left_out_and_said(make_grid, lacking, reason):
    summary = make_grid("one", tasks=(Task(name="asked", run=make_grid.ask, **lacking),)).run()
    assert (summary.done, summary.left_out) == (0, {"asked": reason})


@pytest.mark.parametrize("shape", ["config.json", "baseline.json"])
def test_a_taken_model_that_was_trained_anew_in_its_place_is_measured_again(shape, make_grid, journal, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in (shape, "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("first")
    for content in ("first", "second"):
        (folder / "model.safetensors").write_text(content)
        for _ in range(2):
            make_grid("one", taken={"one": folder}).run()
    assert journal.count(("task", "one")) == 2


@pytest.mark.parametrize("name", ["bert", "navi", "navi-paper", "navi-paper-without_alignment"])
def test_all_models_share_backbone_batches_and_optimiser(name):
    shared = PretrainConfig.from_dict({"backbone": "some", "sampler": {"rows_per_batch": 7}, "training": {"epochs": 3}})
    config = make_config(SPECS[name], shared, seed=5)
    assert (config.backbone, config.sampler) == ("some", shared.sampler)
    assert config.training == replace(shared.training, seed=5)


def make_record(**changes):
    return Record(**({**vars(CELL), "digest": "a", "measures": {"accuracy": 0.5}} | changes))


def test_a_line_cut_off_while_it_was_written_is_left_out_and_writing_goes_on(tmp_path):
    Results(tmp_path).add(make_record())
    file = tmp_path / RESULTS_FILE
    with file.open("a") as lines:
        lines.write('{"corpus": "fil')
    results = Results.open(tmp_path)
    results.add(make_record(model="navi"))
    assert [record.model for record in Results.open(tmp_path)] == ["bert", "navi"]


def test_a_line_that_is_no_result_is_one_clear_error(tmp_path):
    (tmp_path / RESULTS_FILE).write_text('{"surprise": 1}\n')
    with pytest.raises(ConfigError, match=r"results.jsonl:1 is no result: .*Remove the line to go on"):
        Results.open(tmp_path)
