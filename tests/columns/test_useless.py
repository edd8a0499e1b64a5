"""Tests of headers that say nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.columns import is_useless


@pytest.mark.parametrize(
    "header",
    ["col_3", "Column 12", "Unnamed: 7", "Unnamed: 0_level_0", "x", "A", "AB", "field_12", "1999", "?", "", " ", "V1",
     "c.2", "attribute_4", "unknown", "var", "X1", "feature 3", "value_2"],
)  # fmt: skip
def test_made_up_headers_are_useless(header):
    assert is_useless(header)


@pytest.mark.parametrize(
    "header", ["title", "id", "ID", "r10", "actor 1", "año", "features", "TV", "data source", "value", "国家", "UK"]
)
def test_words_are_not(header):
    assert not is_useless(header)


@given(st.integers(0, 10**6), st.sampled_from(["col", "column", "field", "Unnamed:", "attr", "var"]))
def test_a_filler_with_a_number_is_useless(number, filler):
    assert is_useless(f"{filler}{number}")
    assert is_useless(f"{filler} {number}")
    assert is_useless(f"{filler.upper()}_{number}")
