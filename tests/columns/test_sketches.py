"""Tests of sketches."""

from __future__ import annotations

import numpy as np
import pytest

from navi.columns.sketches import BAGS, FACTS, LEVELS, empty_sketches, join_sketches, sketch_columns
from navi.corpus.hashing import hash_texts


def sketch(encode, **columns):
    """Return the sketch of each column, by header."""
    length = max(len(values) for values in columns.values())
    rows = [{name: values[n] for name, values in columns.items() if n < len(values)} for n in range(length)]
    encoded = encode({"table": rows})
    sketches = sketch_columns(encoded, np.arange(encoded.arrays.num_rows))
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    return {header: sketches.take(np.array([place])) for place, header in enumerate(headers)}


def fact(sketches, name):
    return float(sketches.facts[0, FACTS.index(name)])


def test_values_and_the_members_of_lists_are_items(encode):
    found = sketch(encode, genre=["Drama, Comedy", "horror"])["genre"]
    expected = hash_texts(["drama, comedy", "drama", "comedy", "horror"])
    assert sorted(found.items.terms.tolist()) == sorted(expected.tolist())
    assert found.items.shares.tolist() == [0.5] * 4


def test_short_numbers_are_no_items_but_long_codes_are(encode):
    found = sketch(encode, code=["12", "7.5", "9780306406157"])["code"]
    assert found.items.terms.tolist() == hash_texts(["9780306406157"]).tolist()


def test_words_are_counted_once_a_cell(encode):
    found = sketch(encode, title=["night night", "night day"])["title"]
    shares = dict(zip(found.words.terms.tolist(), found.words.shares.tolist(), strict=True))
    night, day = hash_texts(["night", "day"]).tolist()
    assert shares == {night: 1.0, day: 0.5}


def test_trigrams_do_not_tell_digits_apart(encode):
    first = sketch(encode, code=["a12b"])["code"]
    second = sketch(encode, code=["A98B"])["code"]
    assert first.grams.terms.tolist() == second.grams.terms.tolist()
    assert len(first.grams.terms) == 4


def test_numbers_are_kept_as_quantiles(encode):
    found = sketch(encode, votes=[str(number) for number in range(101)])["votes"]
    np.testing.assert_allclose(found.quantiles[0], LEVELS * 100)
    assert fact(found, "quantities") == fact(found, "whole") == 1


def test_a_column_of_words_has_no_quantiles(encode):
    found = sketch(encode, genre=["drama", "comedy"])["genre"]
    assert np.isnan(found.quantiles).all()
    assert fact(found, "quantities") == 0


def test_facts_tell_kinds_shapes_and_diversity(encode):
    found = sketch(encode, price=["$5", "$6", "$7", "$7"], year=["1999", "2001", "2001", "2001"], flag=["true"] * 4)
    assert fact(found["price"], "money") == 1
    assert fact(found["year"], "years") == 1
    assert fact(found["price"], "years") == 0
    assert fact(found["flag"], "entropy") == 0
    assert fact(found["flag"], "distinct") == 0.25
    assert fact(found["flag"], "letters") == 1
    assert fact(found["year"], "digits") == 1


def test_the_order_of_rows_does_not_matter(encode):
    values = [f"film {number}" for number in range(30)]
    first, second = sketch(encode, title=values)["title"], sketch(encode, title=values[::-1])["title"]
    for name in BAGS:
        assert getattr(first, name).terms.tolist() == getattr(second, name).terms.tolist()
    np.testing.assert_allclose(first.facts, second.facts, rtol=1e-6)


def test_a_column_outside_the_given_rows_has_an_empty_sketch(encode):
    encoded = encode({"a": [{"title": "alien"}], "b": [{"year": "1979"}]})
    sketches = sketch_columns(encoded, np.array([0]))
    assert sketches.cells.tolist() == [1, 0]
    assert sketches.items.sizes.tolist() == [1, 0]


def test_no_rows_give_empty_sketches(encode):
    encoded = encode({"a": [{"title": "alien"}]})
    assert sketch_columns(encoded, np.arange(0)).cells.tolist() == [0]


def test_joined_sketches_are_those_of_the_parts(films):
    sketches = sketch_columns(films, np.arange(films.arrays.num_rows))
    joined = join_sketches([sketches.take(np.array([0, 1])), empty_sketches(1), sketches.take(np.array([2]))])
    assert joined.cells.tolist() == [*sketches.cells[:2].tolist(), 0, sketches.cells[2]]
    np.testing.assert_array_equal(joined.facts[3], sketches.facts[2])


def test_text_beyond_ascii_is_read(encode):
    found = sketch(encode, title=["Амели", "千と千尋の神隠し", "año"])["title"]
    assert fact(found, "letters") == pytest.approx(1)
    assert found.words.sizes.tolist() == [3]
