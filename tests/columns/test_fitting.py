"""Tests of a scorer learned from tables."""

from __future__ import annotations

import numpy as np
import pytest

from navi.columns import DEFAULT_SCORER, Background, fit_scorer, profile_columns
from navi.columns.scorer import SPELLING_WEIGHTS

SAME = {name: name for name in ("title", "genre", "year", "votes", "actor")}
OTHER = {"title": "film", "genre": "kind", "year": "date", "votes": "rating", "actor": "star"}


@pytest.fixture(scope="module")
def many(runner, encode, draw):
    """Ten tables about films, half of them with other headers."""
    tables = {f"t{n}": draw(n, 40, SAME if n % 2 else OTHER) for n in range(10)}
    return profile_columns(runner, encode(tables), rows_per_column=3)


@pytest.fixture(scope="module")
def scorer(many):
    return fit_scorer(many)


def test_values_alone_tell_columns_of_one_meaning_under_different_headers(many, scorer):
    scores = scorer.score(many, many, Background([many])).values
    odd, even = ([n for n, table in enumerate(many.tables) if int(table[1:]) % 2 == rest] for rest in (1, 0))
    for place in odd:
        best = max(even, key=lambda other: scores[place, other])
        assert many.headers[best] == OTHER[many.headers[place]]


def test_headers_are_weighed_by_what_values_say_of_them(scorer):
    assert scorer.weights["attribute"] + scorer.weights["header_state"] > 0
    assert min(scorer.weights.values()) >= 0


def test_spelling_keeps_its_weight_beside_a_model_that_knows_the_headers(scorer):
    assert {name: scorer.weights[name] for name in SPELLING_WEIGHTS} == dict(SPELLING_WEIGHTS)


def test_what_spelling_says_is_not_counted_twice(many, scorer, monkeypatch):
    monkeypatch.setattr("navi.columns.fitting.SPELLING_WEIGHTS", {"header_words": 0.0})
    alone = fit_scorer(many)
    fitted = ("attribute", "header_state")
    assert sum(scorer.weights[name] for name in fitted) < sum(alone.weights[name] for name in fitted)


def test_fitting_is_the_same_each_time(many, scorer):
    assert fit_scorer(many) == scorer


def test_few_tables_leave_the_default(many):
    assert fit_scorer(many.take(np.arange(8))) == DEFAULT_SCORER
    assert fit_scorer(many.take(np.arange(0))) == DEFAULT_SCORER


def test_names_are_surer_where_no_other_header_has_the_same_values(many, scorer):
    odd = many.take(np.array([n for n, table in enumerate(many.tables) if int(table[1:]) % 2]))
    assert fit_scorer(odd).temperature < scorer.temperature


def test_values_that_seldom_agree_with_headers_do_not_teach_what_headers_say(many, scorer, monkeypatch):
    monkeypatch.setattr("navi.columns.fitting.LEAST_AGREEMENT", 1.1)
    untaught = fit_scorer(many)
    assert untaught.header_bias == DEFAULT_SCORER.header_bias != scorer.header_bias
    assert untaught.weights["attribute"] == DEFAULT_SCORER.weights["attribute"] != scorer.weights["attribute"]
    assert untaught.value_bias == scorer.value_bias
