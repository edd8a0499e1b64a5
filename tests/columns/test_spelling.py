"""Tests of headers as words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.columns.spelling import spell_words

WORDS = st.lists(st.sampled_from(["land", "area", "release", "date", "genre", "km2"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("engine:", "Engine"),
        ("Director(s)", "director"),
        ("Languages", "language"),
        ("product weight :", "product_weights"),
        ("GDP nominal [50]", "gdpNominal"),
        ("categories", "Category"),
        ("Boxes", "box"),
        ("Release-Date", "releaseDate"),
    ],
)
def test_headers_that_differ_in_signs_case_or_number_are_spelled_alike(first, second):
    assert spell_words(first) == spell_words(second) != []


@pytest.mark.parametrize(("first", "second"), [("width", "height"), ("title", "title length"), ("status", "statu")])
def test_headers_of_other_words_are_not(first, second):
    assert spell_words(first) != spell_words(second)


@pytest.mark.parametrize("word", ["status", "class", "analysis", "gas", "year"])
def test_a_word_that_only_looks_like_a_plural_stays(word):
    assert spell_words(word) == [word]


@pytest.mark.parametrize("header", ["", "?", "[3]"])
def test_a_header_of_signs_alone_has_no_words(header):
    assert spell_words(header) == []


@given(WORDS, st.sampled_from([" ", "_", "-", ".", ": ", " / "]))
def test_what_stands_between_words_does_not_matter(words, separator):
    assert spell_words(separator.join(words)) == words
