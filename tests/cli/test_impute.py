from __future__ import annotations

import csv
import json

import pytest

from navi.cli.impute import FILLED


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A table with empty cells in two columns and an empty line."""
    file = tmp_path_factory.mktemp("gaps") / "films.csv"
    genres, years = ["drama", "comedy", ""], ["", "1999", "2001", "1999"]
    lines = [f"night {number},{genres[number % 3]},{years[number % 4]}" for number in range(24)]
    file.write_text("\n".join(["title,genre,year", *lines[:3], ",,", *lines[3:]]) + "\n")
    return file


def read_rows(file):
    with file.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_the_word_for_filled_is_the_librarys():
    from navi.verbs import imputation

    assert imputation.FILLED == FILLED


def test_empty_cells_are_filled_and_others_stay(model, films, tmp_path, navi_command):
    out = tmp_path / "filled.csv"
    told = navi_command("impute", "--model", model, films, "-o", out, "--confidence", 0).stdout
    assert "empty cells filled" in told
    before = [row for row in read_rows(films) if any(row.values())]
    after = read_rows(out)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert all(new[header] == cell for header, cell in old.items() if cell)
    assert all(row["genre"] for row in after)


def test_confidence_that_could_not_be_checked_is_said_with_what_to_do(model, films, tmp_path, navi_command):
    told = " ".join(navi_command("impute", "--model", model, films, "-o", tmp_path / "filled.csv").stdout.split())
    assert "Note: probabilities are raw and may be too high" in told
    assert "ask for more confidence, or give a table with more rows." in told


def test_every_empty_cell_is_accounted_for_by_its_line(model, films, tmp_path, navi_command):
    flags = ("-o", tmp_path / "filled.parquet", "--confidence", 1, "--columns", "genre", "--json")
    told = json.loads(navi_command("impute", "--model", model, films, *flags).stdout)
    assert told["filled"] == 0
    assert sum(told["reasons"].values()) == told["empty"] == len(told["cells"])
    asked = [cell for cell in read_rows(tmp_path / "filled.cells.csv") if cell["column"] == "genre"]
    assert [int(cell["row"]) for cell in asked][:2] == [4, 8]
    assert all(cell["value"] == "" for cell in asked)
    assert all(cell["reason"] for cell in asked)


def test_a_column_that_is_not_there_is_explained(model, films, tmp_path, navi_command):
    result = navi_command("impute", "--model", model, films, "-o", tmp_path / "x.csv", "--columns", "genres", code=2)
    assert "The table 'films' has no column 'genres'. Did you mean 'genre'?" in result.stderr


def test_a_table_without_empty_cells_stays_as_it_is(model, tmp_path, navi_command):
    (tmp_path / "whole.csv").write_text("title,year\nAlien,1979\n")
    told = navi_command("impute", "--model", model, tmp_path / "whole.csv", "-o", tmp_path / "x.csv").stdout
    assert told.split("\n")[0] == f"{tmp_path / 'x.csv'}: the table as it was, no cell is empty"
    assert (tmp_path / "x.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_rows_that_cannot_be_read_are_told_of(model, tmp_path, navi_command):
    (tmp_path / "films.jsonl").write_text('{"title": "Alien"}\n{broken\n')
    result = navi_command("impute", "--model", model, tmp_path / "films.jsonl", "-o", tmp_path / "x.csv")
    assert "1 row: broken row" in result.stderr
    assert "films.jsonl:2" in result.stderr


def test_what_cannot_be_written_is_refused_before_any_work(model, films, tmp_path, navi_command):
    result = navi_command("impute", "--model", model, films, "-o", tmp_path / "x.docx", code=2)
    assert result.stderr.startswith("navi: Cannot write ")


def test_confidence_is_a_share(model, films, tmp_path, navi_command):
    result = navi_command("impute", "--model", model, films, "-o", tmp_path / "x.csv", "--confidence", 60, code=2)
    assert "confidence must lie between 0 and 1, got 60" in result.stderr


def test_quiet_says_nothing(model, films, tmp_path, navi_command):
    flags = ("-o", tmp_path / "x.csv", "--columns", "genre", "--quiet")
    assert navi_command("impute", "--model", model, films, *flags).output == ""
