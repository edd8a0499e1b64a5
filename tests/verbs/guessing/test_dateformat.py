from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.guessing.dateformat import PATTERNS, DateFormat, learn_dates, parse_date

dates = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2038, 1, 1)).map(
    lambda date: date.replace(second=0, microsecond=0)
)


@pytest.mark.parametrize(
    ("cells", "text", "expected"),
    [
        (["2021-03-30", "1999-07-04"], "April 4, 2014", "2014-04-04"),
        (["March 30, 2021", "July 4, 1999"], "2014-04-04", "April 4, 2014"),
        (["03/30/2021", "07/04/1999"], "2014-04-05", "04/05/2014"),
        (["30/03/2021", "04/07/1999"], "2014-04-05", "05/04/2014"),
        (["30.3.2021", "4.7.1999"], "2014-04-05", "5.4.2014"),
        (["4-Apr-14", "12-Dec-99"], "2005-01-31", "31-Jan-05"),
        (["2021-03-30T10:00:00", "1999-07-04T00:00:00"], "2014-04-05", "2014-04-05T00:00:00"),
    ],
)
def test_a_date_is_written_as_its_column_writes_it(cells, text, expected):
    assert learn_dates(cells).render(text) == expected


def test_days_and_months_that_no_cell_tells_apart_are_not_guessed():
    form = learn_dates(["03/04/2021", "07/04/1999"])
    assert form.ambiguous
    assert form.render("2014-04-05") is None
    assert form.render("05/06/2014") == "05/06/2014"


@pytest.mark.parametrize("text", ["yesterday", "2014-13-05", "30 Foo 2021", ""])
def test_what_is_no_date_is_refused(text):
    assert learn_dates(["2021-03-30", "1999-07-04"]).render(text) is None


@pytest.mark.parametrize("cells", [[], ["Alien", "Jaws"], ["2021", "1999"], ["12:30", "9:15"]])
def test_other_columns_have_no_date_format(cells):
    assert learn_dates(cells) is None


@settings(deadline=None)
@given(st.sampled_from(PATTERNS), st.booleans(), st.lists(dates, min_size=1, max_size=10))
def test_every_date_of_a_column_fits_its_own_format(pattern, padded, column):
    form = DateFormat(pattern=pattern, padded=padded, ambiguous=False)
    cells = [form.render(date.strftime(pattern)) for date in column]
    learnt = learn_dates(cells)
    assert [learnt.render(cell) for cell in cells] == cells


@settings(deadline=None)
@given(st.sampled_from(PATTERNS), dates)
def test_a_date_is_read_back_to_what_its_pattern_keeps(pattern, date):
    assert parse_date(date.strftime(pattern), pattern).strftime(pattern) == date.strftime(pattern)
