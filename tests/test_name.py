"""Headers for columns that have none: `Navi.name_columns`, `apply_names` and `navi name`."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from navi.errors import TableError
from navi.verbs import Navi
from navi.verbs.name import (
    LIKELIHOOD_WEIGHT,
    ColumnNames,
    NameCandidate,
    apply_names,
    choose_names,
    list_words,
    spell_free,
)


@pytest.fixture(scope="module")
def texts(reference_dir):
    """Rows of a catalogue whose columns the model knows, every value a text."""
    return json.loads((reference_dir.parent / "rows.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def headers(texts):
    """The headers that each nameless column had."""
    return {f"col_{place}": header for place, header in enumerate(dict.fromkeys(name for row in texts for name in row))}


@pytest.fixture(scope="module")
def named(reference_navi, texts, headers):
    number = {header: name for name, header in headers.items()}
    return reference_navi.name_columns([{number[name]: row[name] for name in row} for row in texts], rows=3)


def test_every_useless_header_gets_candidates_that_say_how_sure_they_are_and_why(named, headers):
    assert {names.column for names in named} == set(headers)
    for names in named:
        listed = [each.probability for each in names.candidates]
        assert len(listed) == 5
        assert listed == sorted(listed, reverse=True)
        assert 0 < sum(listed) <= 1 + 1e-6
        for each in names.candidates:
            assert (each.like is None) == (each.source == "free")
            assert set(each.evidence) == ({"values", "model", "taken"} if each.source == "known" else {"model"})
    json.dumps([names.as_dict() for names in named])


def test_most_columns_of_a_known_table_are_found_by_their_values(named, headers):
    right = [headers[names.column] in [each.header for each in names.candidates] for names in named]
    assert sum(right) / len(right) > 0.7


def test_naming_is_blind_to_the_own_header(reference_navi, texts):
    # Which rows are read depends on their content, headers too, so all are.
    few, header = texts[:4], list(texts[0])[1]
    renamed = [{("Wrong Name" if name == header else name): value for name, value in row.items()} for row in few]
    first = reference_navi.name_columns(few, [header], rows=10)[0]
    second = reference_navi.name_columns(renamed, ["Wrong Name"], rows=10)[0]
    assert [each.header for each in first.candidates] == [each.header for each in second.candidates]
    for one, other in zip(first.candidates, second.candidates, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
        assert one.evidence == pytest.approx(other.evidence, abs=1e-3)


def test_only_what_is_asked_for_is_named_with_known_headers_if_wanted(reference_navi, texts):
    header = next(iter(texts[0]))
    found = reference_navi.name_columns(texts, [header], top=2, rows=2)
    assert [(names.column, len(names.candidates)) for names in found] == [(header, 2)]
    (known,) = reference_navi.name_columns(texts, [header], top=50, rows=2, free=False)
    assert {each.source for each in known.candidates} == {"known"}


def test_several_tables_are_an_error(reference_navi, texts):
    with pytest.raises(TableError, match="one table at a time, got 2"):
        reference_navi.name_columns({"a": texts, "b": texts})


def test_a_model_that_knows_no_columns_has_free_names_alone(reference_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("navi.verbs.name.LEAST_LIKELY", -99.0)
    folder = shutil.copytree(reference_dir, tmp_path / "model", ignore=shutil.ignore_patterns("columns.arrow"))
    opened = Navi.from_pretrained(folder, device="cpu")
    free, none = (opened.name_columns([{"col_1": "Alien", "year": "1979"}], free=free)[0] for free in (True, False))
    assert {each.source for each in free.candidates} == {"free"}
    for each in free.candidates:
        assert each.probability == pytest.approx(np.exp(each.evidence["model"] / LIKELIHOOD_WEIGHT))
    assert max(each.probability for each in free.candidates) < 1
    assert none == ColumnNames(column="col_1", candidates=())


def test_names_become_a_frame_with_one_line_a_candidate(named):
    frame = named.to_polars()
    assert frame.columns == ["column", "header", "probability", "source", "like"]
    assert frame["header"].to_list() == [each.header for names in named for each in names.candidates]


def expect(navi, *lines):
    """Return the log-likelihoods of words at one [MASK] after the other, -9 where none is given: (N, V)."""
    tokens = np.full((len(lines), navi.tokenizer.get_vocab_size()), -9.0, np.float32)
    for line, words in zip(tokens, lines, strict=True):
        for word, likelihood in words.items():
            line[navi.tokenizer.token_to_id(word)] = likelihood
    return tokens


@pytest.mark.parametrize(
    ("lines", "spelled"),
    [
        ([{"price": -0.5, "title": -1.0, "brand": -1.5, "##s": -1.2}], [("price", -0.5), ("brand", -1.5)]),
        ([{}], []),
        ([{"price": -1.0}, {"price": -1.0}], []),
        ([{"price": -1.0}, {"price": -1.0, "brand": -0.5}], [("price brand", -1.5)]),
    ],
)
def test_free_headers_are_likely_words_none_twice_that_are_not_known(reference_navi, lines, spelled):
    tokens = {len(lines): expect(reference_navi, *lines)}
    assert spell_free(tokens, list_words(reference_navi.tokenizer), {"title"}) == spelled


def propose(column, **headers):
    """Return names proposed for a column, with their probabilities."""
    listed = [
        NameCandidate(header=header, probability=probability, source="known", like="t.h", evidence={})
        for header, probability in headers.items()
    ]
    return ColumnNames(column=column, candidates=tuple(listed))


def test_no_name_is_given_twice_and_the_surest_column_chooses_first():
    names = [propose("A", title=0.5, name=0.3), propose("B", title=0.9, movie=0.1), propose("C", year=0.8)]
    assert choose_names(names, ["Year"]) == {"B": "title", "A": "name"}


def test_a_column_without_a_sure_candidate_keeps_its_header():
    assert choose_names([propose("A", title=0.5), propose("B", year=0.9)], [], confidence=0.6) == {"B": "year"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, list])
def test_names_are_applied_to_a_frame_of_any_kind(make):
    data = {"A": ["Alien"], "year": [1979]}
    frame = make(data) if make is not list else [{"A": "Alien", "year": 1979}]
    renamed = apply_names(frame, [propose("A", title=0.9)])
    assert type(renamed) is type(frame)
    columns = list(renamed[0]) if make is list else getattr(renamed, "column_names", None) or list(renamed.columns)
    assert columns == ["title", "year"]


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A table with two headers that say nothing."""
    file = tmp_path_factory.mktemp("export") / "export.csv"
    lines = [f"night {number},{1990 + number % 9},drama" for number in range(12)]
    file.write_text("\n".join(["title,col_2,x", *lines]) + "\n")
    return file


@pytest.fixture
def name(reference_dir, navi_command):
    """Run `navi name` with the small model that is kept."""

    def run(*arguments, code=0):
        return navi_command("name", "--model", reference_dir, *arguments, code=code)

    return run


def test_the_command_names_columns_with_useless_headers_or_those_asked_for(name, export):
    told = json.loads(name(export, "--top", 3, "--json").stdout)
    assert told["table"] == "export"
    assert [column["column"] for column in told["columns"]] == ["col_2", "x"]
    assert all(len(column["candidates"]) == 3 for column in told["columns"])
    for asked, expected in (("*", ["title", "col_2", "x"]), ("title", ["title"])):
        told = json.loads(name(export, "--columns", asked, "--json").stdout)
        assert [column["column"] for column in told["columns"]] == expected


def test_the_command_shows_an_example_and_where_a_name_comes_from(name, export, reference_navi):
    best = reference_navi.name_columns(pd.read_csv(export, dtype=str), ["x"])[0].candidates[0]
    lines = [line.split() for line in name(export).stdout.strip().splitlines()]
    assert lines[0] == ["column", "example", "name", "probability", "like", "or"]
    assert next(line for line in lines if line[:1] == ["x"])[:4] == [
        "x", "drama", best.header, f"{best.probability:.2f}",
    ]  # fmt: skip


def test_the_renamed_table_keeps_its_cells_and_its_headers_where_no_name_is_sure(name, export, tmp_path):
    out, sure = tmp_path / "named.csv", tmp_path / "sure.csv"
    assert f"2 columns renamed in {out}" in name(export, "--apply", out, "--confidence", 0).stdout
    before, after = export.read_text().splitlines(), out.read_text().splitlines()
    assert before[1:] == after[1:]
    assert after[0].startswith("title,")
    assert "col_2" not in after[0]
    assert "0 columns renamed" in name(export, "--apply", sure, "--confidence", 1).stdout
    assert sure.read_text() == export.read_text()


def test_the_next_command_writes_what_can_be_written(name, export, tmp_path):
    packed = tmp_path / "export.csv.gz"
    packed.write_bytes(gzip.compress(export.read_bytes()))
    assert name(packed).stdout.rstrip().endswith("--apply named.csv")


def test_a_table_whose_headers_all_say_something_needs_no_names(name, tmp_path):
    (tmp_path / "films.csv").write_text("title,year\nAlien,1979\n")
    result = name(tmp_path / "films.csv")
    assert "Every header of this table says something" in result.stderr
    assert result.stdout == ""


def test_rows_that_cannot_be_read_are_reported(name, tmp_path):
    (tmp_path / "export.jsonl").write_text('{"x": "drama"}\n{broken\n')
    result = name(tmp_path / "export.jsonl")
    assert "1 row: broken row" in result.stderr
    assert "export.jsonl:2" in result.stderr


def test_a_column_that_is_not_there_is_explained(name, export):
    result = name(export, "--columns", "titel", code=2)
    assert "The table 'export' has no column 'titel'. Did you mean 'title'?" in result.stderr


@pytest.fixture(scope="module")
def wide():
    """Rows of 300 columns, more than the model reads at once."""
    return [{f"field {place:03}": f"night {row + place % 7}" for place in range(300)} for row in range(6)]


def test_columns_beyond_what_the_model_reads_at_once_are_named_too(reference_navi, wide):
    (found,) = reference_navi.name_columns(wide, ["field 299"], rows=2)
    assert found.column == "field 299"
    assert 0 < found.candidates[0].probability <= 1


def test_the_error_about_a_missing_column_of_a_wide_table_is_short(reference_navi, wide):
    with pytest.raises(TableError, match=r"has no column 'city'\. It has field 000, .*, field 007, … \(300 in all\)"):
        reference_navi.name_columns(wide, ["city"])
