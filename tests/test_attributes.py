"""Tests of canonical headers and attribute mappings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus import AttributeMapping, canonicalise, load_attributes
from navi.errors import ConfigError


@pytest.mark.parametrize(
    ("header", "attribute"),
    [
        ("actors.0.name", "actors name"),
        ("actors.12", "actors"),
        ("releaseYear", "release year"),
        ("IMDBRating", "imdb rating"),
        ("Movie_Title", "movie title"),
        ("run-time", "run time"),
        ("offers/price", "offers price"),
        ("  Total   Gross ", "total gross"),
        ("actor1Name", "actor1 name"),
        ("AÑO", "año"),
        ("ÉtatCivil", "état civil"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("制片国家", "制片国家"),
        ("No. 1", "no 1"),
        ("1999", "1999"),
        ("0.1", "0.1"),
        ("___", "___"),
    ],
)
def test_header_becomes_words_in_small_letters(header, attribute):
    assert canonicalise(header) == attribute


@given(st.text(min_size=1).filter(str.strip))
def test_canonical_header_is_never_empty_and_has_single_spaces(header):
    attribute = canonicalise(header)
    assert attribute
    assert attribute == " ".join(attribute.split())


@given(st.text(alphabet="abc _-./", min_size=1).filter(str.strip))
def test_canonical_header_stays_as_it_is(header):
    assert canonicalise(canonicalise(header)) == canonicalise(header)


def test_entry_of_a_table_goes_before_that_of_all_tables(tmp_path):
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps({"headers": {"name": "title"}, "tables": {"people": {"name": "person"}}}))
    mapping = load_attributes(file)
    assert mapping.attribute_of("people", "name") == "person"
    assert mapping.attribute_of("films", "name") == "title"
    assert mapping.attribute_of("films", "Year") == "year"


def test_flat_mapping_holds_for_all_tables(tmp_path):
    file = tmp_path / "mapping.json"
    file.write_text('{"name": "title", "headers": "header words"}')
    assert load_attributes(file).attribute_of("any", "name") == "title"
    assert load_attributes(file).attribute_of("any", "headers") == "header words"


def test_entries_that_match_nothing_are_noted():
    mapping = AttributeMapping({"gone": "x", "title": "y"}, {"nowhere": {"title": "x"}, "films": {"year": "z"}})
    assert mapping.find_unused({"films": {"title"}}) == [
        "attributes: no table has the header 'gone'",
        "attributes: table 'films' has no header 'year'",
        "attributes: there is no table 'nowhere'",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"Cannot read .*mapping\.json: .*No such file"),
        ("{", r"mapping\.json: Expecting .* Expected \{.headers.: \{header: attribute\}"),
        ("[1]", "expected an object, found list"),
        ('{"headers": {"a": "b"}, "tables": {"t": "c"}}', r"tables\['t'\] must be an object, found 'c'"),
        ('{"a": {"b": "c"}}', r"mapping\.json: 'a' is not known"),
        ('{"headers": {"a": 3}}', r"headers\['a'\] must be text, found '3'"),
        ('{"a": " "}', "gives the header 'a' an attribute without a letter"),
    ],
)
def test_malformed_mapping_is_one_clear_error(tmp_path, content, message):
    file = tmp_path / "mapping.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_attributes(file)
