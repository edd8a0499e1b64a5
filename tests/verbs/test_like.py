from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError
from navi.verbs.like import parse_like


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("title=Alien, year=1979", {"title": "Alien", "year": "1979"}),
        ("title = Alien ,year=1979", {"title": "Alien", "year": "1979"}),
        (
            "title=The Good, the Bad and the Ugly, year=1966",
            {"title": "The Good, the Bad and the Ugly", "year": "1966"},
        ),
        ('title="a=b, c=d", x=1', {"title": "a=b, c=d", "x": "1"}),
        ("title='a, b=c'", {"title": "a, b=c"}),
        (r'title="say \"no\""', {"title": 'say "no"'}),
        ("'made in'=China", {"made in": "China"}),
        ("title=Don't Look Now, plot='it''s", {"title": "Don't Look Now", "plot": "'it''s"}),
        ("cast.0.name=Ann", {"cast.0.name": "Ann"}),
        ("formula=a=b", {"formula": "a=b"}),
        ('{"title": "Alien", "cast": [{"name": "Ann"}]}', {"title": "Alien", "cast": [{"name": "Ann"}]}),
    ],
)
def test_a_row_is_read_as_it_was_meant(text, cells):
    assert parse_like(text) == cells


@pytest.mark.parametrize("text", ["", "Alien", "=Alien", " , "])
def test_a_text_without_a_header_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="expected header=value, such as title=Alien, year=1979"):
        parse_like(text)


def test_a_broken_json_object_is_refused():
    with pytest.raises(ConfigError, match="as a JSON object"):
        parse_like('{"title": ')


headers = st.text("abc_. ", min_size=1).map(str.strip).filter(bool)
values = st.text("ab,='\"\\ ")


@given(st.dictionaries(headers, values, min_size=1))
def test_quoted_cells_come_back_as_they_were_written(cells):
    def quote(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_like(", ".join(f"{header}={quote(value)}" for header, value in cells.items())) == cells
