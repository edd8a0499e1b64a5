"""Tests of inspecting a corpus and paths."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace

import pytest

from navi.corpus import inspect_corpus, inspect_paths, prepare


@pytest.fixture
def inspected(films, config):
    """The report on three tables."""
    return inspect_paths([films], config)


def find_column(report, table, header):
    columns = {entry["name"]: entry["columns"] for entry in report["tables"]}[table]
    return next(column for column in columns if column["header"] == header)


def test_paths_are_inspected_like_their_corpus(films, config, tmp_path, inspected):
    assert inspect_corpus(prepare([films], tmp_path / "out", config)) == inspected


def test_inspecting_paths_leaves_nothing_behind(films, config, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    inspect_paths([films], config)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_report_is_ready_for_json(inspected):
    assert json.loads(json.dumps(inspected, allow_nan=False)) == inspected


def test_tables_and_totals_are_there(inspected):
    assert [(table["name"], table["rows"], len(table["columns"])) for table in inspected["tables"]] == [
        ("amber", 60, 3),
        ("birch", 40, 3),
        ("cedar", 20, 2),
    ]
    assert inspected["totals"]["rows"] == 120


def test_column_is_described(inspected):
    column = find_column(inspected, "birch", "releaseYear")
    assert column["attribute"] == "release year"
    assert (column["fill"], column["distinct"], column["role"]) == (1.0, 5, "mid")
    assert 0 < column["entropy"] < 1
    assert column["examples"] == ["1990", "1991", "1992"]
    assert column["trouble"] == []


def test_trouble_is_named(inspected, config, write_tables, tmp_path):
    assert find_column(inspected, "birch", "colour")["trouble"] == ["constant"]
    assert find_column(inspected, "amber", "title")["trouble"] == ["all different"]
    rows = [{"id": str(number)} for number in range(30)]
    rows[0] |= {"rare": "x", "foreign": "漢字漢字"}
    rows[1] |= {"plot": "the film " * 20}
    report = inspect_paths([write_tables(tmp_path / "in", {"amber": rows})], replace(config, max_unknown_share=None))
    assert find_column(report, "amber", "rare")["trouble"][:2] == ["mostly empty", "constant"]
    assert "many [UNK]" in find_column(report, "amber", "foreign")["trouble"]
    assert "often cut" in find_column(report, "amber", "plot")["trouble"]


def test_column_without_rows_that_train_has_no_entropy(config, write_tables, tmp_path):
    rows = [{"id": str(number)} | ({"rare": "x"} if number == 0 else {}) for number in range(30)]
    source = write_tables(tmp_path / "in", {"amber": rows})
    for seed in range(50):
        corpus = prepare([source], tmp_path / f"out{seed}", replace(config, seed=seed))
        if corpus.row_split[0] != 0:
            break
    column = find_column(inspect_corpus(corpus), "amber", "rare")
    assert column["entropy"] is None
    assert "no row that trains" in column["trouble"]


def test_one_cell_that_trains_tells_no_entropy_but_equal_ones_do(config, write_tables, tmp_path):
    rows = [{"id": str(number), "same": "x"} for number in range(30)]
    source = write_tables(tmp_path / "in", {"amber": [{**rows[0], "rare": "x"}, *rows[1:]], "birch": rows})
    for seed in range(50):
        corpus = prepare([source], tmp_path / f"out{seed}", replace(config, seed=seed))
        if corpus.row_split[0] == 0:
            break
    report = inspect_corpus(corpus)
    rare, same = find_column(report, "amber", "rare"), find_column(report, "amber", "same")
    assert (rare["entropy"], rare["trouble"][-1]) == (None, "one cell that trains")
    assert (same["entropy"], same["trouble"]) == (0.0, ["constant"])
    assert find_column(report, "birch", "same") == same


def test_one_cell_of_an_unseen_table_tells_no_entropy(config, write_tables, tmp_path):
    many = [{"id": str(number)} for number in range(30)]
    source = write_tables(tmp_path / "in", {"amber": many, "birch": [{"id": "x"}]})
    report = inspect_paths([source], replace(config, unseen_tables=("birch",)))
    assert find_column(report, "birch", "id")["entropy"] is None


def test_long_examples_are_shortened(config, write_tables, tmp_path):
    report = inspect_paths([write_tables(tmp_path / "in", {"amber": [{"plot": "the film " * 20}]})], config)
    (example,) = find_column(report, "amber", "plot")["examples"]
    assert len(example) == 60
    assert example.endswith("…")


def test_tables_left_out_are_listed(films, config):
    report = inspect_paths([films], replace(config, largest_tables=2))
    assert [(table["name"], table["dropped"]) for table in report["left_out"]] == [
        ("cedar", {"table not among the largest": 20})
    ]
