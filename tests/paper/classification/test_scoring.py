from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError
from navi_paper.bench import BenchConfig
from navi_paper.classification.scoring import (
    CLASSIFICATION,
    balance,
    classify,
    draw_run,
    list_prefixes,
    run,
    summarise,
)

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=8)


def repeat_labels(counts: list[int]) -> np.ndarray:
    return np.repeat([f"class {number}" for number in range(len(counts))], counts)


def draw_vectors(labels: np.ndarray, spread: float) -> np.ndarray:
    """Return a vector near its class's own corner for each label."""
    _, numbers = np.unique(labels, return_inverse=True)
    noise = np.random.default_rng(0).normal(size=(len(labels), 12))
    return (np.eye(12)[numbers] * 4 + spread * noise).astype(np.float16)


@given(counts=COUNTS, rows=st.integers(1, 200))
def test_as_many_rows_are_drawn_as_are_asked_for_and_there(counts, rows):
    assert sum(balance(repeat_labels(counts), rows).values()) == min(rows, sum(counts))


@given(counts=COUNTS, rows=st.integers(1, 200))
def test_a_class_has_fewer_rows_than_another_only_if_it_has_no_more(counts, rows):
    drawn = list(balance(repeat_labels(counts), rows).values())
    for count, own in zip(counts, drawn, strict=True):
        assert own <= count
        assert own == count or own >= max(drawn) - 1


@given(counts=st.lists(st.integers(5, 30), min_size=2, max_size=6), seed=st.integers(0, 5))
def test_a_fifth_of_each_class_is_held_out(counts, seed):
    labels = repeat_labels(counts)
    learnt, held = draw_run(labels, np.arange(len(labels)), rows=40, seed=seed, run=1)
    assert not set(learnt) & set(held)
    for label, count in balance(labels, 40).items():
        assert (labels[held] == label).sum() == max(1, round(0.2 * count))
        assert (labels[learnt] == label).sum() + (labels[held] == label).sum() == count


def test_draws_depend_on_the_rows_and_not_on_their_order():
    labels, row = repeat_labels([30, 30]), np.arange(100, 160)
    order = np.random.default_rng(0).permutation(60)
    there = draw_run(labels, row, rows=20, seed=3, run=2)
    back = draw_run(labels[order], row[order], rows=20, seed=3, run=2)
    for one, other in zip(there, back, strict=True):
        assert set(row[one]) == set(row[order][other])


def test_runs_and_seeds_draw_other_rows():
    labels, row = repeat_labels([50, 50]), np.arange(100)
    drawn = [tuple(draw_run(labels, row, rows=20, seed=seed, run=run)[0]) for seed in (0, 1) for run in (0, 1)]
    assert len(set(drawn)) == 4


def test_classes_that_lie_apart_score_1():
    labels = repeat_labels([20, 20, 20])
    scores = classify(draw_vectors(labels, 0.1), labels, "lr", rows=60, runs=3)
    assert scores.tolist() == [1.0, 1.0, 1.0]


def test_shuffled_labels_score_near_chance():
    labels = repeat_labels([100] * 4)
    vectors = draw_vectors(labels, 0.1)
    shuffled = np.random.default_rng(1).permutation(labels)
    assert classify(vectors, shuffled, "lr", rows=400, runs=4).mean() == pytest.approx(0.25, abs=0.08)


def test_the_same_seed_gives_the_same_scores_and_another_does_not():
    labels = repeat_labels([40, 40])
    vectors = draw_vectors(labels, 6.0)
    scores = [classify(vectors, labels, "lr", rows=60, runs=4, seed=seed).tolist() for seed in (0, 0, 1)]
    assert scores[0] == scores[1] != scores[2]


def test_one_class_cannot_be_classified():
    with pytest.raises(ConfigError, match=r"needs two classes or more, each of two rows or more; found a \(3\)"):
        classify(np.ones((3, 2)), np.array(["a", "a", "a"]), "lr")


def test_a_class_of_one_row_cannot_be_classified():
    with pytest.raises(ConfigError, match=r"found a \(2\), b \(1\)"):
        classify(np.ones((3, 2)), np.array(["a", "a", "b"]), "lr")


def test_vectors_and_labels_must_be_as_many():
    with pytest.raises(ConfigError, match="There are 3 vectors but 2 labels"):
        classify(np.ones((3, 2)), np.array(["a", "b"]), "lr")


def test_an_unknown_classifier_is_named_with_those_there_are():
    with pytest.raises(ConfigError, match=r"Unknown classifier 'svm'\. Expected one of xgboost, lr, tabpfn"):
        classify(np.ones((4, 2)), np.array(["a", "a", "b", "b"]), "svm")


def test_mean_and_deviation_are_those_of_the_runs():
    assert summarise("f1", np.array([0.5, 0.7])) == pytest.approx({"f1": 0.6, "f1_deviation": 0.02**0.5})


def test_every_set_of_vectors_is_measured_under_its_name():
    labels = repeat_labels([20, 20])
    kept = {"labels": labels, "row": np.arange(40), "vectors_rows": draw_vectors(labels, 0.1)}
    kept["vectors_means"] = np.zeros_like(kept["vectors_rows"])
    arrays = kept | {f"text_only/{name}": array for name, array in kept.items()}
    bench = SimpleNamespace(config=BenchConfig(rows=20, runs=7))
    outcome = run(arrays, bench, classifier="lr")
    names = ("rows_drawn", "rows_f1", "rows_f1_deviation")
    both = {prefix + name for prefix in ("", "text_only/") for name in names}
    assert set(outcome.measures) == both | {"means_f1", "means_f1_deviation"}
    assert outcome.measures["rows_f1"] == outcome.measures["text_only/rows_f1"] == 1.0
    assert outcome.measures["means_f1"] < 0.7
    assert outcome.measures["rows_drawn"] == 20.0
    assert {name: len(scores) for name, scores in outcome.arrays.items()} == {
        "rows_f1": 7,
        "means_f1": 7,
        "text_only/rows_f1": 5,
    }


def test_vectors_that_were_not_kept_are_not_measured():
    arrays = {"labels": np.repeat(["a", "b"], 10), "row": np.arange(20), "vectors_rows": np.eye(20, dtype=np.float16)}
    outcome = run(arrays, SimpleNamespace(config=BenchConfig(rows=20, runs=1)), classifier="lr")
    assert set(outcome.arrays) == {"rows_f1"}


def test_names_that_only_end_like_labels_are_no_prefix():
    assert list_prefixes({"labels": np.zeros(1), "beer/labels": np.zeros(1), "other_labels": np.zeros(1)}) == [
        "",
        "beer/",
    ]


def test_there_is_a_sequel_for_each_classifier():
    assert [(each.name, each.after) for each in CLASSIFICATION] == [
        ("classification_xgboost", "row_vectors"),
        ("classification_lr", "row_vectors"),
        ("classification_tabpfn", "row_vectors"),
    ]
