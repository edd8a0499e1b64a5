"""Tests of evidence that two columns mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from navi.columns import EVIDENCE, Background, measure_evidence, profile_columns
from navi.columns.evidence import Rivals, find_stem


@pytest.fixture(scope="module")
def profiles(runner, films):
    return profile_columns(runner, films, rows_per_column=6)


@pytest.fixture(scope="module")
def evidence(profiles):
    """All evidence by name, and the place of each column."""
    found = measure_evidence(profiles, profiles, Background([profiles]))
    return dict(zip(EVIDENCE, found, strict=True))


@pytest.fixture(scope="module")
def place(profiles):
    return {key: number for number, key in enumerate(zip(profiles.tables, profiles.headers, strict=True))}


def test_evidence_is_symmetric(evidence):
    for name, matrix in evidence.items():
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5, err_msg=name)


def test_a_column_is_like_itself(evidence, profiles):
    for name in ("header_words", "header_grams", "attribute", "header_state", "grams", "kind", "shape"):
        np.testing.assert_allclose(np.diag(evidence[name]), 1.0, atol=1e-4, err_msg=name)
    years = [n for n, header in enumerate(profiles.headers) if header in ("year", "date")]
    np.testing.assert_allclose(evidence["numbers"][years, years], 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["contained", "frequent", "words"])
def test_shared_values_are_seen_whatever_the_headers(evidence, place, name):
    genre, kind = place["amber", "genre"], place["cedar", "kind"]
    others = [number for key, number in place.items() if key[0] == "cedar" and key[1] != "kind"]
    assert evidence[name][genre, kind] > evidence[name][genre, others].max()
    assert evidence["header_words"][genre, kind] == 0


@pytest.mark.parametrize("name", ["numbers", "scale"])
def test_numbers_are_compared_by_range(evidence, place, name):
    year, votes = place["amber", "year"], place["amber", "votes"]
    assert evidence[name][year, place["cedar", "date"]] > evidence[name][year, place["cedar", "rating"]] + 0.5
    assert evidence[name][votes, place["cedar", "rating"]] > evidence[name][votes, place["cedar", "date"]] + 0.5


def test_headers_that_share_a_table_are_rivals(evidence, place):
    assert evidence["together"][place["amber", "title"], place["birch", "year"]] < 0
    assert evidence["together"][place["amber", "title"], place["birch", "title"]] == 0
    assert evidence["together"][place["amber", "title"], place["cedar", "film"]] == 0


@pytest.mark.parametrize("written", ["Title:", "titles", "TITLE(S)"])
def test_headers_spelled_alike_are_equal_whatever_a_model_makes_of_their_signs(profiles, place, written):
    headers = tuple(written if header == "title" else header for header in profiles.headers)
    states = {**profiles.states, "attribute": profiles.states["attribute"][::-1]}
    strange = replace(profiles, headers=headers, states=states)
    found = dict(zip(EVIDENCE, measure_evidence(strange, profiles, Background([profiles])), strict=True))
    title, year = place["amber", "title"], place["amber", "year"]
    for name in ("attribute", "header_words", "header_grams"):
        assert found[name][title, title] == pytest.approx(1.0, abs=1e-5), name
        assert found[name][title, year] < 1, name


def test_headers_without_words_are_not_equal(profiles):
    signs = replace(profiles.take(np.arange(2)), headers=("?", "!"))
    found = measure_evidence(signs, signs, Background([signs]))[EVIDENCE.index("attribute")]
    assert found[0, 1] < 1


def test_members_of_one_list_are_no_rivals(profiles):
    headers = ("star1", "star2", "title", "year", "votes")
    tables = ("one",) * 5
    rivals = Rivals([replace(profiles.take(np.arange(5)), headers=headers, tables=tables)])
    found = rivals.compare(headers, headers)
    assert found[0, 1] == 0
    assert found[0, 2] < 0


def test_a_header_never_met_is_nobody_s_rival(profiles):
    assert Rivals([profiles]).compare(["unheard of"], ["title"]).tolist() == [[0]]


def test_a_stem_leaves_numbers_out():
    assert find_stem("actor_1_name") == find_stem("actor 2 name") == "actor name"


def test_a_column_without_values_is_like_none_by_values(profiles, runner, encode):
    empty = profile_columns(runner, encode({"a": [{"title": "x"}]}), np.arange(0), rows_per_column=2)
    found = dict(zip(EVIDENCE, measure_evidence(empty, profiles, Background([profiles])), strict=True))
    for name in ("contained", "shared", "frequent", "words", "grams", "numbers", "blind_header", "blind_value"):
        assert (found[name] == 0).all(), name


def test_columns_without_blind_states_can_be_compared(runner, films):
    profiles = profile_columns(runner, films, rows_per_column=3, blind=False)
    found = dict(zip(EVIDENCE, measure_evidence(profiles, profiles, Background([profiles])), strict=True))
    assert (found["blind_value"] == 0).all()
    assert found["attribute"].max() == pytest.approx(1, abs=1e-5)
