import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.tables import ReadConfig, ReadReport, read_frame, to_arrow
from navi.tables.families import Flattener, count_cells, split_lists
from navi.tables.readreport import FAMILY_LIMIT


def flatten(array: pa.Array, limit: int | None = 3) -> tuple[dict[str, list[object]], ReadReport]:
    flattener = Flattener(limit)
    flat = {name: column.to_pylist() for name, column in flattener.flatten("a", array)}
    losses = ReadReport(source="f")
    flattener.report(np.arange(1, len(array) + 1), losses)
    return flat, losses


def test_structures_get_dotted_headers_and_null_ones_no_cells():
    array = pa.array([{"x": 1, "y": {"z": 2}}, None, {"x": None, "y": None}])
    assert flatten(array)[0] == {"a.x": [1, None, None], "a.y.z": [2, None, None]}


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.large_list_view(pa.int64())],
)
def test_of_lists_the_first_members_stay_and_the_others_are_counted(kind):
    array = pa.array([[1, 2, 3, 4], None, [], [5], [6, 7, 8, None, 9]], kind)
    flat, losses = flatten(array, 2)
    assert flat == {"a.0": [1, None, None, 5, 6], "a.1": [2, None, None, None, 7]}
    assert losses.cells == {FAMILY_LIMIT: 4}
    assert losses.places == {FAMILY_LIMIT: ["f:1: a has 4 members, 2 stay", "f:5: a has 5 members, 2 stay"]}


def test_lists_of_a_fixed_size_are_lists():
    assert flatten(pa.array([[1, 2], None], pa.list_(pa.int64(), 2)))[0] == {"a.0": [1, None], "a.1": [2, None]}


def test_a_slice_of_a_column_is_read_alone():
    array = pa.array([[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11]]).slice(1)
    flat, losses = flatten(array, 1)
    assert flat == {"a.0": [5, 7]}
    assert losses.cells == {FAMILY_LIMIT: 5}


def test_null_lists_that_hide_members_are_empty():
    array = pa.ListArray.from_arrays(pa.array([0, 2, 4]), pa.array([1, 2, 3, 4]), mask=pa.array([True, False]))
    assert flatten(array)[0] == {"a.0": [None, 3], "a.1": [None, 4]}


def test_the_keys_of_a_map_are_headers():
    array = pa.array([[("x", 1), ("y", 2)], None, [("y", 3)], []], pa.map_(pa.string(), pa.int64()))
    assert flatten(array)[0] == {"a.x": [1, None, None, None], "a.y": [2, None, 3, None]}
    assert flatten(array.slice(2))[0] == {"a.y": [3, None]}


def test_a_key_that_a_map_holds_twice_gives_two_columns():
    array = pa.array([[("x", 1), ("x", 2)]], pa.map_(pa.string(), pa.int64()))
    assert [(name, column.to_pylist()) for name, column in Flattener(3).flatten("a", array)] == [
        ("a.x", [1]),
        ("a.x", [2]),
    ]


def test_dictionaries_and_runs_are_decoded():
    assert flatten(pa.array(["x", "y", "x"]).dictionary_encode())[0] == {"a": ["x", "y", "x"]}
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", "y"]))
    assert flatten(runs)[0] == {"a": ["x", "x", "y"]}


def test_cells_within_nested_values_are_counted_without_the_absent():
    array = pa.array([{"x": ["a", " ", None], "y": 1.0}, {"x": None, "y": float("nan")}, None])
    assert count_cells(array).tolist() == [2, 0, 0]


def test_lists_split_into_places_lengths_and_members():
    start, length, members = split_lists(pa.array([[1], None, [2, 3]]).slice(1))
    assert (start.tolist(), length.tolist(), members.to_pylist()) == ([0, 0], [0, 2], [2, 3])


LEAVES = st.none() | st.text("ab ", max_size=3)
CELLS = st.fixed_dictionaries(
    {
        "a": st.none() | st.lists(st.fixed_dictionaries({"n": LEAVES, "m": st.lists(LEAVES, max_size=5)}), max_size=5),
        "b": st.none() | st.fixed_dictionaries({"c": LEAVES, "d": st.lists(st.lists(LEAVES, max_size=3), max_size=4)}),
        "e": LEAVES,
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from([1, 3, None]), st.sampled_from([1, 3, 100]))
def test_columns_and_rows_flatten_alike(rows, limit, chunk_rows):
    schema = pa.schema(
        {
            "a": pa.list_(pa.struct({"n": pa.string(), "m": pa.list_(pa.string())})),
            "b": pa.struct({"c": pa.string(), "d": pa.list_(pa.list_(pa.string()))}),
            "e": pa.string(),
        }
    )
    found = []
    for frame in (rows, pa.Table.from_pylist(rows, schema)):
        losses = ReadReport(source="f")
        chunks = list(read_frame(frame, losses, ReadConfig(max_family=limit, chunk_rows=chunk_rows)))
        cells = sorted(
            (int(chunk.row_number[row]), chunk.headers[header], value)
            for chunk in chunks
            for row, header, value in zip(chunk.cell_row, chunk.cell_header, chunk.cell_value.to_pylist(), strict=True)
        )
        found.append((cells, losses.read, losses.dropped, losses.cells))
        assert to_arrow(chunks).num_rows == losses.kept
    assert found[0] == found[1]
