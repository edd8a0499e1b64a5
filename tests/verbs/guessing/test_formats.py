from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.guessing.dateformat import DateFormat
from navi.verbs.guessing.formats import TextFormat, learn_format
from navi.verbs.guessing.numberformat import NumberFormat


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["2021-03-30", "1999-07-04"], DateFormat),
        (["2021", "1999"], NumberFormat),
        (["Drama", "Comedy"], TextFormat),
        ([], TextFormat),
    ],
)
def test_dates_numbers_and_texts_are_told_apart(cells, kind):
    assert isinstance(learn_format(cells), kind)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1).filter(str.strip), max_size=20), st.text())
def test_what_fits_a_column_still_fits_after_it_was_written(cells, text):
    form = learn_format(cells)
    written = form.render(text)
    assert written is None or form.render(written) == written
