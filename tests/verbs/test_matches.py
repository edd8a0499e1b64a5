"""Tests of what matching finds."""

from __future__ import annotations

import json

import pytest

from navi.corpus import AttributeMapping
from navi.corpus.attributes import parse_attributes
from navi.verbs.matches import Cluster, Column, Matches, Pair


@pytest.fixture
def matches():
    title = (Column("a", "Title"), Column("b", "movie"))
    pair = Pair(first=title[0], second=title[1], score=0.9, headers=1.0, values=2.0)
    alone = Cluster(name="year", columns=(Column("a", "year"),), score=1.0)
    return Matches(clusters=(Cluster(name="title", columns=title, score=0.9), alone), pairs=(pair,))


def test_the_mapping_is_what_prepare_takes(matches):
    mapping = parse_attributes(json.loads(json.dumps(matches.as_mapping())), "here")
    assert mapping == AttributeMapping(tables={"a": {"Title": "title", "year": "year"}, "b": {"movie": "title"}})


def test_the_table_has_one_line_a_column(matches):
    assert matches.as_table().to_pylist() == [
        {"name": "title", "cluster": 0, "score": 0.9, "table": "a", "header": "Title"},
        {"name": "title", "cluster": 0, "score": 0.9, "table": "b", "header": "movie"},
        {"name": "year", "cluster": 1, "score": 1.0, "table": "a", "header": "year"},
    ]


def test_everything_goes_into_json(matches):
    content = json.loads(json.dumps(matches.as_dict()))
    assert content["clusters"][0]["columns"][1] == {"table": "b", "header": "movie"}
    assert content["pairs"][0]["headers"] == 1.0
