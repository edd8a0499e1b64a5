"""Tests of the vocabulary check."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from navi.corpus.tokens import TextTokenizer
from navi.corpus.vocabulary import FieldCount, count_fields, find_text


@pytest.mark.parametrize("text", ["drama", "12 min", "漢字漢", "ж/д", "http is a protocol", "wwwhat"])
def test_text_that_says_something_is_meaningful(text):
    assert find_text(pa.array([text])).tolist() == [True]


@pytest.mark.parametrize(
    "text", ["uk", "1999-12-31", "$ 12.50", "1,000,000", "...", "https://a.org/b", "HTTP://A.ORG", "www.a.org", "漢字"]
)
def test_urls_numbers_and_short_strings_are_left_aside(text):
    assert find_text(pa.array([text])).tolist() == [False]


def count(tokenizer, texts, max_unknown_share=0.3):
    values = pa.array(list(dict.fromkeys(texts)))
    cell_value = np.array([values.to_pylist().index(text) for text in texts], np.int32)
    tokens = TextTokenizer(tokenizer).tokenise(values.to_pylist(), 20)
    return count_fields(values, cell_value, tokens, max_unknown_share)


def test_each_cell_counts_as_often_as_it_occurs(tokenizer):
    assert count(tokenizer, ["drama", "драма", "drama", "драма", "драма", "1999"]) == FieldCount(text=5, bad=3)


def test_field_is_bad_only_above_the_share(tokenizer):
    three_in_ten = "драма " * 3 + "film " * 7
    assert count(tokenizer, [three_in_ten]) == FieldCount(text=1, bad=0)
    assert count(tokenizer, [three_in_ten + "драма"]) == FieldCount(text=1, bad=1)


def test_check_that_is_off_counts_nothing(tokenizer):
    assert count(tokenizer, ["драма"], max_unknown_share=None) == FieldCount(text=0, bad=0)
