from __future__ import annotations

import pytest

from navi.backbones import load_tokenizer
from navi.verbs.guessing.spelling import Spelling


@pytest.fixture(scope="module")
def tokenizer(tiny_backbone):
    return load_tokenizer(tiny_backbone)


@pytest.mark.parametrize(
    "cells",
    [
        ["Drama, Comedy", "Horror, Action"],
        ["the dark city", "a man of war"],
        ["USA", "UK"],
        ["12,000,500", "7,250"],
        ["www.film.com/title/7", "www.film.com/name/12"],
    ],
)
def test_a_column_s_own_cells_are_spelled_as_they_stand(cells, tokenizer):
    spelling = Spelling(cells, tokenizer)
    assert [spelling.write(tokenizer.encode(cell, add_special_tokens=False).ids) for cell in cells] == cells


def test_words_that_no_cell_has_get_the_capitals_of_the_column(tokenizer):
    tokens = tokenizer.encode("horror, night", add_special_tokens=False).ids
    assert Spelling(["Drama, Comedy", "Love, War"], tokenizer).write(tokens) == "Horror, Night"
    assert Spelling(["DRAMA", "COMEDY"], tokenizer).write(tokens) == "HORROR, NIGHT"
    assert Spelling([], tokenizer).write(tokens) == "horror, night"
