from __future__ import annotations

import json

import pyarrow.csv as pa_csv
import pytest

from navi.cli.match import list_clusters, summarise_matches
from navi.corpus import load_attributes
from navi.verbs.matches import Cluster, Column, Matches, Pair


@pytest.fixture
def found():
    """A match of two columns, and a column alone."""
    title, name, year = Column("a", "title"), Column("b", "[name]"), Column("a", "year")
    return Matches(
        clusters=(
            Cluster(name="title", columns=(title, name), score=0.875),
            Cluster(name="year", columns=(year,), score=1.0),
        ),
        pairs=(Pair(first=title, second=name, score=0.875, headers=-0.5, values=2.25),),
    )


def test_a_match_says_what_headers_and_values_contributed(found, capsys):
    from navi.cli.console import Screen

    Screen().answer(list_clusters(found), *summarise_matches(found, []))
    told = capsys.readouterr().out
    assert "0.88" in told
    assert "-0.5" in told
    assert "+2.2" in told
    assert "title (a), [name] (b)" in told
    assert "3 columns: 2 in 1 cluster, 1 alone." in told


def test_every_column_of_the_tables_is_in_a_cluster(model, tables, truth, navi_command):
    told = json.loads(navi_command("match", "--model", model, tables, "--json").stdout)
    columns = {(column["table"], column["header"]) for cluster in told["clusters"] for column in cluster["columns"]}
    assert columns == {column for column in columns if truth.concept_of(*column)}
    assert set(truth.concepts) <= columns


def test_the_mapping_is_what_prepare_takes(model, tables, settings_file, tmp_path, navi_command):
    mapping, table = tmp_path / "mapping.json", tmp_path / "columns.csv"
    told = navi_command("match", "--model", model, tables, "--mapping", mapping, "--csv", table, "--one-to-one").stdout
    assert f"Written: {mapping}" in told
    assert f"-o corpus --attributes {mapping}" in told
    attributes = load_attributes(mapping)
    for line in pa_csv.read_csv(table).to_pylist():
        assert attributes.attribute_of(line["table"], line["header"]) == line["name"]
    flags = ("--config", settings_file, "--attributes", mapping, "--workers", 1)
    assert "attributes: " not in navi_command("prepare", tables, "-o", tmp_path / "corpus", *flags).stdout


def test_the_tables_become_one_that_says_where_each_row_stands(model, tmp_path, navi_command):
    (tmp_path / "left.csv").write_text("title,year\nnight king,1999\n,\nday house,2001\n")
    (tmp_path / "right.jsonl").write_text('{"title": "love war", "year": "2010"}\n')
    out = tmp_path / "both.jsonl"
    navi_command("match", "--model", model, tmp_path / "left.csv", tmp_path / "right.jsonl", "--unify", out, "--quiet")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["_table"], row["_row"]) for row in rows] == [("left", 2), ("left", 4), ("right", 1)]
    assert "day house" in rows[1].values()


def test_one_table_is_too_few(model, tables, navi_command):
    result = navi_command("match", "--model", model, next(tables.iterdir()), code=2)
    assert "at least two tables, got 1" in result.stderr


def test_the_threshold_is_a_share(model, tables, navi_command):
    result = navi_command("match", "--model", model, tables, "--threshold", 2, code=2)
    assert "threshold must lie between 0 and 1, got 2.0" in result.stderr
