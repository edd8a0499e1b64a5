import gzip
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import TableError
from navi.tables import ReadConfig, ReadReport, Source, read_chunks
from navi.tables.readreport import EMPTY_FILE, MISLABELLED

ROWS = [{"title": "Heat", "year": "1995"}, {"title": "Ran", "year": "1985"}]
CSV = b"title,year\nHeat,1995\nRan,1985\n"
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def write(path, data: bytes) -> None:
    path.write_bytes(data)


def make_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def make_feather() -> bytes:
    sink = pa.BufferOutputStream()
    pa.feather.write_feather(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def compress(name: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".csv", lambda: CSV),
        (".tsv", lambda: CSV.replace(b",", b"\t")),
        (".jsonl", lambda: LINES),
        (".json", lambda: json.dumps(ROWS).encode()),
        (".parquet", make_parquet),
        (".feather", make_feather),
    ],
)
def test_every_format_reads_alike_compressed_or_not(tmp_path, read, suffix, make, compression):
    path = tmp_path / f"movies{suffix}{compression}"
    data = make()
    path.write_bytes(compress({".gz": "gzip", ".zst": "zstd"}[compression], data) if compression else data)
    assert read(path) == (ROWS, ReadReport(read=2))


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.csv", gzip.compress(CSV, mtime=0), "the file is gzip-compressed, and read so"),
        ("a.csv.gz", CSV, "the file is not compressed, and read so"),
        ("a.csv.zst", gzip.compress(CSV, mtime=0), "the file is gzip-compressed, and read so"),
        ("a.parquet", CSV, "the content is csv, and read so"),
        ("a.parquet", LINES, "the content is json, and read so"),
        ("a.xlsx", LINES, "the content is json, and read so"),
        ("a.csv", LINES, "the content is json, and read so"),
        ("a.csv", json.dumps(ROWS, indent=1).encode(), "the content is json, and read so"),
        ("a.json", CSV, "the content is csv, and read so"),
        ("a.jsonl", make_parquet(), "the content is parquet, and read so"),
        ("a.csv", make_feather(), "the content is arrow, and read so"),
    ],
)
def test_a_file_that_is_not_what_its_suffix_says_is_read_as_what_it_is(tmp_path, read, name, data, note):
    path = tmp_path / name
    path.write_bytes(data)
    rows, losses = read(path)
    assert rows == ROWS
    assert losses.notes == [f"not what its suffix says: {note}"]
    assert losses.places == {MISLABELLED: [f"{path}: {note}"]}
    with pytest.raises(TableError, match=f"{name}: not what its suffix says: {note}"):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b""),
        ("a.jsonl", b"\n \n"),
        ("a.parquet", b""),
        ("a.csv.gz", gzip.compress(b"", mtime=0)),
        ("a.csv", b"\xef\xbb\xbf"),
    ],
)
def test_an_empty_file_is_a_table_without_rows_and_that_is_said(tmp_path, read, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    rows, losses = read(path)
    assert (rows, losses.read) == ([], 0)
    assert losses.notes == ["empty file: there is nothing in it"]
    assert losses.places == {EMPTY_FILE: [f"{path}: there is nothing in it"]}
    with pytest.raises(TableError, match=f"{name}: empty file: there is nothing in it"):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.parquet",
            b"just some words\nand more of them\n",
            "its content is not parquet, nor any other format known here",
        ),
        ("a.json", b"just some words\nand more of them\n", "its content is not json, nor any other format known here"),
        ("a.parquet", b"PAR1 but no more", "as Parquet: "),
        ("a.arrow", b"ARROW1\0\0 but no more", "as Arrow: "),
        ("a.xlsx", b"PK\x03\x04 but no more", "as an Excel workbook: "),
        ("a.csv", b"<!DOCTYPE html>\n<html><body>404</body></html>", "a page of HTML or XML, not a table"),
        ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(100), "the file is a PNG image"),
        ("a.csv", bytes(range(1, 9)) * 100, "the file is binary, and of no format known here"),
        ("a.csv", b"a,b\n" + bytes(100), "the file is binary, and of no format known here"),
        ("a.csv", b"\xd0\xcf\x11\xe0" + bytes(100), "an old Excel workbook; save it as .xlsx"),
        (
            "a.csv.gz",
            gzip.compress(gzip.compress(CSV, mtime=0), mtime=0),
            "the file is compressed twice; decompress it once",
        ),
        (
            "a.csv.gz",
            gzip.compress(CSV, mtime=0)[:10],
            "gzip stream: the file ends too early, and nothing good comes before",
        ),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_one_clear_error(tmp_path, read, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TableError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"Cannot read {path}")
    assert "\n" not in str(caught.value)


def test_a_file_that_vanished_is_one_clear_error(tmp_path):
    source = Source("a", tmp_path / "a.csv", "csv")
    with pytest.raises(TableError, match=r"Cannot read .*a\.csv: No such file or directory"):
        next(read_chunks(source, ReadReport()))


NESTED = st.recursive(
    st.none() | st.text("ab .", max_size=3) | st.integers(0, 9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.dictionaries(st.text("abc. ", max_size=3), NESTED, max_size=4), min_size=1, max_size=12))
def test_the_ends_of_chunks_change_nothing(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("chunks") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for chunk_rows in (1, 1000):
        losses = ReadReport()
        chunks = list(read_chunks(Source("rows", path, "jsonl"), losses, ReadConfig(chunk_rows=chunk_rows)))
        cells = [
            (chunk.row_number[row], chunk.headers[header], value)
            for chunk in chunks
            for row, header, value in zip(chunk.cell_row, chunk.cell_header, chunk.cell_value.to_pylist(), strict=True)
        ]
        found.append((cells, losses))
    assert found[0] == found[1]


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from([("a.csv", CSV), ("a.jsonl", LINES), ("a.json", json.dumps(ROWS).encode())]),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 3), st.binary(max_size=3)), max_size=4),
)
def test_whatever_a_file_holds_rows_add_up_or_one_clear_error_is_raised(tmp_path_factory, file, changes):
    name, data = file
    for place, removed, added in changes:
        data = data[:place] + added + data[place + removed :]
    path = tmp_path_factory.mktemp("changed") / name
    path.write_bytes(data)
    losses = ReadReport()
    kept, message = 0, ""
    try:
        kept = sum(chunk.num_rows for chunk in read_chunks(Source("a", path, name.partition(".")[2]), losses))
    except TableError as error:
        message = str(error)
    assert message.startswith(f"Cannot read {path}: ") or losses.read == kept + losses.dropped.total()


def test_a_chunk_holds_what_it_promises(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"b": 1, "a": 2}\n{}\n{"a": 3, "c": null, "d": " x "}\n')
    (chunk,) = read_chunks(Source("rows", path, "jsonl"), ReadReport())
    assert chunk.headers == ("b", "a", "d")
    assert chunk.cell_row.tolist() == [0, 0, 1, 1]
    assert chunk.cell_header.tolist() == [0, 1, 1, 2]
    assert chunk.cell_value.to_pylist() == ["1", "2", "3", "x"]
    assert chunk.row_number.tolist() == [1, 3]
    assert (str(chunk.cell_row.dtype), str(chunk.cell_header.dtype), str(chunk.row_number.dtype)) == (
        "int32",
        "int32",
        "int64",
    )
    assert chunk.cell_value.type == pa.string()
