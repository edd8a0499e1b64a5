"""Frames and rows in memory as tables: one path from them and from files, cells as flat text, and the way back."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import ConfigError, TableError
from navi.tables import (
    WRITERS,
    ReadConfig,
    ReadReport,
    check_output,
    name_frames,
    read_frame,
    read_table,
    read_tables,
    stream_tables,
    to_arrow,
    write_table,
)

ROWS = [{"title": "king", "cast": [{"name": "love"}]}, {"year": "1999"}]


@pytest.mark.parametrize(
    ("frames", "names"),
    [
        ({"a": pd.DataFrame(ROWS), "b": ROWS, "c": read_table(ROWS)}, ["a", "b", "c"]),
        ({"title": "king", "cast": [{"name": "love"}]}, ["table"]),
        ({}, ["table"]),
        ([ROWS, pa.table({"a": [1]})], ["table 1", "table 2"]),
        ([pd.DataFrame({"name": ["a"]}), pd.DataFrame({"name": ["b"]})], ["table 1", "table 2"]),
        ([read_table(ROWS), read_table(ROWS)], ["table", "table (2)"]),
        (ROWS, ["table"]),
    ],
)
def test_a_mapping_or_list_of_frames_holds_tables_and_any_other_is_one(frames, names):
    assert list(name_frames(frames)) == names


def test_a_mapping_of_frames_and_something_else_is_an_error():
    with pytest.raises(TableError, match=r"Cannot read 'b' as a table beside the others"):
        read_tables({"a": pd.DataFrame(ROWS), "b": 5})


def test_a_table_is_read_once_and_stays_what_it_is():
    table = read_table({"films": ROWS})
    assert read_table(table) is table
    assert read_tables([table]) == {"films": table}
    assert read_tables({"others": table})["others"].name == "others"


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_keeps_its_types_its_order_and_its_empty_columns(make):
    table = read_table(make({"year": [None, 1979], "title": ["Heat", "Alien"], "note": [None, None]}))
    assert table.headers == ("year", "title", "note")
    assert table.to_arrow()["year"].to_pylist() == [None, 1979]
    assert table.text.to_pylist() == [
        {"year": None, "title": "Heat", "note": None},
        {"year": "1979", "title": "Alien", "note": None},
    ]


def test_nested_columns_of_a_typed_file_are_flat_in_the_chunks_and_whole_in_arrow(tmp_path):
    cells = pa.table({"title": ["Alien", None], "cast": [["a", "b", "c", "d"], None], "year": [1979, None]})
    pq.write_table(cells, tmp_path / "films.parquet")
    table = read_table(str(tmp_path / "films.parquet"), whole=True)
    assert table.headers == ("title", "cast.0", "cast.1", "cast.2", "year")
    assert table.to_arrow().equals(cells)
    assert table.num_rows == 2


@pytest.mark.parametrize("columns", [None, ["title"]])
def test_tables_that_are_streamed_are_those_that_are_read(columns, tmp_path):
    (tmp_path / "d.csv").write_text("title,year\nprince,1999\n")
    frames = {"a": pd.DataFrame(ROWS), "b": pa.table({"title": ["queen", None]}), "c": ROWS}
    lazy = pl.LazyFrame({"title": ["king"], "year": [1999], "title.en": ["the king"]})
    for some in (frames, {"a": frames["a"], "b": frames["b"]}, tmp_path, lazy):
        row_number, chunks = stream_tables(some, columns=columns)
        tables = read_tables(some, columns=columns)
        assert {name: numbers.tolist() for name, numbers in row_number.items()} == {
            name: table.row_number.tolist() for name, table in tables.items()
        }
        expected = [(name, chunk) for name, table in tables.items() for chunk in table.chunks]
        for (name, chunk), (expected_name, other) in zip(chunks, expected, strict=True):
            assert name == expected_name
            assert chunk.cell_value.equals(other.cell_value)


def test_a_table_without_rows_is_refused_before_any_is_read():
    with pytest.raises(TableError, match=r"The table 'b' has no rows"):
        stream_tables({"a": pd.DataFrame(ROWS), "b": pd.DataFrame({"title": []})})
    assert list(read_tables({"b": pd.DataFrame({"title": []})}, keep_empty=True)["b"].headers) == ["title"]


def test_a_column_that_no_row_has_is_refused_with_those_there_are():
    table = read_table({"films": [{"title": "Alien", "year": 1979}]})
    with pytest.raises(TableError, match=r"The table 'films' has no column 'price'. It has title, year."):
        table.find_headers(["price"])
    with pytest.raises(TableError, match=r"Did you mean 'title'\?"):
        read_tables({"films": table}, columns=["tilte"])


def test_files_without_rows_are_left_out_and_refused_if_there_are_no_others(tmp_path):
    (tmp_path / "none.csv").write_text("title,year\n")
    with pytest.raises(TableError, match=r"No table in .* has any row"):
        read_tables(tmp_path)
    (tmp_path / "films.csv").write_text("title\nAlien\n")
    assert list(read_tables(tmp_path)) == ["films"]


def test_several_tables_where_one_is_wanted_are_an_error(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("title\nAlien\n")
    with pytest.raises(TableError, match=r"holds 2 tables, a, b\. Give one file"):
        read_table(tmp_path)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_table_written_reads_back_equal(suffix, tmp_path):
    table = pa.table({"title": ["Alien", 'Say "a, b"\tc'], "year": ["1979", None]})
    out = tmp_path / f"films{suffix}"
    write_table(table, out)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert read_table(out).to_arrow().to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("name", "message"),
    [("films.docx", r"its suffix must be one of \.parquet, \.csv"), ("no/films.csv", "there is no folder")],
)
def test_a_file_that_could_not_be_written_is_refused_before_any_work(tmp_path, name, message):
    with pytest.raises(ConfigError, match=message):
        check_output(tmp_path / name)


# Frames of all kinds.


def read(frame, **config):
    """Return the rows of a frame without absent cells, and the report, which must add up."""
    report = ReadReport()
    chunks = list(read_frame(frame, report, ReadConfig(**config)))
    assert report.read == sum(chunk.num_rows for chunk in chunks) + report.dropped.total()
    rows = to_arrow(chunks).to_pylist()
    return [{header: cell for header, cell in row.items() if cell is not None} for row in rows], report


TYPED = [
    {"title": "Heat", "year": 1995.0, "score": 8.5, "seen": dt.datetime(2020, 1, 1), "cast": [{"name": "Al"}]},
    {"title": " ", "year": None, "score": 8.0, "seen": None, "cast": None},
]
TEXT = [{"title": "Heat", "year": "1995", "score": "8.5", "seen": "2020-01-01", "cast.0.name": "Al"}, {"score": "8"}]


@pytest.mark.parametrize("chunk_rows", [1, 1000])
@pytest.mark.parametrize(
    "make",
    [
        lambda: TYPED,
        lambda: tuple(TYPED),
        lambda: pd.DataFrame(TYPED),
        lambda: pa.Table.from_pylist(TYPED),
        lambda: pa.RecordBatch.from_pylist(TYPED),
        lambda: pa.Table.from_pylist(TYPED).to_reader(),
        lambda: pl.DataFrame(TYPED),
        lambda: pl.LazyFrame(TYPED),
        lambda: pytest.importorskip("duckdb").from_arrow(pa.Table.from_pylist(TYPED)),
    ],
    ids=["list", "tuple", "pandas", "table", "batch", "reader", "polars", "lazy", "duckdb"],
)
def test_frames_of_all_kinds_read_alike(make, chunk_rows):
    assert read(make(), chunk_rows=chunk_rows) == (TEXT, ReadReport(read=2))
    assert read_table(make()).num_rows == 2


@pytest.mark.parametrize("kind", ["polars", "duckdb"])
def test_lazy_frames_and_relations_are_streamed_in_order_and_never_collected(kind, monkeypatch):
    monkeypatch.setattr("navi.tables.table._collect", lambda frame: pytest.fail("collected"))
    rows = [{"title": f"film {n}", 'a "score"': n / 4} for n in range(5000)]
    frame = (
        pl.LazyFrame(rows) if kind == "polars" else pytest.importorskip("duckdb").from_arrow(pa.Table.from_pylist(rows))
    )
    numbers, chunks = stream_tables(frame, ReadConfig(chunk_rows=2048))
    found = [chunk for _, chunk in chunks]
    assert numbers["table"].tolist() == list(range(1, 5001))
    assert len(found) >= 3
    assert to_arrow(found)["title"].to_pylist() == [row["title"] for row in rows]
    numbers, chunks = stream_tables(frame, columns=["title"])
    assert to_arrow([chunk for _, chunk in chunks]).column_names == ["title"]
    assert len(numbers["table"]) == 5000


def test_a_strict_reader_stops_at_an_empty_row_but_not_at_the_limit_that_was_chosen():
    with pytest.raises(TableError, match=r"^frame:2: row without any cell\. Mend the source, or read"):
        read(pd.DataFrame({"a": ["x", None]}), strict=True)
    assert read([{"a": [1, 2, 3, 4]}], strict=True)[1].cells == {"family member beyond the limit": 1}


@pytest.mark.parametrize(
    ("frame", "row"),
    [
        (pd.DataFrame([[1, 2, 3, 4]], columns=["a", "a", 5, ""]), {"a": "1", "a (2)": "2", "5": "3", "column_4": "4"}),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])), {"a.x": "1", "a.y": "2"}),
        (pa.table([["1"], ["2"]], names=["a", "a"]), {"a": "1", "a (2)": "2"}),
        (pa.table({"a": [{"b": 1}], "a.b": ["x"]}), {"a.b": "1", "a.b (2)": "x"}),
    ],
)
def test_headers_are_distinct_texts(frame, row):
    assert read(frame)[0] == [row]


def test_a_named_index_is_not_read_and_that_is_said():
    rows, report = read(pd.DataFrame({"a": [1]}, index=pd.Index([7], name="id")))
    assert rows == [{"a": "1"}]
    assert report.notes == ["the index id is not read; reset_index() makes it a column"]


def test_a_column_of_mixed_types_is_read_cell_by_cell():
    frame = pd.DataFrame({"a": [1, "x", None, 2.5], "b": [1.0, 2.0, None, 3.0], "c": [{"d": 1}, [1], "z", None]})
    assert read(frame)[0] == [
        {"a": "1", "b": "1", "c.d": "1"},
        {"a": "x", "b": "2", "c.0": "1"},
        {"c": "z"},
        {"a": "2.5", "b": "3"},
    ]


def test_types_that_are_a_librarys_own_are_written_as_it_writes_them():
    frame = pd.DataFrame(
        {
            "p": pd.period_range("2020-01", periods=2, freq="M"),
            "i": pd.interval_range(0, 2),
            "n": pd.array([1, None], dtype="Int64"),
            "c": pd.Categorical(["x", None]),
            "t": pd.to_datetime(["2020-01-01 10:00", None], utc=True),
        }
    )
    first = {"p": "2020-01", "i": "(0, 1]", "n": "1", "c": "x", "t": "2020-01-01T10:00:00Z"}
    assert read(frame)[0] == [first, {"p": "2020-02", "i": "(1, 2]"}]
    assert read(frame[["n", "c", "t"]])[0] == [{key: first[key] for key in "nct"}]
    objects = pl.DataFrame({"a": [1.0]}).with_columns(pl.Series("o", [{1, 2}], dtype=pl.Object))
    assert read(objects)[0] == [{"a": "1", "o": "{1, 2}"}]


@pytest.mark.parametrize("frame", [[], pd.DataFrame(), pd.DataFrame({"a": []}), pa.table({})])
def test_a_frame_without_rows_gives_no_chunks(frame):
    assert read(frame) == ([], ReadReport())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (5, "Cannot read a int as a table: expected a pandas, Polars or Arrow frame, a list of dictionaries"),
        (pd.Series([1]), "Cannot read a Series as a table"),
        ([{"a": 1}, [2]], "Cannot read row 2 of the list: expected a dictionary, found list"),
        ("no/such/file.csv", "Cannot read no/such/file.csv: no such file or folder"),
    ],
)
def test_what_is_no_table_is_one_clear_error(frame, message):
    with pytest.raises(TableError, match=message):
        read_table(frame)


def test_very_long_rows_make_small_chunks(monkeypatch):
    for module in ("arrow", "json_rows"):
        monkeypatch.setattr(f"navi.tables.{module}.MAX_CHARACTERS", 1000)
    for frame in (pa.table({"a": ["x" * 400] * 10}), [{"a": "x" * 400}] * 10):
        sizes = [chunk.num_rows for chunk in read_frame(frame)]
        assert (max(sizes) <= 3, sum(sizes)) == (True, 10)


# Scalars as text.


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, None, -3], None, ["1", None, "-3"]),
        ([True, False, None], None, ["true", "false", None]),
        ([Decimal("1.50"), None], None, ["1.50", None]),
        ([dt.date(2020, 1, 2), None], None, ["2020-01-02", None]),
        ([dt.time(12, 30)], pa.time32("s"), ["12:30:00"]),
        ([dt.timedelta(days=1, seconds=5), None], pa.duration("ns"), ["1 day, 0:00:05", None]),
        (["x", None], pa.large_string(), ["x", None]),
        (["x", None], pa.string_view(), ["x", None]),
        (["x", "y", "x"], pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x"]),
        ([b"x", None], None, ["x", None]),
        ([0.5, 2.0], pa.float16(), ["0.5", "2"]),
        ([0.1, 16777216.5], pa.float32(), ["0.1", "16777216"]),
        ([1.5, float("nan"), float("inf")], None, ["1.5", None, "inf"]),
        ([1.0, None, -0.0], None, ["1", None, "0"]),
        ([1.0, 1e300, 2.0**54], None, ["1", "1e+300", "1.8014398509481984e+16"]),
        ([dt.datetime(2020, 1, 2), None], pa.timestamp("ns"), ["2020-01-02", None]),
        ([dt.datetime(2020, 1, 2, 3, 4, 5, 120_000)], None, ["2020-01-02T03:04:05.12"]),
        ([dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, 3)], None, ["2020-01-02", "2020-01-02T03:00:00"]),
        ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("ms", "Europe/Paris"), ["2020-01-01T00:00:00Z"]),
    ],
)  # fmt: skip
def test_columns_are_written_plainly(values, kind, texts):
    table = pa.table({"n": [str(number) for number in range(len(values))], "a": pa.array(values, kind)})
    rows, report = read(table)
    assert [row.get("a") for row in rows] == texts
    assert not report.cells
    if kind is None:
        assert [row.get("a") for row in read([{"n": "x", "a": value} for value in values])[0]] == texts


@given(st.lists(st.floats() | st.none(), min_size=1))
def test_floats_are_written_as_python_writes_them_and_whole_ones_as_integers(values):
    def write(value):
        return str(int(value)) if value.is_integer() and abs(value) <= 2**53 else repr(value)

    expected = [None if value is None or value != value else write(value) for value in values]
    for frame in (pa.table({"n": ["x"] * len(values), "a": pa.array(values, pa.float64())}),
                  [{"n": "x", "a": value} for value in values]):  # fmt: skip
        assert [row.get("a") for row in read(frame)[0]] == expected


@given(st.lists(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), min_size=1))
def test_timestamps_are_written_in_iso_form_without_idle_zeros(values):
    texts = [row["a"] for row in read(pa.table({"a": pa.array(values, pa.timestamp("us"))}))[0]]
    assert [dt.datetime.fromisoformat(text) for text in texts] == values
    assert texts == [row["a"] for row in read([{"a": value} for value in values])[0]]


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([st.floats(), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))]), st.data())
def test_a_cell_is_written_alike_alone_and_among_others_in_rows_and_in_columns(kind, data):
    values = data.draw(st.lists(kind, min_size=1, max_size=8))
    rows = [{"n": "x", "a": value, "b": {"c": value}} for value in values]
    alone = [read([row])[0][0] for row in rows]
    assert read(rows, chunk_rows=3)[0] == alone
    assert read(pa.Table.from_pylist(rows))[0] == alone


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (pd.Timestamp("2020-01-02 00:00:00.000000001", tz="UTC"), "2020-01-02T00:00:00.000000001Z"),
        (pd.NaT, None),
        (np.int64(7), "7"),
        (np.bool_(True), "true"),
        (np.array([1, 2]), None),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        (dt.datetime(2020, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=1))), "2020-01-02T02:00:00Z"),
        (np.datetime64("NaT"), None),
        (pd.NA, None),
    ],
)
def test_scalars_of_numpy_and_python_are_written_plainly(value, text):
    assert read([{"a": value, "b": "x"}])[0][0].get("a") == text


@pytest.mark.parametrize("make", [pa.Table.from_pylist, list])
def test_bytes_that_are_no_text_are_counted(make):
    rows, report = read(make([{"a": b"ok", "b": "x"}, {"a": b"\xff\xfe", "b": "x"}]))
    assert rows == [{"a": "ok", "b": "x"}, {"b": "x"}]
    assert report.places == {"binary value": ["frame:2: a holds 2 bytes"]}


# Nested values laid flat.


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.large_list_view(pa.int64())]
)
def test_lists_of_all_kinds_are_cut_and_counted(kind):
    array = pa.array([[9, 9, 9], [1, 2, 3, 4], None, [], [5], [6, 7, 8, None, 9]], kind).slice(1)
    rows, report = read(pa.table({"n": ["x"] * 5, "a": array}), max_family=2)
    assert [(row.get("a.0"), row.get("a.1")) for row in rows] == [
        ("1", "2"), (None, None), (None, None), ("5", None), ("6", "7")
    ]  # fmt: skip
    assert report.cells == {"family member beyond the limit": 4}
    assert [place.split(":", 1)[1] for place in report.places["family member beyond the limit"]] == [
        "1: a has 4 members, 2 stay", "5: a has 5 members, 2 stay"
    ]  # fmt: skip


def test_null_lists_that_hide_members_are_empty_and_lists_of_a_fixed_size_are_lists():
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4]), pa.array([1, 2, 3, 4]), mask=pa.array([True, False]))
    fixed = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    assert read(pa.table({"a": hidden, "b": fixed}))[0] == [{"b.0": "1", "b.1": "2"}, {"a.0": "3", "a.1": "4"}]


def test_the_keys_of_a_map_are_headers():
    maps = pa.array(
        [[("z", 0)], [("x", 1), ("y", 2)], None, [("y", 3), ("y", 4)], []], pa.map_(pa.string(), pa.int64())
    )
    rows, _ = read(pa.table({"n": ["x"] * 4, "a": maps.slice(1)}))
    assert [{key: cell for key, cell in row.items() if key != "n"} for row in rows] == [
        {"a.x": "1", "a.y": "2"}, {}, {"a.y": "3", "a.y (2)": "4"}, {}
    ]  # fmt: skip


def test_a_value_nested_too_deeply_drops_its_row_alone():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    rows, report = read([{"a": 1}, {"b": 2, "a": deep}, {"a": 3}])
    assert rows == [{"a": "1"}, {"a": "3"}]
    assert report.places == {"nested too deeply": ["frame:2"]}


KEYS = st.text("abcdefg_ é", min_size=1).map(str.strip).filter(bool)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip).filter(bool)
NESTED = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, min_size=1, max_size=6) | st.dictionaries(KEYS, inner, min_size=1, max_size=4),
    max_leaves=12,
)


def unflatten(cells):
    """Rebuild a nested value from dotted headers, all keys of a level being digits in a list alone."""
    if list(cells) == [""]:
        return cells[""]
    groups = {}
    for header, cell in cells.items():
        key, _, rest = header.partition(".")
        groups.setdefault(key, {})[rest] = cell
    members = {key: unflatten(group) for key, group in groups.items()}
    return list(members.values()) if all(key.isdigit() for key in members) else members


def cut(value, limit):
    if isinstance(value, dict):
        return {key: cut(member, limit) for key, member in value.items()}
    return [cut(member, limit) for member in value[:limit]] if isinstance(value, list) else value


def count_cells(value):
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 1 if members is None else sum(map(count_cells, members))


@settings(max_examples=60)
@given(st.dictionaries(KEYS, NESTED, min_size=1, max_size=5), st.integers(1, 6))
def test_flattening_is_lossless_up_to_the_limit_and_counts_the_rest(row, limit):
    (flat,), report = read(row, max_family=limit)
    kept = cut(row, limit)
    # As text, so that the order of the cells counts too.
    assert json.dumps(unflatten(flat)) == json.dumps(kept)
    assert report.cells["family member beyond the limit"] == count_cells(row) - count_cells(kept)


LEAVES = st.none() | st.text("ab ", max_size=3)
CELLS = st.fixed_dictionaries(
    {
        "a": st.none() | st.lists(st.fixed_dictionaries({"n": LEAVES, "m": st.lists(LEAVES, max_size=5)}), max_size=5),
        "b": st.none() | st.fixed_dictionaries({"c": LEAVES, "d": st.lists(st.lists(LEAVES, max_size=3), max_size=4)}),
        "e": LEAVES,
    }
)
SCHEMA = pa.schema(
    {
        "a": pa.list_(pa.struct({"n": pa.string(), "m": pa.list_(pa.string())})),
        "b": pa.struct({"c": pa.string(), "d": pa.list_(pa.list_(pa.string()))}),
        "e": pa.string(),
    }
)


@settings(max_examples=60)
@given(st.lists(CELLS, min_size=1, max_size=8), st.sampled_from([1, 3, None]), st.sampled_from([1, 3, 100]))
def test_columns_and_rows_flatten_alike(rows, limit, chunk_rows):
    found = []
    for frame in (rows, pa.Table.from_pylist(rows, SCHEMA)):
        flat, report = read(frame, max_family=limit, chunk_rows=chunk_rows)
        found.append((flat, report.read, report.dropped, report.cells))
    assert found[0] == found[1]
