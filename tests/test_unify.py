"""Tables joined into one under the unified schema that matching found."""

from __future__ import annotations

import logging

import pandas as pd
import pytest

from navi.verbs.match import ColumnCluster, ColumnRef, Matches
from navi.verbs.unify import unify


@pytest.fixture
def matches():
    def cluster(name, *columns):
        return ColumnCluster(name=name, columns=tuple(ColumnRef(*column) for column in columns), score=1.0)

    return Matches(
        clusters=(
            cluster("star", ("a", "star1"), ("a", "star2"), ("b", "cast")),
            cluster("title", ("a", "Title"), ("b", "movie")),
            cluster("year", ("a", "year")),
        ),
        pairs=(),
    )


@pytest.fixture
def frames():
    first = [{"Title": "Alien", "star1": "Ann", "star2": "Bob", "year": 1979}, {"Title": "Heat", "star2": "Eve"}]
    return {"a": first, "b": pd.DataFrame({"cast": [None, "Dan"], "movie": [None, "Jaws"]})}


def test_rows_stand_under_the_unified_names_with_where_they_come_from(matches, frames):
    assert unify(frames, matches).to_pylist() == [
        {"_table": "a", "_row": 1, "star": "Ann", "title": "Alien", "year": "1979"},
        {"_table": "a", "_row": 2, "star": "Eve", "title": "Heat", "year": None},
        {"_table": "b", "_row": 2, "star": "Dan", "title": "Jaws", "year": None},
    ]


def test_a_conflict_is_logged(matches, frames, caplog):
    with caplog.at_level(logging.WARNING):
        unify(frames, matches)
    assert [record.getMessage() for record in caplog.records] == [
        "a: 'star' takes the first of star1, star2 that holds something."
    ]


def test_what_was_matched_can_be_unified(reference_navi):
    frames = {"a": [{"title": "dark city", "cast": ["Ann", "Bob"]}], "b": [{"title": "red house", "cast": ["Eve"]}]}
    unified = unify(frames, reference_navi.match(frames, one_to_one=True)).to_pylist()
    assert [(row["_table"], row["_row"], row["title"]) for row in unified] == [
        ("a", 1, "dark city"),
        ("b", 1, "red house"),
    ]
    assert {"Ann", "Bob"} <= set(unified[0].values())
    assert "Eve" in unified[1].values()
