from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from navi.cli.console import Screen
from navi.cli.name import list_names
from navi.verbs.naming import Candidate, ColumnNames


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A table with two headers that say nothing."""
    file = tmp_path_factory.mktemp("export") / "export.csv"
    lines = [f"night {number},{1990 + number % 9},drama" for number in range(12)]
    file.write_text("\n".join(["title,col_2,x", *lines]) + "\n")
    return file


@pytest.fixture(scope="module")
def knowing_model(model, corpus, tmp_path_factory):
    """A model directory that knows the columns it was trained on."""
    from navi.columns import profile_columns
    from navi.columns.columns import COLUMNS_FILE
    from navi.corpus import Corpus
    from navi.verbs import Navi

    if (model / COLUMNS_FILE).is_file():
        return model
    folder = shutil.copytree(model, tmp_path_factory.mktemp("knowing") / "model")
    opened = Navi.from_pretrained(folder, device="cpu")
    profile_columns(opened.runner, Corpus.open(corpus), rows_per_column=8).save(folder)
    return folder


def test_columns_with_useless_headers_are_named(knowing_model, export, navi_command):
    told = json.loads(navi_command("name", "--model", knowing_model, export, "--top", 3, "--json").stdout)
    assert told["table"] == "export"
    assert [column["column"] for column in told["columns"]] == ["col_2", "x"]
    assert all(len(column["candidates"]) == 3 for column in told["columns"])


def test_columns_may_be_asked_for(knowing_model, export, navi_command):
    told = json.loads(navi_command("name", "--model", knowing_model, export, "--columns", "*", "--json").stdout)
    assert [column["column"] for column in told["columns"]] == ["title", "col_2", "x"]
    told = json.loads(navi_command("name", "--model", knowing_model, export, "--columns", "title", "--json").stdout)
    assert [column["column"] for column in told["columns"]] == ["title"]


def test_the_renamed_table_keeps_its_cells(knowing_model, export, tmp_path, navi_command):
    out = tmp_path / "named.csv"
    told = navi_command("name", "--model", knowing_model, export, "--apply", out, "--confidence", 0).stdout
    assert f"2 columns renamed in {out}" in told
    before, after = export.read_text().splitlines(), out.read_text().splitlines()
    assert before[1:] == after[1:]
    assert after[0].startswith("title,")
    assert "col_2" not in after[0]


def test_the_next_command_writes_what_can_be_written(knowing_model, export, tmp_path, navi_command):
    packed = tmp_path / "export.csv.gz"
    packed.write_bytes(gzip.compress(export.read_bytes()))
    assert navi_command("name", "--model", knowing_model, packed).stdout.rstrip().endswith("--apply named.csv")


def test_without_enough_confidence_nothing_is_renamed(knowing_model, export, tmp_path, navi_command):
    out = tmp_path / "named.csv"
    told = navi_command("name", "--model", knowing_model, export, "--apply", out, "--confidence", 1).stdout
    assert "0 columns renamed" in told
    assert out.read_text() == export.read_text()


def test_a_table_whose_headers_all_say_something_needs_no_names(knowing_model, tmp_path, navi_command):
    (tmp_path / "films.csv").write_text("title,year\nAlien,1979\n")
    result = navi_command("name", "--model", knowing_model, tmp_path / "films.csv")
    assert "Every header of this table says something" in result.stderr
    assert result.stdout == ""


def test_rows_that_cannot_be_read_are_told_of(knowing_model, tmp_path, navi_command):
    (tmp_path / "export.jsonl").write_text('{"x": "drama"}\n{broken\n')
    result = navi_command("name", "--model", knowing_model, tmp_path / "export.jsonl")
    assert "1 row: broken row" in result.stderr
    assert "export.jsonl:2" in result.stderr


def test_a_column_that_is_not_there_is_explained(knowing_model, export, navi_command):
    result = navi_command("name", "--model", knowing_model, export, "--columns", "titel", code=2)
    assert "The table 'export' has no column 'titel'. Did you mean 'title'?" in result.stderr


def test_names_are_shown_with_an_example_and_where_they_come_from(capsys):
    import pyarrow as pa

    from navi.tables import read_table

    table = replace(read_table(pa.table({"x": [None, "drama"]}), name="export"), row_number=np.array([2, 3]))
    candidates = (
        Candidate(header="genre", probability=0.75, source="known", like="imdb.genre", evidence={}),
        Candidate(header="mood", probability=0.125, source="free", like=None, evidence={}),
    )
    Screen().answer(list_names(table, [ColumnNames(column="x", candidates=candidates)]))
    line = capsys.readouterr().out.splitlines()[-2]
    assert line.split() == ["x", "drama", "genre", "0.75", "imdb.genre", "mood", "0.12"]
