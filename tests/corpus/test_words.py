"""Tests of words to tokens."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from navi.corpus import words
from navi.corpus.tokens import TextTokenizer
from navi.corpus.words import WordTokenizer, encode, is_word_by_word
from navi.errors import ModelError


def test_words_that_hold_every_separator_are_still_told_apart(tokenizer, monkeypatch):
    monkeypatch.setattr(words, "_SEPARATORS", "|")
    lengths, tokens = WordTokenizer(tokenizer).encode(["the | film", "drama|"])
    assert lengths.tolist() == [3, 2]
    assert [tokenizer.id_to_token(token) for token in tokens] == ["the", "|", "film", "drama", "|"]


def test_separator_that_goes_missing_is_noticed(tokenizer, monkeypatch):
    encoder = WordTokenizer(tokenizer)
    monkeypatch.setattr(encoder, "_separators", {"§": tokenizer.token_to_id("film")})
    lengths, tokens = encoder.encode(["the film", "drama"])
    assert lengths.tolist() == [2, 1]
    assert [tokenizer.id_to_token(token) for token in tokens] == ["the", "film", "drama"]


def test_many_words_go_into_several_texts(tokenizer, monkeypatch):
    monkeypatch.setattr(words, "_WORDS_A_TEXT", 2)
    lengths, tokens = WordTokenizer(tokenizer).encode(["the film genre", "drama", "year"])
    assert lengths.tolist() == [3, 1, 1]
    assert [tokenizer.id_to_token(token) for token in tokens] == ["the", "film", "genre", "drama", "year"]


def test_tokenizer_that_looks_at_spaces_gets_whole_texts():
    vocabulary = {"<unk>": 0, "▁a": 1, "▁b": 2, "a": 3, "b": 4}
    spaced = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    spaced.pre_tokenizer = pre_tokenizers.Metaspace()
    assert not is_word_by_word(spaced)
    assert TextTokenizer(spaced).tokenise(["b", ""], 9).tokens.tolist() == [*encode(["b"], spaced)[0], 0]


def test_added_token_that_is_not_special_forbids_word_by_word(tokenizer):
    other = Tokenizer.from_str(tokenizer.to_str())
    assert is_word_by_word(other)
    other.add_tokens(["C++"])
    assert not is_word_by_word(other)


def test_tokenizer_without_unknown_is_refused():
    with pytest.raises(ModelError, match="has no token for the unknown"):
        TextTokenizer(Tokenizer(models.BPE({"a": 0}, [])))
