import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.tables import ReadConfig, ReadReport, read_frame, to_arrow
from navi.tables.flatten import RowBuilder, count_cells
from navi.tables.jsonlines import DECODER
from navi.tables.readreport import BINARY_CELL, EMPTY_ROW, FAMILY_LIMIT, NOT_UNICODE, NUL_CHARACTER, TOO_DEEP


def flatten(row: object, **settings: object) -> tuple[dict[str, str], ReadReport]:
    losses = ReadReport(source="f")
    builder = RowBuilder(ReadConfig(**settings), losses)
    builder.add(DECODER.decode(row) if isinstance(row, str) else row.items(), 1)
    chunk = builder.flush()
    if chunk is None:
        return {}, losses
    cells = chunk.cell_value.to_pylist()
    return {chunk.headers[header]: cell for header, cell in zip(chunk.cell_header, cells, strict=True)}, losses


def test_nested_values_get_dotted_headers():
    flat, _ = flatten('{"actors": [{"name": "allan"}, {"name": "daniel"}], "info": {"year": 1994}}')
    assert flat == {"actors.0.name": "allan", "actors.1.name": "daniel", "info.year": "1994"}


def test_of_a_list_the_first_members_stay_and_the_cells_of_the_others_are_counted():
    flat, losses = flatten('{"actors": [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4, "role": "x"}, {"n": null}, {"n": 6}]}')
    assert flat == {"actors.0.n": "1", "actors.1.n": "2", "actors.2.n": "3"}
    assert losses.cells == {FAMILY_LIMIT: 3}
    assert losses.places == {FAMILY_LIMIT: ["f:1: actors has 6 members, 3 stay"]}


def test_the_limit_holds_at_each_level():
    flat, losses = flatten('{"a": [[1, 2], [3, 4], [5, 6]]}', max_family=1)
    assert flat == {"a.0.0": "1"}
    assert losses.cells[FAMILY_LIMIT] == 5


def test_without_a_limit_all_members_stay():
    flat, losses = flatten('{"a": [1, 2, 3, 4, 5]}', max_family=None)
    assert list(flat) == ["a.0", "a.1", "a.2", "a.3", "a.4"]
    assert not losses.cells


def test_numbers_keep_the_text_they_are_written_in():
    flat, _ = flatten('{"a": 1.50, "b": 1e5, "c": 12345678901234567890, "d": -0.0, "e": true, "f": false}')
    assert flat == {"a": "1.50", "b": "1e5", "c": "12345678901234567890", "d": "-0.0", "e": "true", "f": "false"}


def test_empty_null_and_white_cells_are_absent():
    flat, losses = flatten('{"a": null, "b": "", "c": " \\t\\n", "d": NaN, "e": [], "f": {}, "g": " x "}')
    assert flat == {"g": "x"}
    assert not losses.cells


def test_a_row_without_cells_is_dropped():
    flat, losses = flatten('{"a": null}')
    assert flat == {}
    assert (losses.read, losses.dropped) == (1, {EMPTY_ROW: 1})


def test_repeated_keys_are_told_apart():
    flat, losses = flatten('{"a": 1, "a": 2, "b": 3, "a": 4}')
    assert flat == {"a": "1", "a (2)": "2", "b": "3", "a (3)": "4"}
    assert "header 'a' appears more than once in a row: told apart as 'a (2)'" in losses.notes


def test_an_absent_cell_counts_among_repeated_keys():
    assert flatten('{"a": null, "a": 2}')[0] == {"a (2)": "2"}


def test_a_dotted_key_and_a_nested_one_are_told_apart():
    assert flatten('{"a.b": 1, "a": {"b": 2}}')[0] == {"a.b": "1", "a.b (2)": "2"}


def test_a_name_that_tells_apart_does_not_take_anothers_place():
    assert flatten('{"a": 1, "a": 2, "a (2)": 3}')[0] == {"a": "1", "a (3)": "2", "a (2)": "3"}


def test_keys_that_differ_in_white_space_are_told_apart():
    assert flatten('{"a": 1, " a ": 2, "": 3}')[0] == {"a": "1", "a (2)": "2", "unnamed": "3"}


def test_nul_characters_are_taken_out_and_counted():
    flat, losses = flatten('{"a": "x\\u0000y", "b\\u0000": "z", "c": "\\u0000"}')
    assert flat == {"a": "xy", "b": "z"}
    assert losses.cells == {NUL_CHARACTER: 2}


def test_half_of_a_surrogate_pair_is_replaced_and_counted():
    flat, losses = flatten('{"a": "x\\ud800", "b\\udfff": "\\ud83d\\ude00"}')
    assert flat == {"a": "x\ufffd", "b\ufffd": "😀"}
    assert losses.cells == {NOT_UNICODE: 1}
    assert losses.places == {NOT_UNICODE: ["f:1: read as 'x\ufffd'"]}


def test_a_value_nested_too_deeply_drops_its_row_alone():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    losses = ReadReport(source="f")
    chunks = list(read_frame([{"a": 1}, {"b": 2, "a": deep}, {"a": 3}], losses))
    assert to_arrow(chunks).to_pylist() == [{"a": "1"}, {"a": "3"}]
    assert losses.dropped == {TOO_DEEP: 1}
    assert losses.places == {TOO_DEEP: ["frame:2"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (2.5, "2.5"),
        (1e-05, "1e-05"),
        (np.float32(0.1), "0.1"),
        (np.float64(0.1), "0.1"),
        (np.int64(7), "7"),
        (np.bool_(True), "true"),
        (Decimal("1.50"), "1.50"),
        (dt.date(2020, 1, 2), "2020-01-02"),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 120_000), "2020-01-02T03:04:05.12"),
        (dt.datetime(2020, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=1))), "2020-01-02T02:00:00Z"),
        (dt.time(12, 30), "12:30:00"),
        (b"bytes", "bytes"),
        (np.datetime64("2020-01-02"), "2020-01-02"),
    ],
)
def test_scalars_of_python_are_written_plainly(value, text):
    assert flatten({"a": value})[0] == {"a": text}


@pytest.mark.parametrize("value", [float("nan"), np.float32("nan"), np.datetime64("NaT")])
def test_what_is_no_value_is_absent(value):
    assert flatten({"a": value, "b": 1})[0] == {"b": "1"}


def test_bytes_that_are_no_text_are_counted():
    flat, losses = flatten({"a": b"\xff\xfe", "b": "x"})
    assert flat == {"b": "x"}
    assert losses.places == {BINARY_CELL: ["f:1: a holds 2 bytes"]}


def test_arrays_of_numpy_are_lists():
    assert flatten({"a": np.array([1, 2])})[0] == {"a.0": "1", "a.1": "2"}


KEYS = st.text("abcdefg_ é", min_size=1).map(str.strip).filter(bool)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip).filter(bool)
NESTED = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, min_size=1, max_size=6) | st.dictionaries(KEYS, inner, min_size=1, max_size=4),
    max_leaves=12,
)


def unflatten(cells: dict[str, str]) -> object:
    """Rebuild a nested value from dotted headers, all keys of a level being digits in a list alone."""
    if list(cells) == [""]:
        return cells[""]
    groups: dict[str, dict[str, str]] = {}
    for header, cell in cells.items():
        key, _, rest = header.partition(".")
        groups.setdefault(key, {})[rest] = cell
    members = {key: unflatten(group) for key, group in groups.items()}
    return list(members.values()) if all(key.isdigit() for key in members) else members


def cut(value: object, limit: int) -> object:
    if isinstance(value, dict):
        return {key: cut(member, limit) for key, member in value.items()}
    return [cut(member, limit) for member in value[:limit]] if isinstance(value, list) else value


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, NESTED, min_size=1, max_size=5), st.integers(1, 6))
def test_flattening_is_lossless_up_to_the_limit_and_counts_the_rest(row, limit):
    flat, losses = flatten(json.dumps(row), max_family=limit)
    kept = cut(row, limit)
    # As text, so that the order of the cells counts too.
    assert json.dumps(unflatten(flat)) == json.dumps(kept)
    assert losses.cells[FAMILY_LIMIT] == count_cells(row) - count_cells(kept)
