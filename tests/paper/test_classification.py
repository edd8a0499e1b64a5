"""Tests of row classification: how rows are drawn, classifiers, features, and TabPFN's files."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import PrepareConfig, prepare
from navi.errors import ConfigError, ModelError
from navi_paper import EvaluationConfig, EvaluationData
from navi_paper.gold import find_headers
from navi_paper.tabpfn import CODE_FILE, TabPFN, find_missing_files
from navi_paper.tasks.classification import (
    CLASSIFICATION,
    CLASSIFIERS,
    balance,
    classify_features,
    classify_vectors,
    draw_run,
    draw_runs,
    draw_table_runs,
    make_table_vectorizer,
    read_cells,
)

SMALL = EvaluationConfig(rows=60, runs=3)
needs_skrub = pytest.mark.skipif(find_spec("skrub") is None, reason="needs skrub")


def repeat_labels(counts: list[int]) -> np.ndarray:
    return np.repeat([f"class {number}" for number in range(len(counts))], counts)


@given(counts=st.lists(st.integers(5, 30), min_size=2, max_size=6), seed=st.integers(0, 5))
def test_a_fifth_of_each_class_is_held_out(counts, seed):
    labels = repeat_labels(counts)
    learnt, held = draw_run(labels, np.arange(len(labels)), rows=40, seed=seed, run=1)
    assert not set(learnt) & set(held)
    for label, count in balance(labels, 40).items():
        assert (labels[held] == label).sum() == max(1, round(0.2 * count))
        assert (labels[learnt] == label).sum() + (labels[held] == label).sum() == count


def test_one_class_cannot_be_classified():
    with pytest.raises(ConfigError, match=r"needs two classes or more, each of two rows or more; found a \(3\)"):
        draw_runs(np.array(["a", "a", "a"]), np.arange(3), SMALL)


def test_no_table_is_on_both_sides_where_tables_are_held_out():
    table, labels = np.repeat(np.arange(12), 5), np.tile(["a", "b", "c", "d", "e"], 12)
    labels[:5] = "only here"
    draws = draw_table_runs(labels, table, EvaluationConfig(runs=6))
    assert len(draws) == 6
    for learnt, held in draws:
        assert not set(table[learnt]) & set(table[held])
        assert set(labels[learnt]) == set(labels[held]) == set("abcde")
    assert any(not np.array_equal(draws[0][1], held) for _, held in draws[1:])


def test_who_knows_the_table_alone_fails_where_tables_are_held_out():
    labels = np.tile(np.repeat(["a", "b"], 10), 5)
    table = np.repeat(np.arange(10), 10)
    arrays = {"labels": labels, "row": np.arange(100), "table": table, "vectors_rows": np.eye(10)[table]}
    data = SimpleNamespace(config=EvaluationConfig(rows=100, runs=4))
    measures = classify_vectors(arrays, data, classifier="lr").measures
    assert measures["rows_f1"] == 1.0
    assert measures["tables_f1"] < 0.8


@pytest.fixture(scope="module")
def shops(tiny_backbone: Path, write_tables, tmp_path_factory: pytest.TempPathFactory) -> EvaluationData:
    """Two tables that share a price, one of them in words; one has a list of colours."""
    folder = tmp_path_factory.mktemp("shops")
    one = [{"Name": f"red {n}", "price": f"${n}.50", "colors": ["red", "blue"][: n % 3]} for n in range(12)]
    other = [{"name": f"a green city {n}", "price": "large" if n else "small"} for n in range(12)]
    tables = write_tables(folder / "tables", {"one": one, "other": other})
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None, unseen_tables=())
    return EvaluationData(corpus=prepare([tables], folder / "corpus", config))


@pytest.fixture(scope="module")
def cells(shops: EvaluationData) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All cells of the shops, a feature from two cells on."""
    corpus = shops.corpus
    return read_cells(shops, np.arange(24), np.zeros(len(corpus.arrays.column_table), np.bool_), min_cells=2)


def test_tables_share_the_columns_whose_headers_mean_the_same(cells):
    numbers, texts = cells
    assert set(texts.columns) == {"name (text 1)", "colors (text 1)", "colors (text 2)", "price (text 1)"}
    assert list(numbers.columns) == ["price (number 1)"]
    assert texts["name (text 1)"].notna().all()


def test_hidden_columns_leave_no_trace(shops):
    hidden = find_headers(shops.corpus, {"one": ("colors", "price"), "other": ("price",)})
    numbers, texts = read_cells(shops, np.arange(24), hidden, min_cells=2)
    assert list(texts.columns) == ["name (text 1)"]
    assert numbers.shape == (24, 0)


@needs_skrub
def test_the_table_vectorizer_is_fitted_on_the_rows_to_learn_from_alone(cells):
    features = make_table_vectorizer(cells[0].join(cells[1]))
    one, held = features(np.arange(12), np.arange(12, 24))
    assert one.shape[1] == held.shape[1]
    assert one.dtype == np.float32
    assert np.array_equal(features(np.arange(12), np.arange(12))[0], one, equal_nan=True)


@needs_skrub
def test_each_pipeline_is_measured(data):
    corpus = data.corpus
    rows = np.concatenate([corpus.rows_of("test"), corpus.rows_of("validation")])
    labels = np.array(["a", "b"])[np.arange(len(rows)) % 2]
    vectors = np.eye(2)[np.arange(len(rows)) % 2].astype(np.float16)
    small = replace(data, config=EvaluationConfig(rows=30, runs=2))
    result = classify_features({"row": rows, "labels": labels, "vectors": vectors}, small, classifier="lr")
    assert result.measures["navi_fe_f1"] == 1.0
    assert {"raw_f1", "raw_f1_deviation", "table_vectorizer_f1", "raw_features"} < set(result.measures)
    assert {"raw_f1_run1", "navi_fe_tables_f1"} < set(result.measures)


def test_tabpfn_is_not_measured_where_whole_tables_are_held_out_and_too_many_rows_are_left(monkeypatch):
    monkeypatch.setitem(CLASSIFIERS, "tabpfn", CLASSIFIERS["lr"])
    arrays = {"labels": np.repeat(["a", "b"], 20), "row": np.arange(40), "table": np.tile(["t", "u"], 20)}
    arrays["vectors_rows"] = np.eye(40, dtype=np.float16)
    lr, tabpfn = (classify_vectors(arrays, SimpleNamespace(config=SMALL), classifier=each) for each in ("lr", "tabpfn"))
    assert "tables_f1" in lr.measures
    assert tabpfn.measures == {name: each for name, each in lr.measures.items() if not name.startswith("tables")}


def test_a_file_with_another_content_is_refused(tmp_path):
    (tmp_path / CODE_FILE).write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"is refused: its sha256 is [0-9a-f]{64}, expected"):
        TabPFN(0, tmp_path)


def test_without_its_files_tabpfn_is_left_out_with_one_clear_note(monkeypatch, tmp_path):
    monkeypatch.setenv("NAVI_TABPFN", str(tmp_path))
    notes = {task.name: task.missing() for task in CLASSIFICATION}
    assert notes["classification_tabpfn"] == find_missing_files()
    assert notes["features_tabpfn"] is not None
    assert notes["classification_lr"] is None
    assert f"not in {tmp_path}; run: python scripts/fetch_tabpfn.py" in find_missing_files()
