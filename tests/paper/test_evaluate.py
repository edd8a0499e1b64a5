"""Tests of the whole evaluation on a corpus of a few films."""

from __future__ import annotations

import pytest

from navi.errors import ConfigError, MissingExtraError
from navi.training import PretrainConfig
from navi_paper import BenchConfig, Results, evaluate

BENCH = BenchConfig(rows=20, runs=2, column_rows=4)


@pytest.fixture(scope="module")
def settings(tiny_backbone):
    return PretrainConfig.from_dict(
        {
            "backbone": str(tiny_backbone),
            "sampler": {"rows_per_batch": 16, "tables_per_batch": 2},
            "training": {"max_steps": 2, "validate_rows": 0, "workers": 0, "curves": False},
        }
    )


@pytest.fixture(scope="module")
def evaluated(bench, settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("evaluated")
    models = ("bert", "navi")
    summary = evaluate(
        bench.corpus, out, gold=bench.gold, name="films", models=models, pretrain=settings, bench=BENCH, device="cpu"
    )
    return out, summary


def test_every_task_of_every_model_has_figures(evaluated):
    out, summary = evaluated
    assert [(record.task, record.model, record.error) for record in summary.failed] == []
    tasks = {(record.task, record.model) for record in Results.open(out)}
    for task in ("generative", "clustering", "robustness", "row_vectors"):
        assert {(task, "bert"), (task, "navi")} <= tasks


def test_the_page_is_written(evaluated):
    out, _ = evaluated
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Header prediction and value imputation" in page


def test_the_same_again_trains_nothing(evaluated, bench, settings, monkeypatch):
    out, summary = evaluated
    monkeypatch.setattr("navi_paper.grid.train_model", None)
    again = evaluate(
        bench.corpus, out, gold=bench.gold, name="films", models=("bert", "navi"), pretrain=settings, bench=BENCH
    )
    assert again.done == summary.done


def test_without_what_draws_the_page_its_content_is_kept(evaluated, bench, settings, monkeypatch):
    def draw(page, folder):
        raise MissingExtraError("Drawing the figures", "report")

    out, summary = evaluated
    before = (out / "report.html").read_bytes()
    monkeypatch.setattr("navi.report.writing.write_html", draw)
    again = evaluate(
        bench.corpus, out, gold=bench.gold, name="films", models=("bert", "navi"), pretrain=settings, bench=BENCH
    )
    assert again.done == summary.done
    assert "navi-tables[report]" in again.left_out["report.html"]
    assert (out / "report.html").read_bytes() == before


def test_without_gold_what_needs_none_is_measured(bench, settings, tmp_path):
    summary = evaluate(
        bench.corpus, tmp_path, name="films", models=("bert",), tasks=("generative", "clustering"), pretrain=settings,
        bench=BENCH, device="cpu",
    )  # fmt: skip
    assert (summary.done, list(summary.left_out)) == (1, ["clustering"])


def test_a_task_that_is_none_is_one_clear_error(bench, tmp_path):
    with pytest.raises(ConfigError, match=r"Unknown task 'tidying'\. Expected some of generative"):
        evaluate(bench.corpus, tmp_path, tasks=("tidying",))
