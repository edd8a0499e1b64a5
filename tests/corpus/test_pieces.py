"""Tests of chunks to pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from navi.corpus import PrepareConfig, encode_chunk

ROWS = [
    {"title": "the film", "genre": "drama"},
    {"genre": "drama", "year": "1999"},
    {"genre": "drama", "title": "the film"},
]


def read_rows(piece):
    rows = []
    for begin, end in zip(piece.row_offsets[:-1], piece.row_offsets[1:], strict=True):
        segments = piece.row_segments[begin:end]
        headers = [piece.headers[header] for header in piece.segment_header[segments]]
        rows.append(dict(zip(headers, piece.values.take(piece.segment_value[segments]).to_pylist(), strict=True)))
    return rows


def test_rows_can_be_read_back(tokenizer, config, make_chunk):
    assert read_rows(encode_chunk(make_chunk(ROWS), tokenizer, config)) == ROWS


def test_each_distinct_value_and_segment_is_there_once(tokenizer, config, make_chunk):
    piece = encode_chunk(make_chunk(ROWS), tokenizer, config)
    assert piece.values.to_pylist() == ["the film", "drama", "1999"]
    assert len(set(zip(piece.segment_header.tolist(), piece.segment_value.tolist(), strict=True))) == 3
    assert piece.num_segments == 3


def test_same_cells_in_any_order_give_the_same_hash(tokenizer, config, make_chunk):
    hashes = encode_chunk(make_chunk(ROWS), tokenizer, config).row_hash
    assert hashes[0] == hashes[2]
    assert hashes[0] != hashes[1]


def test_hash_of_a_row_does_not_confuse_headers_with_values(tokenizer, config, make_chunk):
    rows = [{"a": "b"}, {"b": "a"}, {"a": "b", "b": "a"}, {"a": "a", "b": "b"}]
    assert len(set(encode_chunk(make_chunk(rows), tokenizer, config).row_hash.tolist())) == 4


def test_hash_of_a_row_does_not_depend_on_the_settings(tokenizer, config, make_chunk):
    rows = [{f"h{n}": "the film the film" for n in range(9)}]
    short = replace(config, max_value_tokens=1, max_header_tokens=1, max_tokens=20)
    first, second = (encode_chunk(make_chunk(rows), tokenizer, each).row_hash for each in (config, short))
    assert first == second


def test_long_row_keeps_its_first_whole_segments(tokenizer, config, make_chunk):
    # Each segment has a header of two tokens (h and its digit), a colon, a value of two tokens and [SEP].
    rows = [{f"h{n}": "the film" for n in range(9)}, {"h0": "drama"}]
    short = replace(config, max_tokens=1 + 6 * 3 + 5, max_header_tokens=8, max_value_tokens=8)
    piece = encode_chunk(make_chunk(rows), tokenizer, short)
    assert [list(row) for row in read_rows(piece)] == [["h0", "h1", "h2"], ["h0"]]
    assert piece.num_beyond == 6
    assert piece.row_tokens.tolist() == [19, 6]


def test_row_of_just_the_most_tokens_stays_whole(tokenizer, config, make_chunk):
    rows = [{f"h{n}": "the film" for n in range(4)}]
    exact = replace(config, max_tokens=25, max_header_tokens=8, max_value_tokens=8)
    assert encode_chunk(make_chunk(rows), tokenizer, exact).num_beyond == 0


def test_values_are_cut_at_the_setting(tokenizer, config, make_chunk):
    piece = encode_chunk(make_chunk([{"title": "the film " * 30}]), tokenizer, config)
    assert piece.value_tokens.lengths.tolist() == [20]
    assert piece.value_tokens.cut.tolist() == [True]


def test_chunk_without_rows_gives_an_empty_piece(tokenizer, config, make_chunk):
    piece = encode_chunk(make_chunk([]), tokenizer, config)
    assert (piece.num_rows, piece.num_segments, len(piece.values)) == (0, 0, 0)


@pytest.mark.parametrize("share", [None, 0.3])
def test_vocabulary_check_is_counted_unless_off(tokenizer, config, make_chunk, share):
    checked = replace(config, max_unknown_share=share)
    piece = encode_chunk(make_chunk([{"title": "драма"}, {"title": "drama"}]), tokenizer, checked)
    assert tuple(piece.fields) == ((0, 0) if share is None else (2, 1))


def test_default_settings_take_any_tokenizer(tokenizer, make_chunk):
    assert encode_chunk(make_chunk(ROWS), tokenizer, PrepareConfig()).num_rows == 3
