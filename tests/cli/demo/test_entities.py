from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from navi.cli.console import Screen
from navi.cli.demo import Tour, entities
from navi.cli.demo.entities import choose_tables, pair_titles
from navi.simulator import Truth
from navi.tables import read_table


@pytest.fixture
def tour(tmp_path):
    made = Tour(folder=tmp_path, screen=Screen(quiet=True))
    made.truth = Truth(
        concepts={("a", "film"): "title", ("a", "year"): "release_year", ("b", "name"): "title", ("c", "t"): "title"},
        films={"a": [5, 6, 7], "b": [7, 5], "c": [6]},
        first_place={"a": 2, "b": 1, "c": 1},
    )
    return made


def test_the_tables_that_share_most_films_are_compared(tour):
    assert choose_tables(tour) == ("a", "b")


def test_large_tables_are_left_out_while_others_remain(tour, monkeypatch):
    monkeypatch.setattr(entities, "MOST_ROWS", 2)
    assert choose_tables(tour) == ("b", "c")


def test_equal_titles_make_a_pair_whatever_their_case(tour):
    left = replace(
        read_table({"a": pa.table({"year": ["1", "2", "3"], "film": ["Heat", None, "ALIEN"]})}),
        row_number=np.array([2, 3, 4]),
    )
    right = replace(read_table({"b": pa.table({"name": ["Alien", "Seven"]})}), row_number=np.array([1, 2]))
    assert pair_titles(tour, left, right) == {(2, 0)}
