"""Tests of tables joined under one schema."""

from __future__ import annotations

import logging

import pandas as pd
import pytest

from navi.verbs.matches import Cluster, Column, Matches
from navi.verbs.unify import unify


@pytest.fixture
def matches():
    def cluster(name, *columns):
        return Cluster(name=name, columns=tuple(Column(*column) for column in columns), score=1.0)

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


def test_a_conflict_is_said(matches, frames, caplog):
    with caplog.at_level(logging.WARNING):
        unify(frames, matches)
    assert [record.getMessage() for record in caplog.records] == [
        "a: 'star' takes the first of star1, star2 that holds something."
    ]
