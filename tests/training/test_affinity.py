"""Tests of which columns are taken for the same by their values."""

from __future__ import annotations

import json

import numpy as np
import pytest

from navi.corpus import PrepareConfig, prepare
from navi.training.affinity import DOUBTFUL, SURE, pair_up, relate_columns

GENRES = ("drama", "comedy", "horror", "war", "love")


@pytest.fixture(scope="module")
def corpus(tiny_backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    for name, (title, genre) in {"a": ("title", "genre"), "b": ("title", "kind"), "c": ("name", "genre")}.items():
        rows = [
            {title: f"{word} number {number}", genre: GENRES[number % 5], "year": str(1950 + number)}
            for number, word in zip(range(60), ("old", "dark", "red") * 20, strict=True)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None)
    return prepare([folder], folder / "corpus", config)


def test_columns_are_each_others_best_or_not_paired():
    affinity = np.array([[1.0, 0.0, 0.9, 0.8], [0.0, 1.0, 0.7, 0.1], [0.9, 0.7, 1.0, 0.0], [0.8, 0.1, 0.0, 1.0]])
    paired = pair_up(affinity, np.array([0, 0, 1, 1]))
    assert np.argwhere(paired).tolist() == [[0, 2], [2, 0]]


def test_columns_with_the_same_values_under_other_headers_are_the_same(corpus):
    related = relate_columns(corpus)
    arrays, headers = corpus.arrays, corpus.headers.to_pylist()
    names = [(corpus.tables[arrays.column_table[k]], headers[arrays.column_header[k]]) for k in related.columns]
    likeness = {
        (first, second): float(related.affinity[row, column])
        for row, first in enumerate(names)
        for column, second in enumerate(names)
    }
    assert likeness[("a", "genre"), ("b", "kind")] >= SURE
    assert likeness[("a", "genre"), ("b", "title")] <= DOUBTFUL + 1e-3
    assert likeness[("a", "year"), ("b", "kind")] <= DOUBTFUL + 1e-3


def test_affinities_go_both_ways(corpus):
    affinity = relate_columns(corpus).affinity
    np.testing.assert_array_equal(affinity, affinity.T)


def test_columns_of_few_cells_are_left_out(corpus, monkeypatch):
    monkeypatch.setattr("navi.training.affinity.MIN_CELLS", 10_000)
    related = relate_columns(corpus)
    assert related.affinity.shape == (0, 0)


def test_no_more_columns_than_allowed_are_compared(corpus, monkeypatch):
    monkeypatch.setattr("navi.training.affinity.MAX_COLUMNS", 4)
    assert relate_columns(corpus).affinity.shape == (4, 4)
