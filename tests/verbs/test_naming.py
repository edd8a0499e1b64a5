"""Tests of naming."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from navi.errors import ModelError, TableError
from navi.verbs import Navi
from navi.verbs.naming import Candidate, ColumnNames, apply_names, choose_names, deal_columns, name_columns


@pytest.fixture(scope="module")
def rows(world):
    """Rows of a catalogue that the model learned from."""
    return [dict(row) for row in list(world.catalogues[0].rows)[:40]]


@pytest.fixture(scope="module")
def texts(rows, navi):
    """The same rows, flat, every value a text."""
    return navi.read(rows)["table"].text.to_pylist()


@pytest.fixture(scope="module")
def nameless(texts):
    """The rows with all headers taken away, and which header each column had."""
    headers = list(texts[0])
    renamed = [{f"col_{place}": row[header] for place, header in enumerate(headers)} for row in texts]
    return renamed, {f"col_{place}": header for place, header in enumerate(headers)}


@pytest.fixture(scope="module")
def named(navi, nameless):
    return name_columns(navi, nameless[0], rows=3)


def test_every_useless_header_gets_candidates(named, nameless):
    assert sorted(names.column for names in named) == sorted(nameless[1])
    assert all(len(names.candidates) == 5 for names in named)


def test_most_columns_of_a_known_table_are_found_by_their_values(named, nameless):
    known = [names for names in named if names.candidates]
    right = [nameless[1][names.column] in [each.header for each in names.candidates] for names in known]
    assert sum(right) / len(right) > 0.7


def test_probabilities_fall_and_stay_below_one(named):
    for names in named:
        listed = [each.probability for each in names.candidates]
        assert listed == sorted(listed, reverse=True)
        assert 0 < sum(listed) <= 1 + 1e-6


def test_each_candidate_tells_its_source_and_evidence(named):
    sources = {each.source for names in named for each in names.candidates}
    assert sources <= {"known", "free"}
    for names in named:
        for each in names.candidates:
            assert (each.like is None) == (each.source == "free")
            assert set(each.evidence) == ({"values", "model", "taken"} if each.source == "known" else {"model"})
    json.dumps([names.as_dict() for names in named])


def test_naming_is_blind_to_the_own_header(navi, texts):
    # Which rows are read depends on their content, headers too, so all are.
    few, header = texts[:4], list(texts[0])[1]
    renamed = [{("Wrong Name" if name == header else name): value for name, value in row.items()} for row in few]
    first = name_columns(navi, few, [header], rows=10)[0]
    second = name_columns(navi, renamed, ["Wrong Name"], rows=10)[0]
    assert [each.header for each in first.candidates] == [each.header for each in second.candidates]
    for one, other in zip(first.candidates, second.candidates, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-3)


def test_only_what_is_asked_for_is_named(navi, texts):
    header = next(iter(texts[0]))
    found = name_columns(navi, texts, [header], top=2, rows=2)
    assert [names.column for names in found] == [header]
    assert len(found[0].candidates) == 2


def test_without_free_all_candidates_are_known(navi, texts):
    found = name_columns(navi, texts, [next(iter(texts[0]))], top=50, rows=2, free=False)
    assert {each.source for each in found[0].candidates} == {"known"}


def test_a_table_with_good_headers_needs_no_names(navi):
    assert name_columns(navi, [{"title": "Alien", "year": 1979}]) == []


def test_a_column_that_is_not_there_is_an_error(navi, texts):
    with pytest.raises(TableError, match="has no column 'colour of the sky'"):
        name_columns(navi, texts, ["colour of the sky"])


def test_several_tables_are_an_error(navi, texts):
    with pytest.raises(TableError, match="one table at a time, got 2"):
        name_columns(navi, {"a": texts, "b": texts})


def test_a_model_without_profiles_is_an_error(model_dir, tmp_path):
    folder = shutil.copytree(model_dir, tmp_path / "model", ignore=shutil.ignore_patterns("columns.arrow"))
    with pytest.raises(ModelError, match=r"has no columns\.arrow"):
        name_columns(Navi.from_pretrained(folder, device="cpu"), [{"col_1": "Alien"}])


def test_useless_headers_are_always_hidden_and_others_a_few_at_a_time():
    import numpy as np

    headers = ["col_1", "title", "year", "genre", "votes", "star", "plot", "price"]
    passes = deal_columns(headers, np.array([False, True, True, True, True, False, False, False]))
    assert [hidden.tolist().count(True) for hidden in passes] == [3, 3]
    assert all(hidden[0] for hidden in passes)
    assert sum(hidden.astype(int) for hidden in passes).tolist() == [2, 1, 1, 1, 1, 0, 0, 0]


def propose(column, **headers):
    listed = [
        Candidate(header=header, probability=probability, source="known", like="t.h", evidence={})
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
