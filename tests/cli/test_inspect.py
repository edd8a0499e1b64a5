from __future__ import annotations

import json

import pytest


@pytest.fixture
def shop(tmp_path):
    """A table with a broken line, a constant column and something like markup."""
    folder = tmp_path / "shop"
    folder.mkdir()
    lines = [json.dumps({"price": str(n % 3), "currency": "usd", "[b]name": f"red {n}"}) for n in range(8)]
    (folder / "shop.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    return folder


def test_columns_are_shown_with_what_is_known_of_them(shop, tiny_backbone, navi_command):
    told = navi_command("inspect", shop, "--backbone", tiny_backbone).stdout
    assert "shop: 8 rows, 3 columns" in told
    assert "[b]name" in told
    assert "constant" in told
    assert "dropped: broken row (1)" in told
    assert "shop.jsonl:9: " in told
    assert "In all 1 tables, 8 rows, 24 cells, 3 columns" in told


def test_a_corpus_is_inspected_like_the_tables_it_was_made_of(corpus, tables, settings_file, navi_command):
    of_corpus = json.loads(navi_command("inspect", corpus, "--json").stdout)
    of_tables = json.loads(navi_command("inspect", tables, "--config", settings_file, "--json").stdout)
    assert of_corpus == of_tables
    assert {"header", "attribute", "fill", "distinct", "entropy", "role"} <= set(of_corpus["tables"][0]["columns"][0])
    assert of_corpus["totals"]["rows"] == 90


def test_one_table_may_be_chosen(corpus, navi_command):
    names = [table["name"] for table in json.loads(navi_command("inspect", corpus, "--json").stdout)["tables"]]
    told = navi_command("inspect", corpus, "--table", names[1]).stdout
    assert f"{names[1]}: " in told
    assert f"{names[0]}: " not in told


def test_a_table_that_is_not_there_is_a_users_mistake(corpus, navi_command):
    result = navi_command("inspect", corpus, "--table", "nowhere", code=2)
    assert result.stderr.startswith("navi: There is no table 'nowhere'. Expected one of ")


def test_short_has_one_line_a_table(corpus, navi_command):
    told = navi_command("inspect", corpus, "--short").stdout
    assert "headers" in told
    assert "entropy" not in told


def test_a_path_that_is_not_there_is_a_users_mistake(tmp_path, navi_command):
    result = navi_command("inspect", tmp_path / "none", code=2)
    assert result.stderr.startswith("navi: ")
    assert len(result.stderr.splitlines()) == 1
    assert "none" in result.stderr


@pytest.mark.parametrize("width", [80, 200])
def test_each_column_is_one_line_however_wide_the_terminal(width, corpus, navi_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    found = json.loads(navi_command("inspect", corpus, "--json").stdout)
    lines = navi_command("inspect", corpus).stdout.splitlines()
    num_columns = sum(len(table["columns"]) for table in found["tables"])
    *tables, _ = lines
    assert len(tables) == num_columns + 5 * len(found["tables"])
    assert all(len(line) <= width for line in tables)


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_too_small_to_tell_roles_says_so(width, tiny_backbone, tmp_path, navi_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    (tmp_path / "one.csv").write_text("title,year\nred night,1979\n")
    told = navi_command("inspect", tmp_path / "one.csv", "--backbone", tiny_backbone).stdout
    assert told.count(" undecided ") == 2
    assert "0.000" not in told
    assert "undecided: fewer than two cells to train on; add rows to tell entropy and role" in told


def test_a_table_with_roles_says_nothing_of_undecided_ones(shop, tiny_backbone, navi_command):
    assert "undecided" not in navi_command("inspect", shop, "--backbone", tiny_backbone).stdout
