import datetime as dt

import pyarrow as pa
import pytest

from navi.errors import TableError
from navi.tables import ReadConfig, ReadReport, read_frame, to_arrow
from navi.tables.readreport import BINARY_CELL, EMPTY_ROW, FAMILY_LIMIT

pd = pytest.importorskip("pandas")


def read(frame: object, **settings: object) -> tuple[list[dict[str, str]], ReadReport]:
    losses = ReadReport()
    chunks = list(read_frame(frame, losses, ReadConfig(**settings)))
    assert losses.read == sum(chunk.num_rows for chunk in chunks) + losses.dropped.total()
    rows = [{key: cell for key, cell in row.items() if cell is not None} for row in to_arrow(chunks).to_pylist()]
    return rows, losses


ROWS = [
    {"title": "Heat", "year": 1995.0, "score": 8.5, "seen": dt.datetime(2020, 1, 1), "cast": [{"name": "Al"}]},
    {"title": " ", "year": None, "score": 8.0, "seen": None, "cast": None},
]
TEXT = [
    {"title": "Heat", "year": "1995", "score": "8.5", "seen": "2020-01-01", "cast.0.name": "Al"},
    {"score": "8.0"},
]


@pytest.mark.parametrize("chunk_rows", [1, 1000])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: pd.DataFrame(ROWS),
        lambda: pa.Table.from_pylist(ROWS),
        lambda: pa.RecordBatch.from_pylist(ROWS),
        lambda: pa.Table.from_pylist(ROWS).to_reader(),
        lambda: pytest.importorskip("polars").DataFrame(ROWS),
        lambda: pytest.importorskip("polars").LazyFrame(ROWS),
    ],
    ids=["list", "tuple", "pandas", "table", "batch", "reader", "polars", "lazy"],
)
def test_frames_of_all_kinds_read_alike(make, chunk_rows):
    assert read(make(), chunk_rows=chunk_rows) == (TEXT, ReadReport(read=2))


def test_one_dictionary_is_one_row():
    assert read({"a": 1, "b": [1, 2, 3, 4]})[0] == [{"a": "1", "b.0": "1", "b.1": "2", "b.2": "3"}]


def test_losses_are_entered_with_the_number_of_the_row():
    rows, losses = read([{"a": "x"}, {"a": None}, {"a": [1, 2, 3, 4, 5]}])
    assert len(rows) == 2
    assert losses.dropped == {EMPTY_ROW: 1}
    assert losses.places == {
        EMPTY_ROW: ["frame:2"],
        FAMILY_LIMIT: ["frame:3: a has 5 members, 3 stay"],
    }


def test_losses_may_be_left_out():
    assert to_arrow(read_frame([{"a": 1}])).to_pylist() == [{"a": "1"}]


def test_a_strict_reader_stops_at_an_empty_row():
    with pytest.raises(TableError, match=r"frame:2: row without any cell"):
        read(pd.DataFrame({"a": ["x", None]}), strict=True)


def test_columns_of_pandas_get_names_that_are_distinct_texts():
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "a", 5, ""])
    assert read(frame)[0] == [{"a": "1", "a (2)": "2", "5": "3", "column_4": "4"}]


def test_levels_of_column_names_are_joined_by_dots():
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    assert read(frame)[0] == [{"a.x": "1", "a.y": "2"}]


def test_columns_of_arrow_that_share_a_name_are_told_apart():
    assert read(pa.table([["1"], ["2"]], names=["a", "a"]))[0] == [{"a": "1", "a (2)": "2"}]


def test_a_named_index_is_not_read_and_that_is_said():
    rows, losses = read(pd.DataFrame({"a": [1]}, index=pd.Index([7], name="id")))
    assert rows == [{"a": "1"}]
    assert losses.notes == ["the index id is not read; reset_index() makes it a column"]


def test_a_column_of_mixed_types_is_read_cell_by_cell():
    frame = pd.DataFrame({"a": [1, "x", None, 2.5], "b": [1.0, 2.0, None, 3.0], "c": [{"d": 1}, [1], "z", None]})
    assert read(frame)[0] == [
        {"a": "1", "b": "1", "c.d": "1"},
        {"a": "x", "b": "2", "c.0": "1"},
        {"c": "z"},
        {"a": "2.5", "b": "3"},
    ]


def test_types_that_are_pandas_own_are_written_as_pandas_writes_them():
    frame = pd.DataFrame(
        {
            "p": pd.period_range("2020-01", periods=2, freq="M"),
            "i": pd.interval_range(0, 2),
            "n": pd.array([1, None], dtype="Int64"),
            "c": pd.Categorical(["x", None]),
            "t": pd.to_datetime(["2020-01-01 10:00", None], utc=True),
        }
    )
    assert read(frame)[0] == [
        {"p": "2020-01", "i": "(0, 1]", "n": "1", "c": "x", "t": "2020-01-01T10:00:00Z"},
        {"p": "2020-02", "i": "(1, 2]"},
    ]
    assert read(frame[["n", "c", "t"]])[0] == [{"n": "1", "c": "x", "t": "2020-01-01T10:00:00Z"}]


def test_objects_of_polars_are_written_as_python_writes_them():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0]}).with_columns(polars.Series("o", [{1, 2}], dtype=polars.Object))
    assert read(frame)[0] == [{"a": "1", "o": "{1, 2}"}]


def test_bytes_that_are_no_text_are_counted():
    rows, losses = read(pa.table({"a": [b"\xff"], "b": ["x"]}))
    assert rows == [{"b": "x"}]
    assert losses.cells == {BINARY_CELL: 1}


def test_whole_floats_of_nested_rows_are_told_by_their_header():
    rows = [{"a": {"b": 1.0, "c": 1.0}}, {"a": {"b": 2.0, "c": 0.5}}]
    assert read(rows)[0] == [{"a.b": "1", "a.c": "1.0"}, {"a.b": "2", "a.c": "0.5"}]


@pytest.mark.parametrize("frame", [[], pd.DataFrame(), pd.DataFrame({"a": []}), pa.table({})])
def test_a_frame_without_rows_gives_no_chunks(frame):
    assert read(frame) == ([], ReadReport())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("text", "Cannot read a str as a table: expected a pandas, Polars or Arrow frame, a list of dictionaries"),
        (5, "Cannot read a int as a table"),
        (pd.Series([1]), "Cannot read a Series as a table"),
        ([{"a": 1}, [2]], "Cannot read row 2 of the list: expected a dictionary, found list"),
    ],
)
def test_what_is_no_frame_is_one_clear_error(frame, message):
    with pytest.raises(TableError, match=message):
        list(read_frame(frame))


def test_frames_are_read_without_a_loop_over_cells():
    frame = pd.DataFrame({f"c{number}": range(20_000) for number in range(10)})
    (first, *_) = read_frame(frame, config=ReadConfig(chunk_rows=20_000))
    assert first.num_cells == 200_000
    assert first.cell_value[-1].as_py() == "19999"
