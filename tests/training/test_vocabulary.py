"""The tokens that rows are put together with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from navi.backbones import load_tokenizer
from navi.errors import ModelError
from navi.training.vocabulary import check_vocabulary, find_special_tokens


def make_tokenizer(*words: str) -> Tokenizer:
    return Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))


def test_special_tokens_are_found_by_name() -> None:
    tokenizer = make_tokenizer("[PAD]", "[UNK]", "[unused7]", "[MASK]", ":", "[SEP]", "[CLS]", "film", "##s", "[x]")
    special = find_special_tokens(tokenizer)
    assert (special.mask, special.colon, special.sep, special.cls) == (3, 4, 5, 6)
    assert special.regular.tolist() == [4, 7, 8, 9]


def test_a_vocabulary_without_them_is_told() -> None:
    with pytest.raises(ModelError, match=r"has no \[CLS\], \[MASK\]"):
        find_special_tokens(make_tokenizer("[UNK]", "[SEP]", ":"))


def test_the_backbones_own_vocabulary_fits(tiny_backbone: Path) -> None:
    check_vocabulary(load_tokenizer(tiny_backbone), str(tiny_backbone))


def test_another_vocabulary_is_refused(tiny_backbone: Path) -> None:
    with pytest.raises(ModelError, match="another vocabulary than that of the backbone"):
        check_vocabulary(make_tokenizer("[UNK]", "a"), str(tiny_backbone))
