"""The law behind imputed numbers and dates: they are written as their column writes them, or not at all."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.cell_formats import DATES, DateFormat, learn_format

dates = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2038, 1, 1)).map(
    lambda date: date.replace(second=0, microsecond=0)
)


@pytest.mark.parametrize(
    ("cells", "text", "expected"),
    [
        (["$1,200,000", "$35,000", "$812"], "950000", "$950,000"),
        (["1200000", "35000", "812"], "950,000", "950000"),
        (["118 min", "95 min", "102 min"], "88", "88 min"),
        (["118 min", "95 min", "102 min"], "88min", "88 min"),
        (["7.5", "8.0", "6.1"], "9", "9.0"),
        (["7,5", "8,25", "6,1"], "9,75", "9,75"),
        (["1.200,50", "35,10", "812,00"], "4100,20", "4.100,20"),
        (["1 200", "35 000", "812"], "41000", "41 000"),
        (["007", "042", "113"], "9", "009"),
        (["-5", "12", "-7"], "-3", "-3"),
        (["12%", "7%", "33%"], "5", "5%"),
        (["1900", "2001", "1987"], "1994.0", "1994"),
        (["1900", "2001", "1987"], "1994", "1994"),
        (["118", "95", "102"], "88.5", None),
        (["7.5", "8.0"], "7.85", None),
        (["118 min", "95 min", "102 min"], "2 seasons", None),
        (["$1,200", "$35"], "many", None),
        (["118", "95"], "", None),
    ],
)
def test_a_number_is_written_as_its_column_writes_it_or_refused(cells, text, expected):
    assert learn_format(cells).render(text) == expected


@settings(deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30), st.sampled_from(["", "$", "EUR "]))
def test_every_cell_of_a_column_of_numbers_fits_its_own_format(numbers, before):
    cells = [f"{before}{number:,}" for number in numbers]
    assert [learn_format(cells).render(cell) for cell in cells] == cells


@pytest.mark.parametrize(
    ("cells", "text", "expected"),
    [
        (["2021-03-30", "1999-07-04"], "April 4, 2014", "2014-04-04"),
        (["2021-03-30", "1999-07-04"], "4 Sept 2014", "2014-09-04"),
        (["March 30, 2021", "July 4, 1999"], "2014-04-04", "April 4, 2014"),
        (["03/30/2021", "07/04/1999"], "2014-04-05", "04/05/2014"),
        (["30/03/2021", "04/07/1999"], "2014-04-05", "05/04/2014"),
        (["30.3.2021", "4.7.1999"], "2014-04-05", "5.4.2014"),
        (["4-Apr-14", "12-Dec-99"], "2005-01-31", "31-Jan-05"),
        (["2021-03-30T10:00:00", "1999-07-04T00:00:00"], "2014-04-05", "2014-04-05T00:00:00"),
        (["2021-03-30", "1999-07-04"], "yesterday", None),
        (["2021-03-30", "1999-07-04"], "2014-13-05", None),
        (["2021-03-30", "1999-07-04"], "30 Foo 2021", None),
        (["2021-03-30", "1999-07-04"], "", None),
    ],
)
def test_a_date_is_written_as_its_column_writes_it_or_refused(cells, text, expected):
    assert learn_format(cells).render(text) == expected


def test_days_and_months_that_no_cell_tells_apart_are_not_guessed():
    form = learn_format(["03/04/2021", "07/04/1999"])
    assert form.ambiguous
    assert form.render("2014-04-05") is None
    assert form.render("05/06/2014") == "05/06/2014"


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(DATES), st.booleans(), st.lists(dates, min_size=1, max_size=10))
def test_every_date_of_a_column_fits_its_own_format(pattern, padded, column):
    form = DateFormat(pattern=pattern, padded=padded, ambiguous=False)
    cells = [form.render(date.strftime(pattern)) for date in column]
    learned = learn_format(cells)
    assert [learned.render(cell) for cell in cells] == cells


@settings(deadline=None)
@given(st.lists(st.text(min_size=1).filter(str.strip), max_size=20), st.text())
def test_what_fits_a_column_still_fits_after_it_was_written(cells, text):
    form = learn_format(cells)
    written = form and form.render(text)
    assert written is None or form.render(written) == written
