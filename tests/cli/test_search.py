from __future__ import annotations

import json

import pytest

from navi.cli.search import parse_row
from navi.errors import ConfigError


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Two small tables that share two films."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "left.csv").write_text("title,year\nnight king,1999\nday house,2001\nlove war,2010\n")
    (folder / "right.jsonl").write_text(
        '{"movie": "love war", "date": "2010"}\n{"movie": "night king", "date": "1999"}\n{"movie": "dark star"}\n'
    )
    return folder


def test_the_row_with_the_same_words_comes_first(model, films, navi_command):
    found = json.loads(
        navi_command("search", "--model", model, films, "--like", "title=day house", "-k", 2, "--json").stdout
    )
    assert [set(row) for row in found] == [{"table", "row", "confidence", "similarity", "overlap", "cells"}] * 2
    assert (found[0]["table"], found[0]["row"]) == ("left", 3)
    assert found[0]["cells"] == {"title": "day house", "year": "2001"}


def test_rows_are_shown_with_their_cells(model, films, navi_command):
    told = navi_command("search", "--model", model, films, "--like", "title=dark star").stdout
    assert "right:3" in told
    assert "movie=dark star" in told


def test_a_row_of_the_tables_may_be_looked_for(model, films, navi_command):
    found = json.loads(navi_command("search", "--model", model, films, "--row", "left:2", "-k", 1, "--json").stdout)
    assert (found[0]["table"], found[0]["row"]) == ("right", 2)


def test_an_index_is_kept_and_used_again(model, films, tmp_path, navi_command, monkeypatch):
    from navi.verbs import kept

    flags = ("--like", "title=night king", "--json", "--index", tmp_path / "index")
    first = json.loads(navi_command("search", "--model", model, films, *flags).stdout)
    monkeypatch.delattr(kept, "build_index")
    again = json.loads(navi_command("search", "--model", model, films, *flags).stdout)
    assert [row["cells"] for row in again] == [row["cells"] for row in first]


def test_pairs_are_rows_about_the_same(model, films, navi_command):
    flags = ("--pairs", "--one-to-one", "--confidence", 0)
    told = json.loads(navi_command("search", "--model", model, films, *flags, "--json").stdout)
    best = [(pair["left"], pair["right"]) for pair in told["pairs"]][:2]
    assert sorted(best) == [(2, 2), (4, 1)]
    shown = navi_command("search", "--model", model, films, *flags).stdout
    assert "left:4" in shown
    assert "movie=love war" in shown


def test_pairs_need_two_tables(model, tables, navi_command):
    result = navi_command("search", "--model", model, tables, "--pairs", code=2)
    assert "--pairs compares two tables, got 3. Name two files." in result.stderr


@pytest.mark.parametrize("flags", [(), ("--like", "a=b", "--pairs"), ("--like", "a=b", "--row", "left:2")])
def test_one_question_at_a_time(flags, model, films, navi_command):
    result = navi_command("search", "--model", model, films, *flags, code=2)
    assert result.stderr == "navi: Give one of --like ROW, --row TABLE:N and --pairs.\n"


@pytest.mark.parametrize("text", ["left", "left:", ":3", "left:three"])
def test_a_row_that_is_none_is_explained(text):
    with pytest.raises(ConfigError, match="expected TABLE:N, such as imdb:12"):
        parse_row(text)


def test_cells_that_are_none_are_explained(model, films, navi_command):
    result = navi_command("search", "--model", model, films, "--like", "Alien", code=2)
    assert "expected header=value, such as title=Alien, year=1979" in result.stderr


def test_a_table_that_is_not_there_is_explained(model, films, navi_command):
    result = navi_command("search", "--model", model, films, "--row", "middle:2", code=2)
    assert result.stderr == "navi: There is no table 'middle'. Expected one of left, right.\n"


@pytest.mark.parametrize("flags", [("--like", "Alien"), ("--row", "middle:2")])
def test_a_mistyped_question_is_refused_before_any_work(flags, films, tmp_path, navi_command):
    assert "No model" not in navi_command("search", "--model", tmp_path / "no model", films, *flags, code=2).stderr


def test_paths_without_tables_are_refused_before_any_work(tmp_path, navi_command):
    result = navi_command("search", "--model", tmp_path / "no model", tmp_path / "nowhere", "--like", "a=b", code=2)
    assert "Cannot read" in result.stderr
