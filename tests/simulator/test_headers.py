"""Headers: words for a concept and ways of writing them."""

import pytest

from navi.simulator.headers import GROUPS, HEADERS, STYLES, write_header


def test_every_concept_has_at_least_five_different_headers():
    for concept, words in HEADERS.items():
        assert len(set(words)) == len(words) >= 5, concept


def test_every_group_has_several_keys():
    assert all(len(set(words)) == len(words) >= 3 for words in GROUPS.values())


@pytest.mark.parametrize(
    ("style", "header"),
    [
        ("snake", "date_published"),
        ("camel", "datePublished"),
        ("title", "Date Published"),
        ("lower", "date published"),
        ("pascal", "DatePublished"),
        ("kebab", "date-published"),
        ("upper", "DATE_PUBLISHED"),
    ],
)
def test_a_header_is_written_in_each_style(style, header):
    assert style in STYLES
    assert write_header("date published", style) == header


def test_headers_have_no_dots_which_would_read_as_nesting():
    written = [write_header(word, style) for words in HEADERS.values() for word in words for style in STYLES]
    assert not [header for header in written if "." in header]
