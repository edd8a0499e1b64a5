"""Tests of row classification: how rows are drawn, classifiers, features, and TabPFN's files."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

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
    balance,
    classify_features,
    classify_vectors,
    draw_run,
    draw_runs,
    draw_table_runs,
    make_raw,
    make_table_vectorizer,
    read_cells,
)

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_tabpfn.py"
COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=8)
SMALL = EvaluationConfig(rows=60, runs=3)
needs_skrub = pytest.mark.skipif(find_spec("skrub") is None, reason="needs skrub")


def repeat_labels(counts: list[int]) -> np.ndarray:
    return np.repeat([f"class {number}" for number in range(len(counts))], counts)


def draw_vectors(labels: np.ndarray, spread: float) -> np.ndarray:
    """Return a vector near its class's own corner for each label."""
    _, numbers = np.unique(labels, return_inverse=True)
    noise = np.random.default_rng(0).normal(size=(len(labels), 12))
    return (np.eye(12)[numbers] * 4 + spread * noise).astype(np.float16)


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


def test_every_set_of_vectors_is_measured_under_its_name():
    labels = repeat_labels([20, 20])
    kept = {"labels": labels, "row": np.arange(40), "vectors_rows": draw_vectors(labels, 0.1)}
    arrays = kept | {"table": np.arange(40) % 8} | {f"text_only/{name}": array for name, array in kept.items()}
    data = SimpleNamespace(config=EvaluationConfig(rows=20, runs=7))
    measures = classify_vectors(arrays, data, classifier="lr").measures
    assert measures["rows_f1"] == measures["text_only/rows_f1"] == measures["tables_f1"] == 1.0
    assert measures["rows_drawn"] == 20.0
    assert {f"rows_f1_run{run}" for run in range(7)} < set(measures)
    assert "text_only/rows_f1_run5" not in measures, "variants have fewer runs"


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


def test_raw_features_are_numbers_lengths_and_words():
    numbers = pd.DataFrame({"year (number 1)": [1999.0, np.nan, 2001.0]})
    texts = pd.DataFrame({"title (text 1)": ["the film", None, "a dark city"]})
    assert np.array_equal(make_raw(numbers, texts), [[1999, 8, 2], [np.nan, 0, 0], [2001, 11, 3]], equal_nan=True)


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


def test_a_file_with_another_content_is_refused(tmp_path):
    (tmp_path / CODE_FILE).write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"is refused: its sha256 is [0-9a-f]{64}, expected"):
        TabPFN(0, tmp_path)


@pytest.fixture
def script(monkeypatch, tmp_path) -> ModuleType:
    """The script, whose downloads are an archive made here."""
    spec = importlib.util.spec_from_file_location("fetch_tabpfn", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("NAVI_TABPFN", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "download", _download)
    return module


def _download(requirement: str, folder: Path, kind: str) -> None:
    if requirement.startswith("tabpfn"):
        (folder / "tabpfn-0.1.11-py3-none-any.whl").write_bytes(b"code")
        return
    with tarfile.open(folder / "pfns-0.3.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("pfns-0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt")
        member.size = len(b"weights")
        archive.addfile(member, io.BytesIO(b"weights"))


def test_code_and_weights_are_put_where_they_are_looked_for(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "CODE_SHA256", hashlib.sha256(b"code").hexdigest())
    monkeypatch.setattr(script, "WEIGHTS_SHA256", hashlib.sha256(b"weights").hexdigest())
    assert script.main() == 0
    found = {str(file.relative_to(tmp_path / "cache")) for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    assert found == {script.CODE_FILE, script.WEIGHTS_FILE}


def test_without_its_files_tabpfn_is_left_out_with_one_clear_note(monkeypatch, tmp_path):
    monkeypatch.setenv("NAVI_TABPFN", str(tmp_path))
    notes = {task.name: task.missing() for task in CLASSIFICATION}
    assert notes["classification_tabpfn"] == find_missing_files()
    assert notes["features_tabpfn"] is not None
    assert notes["classification_lr"] is None
    assert f"not in {tmp_path}; run: python scripts/fetch_tabpfn.py" in find_missing_files()
