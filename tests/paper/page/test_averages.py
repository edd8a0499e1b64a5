from __future__ import annotations

import pytest

from navi.report import Number
from navi_paper.page.averages import Averages, average
from navi_paper.results import Record, Results


@pytest.fixture
def results(tmp_path):
    made = Results(tmp_path)
    add(made, model="bert", seed=0, measures={"nmi": 0.5, "beer/f1": 0.1})
    add(made, model="bert", seed=1, measures={"nmi": 0.7})
    add(made, model="navi", seed=0, measures={}, error="ValueError: broken")
    add(made, corpus="feeds", model="navi", measures={"nmi": 0.9})
    return made


def add(results, *, corpus="movie", task="clustering", model="bert", seed=0, measures, error=None):
    results.add(Record(corpus=corpus, task=task, model=model, seed=seed, digest="", measures=measures, error=error))


def test_seeds_are_averaged(results):
    found = Averages(results).find("movie", "clustering", "bert", "nmi")
    assert found.value == pytest.approx(0.6)
    assert found.deviation == pytest.approx(0.02**0.5)


def test_a_measure_that_one_seed_alone_has_is_its_own_mean(results):
    assert Averages(results).find("movie", "clustering", "bert", "beer/f1") == Number(0.1)


def test_failed_cells_have_no_figures_and_are_told(results):
    averages = Averages(results)
    assert averages.find("movie", "clustering", "navi", "nmi") is None
    assert [record.model for record in averages.failed] == ["navi"]


def test_the_papers_corpora_come_first(results):
    add(results, corpus="product", measures={})
    assert Averages(results).corpora == ("product", "movie", "feeds")


def test_a_star_stands_for_what_is_found(results):
    averages = Averages(results)
    assert averages.match("movie", "clustering", "*/f1") == ("beer",)
    assert averages.match("feeds", "clustering", "*/f1") == ()


def test_what_does_not_depend_on_the_model_is_found_with_any(results):
    averages = Averages(results)
    assert averages.find_any("feeds", "clustering", "nmi") == Number(0.9)
    assert averages.find_any("feeds", "clustering", "ami") is None


def test_a_single_figure_has_no_deviation():
    assert average([{"f1": 0.5}], "f1") == Number(0.5)


def test_a_single_figure_keeps_that_of_its_runs():
    assert average([{"f1": 0.5, "f1_deviation": 0.25}], "f1") == Number(0.5, 0.25)
