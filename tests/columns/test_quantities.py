"""Tests of texts as quantities."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.columns.quantities import KINDS, NOT_A_QUANTITY, parse_quantities


def parse(text):
    kinds, numbers = parse_quantities(pa.array([text]))
    return (KINDS[kinds[0]] if kinds[0] != NOT_A_QUANTITY else None), numbers[0]


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("1,200", "number", 1200),
        ("-3.5", "number", -3.5),
        ("(2019)", "number", 2019),
        ("7.8/10", "number", 7.8),
        ("1.2M", "number", 1_200_000),
        ("95%", "percent", 95),
        ("$3.5 million", "money", 3_500_000),
        ("€12.50", "money", 12.5),
        ("12 USD", "money", 12),
        ("2h 10m", "duration", 130),
        ("142 min", "duration", 142),
        ("1:30:00", "duration", 90),
        ("PT2H22M", "duration", 142),
        ("PT95M", "duration", 95),
        ("2001-07-01", "date", 2001.5),
        ("2014-06-13T00:00:00Z", "date", 2014 + 5 / 12),
        ("May 3, 1999", "date", 1999 + 4 / 12),
        ("25 December 2011", "date", 2011 + 11 / 12),
        ("12/25/2011", "date", 2011 + 11 / 12),
        ("12-May-99", "date", 1999 + 4 / 12),
        ("3-Jan-05", "date", 2005),
        ("15.6 inches", "measure", 15.6),
        ("12.1MP", "measure", 12.1),
    ],
)
def test_quantities_are_read_on_the_scale_of_their_kind(text, kind, number):
    found_kind, found = parse(text)
    assert found_kind == kind
    assert found == pytest.approx(number)


@pytest.mark.parametrize("text", ["Alien", "", "h", "pt", "The 400 Blows", "PG-13", "1999–2003", "tt0078748"])
def test_words_are_no_quantities(text):
    kind, number = parse(text)
    assert kind is None
    assert math.isnan(number)


@given(st.integers(-(10**12), 10**12))
def test_every_integer_is_read_back_with_and_without_separators(number):
    kinds, numbers = parse_quantities(pa.array([str(number), f"{number:,}"]))
    assert kinds.tolist() == [0, 0]
    assert numbers.tolist() == [number, number]


def test_each_text_is_read_by_itself():
    texts = ["12", "Alien", "95%", None, "2h"]
    kinds, numbers = parse_quantities(pa.array([text or "" for text in texts]))
    alone = [parse(text or "") for text in texts]
    assert [KINDS[kind] if kind >= 0 else None for kind in kinds] == [kind for kind, _ in alone]
    np.testing.assert_array_equal(numbers, [number for _, number in alone])
