"""The laws of reading cells by meaning: what a column writes it reads back, and nothing else fits it."""

from __future__ import annotations

import datetime
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.cell_formats import CONVENTION_NAMES, DATES, fits_format, learn_cell_format, read_cells

dates = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2038, 1, 1)).map(
    lambda date: date.replace(second=0, microsecond=0)
)


def read(cells):
    """Return how a column is learned from its cells, and what is read in them."""
    how = learn_cell_format(Counter(cells))
    return how, read_cells(pa.chunked_array([cells], pa.string()), how)


@settings(deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30),
    st.sampled_from(sorted(CONVENTION_NAMES)),
    st.sampled_from(["", "$", "€"]),
)
def test_numbers_are_read_as_they_were_written_whatever_the_convention(numbers, name, sign):
    thousands, point = CONVENTION_NAMES[name]
    written = [f"{number:,}.5".replace(",", "_").replace(".", point).replace("_", thousands) for number in numbers]
    how, found = read([f"{text[0]}{sign}{text[1:]}" if text[0] == "-" else f"{sign}{text}" for text in written])
    assert how.type == "number"
    assert found.values.to_pylist() == [
        number + (0.5 if text[0] != "-" else -0.5) for number, text in zip(numbers, written, strict=True)
    ]
    assert found.currencies.to_pylist() == [{"": None, "$": "USD", "€": "EUR"}[sign]] * len(numbers)


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(DATES), st.lists(dates, min_size=1, max_size=10))
def test_dates_are_read_as_they_were_written_or_left_as_text(pattern, column):
    how, found = read([date.strftime(pattern) for date in column])
    if how.type == "text":
        assert "is open" in how.doubt
    else:
        expected = [date if "%M" in pattern else date.date() for date in column]
        assert how.type == ("datetime" if "%M" in pattern else "date")
        assert found.values.to_pylist() == expected


@settings(deadline=None)
@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=20))
def test_no_text_is_lost(cells):
    how, found = read(cells)
    kept = [cell for cell, lost in zip(cells, found.unread.tolist(), strict=True) if not lost]
    assert how.type != "text" or kept == cells
    assert found.values.null_count == len(cells) - len(kept)


@pytest.mark.parametrize(
    ("cells", "text", "fits"),
    [
        (["118 min", "95 min"], "88 min", True),
        (["118 min", "95 min"], "88", False),
        (["118 kg", "95 kg"], "88", False),
        (["$1,200", "$35"], "$950,000", True),
        (["$1,200", "$35"], "950", False),
        (["118", "95"], "88.5", False),
        (["118", "95"], "many", False),
        (["7.5", "8.25"], "9", True),
        (["2021-03-30", "1999-07-04"], "2014-04-05", True),
        (["2021-03-30", "1999-07-04"], "April 4, 2014", False),
        (["drama", "comedy"], "anything", True),
        ([], "anything", True),
    ],
)
def test_a_text_fits_a_column_that_could_have_written_it(cells, text, fits):
    how = learn_cell_format(Counter(cells))
    assert fits_format(pa.chunked_array([[text]]), how).tolist() == [fits]
