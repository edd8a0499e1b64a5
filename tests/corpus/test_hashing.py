"""Tests of stable hashes and the hash index."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import hashing
from navi.corpus.hashing import HashIndex, hash_rows, hash_text, hash_texts, mix
from navi.errors import CorpusError

HASHES = st.integers(0, 2**64 - 1)


def test_hash_of_a_text_never_changes():
    assert hash_texts(["drama", "", "é"]).tolist() == [13222706444115469365, 13020603013274838756, 3394012004367669963]


def test_hash_of_one_text_equals_that_in_a_list():
    assert hash_text("drama") == hash_texts(["comedy", "drama"])[1]


def test_mix_depends_on_the_order_of_its_arguments():
    a, b = hash_texts(["title"]), hash_texts(["drama"])
    assert mix(a, b) != mix(b, a)


@given(st.lists(HASHES, min_size=1, max_size=8, unique=True), st.randoms())
def test_hash_of_a_row_ignores_the_order_of_its_cells(cells, random):
    shuffled = random.sample(cells, len(cells))
    both = np.array(cells + shuffled, np.uint64)
    first, second = hash_rows(both, np.array([0, len(cells), 2 * len(cells)]))
    assert first == second


def test_hash_of_a_row_depends_on_every_cell():
    cells = hash_texts(["a", "b", "c", "a", "b", "d", "a", "b"])
    assert len(set(hash_rows(cells, np.array([0, 3, 6, 8])).tolist())) == 3


@given(st.lists(st.lists(st.integers(0, 40), unique=True, max_size=30), max_size=8), st.sampled_from([1, 25, 1000]))
def test_index_numbers_hashes_in_order_of_first_use(batches, buckets_from):
    index, expected = HashIndex(), {}
    for batch in batches:
        hashes = mix(np.array(batch, np.uint64), np.uint64(0))
        with mock.patch.object(hashing, "_BUCKETS_FROM", buckets_from):
            ids, new = index.add(hashes)
        known = len(expected)
        assert ids.tolist() == [expected.setdefault(key, len(expected)) for key in batch]
        assert [place for place, key in enumerate(batch) if expected[key] >= known] == new.tolist()
    assert len(index) == len(expected)


def test_index_refuses_more_hashes_than_int32_can_number(monkeypatch):
    monkeypatch.setattr(hashing, "_MOST_IDS", 2)
    with pytest.raises(CorpusError, match="More than 2 distinct values or segments"):
        HashIndex().add(np.arange(3, dtype=np.uint64))
