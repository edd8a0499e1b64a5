"""Tests of arrays that grow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus.columns import GrowingLists, GrowingMemory, GrowingTexts, ScratchFolder, gather_lists


@pytest.fixture(params=["memory", "disk"])
def make(request, tmp_path):
    """A maker of growing arrays, in memory and on disk."""
    return GrowingMemory if request.param == "memory" else ScratchFolder(tmp_path / "scratch").make


def test_parts_come_out_as_one_array_of_the_type_asked_for(make):
    growing = make("numbers", np.int32)
    growing.append(np.array([1, 2], np.int64))
    growing.append(np.zeros(0))
    growing.append(np.array([3], np.uint8))
    array = growing.finish()
    assert array.dtype == np.int32
    assert array.tolist() == [1, 2, 3]


def test_array_without_parts_is_empty(make):
    array = make("numbers", np.int8).finish()
    assert (array.dtype, len(array)) == (np.int8, 0)


def test_lists_keep_their_lengths(make):
    lists = GrowingLists(make, "lists", np.int32)
    lists.append(np.array([2, 0]), np.array([5, 6]))
    lists.append(np.array([1]), np.array([7]))
    offsets, flat = lists.finish()
    assert offsets.tolist() == [0, 2, 2, 3]
    assert flat.tolist() == [5, 6, 7]


def test_texts_keep_their_tokens(make):
    texts = GrowingTexts(make, "texts")
    texts.append(pa.array(["skipped", "é", "漢字"])[1:], np.array([1, 2]), np.array([4, 5, 6]))
    texts.append(pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, np.int32))
    texts.append(pa.array(["end"]), np.array([1]), np.array([7]))
    content, offsets, tokens = texts.finish()
    assert content.to_pylist() == ["é", "漢字", "end"]
    assert offsets.tolist() == [0, 1, 3, 4]
    assert tokens.tolist() == [4, 5, 6, 7]


def test_scratch_files_hold_what_lies_at_their_address(tmp_path):
    scratch = ScratchFolder(tmp_path / "scratch")
    growing = scratch.make("numbers", np.int64)
    growing.append(np.arange(5))
    array = growing.finish()
    assert np.fromfile(scratch.files[array.ctypes.data], np.int64).tolist() == array.tolist()
    scratch.remove()
    assert not (tmp_path / "scratch").exists()
    assert array.tolist() == [0, 1, 2, 3, 4]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8), st.data())
def test_gathered_lists_are_those_chosen(lists, data):
    which = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=10))
    offsets = np.cumsum([0, *map(len, lists)])
    flat = np.array([item for each in lists for item in each], np.int64)
    lengths, content = gather_lists(offsets, flat, np.array(which, np.int64))
    assert lengths.tolist() == [len(lists[place]) for place in which]
    assert content.tolist() == [item for place in which for item in lists[place]]
