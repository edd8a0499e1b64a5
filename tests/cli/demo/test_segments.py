from __future__ import annotations

import numpy as np
import pytest

from navi.cli.demo import segments
from navi.cli.demo.segments import choose_rows, choose_segments, lay_out, map_segments
from navi.corpus import Corpus
from navi.verbs import Navi


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_rows_are_chosen_from_the_largest_tables(random, monkeypatch):
    monkeypatch.setattr(segments, "NUM_TABLES", 2)
    monkeypatch.setattr(segments, "ROWS_PER_TABLE", 3)
    row_table = np.array([0] * 2 + [1] * 9 + [2] * 4)
    chosen = choose_rows(row_table, random)
    assert np.bincount(row_table[chosen]).tolist() == [0, 3, 3]
    assert len(set(chosen.tolist())) == 6


def test_roles_have_an_equal_share_as_far_as_there_are_segments(random, monkeypatch):
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 9)
    role = np.array(["mid"] * 20 + ["low"] * 2 + ["high"] * 5)
    assert role[choose_segments(role, random)].tolist() == ["low"] * 2 + ["mid"] * 3 + ["high"] * 3


def test_alike_vectors_are_near_each_other(random):
    centres = np.repeat(np.eye(3, 8), 10, axis=0)
    places = lay_out((centres + 0.01 * random.normal(size=centres.shape)).astype(np.float32))
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    group = np.repeat(np.arange(3), 10)
    same = group[:, None] == group[None]
    assert distance[same].max() < distance[~same].min()


@pytest.mark.parametrize("count", [0, 1, 9])
def test_few_vectors_are_placed_somehow(count):
    assert lay_out(np.ones((count, 5), np.float32)).shape == (count, 2)


def test_segments_of_a_corpus_are_placed_with_what_they_are(model, corpus):
    opened = Corpus.open(corpus)
    found = map_segments(Navi.from_pretrained(model, device="cpu"), opened, seed=1)
    assert len(found.x) == len(found.y) == len(found.role) == len(found.value) > 100
    assert set(found.table) <= set(opened.tables)
    assert set(found.role) == {"low", "mid", "high"}
    assert np.isfinite([found.x, found.y]).all()
