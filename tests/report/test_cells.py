from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.report import Column, Number, Table
from navi.report.cells import find_best, format_number, show_cell, show_table


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (12345, Column("n"), "12,345"),
        (0.87349, Column("n"), "0.873"),
        (-1234.5, Column("n", digits=1), "−1,234.5"),
        (0.1234, Column("n", percent=True), "12.3 %"),
        (1, Column("n", percent=True, digits=2), "100 %"),
    ],
)
def test_figures_are_shown_as_their_column_asks(value, column, text):
    assert format_number(value, column) == text


def test_a_number_carries_deviation_and_change():
    cell = show_cell(Number(0.5, 0.25, -0.071), Column("n", digits=2))
    assert (cell.text, cell.deviation, cell.change, cell.key) == ("0.50", "0.25", "−7.1 %", "0.5")


def test_nothing_is_a_dash_without_a_key_to_sort_by():
    cell = show_cell(None, Column("n", bar=True))
    assert (cell.text, cell.key, cell.bar) == ("–", None, None)


def test_true_and_false_are_told_in_words():
    assert [(show_cell(each, Column("n")).text, show_cell(each, Column("n")).mark) for each in (True, False)] == [
        ("yes", "yes"),
        ("no", "no"),
    ]


@pytest.mark.parametrize(("share", "filled"), [(0.25, 25.0), (1.5, 100.0), (-1.0, 0.0)])
def test_bars_stay_within_their_box(share, filled):
    assert show_cell(share, Column("n", bar=True)).bar == filled


def test_the_lowest_may_be_best():
    assert find_best([0.5, 0.1, None, 0.3], Column("n", best="lowest")) == ["", "best", "", "second"]


def test_figures_that_read_alike_are_marked_alike():
    assert find_best([0.9001, 0.9004, 0.8], Column("n", best="highest")) == ["best", "best", "second"]


def test_texts_and_truths_are_never_best():
    assert find_best(["9", True, 0.5], Column("n", best="highest")) == ["", "", "best"]


@given(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=20))
def test_the_highest_figure_is_always_best(values):
    marks = find_best(values, Column("n", best="highest", digits=12))
    figures = [value for value in values if value is not None]
    if figures:
        assert marks[values.index(max(figures))] == "best"
    else:
        assert set(marks) <= {""}


def test_neighbours_of_one_group_share_a_header_above():
    columns = ("model", Column("a", "Movie"), Column("b", "Movie"), Column("a", "Product"))
    assert show_table(Table("t", columns, ())).groups == (("", 1), ("Movie", 2), ("Product", 1))
    assert show_table(Table("t", ("a", "b"), ())).groups == ()


def test_columns_of_figures_alone_are_numeric():
    table = Table(
        "t", ("text", "figures", "truths", "mixed", "nothing"), (("a", 1, True, 1, None), ("b", None, False, "x", None))
    )
    assert show_table(table).numeric == (False, True, False, False, False)


def test_the_smallest_loss_is_marked_if_asked():
    values = (0.5, Number(0.4, change=-0.2), Number(0.3, change=-0.1), Number(0.2, change=-0.1001))
    for best_change, marked in ((True, [False, False, True, True]), (False, [False] * 4)):
        table = Table("", (Column("a", best_change=best_change),), tuple((value,) for value in values))
        assert [row[0].best_change for row in show_table(table).rows] == marked


def test_changes_have_as_many_digits_as_their_column():
    assert show_cell(Number(0.9997, change=0.00021), Column("a", digits=4)).change == "+0.02 %"
