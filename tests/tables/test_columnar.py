import datetime as dt
import gzip

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from navi.errors import TableError
from navi.tables.readreport import CUT_OFF, DAMAGED, FAMILY_LIMIT, WRONG_ENCODING

TABLE = pa.table(
    {
        "title": ["Heat", "Ran", None],
        "year": pa.array([1995.0, 1985.0, None]),
        "score": [8.3, 8.0, 7.0],
        "seen": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(2021, 2, 3)]),
        "cast": [[{"name": "Al"}, {"name": "Bob"}, {"name": "Val"}, {"name": "Tom"}], None, []],
    }
)
ROWS = [
    {
        "title": "Heat",
        "year": "1995",
        "score": "8.3",
        "seen": "2020-01-01",
        "cast.0.name": "Al",
        "cast.1.name": "Bob",
        "cast.2.name": "Val",
    },
    {"title": "Ran", "year": "1985", "score": "8.0"},
    {"score": "7.0", "seen": "2021-02-03"},
]


def write_parquet(path, table=TABLE, **settings):
    pa.parquet.write_table(table, path, **settings)


def write_feather(path, table=TABLE):
    pa.feather.write_feather(table, path)


def write_stream(path, table=TABLE, batch_rows=None):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, batch_rows)


def write_file(path, table=TABLE, batch_rows=None):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, batch_rows)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.parquet", write_parquet),
        ("a.feather", write_feather),
        ("a.arrow", write_file),
        ("a.arrows", write_stream),
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 2, 1000])
def test_columns_nested_or_not_are_written_as_text(tmp_path, read, name, write, chunk_rows):
    path = tmp_path / name
    write(path)
    rows, losses = read(path, chunk_rows=chunk_rows)
    assert rows == ROWS
    assert losses.cells == {FAMILY_LIMIT: 1}
    assert losses.places == {FAMILY_LIMIT: [f"{path}:1: cast has 4 members, 3 stay"]}


@pytest.mark.parametrize(("name", "write"), [("a.parquet", write_parquet), ("a.arrow", write_file)])
def test_columns_of_one_name_are_told_apart(tmp_path, read, name, write):
    path = tmp_path / name
    write(path, pa.table([["1"], [2.0], ["3"]], names=["a", "a", ""]))
    rows, losses = read(path)
    assert rows == [{"a": "1", "a (2)": "2", "column_3": "3"}]
    assert losses.notes == ["header 'a' appears more than once: told apart as 'a (2)'"]


def test_whole_floats_are_told_over_all_row_groups(tmp_path, read):
    path = tmp_path / "a.parquet"
    write_parquet(path, pa.table({"a": [1.0] * 10 + [0.5], "b": [{"c": 2.0}] * 11}), row_group_size=2)
    rows, _ = read(path)
    assert rows == [{"a": "1.0", "b.c": "2"}] * 10 + [{"a": "0.5", "b.c": "2"}]


def test_a_damaged_row_group_is_dropped_and_the_others_stay(tmp_path, read):
    path = tmp_path / "a.parquet"
    table = pa.table({"n": [f"{n:05}" for n in range(300)]})
    write_parquet(path, table, row_group_size=100, compression="gzip", use_dictionary=False)
    offset = pa.parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[offset : offset + 120] = bytes(120)
    path.write_bytes(data)
    rows, losses = read(path)
    assert [row["n"] for row in rows] == [f"{n:05}" for n in (*range(100), *range(200, 300))]
    assert (losses.read, losses.dropped) == (300, {CUT_OFF: 100})
    assert losses.places[CUT_OFF] == [f"{path}:101: 100 rows of row group 2"]
    assert losses.places[DAMAGED][0].startswith(f"{path}:101: row group 2: ")
    with pytest.raises(TableError, match=r"a\.parquet:101: damaged file: row group 2"):
        read(path, strict=True)


@pytest.mark.parametrize(("name", "write"), [("a.arrow", write_file), ("a.arrows", write_stream)])
def test_of_a_truncated_arrow_file_the_whole_batches_stay(tmp_path, read, name, write):
    path = tmp_path / name
    write(path, pa.table({"n": [f"{n:05}" for n in range(1000)], "x": [1.5] * 1000}), 100)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    rows, losses = read(path)
    assert rows == [{"n": f"{n:05}", "x": "1.5"} for n in range(len(rows))]
    assert 300 <= len(rows) <= 600
    assert losses.places[DAMAGED][0].startswith(f"{path}:{len(rows) + 1}: ")
    with pytest.raises(TableError, match=rf"{name}:\d+: damaged file: "):
        read(path, strict=True)


def test_of_a_truncated_compressed_arrow_stream_the_whole_batches_stay(tmp_path, read):
    path = tmp_path / "a.arrows"
    write_stream(path, pa.table({"n": [f"{n * 7919:08}" for n in range(1000)]}), 100)
    packed = tmp_path / "a.arrows.gz"
    data = gzip.compress(path.read_bytes())
    packed.write_bytes(data[: len(data) // 2])
    rows, losses = read(packed)
    assert rows == [{"n": f"{n * 7919:08}"} for n in range(len(rows))]
    assert len(rows) >= 100
    assert losses.places[DAMAGED][0] == f"{packed}: gzip stream: the file ends too early"


def test_a_batch_that_contradicts_itself_is_dropped_and_the_others_stay(tmp_path, read):
    path = tmp_path / "a.arrows"
    write_stream(path, pa.table({"n": [f"{n:04}" for n in range(30)]}), 10)
    data = bytearray(path.read_bytes())
    # The offsets of the second batch, 0, 4, 8 and so on, of which one now points far outside.
    offsets = b"".join(number.to_bytes(4, "little") for number in range(0, 44, 4))
    first = data.index(offsets)
    second = data.index(offsets, first + 1)
    data[second + 8 : second + 12] = (10**9).to_bytes(4, "little")
    path.write_bytes(data)
    rows, losses = read(path)
    assert [row["n"] for row in rows] == [f"{n:04}" for n in (*range(10), *range(20, 30))]
    assert (losses.read, losses.dropped) == (30, {CUT_OFF: 10})
    assert losses.places[DAMAGED] == [f"{path}:11: batch 2 contradicts itself"]
    assert losses.places[CUT_OFF] == [f"{path}:11: 10 rows of batch 2"]


def test_text_of_an_arrow_file_that_is_not_unicode_is_mended(tmp_path, read):
    path = tmp_path / "a.arrows"
    write_stream(path, pa.table({"n": ["abcd", "efgh"]}))
    path.write_bytes(path.read_bytes().replace(b"efgh", b"ef\xffh"))
    rows, losses = read(path)
    assert rows == [{"n": "abcd"}, {"n": "ef\ufffdh"}]
    assert losses.places == {WRONG_ENCODING: [f"{path}:2: n is not utf-8, replaced"]}


def test_a_parquet_file_without_its_end_is_one_clear_error(tmp_path, read):
    path = tmp_path / "a.parquet"
    write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match=r"Cannot read .*a\.parquet as Parquet: ") as caught:
        read(path)
    assert "\n" not in str(caught.value)
