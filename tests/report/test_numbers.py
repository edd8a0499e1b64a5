from __future__ import annotations

from navi.report import Bars, Lines, Map, Number, Reliability
from navi.report.numbers import MOST_POINTS, list_numbers


def test_bars_become_a_row_for_each_category():
    bars = Bars(caption="c", categories=("x", "y"), series={"a": (1, 2), "b": (3, None)}, deviations={"a": (0.5, None)})
    assert list_numbers(bars).rows == (("x", Number(1.0, 0.5), Number(3.0)), ("y", Number(2.0), None))


def test_lines_become_a_row_for_each_point():
    lines = Lines(caption="c", series={"a": ((0, 1),), "b": ((2, 3),)}, x_title="x", y_title="y")
    assert list_numbers(lines).rows == (("a", 0.0, 1.0), ("b", 2.0, 3.0))


def test_a_reliability_diagram_becomes_a_row_for_each_bin():
    made = Reliability.from_outcomes({"a": ([0.5, 0.5, 1.0], [True, False, True])}, caption="c")
    assert list_numbers(made).rows == (("a", 0.5, 0.5, 2), ("a", 1.0, 1.0, 1))


def test_what_has_too_many_numbers_to_read_has_no_table():
    assert list_numbers(Map(caption="c", x=(1,), y=(1,), labels={})) is None
    long = Lines(caption="c", series={"a": tuple((n, n) for n in range(MOST_POINTS + 1))}, x_title="x", y_title="y")
    assert list_numbers(long) is None
