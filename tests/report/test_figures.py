from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError
from navi.report import Bars, Bin, Distribution, Lines, Map, Reliability

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@given(st.dictionaries(st.text(max_size=3), values, min_size=1, max_size=3), st.integers(1, 20))
def test_the_shares_of_a_distribution_add_up_to_one(found, bins):
    made = Distribution.from_values(found, bins=bins, caption="c", title="t")
    assert len(made.edges) == bins + 1
    for shares in made.shares.values():
        assert sum(shares) == pytest.approx(1.0)


def test_a_distribution_needs_values():
    with pytest.raises(ConfigError, match="needs values and bins, got 0 values"):
        Distribution.from_values({"a": []}, caption="c", title="t")


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_no_answer_is_lost_between_the_bins_of_a_reliability_diagram(answers, bins):
    confidences, hits = [sure for sure, _ in answers], [hit for _, hit in answers]
    found = Reliability.from_outcomes({"a": (confidences, hits)}, bins=bins, caption="c").series["a"]
    assert len(found) <= bins
    assert sum(each.count for each in found) == len(answers)
    assert sum(each.accuracy * each.count for each in found) == pytest.approx(sum(hits))
    assert sum(each.confidence * each.count for each in found) == pytest.approx(sum(confidences))


def test_bars_keep_their_gaps():
    made = Bars(caption="c", categories=["a", "b"], series={"x": [1, None]}, deviations={"x": [float("nan"), 0.1]})
    assert made.series == {"x": (1.0, None)}
    assert made.deviations == {"x": (None, 0.1)}


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Map(caption="m", x=(1,), y=(1, 2), labels={}), "Map 'm' needs as many of each.*'x': 1, 'y': 2"),
        (lambda: Map(caption="m", x=(1,), y=(1,), labels={"a": ("b",)}, colour="c"), "Map 'm' has no label 'c'"),
        (lambda: Map(caption="m", x=(float("nan"),), y=(1,), labels={}), "cannot draw nan among the values of 'x'"),
        (lambda: Bars(caption="b", categories=("a",), series={"x": (1, 2)}), "needs 1 figures of 'x'.*got 2"),
        (
            lambda: Bars(caption="b", categories=("a",), series={"x": (1,)}, deviations={"y": (1,)}),
            "has deviations of 'y', which is not among its series",
        ),
        (
            lambda: Lines(caption="l", series={"x": ((0, float("inf")),)}, x_title="x", y_title="y"),
            "cannot draw inf among the values of 'y'",
        ),
        (lambda: Distribution(caption="d", edges=(1, 0), shares={}, title="t"), "needs edges that grow"),
        (
            lambda: Distribution(caption="d", edges=(0, 1), shares={"x": (0.5, 0.5)}, title="t"),
            "got 2 edges and 2 bins of 'x'",
        ),
        (lambda: Reliability(caption="r", series={"x": (Bin(0.5, 1.5, 3),)}), "accuracies from 0 to 1"),
    ],
)
def test_figures_that_cannot_be_drawn_are_refused(make, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make()
