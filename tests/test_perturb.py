"""Changes of headers and values, as another source would have written them."""

from __future__ import annotations

from random import Random

import pytest

from navi.columns import perturb_header, perturb_values

HEADERS = (
    "date_of_birth",
    "Country",
    "releaseDates",
    "Land area (km2)",
    "GDP",
    "x",
    "国名",
    "",
    "%",
    "(",
    " ",
    "__",
    "[1]",
)


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_is_always_changed_and_never_empty(header):
    for seed in range(300):
        changed = perturb_header(header, Random(seed))
        assert changed.strip()
        assert changed != header


@pytest.mark.parametrize(
    "values", [["2001-07-01", "1999-12-31"], ["$1,200.50", "x", ""], ["{0}", "\\1", " "], [], ["9" * 400]]
)
def test_as_many_values_come_back_and_half_of_the_time_unchanged(values):
    changed = [perturb_values(values, Random(seed)) for seed in range(300)]
    assert {len(each) for each in changed} == {len(values)}
    assert sum(each == values for each in changed) >= 110
