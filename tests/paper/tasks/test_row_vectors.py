from dataclasses import replace

import numpy as np
import pytest

from navi_paper.columns import find_numeric_columns, name_columns
from navi_paper.encoder import list_cells
from navi_paper.tasks.row_vectors import draw_half, run

SINGLE = {
    "land": {"table": "alpha", "label": "country", "hide": ["language"], "min_rows": 2},
    "missing": {"table": "delta", "label": "x"},
}


@pytest.fixture(autouse=True)
def ask_the_oracle(monkeypatch):
    """Let the encoders here be asked for every variant."""
    monkeypatch.setattr("navi_paper.tasks.row_vectors.VARIANTS_OF", ("oracle",))


@pytest.fixture
def with_single(bench):
    gold = replace(bench.gold, labels={**bench.gold.labels, "single_tables": SINGLE})
    return replace(bench, gold=gold)


@pytest.fixture
def seen(bench, encoders):
    """An encoder that notes the headers that it is shown, call after call."""
    headers = bench.corpus.headers.to_pylist()

    class Seer(encoders.Oracle):
        def __init__(self):
            self.shown = []

        def embed(self, arrays, rows, *, parts=("rows",), hidden=None):
            _, segments = list_cells(arrays, rows)
            self.shown.append({headers[number] for number in arrays.segment_header[segments]})
            return super().embed(arrays, rows, parts=parts, hidden=hidden)

    return Seer()


def test_the_vectors_of_every_labelled_row_are_kept(with_single, encoders):
    outcome = run(encoders.oracle, with_single)
    for prefix in ("", "text_only/", "partial_text/", "land/"):
        arrays = {key: outcome.arrays[f"{prefix}{key}"] for key in ("vectors_rows", "vectors_means")}
        count = int(outcome.measures[f"{prefix}rows"])
        assert {array.shape for array in arrays.values()} == {(count, encoders.Oracle.WIDTH)}
        assert {array.dtype for array in arrays.values()} == {np.dtype(np.float16)}
        for key in ("labels", "row", "table"):
            assert outcome.arrays[f"{prefix}{key}"].shape == (count,)
        assert outcome.arrays[f"{prefix}row"].dtype == np.int64


def test_labels_and_what_reveals_them_are_never_shown(with_single, seen):
    run(seen, with_single)
    whole, text_only, _, land = seen.shown
    assert whole == {"title", "year", "country", "language", "name", "date", "color"}
    assert text_only == whole - {"year", "date"}
    assert land == {"title", "year", "genre"}


def test_half_of_the_text_columns_are_left_out_and_no_number(with_single, seen):
    run(seen, with_single)
    whole, _, partial, _ = seen.shown
    assert {"year", "date"} <= partial < whole


def test_half_of_each_tables_columns_are_drawn(bench):
    eligible = ~find_numeric_columns(bench)
    chosen = draw_half(bench, eligible)
    tables, _ = name_columns(bench.corpus)
    for table in set(tables):
        own = np.array([each == table for each in tables])
        assert chosen[own].sum() == eligible[own].sum() // 2
    assert not (chosen & ~eligible).any()


def test_rows_have_the_labels_of_their_own_genres(bench, encoders):
    arrays = run(encoders.oracle, bench).arrays
    corpus = bench.corpus
    for row, label, table in zip(arrays["row"], arrays["labels"], arrays["table"], strict=True):
        segments = corpus.arrays.row_segments[corpus.arrays.row_offsets[row] : corpus.arrays.row_offsets[row + 1]]
        texts = corpus.values.take(corpus.arrays.segment_value[segments]).to_pylist()
        assert any(text.split(",")[0] == label for text in texts)
        assert corpus.tables[corpus.arrays.row_table[row]] == table


def test_no_row_was_trained_on(with_single, encoders):
    outcome = run(encoders.oracle, with_single)
    for name in ("row", "land/row"):
        assert 0 not in with_single.corpus.row_split[outcome.arrays[name]]


def test_variants_have_the_same_rows(bench, encoders):
    arrays = run(encoders.oracle, bench).arrays
    assert np.array_equal(arrays["row"], arrays["text_only/row"])
    assert np.array_equal(arrays["row"], arrays["partial_text/row"])


def test_classes_with_few_test_rows_are_counted(bench, encoders, monkeypatch):
    assert run(encoders.oracle, bench).measures["few_test_rows"] == 2
    monkeypatch.setattr("navi_paper.labels.FEW_ROWS", 3)
    monkeypatch.setattr("navi_paper.tasks.row_vectors.FEW_ROWS", 3)
    assert run(encoders.oracle, bench).measures["few_test_rows"] == 0


def test_single_tables_do_without_other_labels(bench, encoders):
    alone = replace(bench, gold=replace(bench.gold, labels={"single_tables": SINGLE}))
    outcome = run(encoders.oracle, alone)
    assert outcome.measures["land/classes"] == 4
    assert "rows" not in outcome.measures
    assert not any(name.startswith("missing") for name in outcome.arrays)


def test_a_model_embeds_the_rows(with_single, navi_tables):
    vectors = run(navi_tables, with_single).arrays["land/vectors_rows"]
    assert np.isfinite(vectors).all()
    assert len(np.unique(vectors, axis=0)) > 1


def test_most_encoders_are_asked_for_the_whole_rows_alone(bench, encoders, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.row_vectors.VARIANTS_OF", ("navi",))
    assert "text_only/row" not in run(encoders.oracle, bench).arrays
