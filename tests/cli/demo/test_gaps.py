from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from navi.cli.console import Screen
from navi.cli.demo import Tour
from navi.cli.demo.gaps import find_usual, is_same, judge_fills
from navi.simulator import Truth
from navi.tables import read_table


@pytest.mark.parametrize(
    ("value", "truth", "same"),
    [("Drama", "drama", True), ("new  york ", "New York", True), ("drama", "comedy", False), (None, "drama", False)],
)
def test_case_and_spaces_do_not_matter(value, truth, same):
    assert is_same(value, truth) is same


def test_the_usual_value_is_the_most_frequent():
    frame = pa.table({"year": [1999, 2001, 1999, None, None, None], "empty": pa.nulls(6)})
    assert find_usual(frame, "year") == "1999"
    assert find_usual(frame, "empty") is None


def test_fills_are_judged_by_the_row_they_stand_in(tmp_path):
    truth = Truth(gaps={("films", 1, "genre"): "drama"}, first_place={"films": 2})
    tour = Tour(folder=tmp_path, screen=Screen(quiet=True))
    tour.truth = truth
    # The file's second row, line 3, is the frame's first: the one before it had no cells.
    table = replace(read_table({"films": pa.table({"genre": ["x", None]})}), row_number=np.array([3, 4]))
    cells = pa.Table.from_pylist(
        [
            {"row": 2, "column": "genre", "value": "comedy", "probability": 0.7, "reason": "filled"},
            {"row": 1, "column": "genre", "value": "Drama", "probability": 0.9, "reason": "filled"},
            {"row": 2, "column": "year", "value": None, "probability": 0.1, "reason": "below confidence"},
        ]
    )
    judged = judge_fills(tour, table, cells)
    assert [(fill["value"], fill["truth"], fill["right"]) for fill in judged] == [
        ("Drama", "drama", True),
        ("comedy", None, False),
    ]
