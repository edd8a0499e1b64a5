import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import canonicalise
from navi.corpus.arrays import ROLE_LOW
from navi_paper.wording import draw_synonyms, draw_typos, misspell


def count_edits(first, second):
    """Return the edit distance in which swapping two neighbours is one edit."""
    table = np.zeros((len(first) + 1, len(second) + 1), int)
    table[:, 0], table[0] = np.arange(len(first) + 1), np.arange(len(second) + 1)
    for i in range(1, len(first) + 1):
        for j in range(1, len(second) + 1):
            change = first[i - 1] != second[j - 1]
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + change)
            if i > 1 and j > 1 and first[i - 1] == second[j - 2] and first[i - 2] == second[j - 1]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[-1, -1]


@given(st.text("abcdefgh_XYZ", min_size=1, max_size=12).filter(lambda text: canonicalise(text) != ""), st.integers(0))
def test_a_misspelled_text_is_one_or_two_edits_away(text, key):
    found = misspell(text, key, set())
    # Where an edit undoes part of the one before, the restricted distance may call the two edits three.
    assert 1 <= count_edits(text, found) <= 3
    assert canonicalise(found) != canonicalise(text)


def test_the_key_decides_the_misspelling():
    found = [misspell("director", key, set()) for key in range(50)]
    assert found == [misspell("director", key, set()) for key in range(50)]
    assert len(set(found)) > 25


def test_a_misspelling_is_never_a_header_that_is_there():
    taken = {misspell("genre", key, set()) for key in range(30)}
    taken = {canonicalise(each) for each in taken}
    assert all(canonicalise(misspell("genre", key, taken)) not in taken for key in range(30))


@pytest.fixture
def low(corpus):
    return np.asarray(corpus.arrays.column_role) == ROLE_LOW


def test_half_of_the_eligible_columns_are_misspelled(corpus):
    eligible = np.ones(len(corpus.arrays.column_table), np.bool_)
    names = draw_typos(corpus, eligible)
    assert len(names) == np.ceil(len(eligible) / 2)
    assert not set(names.values()) & set(corpus.headers.to_pylist())


def test_only_eligible_columns_are_misspelled(corpus, low):
    names = draw_typos(corpus, low, share=1.0)
    assert sorted(names) == np.flatnonzero(low).tolist()


def test_synonyms_go_by_the_words_of_a_header(corpus):
    eligible = np.ones(len(corpus.arrays.column_table), np.bool_)
    names = draw_synonyms(corpus, {"TITLE": ("headline",)}, eligible)
    headers = corpus.headers.take(corpus.arrays.column_header[list(names)]).to_pylist()
    assert headers == ["title"]
    assert list(names.values()) == ["headline"]


def test_a_synonym_that_the_corpus_has_is_not_taken(corpus):
    eligible = np.ones(len(corpus.arrays.column_table), np.bool_)
    assert draw_synonyms(corpus, {"title": ("name", "Film")}, eligible) == {}


def test_no_more_columns_than_the_share_get_a_synonym(corpus):
    eligible = np.ones(len(corpus.arrays.column_table), np.bool_)
    synonyms = {header: (f"other {header}",) for header in corpus.headers.to_pylist()}
    assert len(draw_synonyms(corpus, synonyms, eligible, share=0.25)) == np.ceil(len(eligible) / 4)


def test_the_seed_decides_which_columns_are_chosen(corpus):
    eligible = np.ones(len(corpus.arrays.column_table), np.bool_)
    assert draw_typos(corpus, eligible, seed=1) == draw_typos(corpus, eligible, seed=1)
    assert set(draw_typos(corpus, eligible, seed=1)) != set(draw_typos(corpus, eligible, seed=2))
