import datetime as dt

import pyarrow as pa
import pytest

from navi.tables import ReadConfig, ReadReport, columns, read_frame, to_arrow
from navi.tables.columns import find_whole, may_be_whole
from navi.tables.readreport import EMPTY_ROW, FAMILY_LIMIT


def test_cells_lie_row_after_row_in_the_order_of_the_columns():
    table = pa.table({"b": ["1", "", "3"], "a": [None, " ", "x"]})
    losses = ReadReport()
    (chunk,) = read_frame(table, losses)
    assert chunk.headers == ("b", "a")
    assert chunk.cell_row.tolist() == [0, 1, 1]
    assert chunk.cell_header.tolist() == [0, 0, 1]
    assert chunk.cell_value.to_pylist() == ["1", "3", "x"]
    assert chunk.row_number.tolist() == [1, 3]
    assert losses.dropped == {EMPTY_ROW: 1}
    assert losses.places == {EMPTY_ROW: ["frame:2"]}


def test_whole_columns_are_found_over_all_batches_and_within_nested_ones():
    batches = [
        pa.RecordBatch.from_pylist([{"a": 1.0, "b": 1.0, "c": [{"d": 2.0}], "t": dt.datetime(2020, 1, 1)}]),
        pa.RecordBatch.from_pylist([{"a": 2.0, "b": 0.5, "c": [{"d": 3.0}], "t": dt.datetime(2020, 1, 1, 5)}]),
    ]
    assert find_whole(batches, ReadConfig()) == {"a", "c.0.d"}


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (pa.float32(), True),
        (pa.list_(pa.struct({"a": pa.timestamp("s")})), True),
        (pa.dictionary(pa.int32(), pa.float64()), True),
        (pa.map_(pa.string(), pa.float64()), True),
        (pa.int64(), False),
        (pa.struct({"a": pa.string()}), False),
    ],
)
def test_floats_and_timestamps_are_found_within_types(kind, answer):
    assert may_be_whole(kind) is answer


@pytest.mark.parametrize("chunk_rows", [1, 2, 1000])
def test_the_ends_of_chunks_do_not_change_how_a_float_is_written(chunk_rows):
    table = pa.table({"a": [1.0, 2.0, 2.5], "b": [1.0, None, 3.0]})
    rows = to_arrow(read_frame(table, config=ReadConfig(chunk_rows=chunk_rows))).to_pylist()
    assert rows == [{"a": "1.0", "b": "1"}, {"a": "2.0", "b": None}, {"a": "2.5", "b": "3"}]


def test_a_column_and_a_member_of_the_same_name_are_told_apart():
    table = pa.table({"a": [{"b": 1}], "a.b": ["x"], "a.b (2)": ["y"]})
    losses = ReadReport()
    assert to_arrow(read_frame(table, losses)).to_pylist() == [{"a.b": "1", "a.b (3)": "x", "a.b (2)": "y"}]
    assert losses.notes == ["header 'a.b' appears more than once in a row: told apart as 'a.b (3)'"]


def test_batches_of_very_many_cells_are_halved_and_nothing_is_entered_twice(monkeypatch):
    monkeypatch.setattr(columns, "MAX_CELLS", 20)
    table = pa.table({"a": [[n, n, n, n] for n in range(50)]})
    losses = ReadReport()
    chunks = list(read_frame(table, losses))
    assert max(chunk.num_rows for chunk in chunks) <= 6
    assert [number for chunk in chunks for number in chunk.row_number] == list(range(1, 51))
    assert losses.cells == {FAMILY_LIMIT: 50}


def test_batches_of_very_long_rows_make_small_chunks(monkeypatch):
    monkeypatch.setattr(columns, "MAX_BYTES", 1000)
    chunks = list(read_frame(pa.table({"a": ["x" * 400] * 10})))
    assert max(chunk.num_rows for chunk in chunks) <= 2
    assert sum(chunk.num_rows for chunk in chunks) == 10


def test_rows_without_columns_are_dropped():
    losses = ReadReport()
    assert list(read_frame(pa.table({"a": pa.array([{}, {}], pa.struct([]))}), losses)) == []
    assert (losses.read, losses.dropped) == (2, {EMPTY_ROW: 2})
