"""Tests of the grid: every cell once, only what is missing, and no cell stops another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from navi_paper import grid as grids
from navi_paper.bench import Bench
from navi_paper.gold import Gold
from navi_paper.grid import Grid, GridConfig
from navi_paper.models import ModelSpec
from navi_paper.results import Cell, Results
from navi_paper.task import Outcome, Sequel, Task


class Trained:
    """A model of which nothing is asked."""

    name = ""


class Journal(list):
    """What was done, in order."""

    def note(self, *entry):
        self.append(entry)


@pytest.fixture
def journal(monkeypatch):
    kept = Journal()

    def load(spec, folder, **_):
        kept.note("load", spec.name)
        encoder = Trained()
        encoder.name = spec.name
        return encoder

    def train(spec, *_):
        kept.note("train", spec.name)
        if spec.name == "broken":
            raise RuntimeError("no such weights")

    monkeypatch.setattr(grids, "load_model", load)
    monkeypatch.setattr(grids, "train_model", train)
    return kept


@pytest.fixture
def make_grid(corpus, tmp_path, journal):
    def ask(encoder, bench):
        journal.note("task", encoder.name)
        return Outcome({"seen": 1.0}, {"vectors": np.ones((2, 3), np.float16)})

    def follow(arrays, bench):
        journal.note("sequel")
        return Outcome({"size": float(arrays["vectors"].size)})

    def make(*models, tasks=None, sequels=None, gold=None, **settings):
        config = GridConfig(
            name="films",
            models=tuple(ModelSpec(name=name, predicts_tokens=name != "dumb") for name in models),
            tasks=tasks or (Task(name="asked", run=ask),),
            sequels=sequels if sequels is not None else (Sequel(name="followed", after="asked", run=follow),),
            **settings,
        )
        return Grid(Bench(corpus=corpus, gold=gold or Gold()), Results.open(tmp_path / "results"), config)

    make.ask = ask
    return make


def find(grid, task, model="one"):
    return grid.results.find(Cell(corpus="films", task=task, model=model, seed=0))


def test_every_model_is_asked_everything(make_grid):
    grid = make_grid("one", "two")
    summary = grid.run()
    assert (summary.done, summary.failed, summary.left_out) == (4, (), {})
    assert find(grid, "asked", "two").measures == {"seen": 1.0}
    assert find(grid, "followed").measures == {"size": 6.0}


def test_a_second_run_does_nothing_again(make_grid, journal):
    make_grid("one").run()
    journal.clear()
    assert make_grid("one").run().done == 2
    assert journal == []


def test_a_new_model_alone_is_trained(make_grid, journal):
    make_grid("one").run()
    journal.clear()
    make_grid("one", "two").run()
    assert [entry for entry in journal if entry[0] == "train"] == [("train", "two")]


def test_other_amounts_are_other_cells(make_grid, journal):
    make_grid("one").run()
    journal.clear()
    grid = make_grid("one")
    grid.bench = replace(grid.bench, config=replace(grid.bench.config, rows=7))
    grid.run()
    assert ("task", "one") in journal


def test_workers_and_checkpoints_make_no_other_cells(make_grid, journal):
    make_grid("one").run()
    journal.clear()
    grid = make_grid("one")
    training = replace(grid.config.pretrain.training, workers=7, checkpoint_minutes=None)
    grid.config = replace(grid.config, pretrain=replace(grid.config.pretrain, training=training))
    grid.run()
    assert journal == []


def test_a_failing_task_stops_no_other(make_grid):
    def fail(encoder, bench):
        raise ValueError("odd rows")

    grid = make_grid("one", tasks=(Task(name="bad", run=fail), Task(name="asked", run=make_grid.ask)))
    summary = grid.run()
    assert [record.error for record in summary.failed] == ["ValueError: odd rows"]
    assert find(grid, "asked") is not None


def test_a_cell_that_failed_is_tried_again(make_grid):
    def fail(encoder, bench):
        raise ValueError("odd rows")

    make_grid("one", tasks=(Task(name="asked", run=fail),)).run()
    assert make_grid("one").run().failed == ()


def test_a_model_that_cannot_be_trained_stops_no_other(make_grid):
    summary = make_grid("broken", "one").run()
    assert [(record.model, record.error) for record in summary.failed] == [("broken", "RuntimeError: no such weights")]
    assert summary.done == 2


def test_models_that_predict_no_tokens_are_spared_tasks_that_want_them(make_grid):
    grid = make_grid("dumb", "one", tasks=(Task(name="asked", run=make_grid.ask, tokens=True),))
    grid.run()
    assert find(grid, "asked", "dumb") is None
    assert len(grid._list_cells()) == 2
    assert find(grid, "asked", "one") is not None


def test_tasks_for_some_models_are_not_asked_of_others(make_grid):
    grid = make_grid("one", "two", tasks=(Task(name="asked", run=make_grid.ask, only=("two",)),))
    grid.run()
    assert find(grid, "asked", "one") is None


def test_what_lacks_gold_is_left_out_and_said(make_grid):
    summary = make_grid("one", tasks=(Task(name="asked", run=make_grid.ask, needs=("concepts", "labels")),)).run()
    assert summary.left_out == {"asked": "there is no gold for concepts, labels (--gold)"}
    assert summary.done == 0


def test_what_lacks_a_package_is_left_out_and_said(make_grid):
    sequel = Sequel(name="followed", after="asked", run=lambda arrays, bench: Outcome({}), module="no_such_package")
    summary = make_grid("one", sequels=(sequel,)).run()
    assert summary.left_out == {"followed": "install the extra: pip install 'navi-tables[eval]'"}


def test_a_model_that_is_taken_is_not_trained(make_grid, journal, tmp_path):
    make_grid("one", taken={"one": tmp_path}).run()
    assert ("train", "one") not in journal
    assert ("load", "one") in journal


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


def test_a_taken_model_that_was_moved_is_not_measured_again(make_grid, journal, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("first")
    make_grid("one", taken={"one": folder}).run()
    make_grid("one", taken={"one": folder.rename(tmp_path / "moved")}).run()
    assert journal.count(("task", "one")) == 1


def test_progress_counts_all_cells(make_grid):
    told = []
    grid = make_grid("one", "two")
    grid._progress = told.append
    grid.run()
    assert {report.total for report in told} == {4}
    assert told[-1].done == 3


def test_results_say_where_they_come_from(make_grid, corpus):
    grid = make_grid("one")
    grid.run()
    about = find(grid, "asked").about
    assert about["fingerprint"] == corpus.fingerprint
    assert about["device"] == "cpu"
    assert {"python", "torch", "navi-tables"} <= set(about["versions"])


def test_single_tables_are_part_of_what_the_gold_is(bench, tmp_path):
    from navi_paper.labels import add_single_tables

    file = tmp_path / "single.json"
    file.write_text('{"kinds": {"table": "alpha", "label": "genre"}}')
    assert add_single_tables(bench.gold, file).fingerprint != bench.gold.fingerprint
