"""Tests of candidate headers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from navi.verbs.candidates import list_candidates, list_words, spell_free
from navi.verbs.profiling import Knowledge


@pytest.fixture(scope="module")
def known(navi):
    """Five known columns of three attributes, one of them without a useful header."""
    columns = Knowledge.of(navi.folder).columns.take(np.arange(5))
    return replace(
        columns,
        headers=("Title", "title", "year", "col_1", "TITLE"),
        attributes=("title", "title", "year", "col 1", "title"),
    )


@pytest.fixture(scope="module")
def candidates(known, navi):
    return list_candidates(known, navi.tokenizer)


def test_there_is_one_candidate_an_attribute_and_none_that_says_nothing(candidates):
    assert candidates.attributes == ("title", "year")
    assert candidates.headers == ("Title", "year")


def test_the_best_known_column_counts(candidates):
    score = np.array([[1.0, 5.0, 2.0, 9.0, 5.0]])
    best, column = candidates.find_best(score)
    assert best.tolist() == [[5.0, 2.0]]
    assert column.tolist() == [[1, 2]]


def test_the_likelihood_is_that_of_the_header_s_tokens(candidates, navi):
    title, year = (navi.tokenizer.token_to_id(word) for word in ("title", "year"))
    tokens = np.full((1, 1, navi.tokenizer.get_vocab_size()), -9.0, np.float32)
    tokens[0, 0, [title, year]] = -1.0, -2.0
    assert candidates.measure_likelihood({1: tokens}).tolist() == [[-1.0, -2.0]]


def test_a_header_longer_than_all_masks_gets_the_median(known, navi):
    long = replace(
        known, headers=("Title", "title", "year", "col_1", "a b c d"), attributes=("title",) * 2 + ("year", "x", "z")
    )
    found = list_candidates(long, navi.tokenizer)
    tokens = np.full((1, 1, navi.tokenizer.get_vocab_size()), -4.0, np.float32)
    assert found.measure_likelihood({1: tokens}).tolist() == [[-4.0] * 3]


def test_free_headers_are_likely_words_that_are_not_known(navi):
    words = list_words(navi.tokenizer)
    tokens = np.full((1, navi.tokenizer.get_vocab_size()), -9.0, np.float32)
    for likelihood, word in ((-0.5, "price"), (-1.0, "title"), (-1.5, "brand"), (-1.2, "##s")):
        tokens[0, navi.tokenizer.token_to_id(word)] = likelihood
    assert spell_free({1: tokens}, words, {"title"}) == [("price", -0.5), ("brand", -1.5)]


def test_unlikely_words_are_not_proposed(navi):
    tokens = np.full((1, navi.tokenizer.get_vocab_size()), -9.0, np.float32)
    assert spell_free({1: tokens}, list_words(navi.tokenizer), set()) == []


def test_no_word_comes_twice_in_a_free_header(navi):
    words = list_words(navi.tokenizer)
    tokens = np.full((2, navi.tokenizer.get_vocab_size()), -9.0, np.float32)
    tokens[:, navi.tokenizer.token_to_id("price")] = -1.0
    assert spell_free({2: tokens}, words, set()) == []
    tokens[1, navi.tokenizer.token_to_id("brand")] = -0.5
    assert spell_free({2: tokens}, words, set()) == [("price brand", -1.5)]
