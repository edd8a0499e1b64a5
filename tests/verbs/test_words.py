from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from navi.corpus.hashing import hash_texts
from navi.verbs import words
from navi.verbs.words import WordIndex, list_words, split_words, weigh

# In rows 0 to 3 `film` is in all, `night` in two, `alien` in one.
ROWS = np.array([0, 0, 0, 1, 1, 2, 3], np.int32)
FILM, NIGHT, ALIEN, NOWHERE = hash_texts(["film", "night", "alien", "nowhere"])


@pytest.fixture
def index():
    """Four rows with three words."""
    return WordIndex.build(ROWS, np.array([FILM, NIGHT, ALIEN, FILM, NIGHT, FILM, FILM]), 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Dark  City", ["the", "dark", "city"]),
        ("Amélie", ["amelie"]),
        ("1979-05-25", ["1979", "05", "25"]),
        ("$12.5M", ["12", "5", "m"]),
        ("七人の侍", ["七人の侍"]),
        ("...", []),
    ],
)
def test_words_are_runs_of_letters_or_digits_without_case_and_accents(text, expected):
    offsets, found = split_words(pa.array([text], pa.large_string()))
    assert found.tolist() == hash_texts(expected).tolist()
    assert offsets.tolist() == [0, len(expected)]


def test_the_words_of_several_texts_stand_one_after_the_other():
    offsets, found = split_words(pa.array(["a b", "", "b"], pa.large_string()))
    assert offsets.tolist() == [0, 2, 2, 3]
    assert found.tolist() == hash_texts(["a", "b", "b"]).tolist()


def test_a_row_has_each_of_its_words_once(navi):
    encoded = navi.encode([{"title": "the king", "plot": "The old king"}, {"year": "1999"}])
    rows, found = list_words(encoded)
    assert rows.tolist() == [0, 0, 0, 1]
    assert set(found[:3].tolist()) == set(hash_texts(["the", "king", "old"]).tolist())
    assert found[3] == hash_texts(["1999"])[0]


def test_the_rarer_a_word_the_more_it_weighs():
    weights = weigh(4, np.array([4, 2, 1, 0]))
    assert weights[0] == 0
    assert (np.diff(weights) > 0).all()


def test_a_row_with_all_words_has_the_whole_share_and_one_with_none_nothing(index):
    shared = index.share(np.array([FILM, NIGHT, ALIEN]))
    assert shared[0] == pytest.approx(1)
    assert 0 < shared[1] < 0.5
    assert shared[2:].tolist() == [0, 0]


def test_words_that_no_row_has_count_against_every_row(index):
    assert index.share(np.array([NIGHT, NOWHERE])).max() < 0.5
    assert index.share(np.array([NOWHERE])).tolist() == [0, 0, 0, 0]


def test_words_that_every_row_has_tell_nothing(index):
    assert index.share(np.array([FILM])).tolist() == [0, 0, 0, 0]


def test_in_a_large_index_frequent_words_are_passed_over(index, monkeypatch):
    monkeypatch.setattr(words, "LARGE", 3)
    monkeypatch.setattr(words, "MAX_SHARE", 0.3)
    shared = index.share(np.array([NIGHT, ALIEN]))
    assert shared[1] == 0
    assert shared[0] > 0
