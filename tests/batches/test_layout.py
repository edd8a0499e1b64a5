"""Tests of the packed token sequence, against a serialiser that goes token by token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.batches.layout import PART_HEADER, PART_NONE, PART_VALUE, lay_out
from navi.corpus.arrays import count_up, gather_ranges


def serialise(arrays, rows, special):
    """Return the fields of a layout as lists, token by token: [CLS], then header : value [SEP] of each segment."""
    found = {
        name: [] for name in ("token_ids", "token_position", "token_segment", "token_part", "segment_row", "segment_id")
    }
    found |= {"segment_rank": [], "segment_starts": [], "segment_lengths": [], "row_starts": [], "local_starts": []}
    for number, row in enumerate(rows):
        found["row_starts"].append(len(found["token_ids"]))
        found["local_starts"].append(len(found["token_ids"]))
        add(found, special.cls, 0, -1, PART_NONE)
        cells = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        for rank, segment in enumerate(cells):
            place, start = len(found["segment_id"]), len(found["token_ids"])
            header, value = arrays.segment_header[segment], arrays.segment_value[segment]
            header_tokens = arrays.header_tokens[arrays.header_offsets[header] : arrays.header_offsets[header + 1]]
            value_tokens = arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]]
            parts = [(token, PART_HEADER) for token in header_tokens] + [(special.colon, PART_NONE)]
            parts += [(token, PART_VALUE) for token in value_tokens] + [(special.sep, PART_NONE)]
            for position, (token, part) in enumerate(parts):
                add(found, token, position, place, part)
            for name, entry in zip(
                ("segment_row", "segment_rank", "segment_id", "segment_starts", "segment_lengths", "local_starts"),
                (number, rank, segment, start, len(parts), start),
                strict=True,
            ):
                found[name].append(entry)
    found["row_starts"].append(len(found["token_ids"]))
    found["local_starts"].append(len(found["token_ids"]))
    return found


def add(found, token, position, segment, part):
    names = ("token_ids", "token_position", "token_segment", "token_part")
    for name, entry in zip(names, (token, position, segment, part), strict=True):
        found[name].append(entry)


def assert_serialised(arrays, rows, special):
    layout = lay_out(arrays, rows, special)
    for name, expected in serialise(arrays, rows, special).items():
        assert getattr(layout, name).tolist() == expected, name
    assert layout.rows.tolist() == rows.tolist()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**16), rows=st.lists(st.integers(0, 11), max_size=8))
def test_a_layout_is_what_the_slow_serialiser_writes(make_arrays, special, seed, rows):
    assert_serialised(make_arrays(seed=seed, num_rows=12), np.array(rows, dtype=np.int64), special)


def test_a_row_without_cells_is_its_cls_token(make_arrays, special):
    arrays = make_arrays(cells=(0, 3), num_rows=30)
    assert (np.diff(arrays.row_offsets) == 0).any()
    assert_serialised(arrays, np.arange(30), special)


def test_rows_without_any_cell_are_cls_tokens_alone(make_arrays, special):
    arrays = replace(
        make_arrays(num_rows=2), row_offsets=np.zeros(3, dtype=np.int64), row_segments=np.zeros(0, dtype=np.int32)
    )
    assert_serialised(arrays, np.arange(2), special)


def test_row_lengths_are_those_that_the_arrays_count(make_arrays, special):
    arrays = make_arrays(seed=4, cells=(0, 6))
    layout = lay_out(arrays, np.arange(arrays.num_rows), special)
    assert np.diff(layout.row_starts).tolist() == arrays.count_row_tokens().tolist()


@given(st.lists(st.integers(0, 5), max_size=12))
def test_counting_up_starts_anew_for_each_length(lengths):
    expected = [number for length in lengths for number in range(length)]
    assert count_up(np.array(lengths, dtype=np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_gathered_ranges_list_the_members_of_each_list(lengths, data):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=10))
    found_lengths, places = gather_ranges(offsets, np.array(ids, dtype=np.int32))
    assert found_lengths.tolist() == [lengths[i] for i in ids]
    assert places.tolist() == [place for i in ids for place in range(offsets[i], offsets[i + 1])]
