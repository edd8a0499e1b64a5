"""Tests of tables in memory to segments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.corpus import AttributeMapping, encode_tables

HEADERS = st.sampled_from(["title", "Title", "year", "a.0.b", "a.1.b"])
VALUES = st.sampled_from(["drama", "the film", "1999", "漢字", "no  [SEP]", "film"])
ROWS = st.lists(st.dictionaries(HEADERS, VALUES, min_size=1), min_size=1, max_size=10)
TABLES = st.dictionaries(
    st.sampled_from(["amber", "birch", "cedar"]), st.lists(ROWS, min_size=1, max_size=3), min_size=1
)


def read_rows(encoded):
    arrays = encoded.arrays
    rows = []
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        segments = arrays.row_segments[begin:end]
        headers = encoded.headers.take(arrays.segment_header[segments]).to_pylist()
        rows.append(dict(zip(headers, encoded.values.take(arrays.segment_value[segments]).to_pylist(), strict=True)))
    return rows


def make_tables(tables, make_chunk):
    return {name: [make_chunk(rows) for rows in chunks] for name, chunks in tables.items()}


@settings(max_examples=40)
@given(TABLES)
def test_every_row_can_be_read_back(tokenizer, config, make_chunk, tables):
    encoded = encode_tables(make_tables(tables, make_chunk), tokenizer, config)
    assert read_rows(encoded) == [row for chunks in tables.values() for rows in chunks for row in rows]
    names = [encoded.tables[table] for table in encoded.arrays.row_table]
    assert names == [name for name, chunks in tables.items() for rows in chunks for _ in rows]


@settings(max_examples=40)
@given(TABLES)
def test_nothing_is_there_twice_and_everything_is_used(tokenizer, config, make_chunk, tables):
    encoded = encode_tables(make_tables(tables, make_chunk), tokenizer, config)
    arrays = encoded.arrays
    for texts in (encoded.headers, encoded.values, encoded.attributes):
        assert len(set(texts.to_pylist())) == len(texts)
    triples = np.stack([arrays.segment_attribute, arrays.segment_header, arrays.segment_value])
    assert len(np.unique(triples, axis=1).T) == arrays.num_segments
    for used, texts in zip(triples, (encoded.attributes, encoded.headers, encoded.values), strict=True):
        assert set(used.tolist()) == set(range(len(texts)))
    assert set(arrays.row_segments.tolist()) == set(range(arrays.num_segments))


@settings(max_examples=40)
@given(TABLES)
def test_columns_are_those_of_the_tables(tokenizer, config, make_chunk, tables):
    encoded = encode_tables(make_tables(tables, make_chunk), tokenizer, config)
    arrays = encoded.arrays
    expected = {(name, header) for name, chunks in tables.items() for rows in chunks for row in rows for header in row}
    headers = encoded.headers.to_pylist()
    columns = list(zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True))
    assert {(encoded.tables[table], headers[header]) for table, header in columns} == expected
    assert columns == sorted(columns)


@settings(max_examples=40)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_chunks_of_a_table_give_what_one_chunk_gives(tokenizer, config, make_chunk, chunks):
    apart = encode_tables({"amber": [make_chunk(rows) for rows in chunks]}, tokenizer, config)
    whole = encode_tables({"amber": [make_chunk([row for rows in chunks for row in rows])]}, tokenizer, config)
    assert read_rows(apart) == read_rows(whole)
    assert apart.row_hash.tolist() == whole.row_hash.tolist()
    order_apart, order_whole = (np.argsort(each.headers.to_pylist()) for each in (apart, whole))
    for fact in ("entropy", "fill", "distinct", "mean_tokens", "unknown", "cut", "role"):
        rank_apart = getattr(apart.columns, fact)[order_apart]
        np.testing.assert_array_equal(rank_apart, getattr(whole.columns, fact)[order_whole])


def test_tokens_are_those_of_the_texts(tokenizer, config, make_chunk):
    encoded = encode_tables(
        {"amber": [make_chunk([{"release_Year": "the film", "genre": "drama"}])]}, tokenizer, config
    )
    arrays = encoded.arrays
    for texts, offsets, tokens in (
        (encoded.values, arrays.value_offsets, arrays.value_tokens),
        (encoded.headers, arrays.header_offsets, arrays.header_tokens),
        (encoded.attributes, arrays.attribute_offsets, arrays.attribute_tokens),
    ):
        for place, text in enumerate(texts.to_pylist()):
            expected = tokenizer.encode(text, add_special_tokens=False).ids
            assert tokens[offsets[place] : offsets[place + 1]].tolist() == expected
    assert encoded.attributes.to_pylist() == ["release year", "genre"]


def test_facts_of_a_column_are_counted(tokenizer, config, make_chunk):
    rows = [{"a": "drama"}, {"a": "drama", "b": "漢"}, {"a": "film", "b": "the " * 21}, {"a": "drama"}]
    columns = encode_tables({"amber": [make_chunk(rows[:2]), make_chunk(rows[2:])]}, tokenizer, config).columns
    assert columns.fill.tolist() == [1.0, 0.5]
    assert columns.distinct.tolist() == [2, 2]
    assert columns.mean_tokens.tolist() == [1.0, 10.5]
    assert columns.unknown.tolist() == [0.0, 1 / 21]
    assert columns.cut.tolist() == [0.0, 0.5]
    assert columns.examples.tolist() == [[0, 2, -1], [1, 3, -1]]


def test_examples_are_the_most_frequent_values(tokenizer, config, make_chunk):
    values = ["w", "x", "y", "y", "z", "z", "z"]
    encoded = encode_tables({"amber": [make_chunk([{"a": value} for value in values])]}, tokenizer, config)
    assert encoded.values.take(encoded.columns.examples[0]).to_pylist() == ["z", "y", "w"]


def test_roles_come_from_all_rows_given(tokenizer, config, make_chunk):
    rows = [{"id": str(number), "kind": "drama", "flag": str(number % 2)} for number in range(8)]
    arrays = encode_tables({"amber": [make_chunk(rows)]}, tokenizer, config).arrays
    assert arrays.column_role.tolist() == [2, 1, 0]


def test_same_header_may_have_another_attribute_in_another_table(tokenizer, config, make_chunk):
    mapped = replace(config, attributes=AttributeMapping(tables={"people": {"name": "person"}}))
    chunk = make_chunk([{"name": "drama"}])
    encoded = encode_tables({"films": [chunk], "people": [chunk]}, tokenizer, mapped)
    assert encoded.attributes.to_pylist() == ["name", "person"]
    assert encoded.arrays.segment_attribute.tolist() == [0, 1]
    assert encoded.arrays.segment_value.tolist() == [0, 0]
    assert encoded.arrays.column_attribute.tolist() == [0, 1]


def test_cells_beyond_max_tokens_leave_nothing_behind(tokenizer, config, make_chunk):
    short = replace(config, max_tokens=20, max_header_tokens=8, max_value_tokens=8)
    row = {f"h{number}": f"film {number}" for number in range(9)}
    encoded = encode_tables({"amber": [make_chunk([row])]}, tokenizer, short)
    assert encoded.values.to_pylist() == ["film 0", "film 1", "film 2"]
    assert encoded.headers.to_pylist() == ["h0", "h1", "h2"]
    assert encoded.arrays.count_row_tokens().tolist() == [19]


def test_tables_without_rows_and_no_tables_are_empty(tokenizer, config, make_chunk):
    for tables in ({}, {"amber": []}, {"amber": [make_chunk([])]}):
        encoded = encode_tables(tables, tokenizer, config)
        assert encoded.tables == tuple(tables)
        assert encoded.arrays.num_rows == encoded.arrays.num_segments == len(encoded.columns.table) == 0


@pytest.mark.parametrize("at_once", [1, 5, 1 << 16])
def test_tables_that_are_tokenised_together_are_as_each_alone(at_once, make_chunk, tokenizer, config, monkeypatch):
    monkeypatch.setattr("navi.corpus.encode.CELLS_AT_ONCE", at_once)
    rows = [{"title": "the king", "year": "1999"}, {"title": "love"}, {"year": "war of love"}, {"genre": "drama"}]
    tables = {"amber": [make_chunk(rows[:1]), make_chunk(rows[1:])], "birch": [], "cedar": [make_chunk(rows[::-1])]}
    whole = encode_tables(tables, tokenizer, config)
    assert whole.tables == ("amber", "birch", "cedar")
    for number, name in enumerate(whole.tables):
        alone = encode_tables({name: tables[name]}, tokenizer, config)
        own = np.flatnonzero(whole.arrays.row_table == number)
        assert whole.arrays.count_row_tokens()[own].tolist() == alone.arrays.count_row_tokens().tolist()
        assert whole.row_hash[own].tolist() == alone.row_hash.tolist()
