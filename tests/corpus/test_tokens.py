"""Tests of texts to tokens."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers

from navi.corpus import words
from navi.corpus.tokens import TextTokenizer
from navi.corpus.words import encode, find_unknown

SIGNS = "ab1|¦.,$^`~_-<é́ 漢\t\v\x1c\u00a0[]SEPÉİΣ\u200b"
TEXTS = st.lists(st.text(alphabet=st.sampled_from(SIGNS), max_size=40), max_size=12)


def read_lists(lists):
    return [lists.tokens[begin:end].tolist() for begin, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)]


def name(tokenizer, lists):
    return [[tokenizer.id_to_token(token) for token in tokens] for tokens in read_lists(lists)]


@given(TEXTS, st.booleans())
@example(["[SEP]", "a [SEP] b", "|", "a | b", "", "Drama,comedy"], True)
@example(["Drama, drama"], False)
def test_word_by_word_gives_what_the_tokenizer_gives_for_whole_texts(tokenizer, texts, lowercase):
    other = Tokenizer.from_str(tokenizer.to_str())
    other.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    expected = [ids[:7] or [find_unknown(other)] for ids in encode(texts, other)]
    assert read_lists(TextTokenizer(other).tokenise(texts, 7)) == expected


def test_words_are_remembered_from_call_to_call(tokenizer, monkeypatch):
    texts = TextTokenizer(tokenizer)
    first = texts.tokenise(["the film"], 9)
    monkeypatch.setattr(words, "encode", lambda texts, tokenizer: [] if not texts else pytest.fail("tokenised again"))
    assert read_lists(texts.tokenise(["film the film"], 9)) == [read_lists(first)[0][::-1] + read_lists(first)[0][1:]]


def test_words_are_forgotten_when_there_are_too_many(tokenizer, monkeypatch):
    monkeypatch.setattr(words, "_MAX_WORDS", 2)
    texts = TextTokenizer(tokenizer)
    for _ in range(3):
        assert name(tokenizer, texts.tokenise(["the film title", "drama"], 9)) == [["the", "film", "title"], ["drama"]]


def test_text_is_cut_and_said_to_be(tokenizer):
    lists = TextTokenizer(tokenizer).tokenise(["the film the film", "the film"], 2)
    assert name(tokenizer, lists) == [["the", "film"], ["the", "film"]]
    assert lists.cut.tolist() == [True, False]


def test_long_text_is_cut_where_its_whole_would_be(tokenizer):
    texts = ["film " * 500, "the " + "\u200b" * 400 + " film " * 5, "x" * 500]
    lists = TextTokenizer(tokenizer).tokenise(texts, 4)
    assert name(tokenizer, lists) == [["film"] * 4, ["the", "film", "film", "film"], ["[UNK]"]]
    assert lists.cut.tolist() == [True, True, False]


def test_text_without_tokens_becomes_unknown(tokenizer):
    lists = TextTokenizer(tokenizer).tokenise(["", "\u200b", "film", "漢"], 5)
    assert name(tokenizer, lists) == [["[UNK]"], ["[UNK]"], ["film"], ["[UNK]"]]
    assert lists.unknown.tolist() == [1, 1, 0, 1]


def test_text_that_spells_a_special_token_is_plain_text(tokenizer):
    lists = TextTokenizer(tokenizer).tokenise(["[SEP]"], 9)
    assert name(tokenizer, lists) == [["[", "s", "##e", "##p", "]"]]
    assert tokenizer.encode("[SEP]", add_special_tokens=False).tokens == ["[SEP]"]


def test_no_texts_give_no_tokens(tokenizer):
    lists = TextTokenizer(tokenizer).tokenise([], 5)
    assert lists.offsets.tolist() == [0]
    assert len(lists.tokens) == 0
