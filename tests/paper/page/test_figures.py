from __future__ import annotations

import json

import numpy as np
import pytest

from navi_paper.page.averages import Averages
from navi_paper.page.figures import FIGURES, draw_curves, find_widest
from navi_paper.results import Record, Results

CORPUS = "films"


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def keep(results, task, model, arrays, seed=0):
    results.add(Record(corpus=CORPUS, task=task, model=model, seed=seed, digest="", measures={"x": 1.0}), arrays)


def draw(results, name):
    return FIGURES[name](Averages(results), CORPUS)


def make_columns(count=8):
    return {
        "test_headers": np.random.default_rng(0).normal(size=(count, 5)).astype(np.float16),
        "test_table": np.array([f"t{number % 2}" for number in range(count)]),
        "test_header": np.array(["actor", "actors", "cast", "year", "date", "year", "title", "title"][:count]),
        "test_concept": np.array(["actor", "actor", "actor", "year", "year", "year", "title", "title"][:count]),
    }


def make_segments(count=10):
    return {
        "segments": np.random.default_rng(1).normal(size=(count, 4)).astype(np.float16),
        "role": np.array(["low", "high"] * (count // 2)),
        "table": np.array([f"t{number % 3}" for number in range(count)]),
        "header": np.array(["year"] * count),
        "value": np.array([str(number) for number in range(count)]),
    }


@pytest.mark.parametrize("name", FIGURES)
def test_what_was_not_kept_is_not_drawn(results, name):
    keep(results, "generative", "navi", None)
    assert draw(results, name) == []


def test_similarities_of_navi_stand_beside_those_of_cm2(results):
    for model, high in (("bert", 9.0), ("cm2", 0.2), ("navi", 0.9)):
        keep(results, "reconstruction", model, {"test_value": np.array([0.0, high])})
    (figure,) = draw(results, "similarities")
    assert list(figure.shares) == ["NAVI", "CM2"]
    assert figure.edges[-1] == pytest.approx(0.9)


def test_headers_are_mapped_for_bert_and_navi_with_table_header_and_concept(results):
    for model in ("bert", "navi-paper", "navi"):
        keep(results, "clustering", model, make_columns())
    figures = draw(results, "headers")
    assert [figure.caption.split(":")[0] for figure in figures] == ["films, BERT", "films, NAVI"]
    assert list(figures[0].labels) == ["table", "header", "concept"]
    assert figures[0].colour == "concept"
    assert "principal components" in figures[0].note


def test_the_papers_navi_is_mapped_where_there_is_no_other(results):
    keep(results, "clustering", "navi-paper", make_columns())
    assert [figure.caption.split(":")[0] for figure in draw(results, "headers")] == ["films, NAVI (paper)"]


def test_one_concept_stands_out_by_its_headers(results):
    keep(results, "clustering", "navi", make_columns())
    (figure,) = draw(results, "concept")
    assert "“actor”" in figure.caption
    assert figure.labels["shown as"] == ("other concepts",) * 5 + ("actor", "actors", "cast")
    assert figure.labels["header"][-3:] == ("actor", "actors", "cast")
    assert figure.quiet == ("other concepts",)


def test_segments_are_mapped_by_role(results):
    keep(results, "geometry", "navi", make_segments())
    (figure,) = draw(results, "segments")
    assert figure.colour == "role"
    assert figure.labels["role"] == ("high",) * 5 + ("low",) * 5
    assert figure.labels["value"][:2] == ("1", "3")


def test_low_and_high_segments_have_maps_of_their_own_with_hulls(results):
    keep(results, "geometry", "bert", make_segments())
    low, high = draw(results, "roles")
    assert set(low.labels["role"]) == {"low"}
    assert set(high.labels["role"]) == {"high"}
    assert low.hulls == high.hulls == "table"


def test_maps_have_no_more_points_than_can_be_told_apart(results, monkeypatch):
    monkeypatch.setattr("navi_paper.page.figures.MOST_SEGMENTS", 6)
    for model in ("bert", "navi"):
        keep(results, "geometry", model, make_segments())
    bert, navi = draw(results, "segments")
    assert len(bert.x) == 6
    assert bert.labels == navi.labels


def test_curves_are_those_of_the_models_trained_here(results):
    keep(results, "generative", "navi", None)
    keep(results, "generative", "bert", None)
    folder = results.folder / "models" / CORPUS / "navi-0"
    folder.mkdir(parents=True)
    lines = [
        {"kind": "train", "step": 1, "loss": 3.0},
        {"kind": "validation", "step": 2, "value_accuracy": 0.25},
        {"kind": "train", "step": 2, "loss": 2.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loss, value = draw_curves(Averages(results), CORPUS)
    assert loss.series == {"NAVI": ((1, 3.0), (2, 2.0))}
    assert value.series == {"NAVI": ((2, 0.25),)}


def test_reliability_is_drawn_from_probabilities_and_outcomes(results):
    arrays = {"probability": np.array([0.95, 0.92, 0.05]), "right": np.array([True, False, False])}
    keep(results, "reliability", "navi", arrays)
    (figure,) = draw(results, "reliability")
    assert [(each.accuracy, each.count) for each in figure.series["NAVI"]] == [(0.0, 1), (0.5, 2)]


def test_only_the_first_seed_is_drawn(results):
    keep(results, "reliability", "navi", {"probability": np.array([0.9]), "right": np.array([False])}, seed=1)
    keep(results, "reliability", "navi", {"probability": np.array([0.1]), "right": np.array([True])}, seed=0)
    (figure,) = draw(results, "reliability")
    assert figure.series["NAVI"][0].confidence == pytest.approx(0.1)


def test_of_concepts_with_as_many_headers_the_first_by_name_is_taken():
    assert find_widest(["b", "b", "a", "a", "a"], ["x", "y", "x", "y", "y"]) == "a"
