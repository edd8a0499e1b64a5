from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from navi.errors import TableError
from navi.tables import read_table
from navi.verbs.filling import Fill, find_present, open_frame

COLUMNS = {"title": ["Alien", None, "Jaws"], "year": [1979, 1975, None], "score": [8.5, None, 8.1]}
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "rows": lambda columns: [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)],
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def to_lists(frame):
    """Return the cells of any kind of frame, column by column, what is missing as None."""
    if isinstance(frame, list):
        frame = pa.Table.from_pylist(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False) if isinstance(frame, pd.DataFrame) else frame
    table = table.to_arrow() if isinstance(table, pl.DataFrame) else table
    return table.to_pydict()


@each_kind
def test_cells_are_filled_in_a_copy_of_the_same_kind(kind):
    frame = KINDS[kind](COLUMNS)
    before = to_lists(frame)
    fills = {0: Fill(rows=np.array([1]), values=["Heat"]), 1: Fill(rows=np.array([2]), values=[1995])}
    filled = open_frame(frame).fill(fills)
    assert type(filled) is type(frame)
    assert to_lists(filled) == {
        "title": ["Alien", "Heat", "Jaws"],
        "year": [1979, 1975, 1995],
        "score": COLUMNS["score"],
    }
    assert to_lists(frame) == before


@each_kind
def test_numbers_are_put_into_an_empty_frame_of_the_same_kind(kind):
    frame = KINDS[kind](COLUMNS)
    made = open_frame(frame).tabulate({0: Fill(rows=np.array([1]), values=[0.25])})
    assert type(made) is type(frame)
    if kind == "rows":
        assert made == [{}, {"title": 0.25}, {}]
    else:
        assert to_lists(made) == {"title": [None, 0.25, None], "year": [None] * 3, "score": [None] * 3}


@each_kind
def test_present_cells_are_those_that_hold_something(kind):
    frame = open_frame(KINDS[kind](COLUMNS | {"empty": [" ", None, ""]}))
    present = find_present(read_table(frame.native), frame.headers)
    assert frame.headers == ("title", "year", "score", "empty")
    assert present.tolist() == [[True, False, True], [True, True, False], [True, False, True], [False] * 3]


def test_the_index_and_repeated_names_of_a_pandas_frame_stay():
    frame = pd.DataFrame([["a", None], [None, "b"]], columns=["x", "x"], index=[7, 9])
    opened = open_frame(frame)
    filled = opened.fill({1: Fill(rows=np.array([0]), values=["c"])})
    assert opened.headers == ("x", "x (2)")
    assert filled.columns.tolist() == ["x", "x"]
    assert filled.index.tolist() == [7, 9]
    assert filled.iloc[0, 1] == "c"
    assert opened.tabulate({1: Fill(rows=np.array([0]), values=[0.5])}).index.tolist() == [7, 9]


def test_names_that_are_no_texts_stay_what_they_are():
    frame = pd.DataFrame({0: ["a", None], ("x", "y"): ["b", "c"]})
    opened = open_frame(frame)
    assert opened.headers == ("0", "x.y")
    assert opened.fill({0: Fill(rows=np.array([1]), values=["d"])}).columns.tolist() == frame.columns.tolist()


TYPES = [
    (pl.Series([1, None], dtype=pl.Int8), "7", 7),
    (pl.Series([1, None], dtype=pl.Int8), "300", None),
    (pl.Series([1, None], dtype=pl.UInt16), "-1", None),
    (pl.Series([1.5, None]), "7.25", 7.25),
    (pl.Series([1.5, None]), "many", None),
    (pl.Series([True, None]), "false", False),
    (pl.Series([True, None]), "perhaps", None),
    (pl.Series([datetime.date(1999, 1, 1), None]), "2001-02-03", datetime.date(2001, 2, 3)),
    (pl.Series([datetime.date(1999, 1, 1), None]), "soon", None),
    (pl.Series([datetime.datetime(1999, 1, 1), None]), "2001-02-03T04:05:06", datetime.datetime(2001, 2, 3, 4, 5, 6)),
    (pl.Series([decimal.Decimal("1.50"), None]), "2.25", decimal.Decimal("2.25")),
    (pl.Series([decimal.Decimal("1.50"), None]), "x", None),
    (pl.Series(["red", None], dtype=pl.Categorical), "blue", "blue"),
    (pl.Series(["red", None], dtype=pl.Enum(["red", "green"])), "green", "green"),
    (pl.Series(["red", None], dtype=pl.Enum(["red", "green"])), "blue", None),
]


@pytest.mark.parametrize(("column", "text", "expected"), TYPES)
def test_text_becomes_the_column_s_type_or_is_refused(column, text, expected):
    opened = open_frame(pl.DataFrame({"x": column}))
    parse = opened.make_parser(0)
    if expected is None:
        with pytest.raises((ValueError, ArithmeticError), match=r"."):
            parse(text)
        return
    filled = opened.fill({0: Fill(rows=np.array([1]), values=[parse(text)])})
    assert filled["x"].to_list() == [column[0], expected]
    assert filled["x"].dtype == column.dtype


@pytest.mark.parametrize(("text", "fits"), [("green", True), ("blue", False)])
def test_a_pandas_category_keeps_its_categories(text, fits):
    column = pd.Categorical(["red", None], categories=["red", "green"])
    opened = open_frame(pd.DataFrame({"x": column}))
    if not fits:
        with pytest.raises(ValueError, match=text):
            opened.make_parser(0)(text)
        return
    filled = opened.fill({0: Fill(rows=np.array([1]), values=[opened.make_parser(0)(text)])})
    assert filled["x"].tolist() == ["red", "green"]
    assert filled["x"].dtype == column.dtype


def test_dictionaries_of_arrow_are_filled():
    frame = pa.table({"x": pa.array(["red", None, "red"]).dictionary_encode()})
    filled = open_frame(frame).fill({0: Fill(rows=np.array([1]), values=["blue"])})
    assert filled["x"].to_pylist() == ["red", "blue", "red"]
    assert pa.types.is_dictionary(filled["x"].type)


def test_cells_of_mixed_objects_take_the_type_they_share():
    frame = pd.DataFrame({"whole": pd.Series([1, None], dtype=object), "mixed": pd.Series([1, "a"], dtype=object)})
    opened = open_frame(frame)
    assert opened.make_parser(0)("7") == 7
    assert opened.make_parser(1)("7") == "7"


@pytest.mark.parametrize(
    "frame",
    [
        [{"cast": ["Ann"]}, {"cast": None}],
        pl.DataFrame({"cast": [["Ann"], None]}),
        pa.table({"cast": pa.array([b"Ann", None])}),
        pd.DataFrame({"cast": [{"name": "Ann"}, None]}),
    ],
)
def test_nested_and_binary_cells_cannot_be_filled(frame):
    assert open_frame(frame).make_parser(0) is None


def test_a_nested_column_is_present_where_any_part_of_it_is():
    rows = [{"cast": [{"name": "Ann"}]}, {"cast": []}, {"cast": None, "title": "Jaws"}]
    frame = open_frame(rows)
    assert find_present(read_table(rows), frame.headers).tolist() == [[True, False, False], [False, False, True]]


def test_streams_lazy_frames_batches_and_one_row_are_read_whole():
    table = pa.table(COLUMNS)
    for frame in (table.to_reader(), pl.LazyFrame(COLUMNS), table.to_batches()[0]):
        assert to_lists(open_frame(frame).fill({})) == to_lists(table)
    assert open_frame({"title": "Alien"}).fill({}) == [{"title": "Alien"}]


@pytest.mark.parametrize("frame", [7, "films.csv", [1, 2]])
def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(TableError, match="Cannot read"):
        open_frame(frame)
