from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from navi.corpus import PrepareConfig, prepare
from navi.errors import MissingExtraError
from navi_paper.bench import Bench, BenchConfig
from navi_paper.classification.features import (
    FEATURES,
    RowCells,
    make_navi,
    make_raw,
    make_table_vectorizer,
    parse_numbers,
    read_cells,
    run,
)
from navi_paper.labels import find_revealing_columns

pd = pytest.importorskip("pandas")
needs_skrub = pytest.mark.skipif(find_spec("skrub") is None, reason="needs skrub")
ALL = np.arange(3)


@pytest.fixture(scope="module")
def shops(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two tables that share a price, one of them in words; one has a list of colours."""
    folder = tmp_path_factory.mktemp("shops")
    one = [{"Name": f"red {n}", "price": f"${n}.50", "colors": ["red", "blue"][: n % 3]} for n in range(12)]
    other = [{"name": f"a green city {n}", "price": "large" if n else "small"} for n in range(12)]
    for name, rows in (("one", one), ("other", other)):
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None, unseen_tables=())
    return Bench(corpus=prepare([folder], folder / "corpus", config))


@pytest.fixture(scope="module")
def cells(shops: Bench) -> RowCells:
    """All cells of the shops, a feature from two cells on."""
    corpus = shops.corpus
    return read_cells(shops, np.arange(24), np.zeros(len(corpus.arrays.column_table), np.bool_), min_cells=2)


def make_cells() -> RowCells:
    texts = pd.DataFrame({"title (text 1)": ["the film", None, "a dark city"]})
    return RowCells(numbers=pd.DataFrame({"year (number 1)": [1999.0, np.nan, 2001.0]}), texts=texts)


def test_numbers_are_read_without_their_signs():
    texts = pa.array(["1,200", "$3.50", "12%", "+4", "-1e3", ".5", "ten", "1999-01-01", "", None])
    numbers = parse_numbers(texts)
    assert numbers[:6].tolist() == [1200.0, 3.5, 12.0, 4.0, -1000.0, 0.5]
    assert np.isnan(numbers[6:]).all()


def test_tables_share_the_columns_whose_headers_mean_the_same(cells):
    assert set(cells.texts.columns) == {"name (text 1)", "colors (text 1)", "colors (text 2)", "price (text 1)"}
    assert list(cells.numbers.columns) == ["price (number 1)"]
    assert cells.texts["name (text 1)"].notna().all()


def test_cells_stand_in_their_rows(cells):
    assert cells.numbers["price (number 1)"].dropna().tolist() == [n + 0.5 for n in range(12)]
    assert cells.texts["name (text 1)"].iloc[[3, 15]].tolist() == ["red 3", "a green city 3"]
    assert cells.texts["colors (text 2)"].dropna().index.tolist() == [2, 5, 8, 11]


def test_hidden_columns_leave_no_trace(shops):
    hidden = find_revealing_columns(shops.corpus, {"one": ("colors", "price"), "other": ("price",)})
    found = read_cells(shops, np.arange(24), hidden, min_cells=2)
    assert list(found.texts.columns) == ["name (text 1)"]
    assert found.numbers.shape == (24, 0)


def test_what_few_rows_have_is_left_out(shops):
    hidden = np.zeros(len(shops.corpus.arrays.column_table), np.bool_)
    found = read_cells(shops, np.arange(24), hidden, min_cells=5)
    assert "colors (text 2)" not in found.texts.columns


def test_raw_features_are_numbers_lengths_and_words():
    learnt, held = make_raw(make_cells())(ALL, ALL[:1])
    assert np.array_equal(learnt, [[1999, 8, 2], [np.nan, 0, 0], [2001, 11, 3]], equal_nan=True)
    assert np.array_equal(held, learnt[:1])


def test_rows_without_texts_have_raw_features_still():
    numbers = make_cells().numbers
    learnt, _ = make_raw(RowCells(numbers=numbers, texts=numbers.iloc[:, :0]))(ALL, ALL)
    assert np.array_equal(learnt, numbers, equal_nan=True)


def test_navi_features_are_numbers_beside_vectors():
    learnt, _ = make_navi(make_cells(), np.arange(6, dtype=np.float16).reshape(3, 2))(ALL, ALL)
    assert np.array_equal(learnt, [[1999, 0, 1], [np.nan, 2, 3], [2001, 4, 5]], equal_nan=True)


@needs_skrub
def test_the_table_vectorizer_is_fitted_on_the_rows_to_learn_from_alone(cells):
    features = make_table_vectorizer(cells)
    one, held = features(np.arange(12), np.arange(12, 24))
    assert one.shape[1] == held.shape[1]
    assert one.dtype == np.float32
    assert np.array_equal(features(np.arange(12), np.arange(12))[0], one, equal_nan=True)


def test_without_skrub_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrub", None)
    with pytest.raises(MissingExtraError, match=r"TableVectorizer needs an extra: pip install 'navi-tables\[eval\]'"):
        make_table_vectorizer(make_cells())


@needs_skrub
def test_each_pipeline_is_measured(bench):
    corpus = bench.corpus
    rows = np.concatenate([corpus.rows_of("test"), corpus.rows_of("validation")])
    labels = np.array(["a", "b"])[np.arange(len(rows)) % 2]
    vectors = np.eye(2)[np.arange(len(rows)) % 2].astype(np.float16)
    small = replace(bench, config=BenchConfig(rows=30, runs=2))
    outcome = run({"row": rows, "labels": labels, "vectors": vectors}, small, classifier="lr")
    assert outcome.measures["navi_fe_f1"] == 1.0
    assert {"raw_f1", "raw_f1_deviation", "table_vectorizer_f1", "raw_features"} < set(outcome.measures)
    assert outcome.arrays["raw_f1"].shape == (2,)


def test_there_is_a_sequel_for_each_classifier():
    assert [(each.name, each.after) for each in FEATURES] == [
        ("features_xgboost", "text_vectors"),
        ("features_lr", "text_vectors"),
        ("features_tabpfn", "text_vectors"),
    ]
