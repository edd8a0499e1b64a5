import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from navi.errors import ConfigError
from navi_paper.bench import BenchConfig
from navi_paper.gold import Gold
from navi_paper.labels import (
    FEW_ROWS,
    Labelled,
    SingleTable,
    add_single_tables,
    draw_pool,
    find_revealing_columns,
    keep_classes,
    list_hidden,
    read_labels,
    read_single_table,
    read_single_tables,
)

SINGLE_TABLES_FOLDER = Path(__file__).parents[2] / "benchmarks" / "single_tables"


def read_text(corpus, row, header):
    arrays = corpus.arrays
    headers = corpus.headers.to_pylist()
    for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
        if headers[arrays.segment_header[segment]] == header:
            return corpus.values[int(arrays.segment_value[segment])].as_py()
    return None


def test_labels_are_read_from_the_text_before_the_separator(bench):
    found = read_labels(bench.corpus, bench.gold.labels)
    assert np.all(np.diff(found.rows) > 0)
    for row, label in zip(found.rows, found.labels, strict=True):
        text = read_text(bench.corpus, row, "genre") or read_text(bench.corpus, row, "kind")
        assert text.split(",")[0] == label


def test_an_alias_of_no_class_is_no_label(bench):
    assert set(read_labels(bench.corpus, bench.gold.labels).labels) == {"drama", "comedy"}
    assert len(read_labels(bench.corpus, bench.gold.labels).rows) == 2 * 60


def test_letters_around_a_label_are_stripped(corpus):
    gold = {
        "classes": ["drama"],
        "strip": " dm",
        "aliases": {"ra": "drama"},
        "tables": {"alpha": {"label": "genre", "separator": None}},
    }
    assert len(read_labels(corpus, gold).rows) == 0
    gold["strip"] = " da"
    gold["aliases"] = {"ram": "drama"}
    assert len(read_labels(corpus, gold).rows) == 30


def test_a_table_of_one_class_labels_all_its_rows(corpus):
    gold = {"classes": ["film"], "tables": {"gamma": {"label": None, "class": "film"}}}
    found = read_labels(corpus, gold)
    assert np.array_equal(found.rows, corpus.rows_of("unseen"))
    assert set(found.labels) == {"film"}


def test_tables_that_the_corpus_lacks_give_no_rows(corpus):
    gold = {"classes": ["film"], "tables": {"delta": {"label": None, "class": "film"}}}
    assert len(read_labels(corpus, gold).rows) == 0


def test_a_single_table_takes_every_text_for_a_class(corpus):
    found = read_single_table(corpus, SingleTable(name="country", table="alpha", label="country"))
    assert set(found.labels) == {"usa", "uk", "korean", "french"}
    assert len(found.rows) == 90


@pytest.mark.parametrize(("table", "label"), [("delta", "genre"), ("alpha", "nothing")])
def test_a_single_table_that_is_not_there_gives_no_rows(corpus, table, label):
    assert len(read_single_table(corpus, SingleTable(name="x", table=table, label=label)).rows) == 0


def test_label_and_revealing_columns_are_hidden_in_their_own_table(bench):
    hidden = find_revealing_columns(bench.corpus, list_hidden(bench.gold.labels))
    arrays = bench.corpus.arrays
    headers = bench.corpus.headers.take(arrays.column_header).to_pylist()
    found = {(bench.corpus.tables[arrays.column_table[k]], headers[k]) for k in np.flatnonzero(hidden)}
    assert found == {("alpha", "genre"), ("beta", "kind")}


def test_the_label_is_hidden_even_if_it_is_not_among_those_to_hide():
    assert list_hidden({"tables": {"a": {"label": "genre", "hide": ["plot"]}}}) == {"a": ("genre", "plot")}


def test_a_root_hides_what_is_nested_in_it(corpus, monkeypatch):
    names = (["a", "a", "a", "b"], ["genres.0.name", "genres", "genresque", "genres.0"])
    monkeypatch.setattr("navi_paper.labels.name_columns", lambda _: names)
    assert find_revealing_columns(corpus, {"a": ("genres",)}).tolist() == [True, True, False, False]


def test_a_class_with_few_test_rows_takes_every_row_held_out(bench):
    labelled = read_labels(bench.corpus, bench.gold.labels)
    pool = draw_pool(bench, labelled, 0)
    held_out = labelled.rows[bench.corpus.row_split[labelled.rows] != 0]
    assert len(held_out) < FEW_ROWS
    assert np.array_equal(pool.rows, held_out)


def test_a_class_with_enough_test_rows_takes_no_others(bench, monkeypatch):
    monkeypatch.setattr("navi_paper.labels.FEW_ROWS", 3)
    pool = draw_pool(bench, read_labels(bench.corpus, bench.gold.labels), 0)
    assert set(bench.corpus.row_split[pool.rows]) == {2}


def test_no_class_takes_more_rows_than_the_limit(bench, monkeypatch):
    monkeypatch.setattr("navi_paper.labels.MAX_ROWS", 5)
    pool = draw_pool(bench, read_labels(bench.corpus, bench.gold.labels), 0)
    assert np.unique(pool.labels, return_counts=True)[1].tolist() == [5, 5]


def test_rows_that_are_too_long_are_not_drawn(bench):
    shortest = int(bench.row_tokens.min())
    short = replace(bench, config=BenchConfig(max_tokens=shortest))
    pool = draw_pool(short, read_labels(bench.corpus, bench.gold.labels), 0)
    assert np.all(bench.row_tokens[pool.rows] == shortest)


def test_the_largest_classes_are_kept():
    labelled = Labelled(rows=np.arange(7), labels=np.array(list("aaabbcd")))
    assert set(keep_classes(labelled, min_rows=1, max_classes=2).labels) == {"a", "b"}
    assert set(keep_classes(labelled, min_rows=3, max_classes=9).labels) == {"a"}


def test_single_tables_come_from_a_file(tmp_path):
    entry = {"table": "alpha", "label": "genre", "hide": ["plot"], "min_rows": 3}
    (tmp_path / "single.json").write_text(json.dumps({"genre": entry}))
    gold = add_single_tables(Gold(labels={"classes": ["x"]}), tmp_path / "single.json")
    assert gold.labels == {"classes": ["x"], "single_tables": {"genre": entry}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Cannot read the single tables"),
        ("[]", "must hold a JSON object, found a list"),
        ('{"a": 3}', "'a' must be a JSON object, found a int"),
        ('{"a": {"table": "x"}}', "'a' has other entries than expected"),
        ('{"a": {"table": "x", "label": "y", "min_rows": 0}}', "min_rows of 'a' must be at least 1, got 0"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(tmp_path, text, message):
    (tmp_path / "single.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_single_tables(tmp_path / "single.json")


def test_there_are_single_tables_enough_for_the_benchmarks():
    found = [read_single_tables(file) for file in sorted(SINGLE_TABLES_FOLDER.glob("*.json"))]
    assert sum(map(len, found)) >= 6
    assert all(entry["min_rows"] >= 10 for each in found for entry in each.values())
