"""Files of every format read as tables: what comes out, and what is lost is counted with file and line."""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import io
import json
import pickle
import re
import time
import tracemalloc
import zipfile

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.corpus import PrepareConfig, prepare
from navi.errors import ConfigError, CorpusError, TableError
from navi.tables import (
    ReadConfig,
    ReadReport,
    Source,
    find_sources,
    read_chunks,
    read_tables,
    to_arrow,
    write_table,
)

ROWS = [{"title": "Heat", "year": "1995"}, {"title": "Ran", "year": "1985"}]
CSV = b"title,year\nHeat,1995\nRan,1985\n"
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def read(path, **config):
    """Return the rows of a file without absent cells, and the report, which must add up."""
    (source,) = find_sources([path]).sources
    report = ReadReport()
    chunks = list(read_chunks(source, report, ReadConfig(**config)))
    assert report.read == sum(chunk.num_rows for chunk in chunks) + report.dropped.total()
    return drop_absent(to_arrow(chunks).to_pylist()), report


@pytest.fixture
def write(tmp_path):
    """Write a file of text or bytes, and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def drop_absent(rows):
    return [{header: cell for header, cell in row.items() if cell is not None} for row in rows]


def list_cells(chunks):
    return [
        (int(chunk.row_number[row]), chunk.headers[header], value)
        for chunk in chunks
        for row, header, value in zip(chunk.cell_row, chunk.cell_header, chunk.cell_value.to_pylist(), strict=True)
    ]


def compress(name, data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def make_parquet(table=None, **config):
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table or pa.Table.from_pylist(ROWS), sink, **config)
    return sink.getvalue().to_pybytes()


def make_feather(table=None):
    sink = pa.BufferOutputStream()
    pa.feather.write_feather(table or pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def make_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.txt", "text")
    return content.getvalue()


def make_arrow(new, table, batch_rows=None):
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as writer:
        writer.write_table(table, batch_rows)
    return sink.getvalue().to_pybytes()


# What a file is.


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".csv", CSV),
        (".tsv", CSV.replace(b",", b"\t")),
        (".jsonl", LINES),
        (".json", json.dumps(ROWS).encode()),
        (".parquet", make_parquet()),
        (".feather", make_feather()),
    ],
)
def test_every_format_reads_alike_compressed_or_not(write, suffix, data, compression):
    path = write(
        f"movies{suffix}{compression}",
        compress({".gz": "gzip", ".zst": "zstd"}[compression], data) if compression else data,
    )
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
def test_a_file_that_is_not_what_its_suffix_says_is_read_as_what_it_is(write, name, data, note):
    path = write(name, data)
    rows, report = read(path)
    assert rows == ROWS
    assert report.notes == [f"not what its suffix says: {note}"]
    assert report.places == {"not what its suffix says": [f"{path}: {note}"]}
    with pytest.raises(TableError, match=f"{name}: not what its suffix says: {note}"):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b""),
        ("a.jsonl", b"\n \n"),
        ("a.parquet", b""),
        ("a.csv.gz", gzip.compress(b"", mtime=0)),
        ("a.csv", codecs.BOM_UTF8),
    ],
)
def test_an_empty_file_is_a_table_without_rows_and_that_is_said(write, name, data):
    path = write(name, data)
    rows, report = read(path)
    assert (rows, report.read) == ([], 0)
    assert report.places == {"empty file": [f"{path}: there is nothing in it"]}
    with pytest.raises(TableError, match=f"{name}: empty file: there is nothing in it"):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.parquet", b"just some words\nand more of them\n", "its content is not parquet, nor any other format"),
        ("a.json", b"just some words\nand more of them\n", "its content is not json, nor any other format known here"),
        ("a.parquet", b"PAR1 but no more", "as Parquet: "),
        ("a.arrow", b"ARROW1\0\0 but no more", "as Arrow: "),
        ("a.xlsx", b"PK\x03\x04 but no more", "as an Excel workbook: "),
        ("a.xlsx", make_zip(), "as an Excel workbook: "),
        ("a.csv", b"<!DOCTYPE html>\n<html><body>404</body></html>", "a page of HTML or XML, not a table"),
        ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(100), "the file is a PNG image"),
        ("a.csv", bytes(range(1, 9)) * 100, "the file is binary, and of no format known here"),
        ("a.csv", b"a,b\n" + bytes(100), "the file is binary, and of no format known here"),
        ("a.csv", b"\xd0\xcf\x11\xe0" + bytes(100), "an old Excel workbook; save it as .xlsx"),
        ("a.csv.gz", gzip.compress(gzip.compress(CSV, mtime=0), mtime=0), "compressed twice; decompress it once"),
        ("a.csv.gz", gzip.compress(CSV, mtime=0)[:10], "gzip stream: .*, and nothing good comes before that"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_one_clear_error(write, name, data, message):
    path = write(name, data)
    with pytest.raises(TableError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"Cannot read {path}")
    assert "\n" not in str(caught.value)
    (source,) = find_sources([path]).sources
    path.unlink()
    with pytest.raises(TableError, match=f"Cannot read .*{name}: No such file or directory"):
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
        report = ReadReport()
        chunks = read_chunks(Source("rows", path, "jsonl"), report, ReadConfig(chunk_rows=chunk_rows))
        found.append((list_cells(chunks), report))
    assert found[0] == found[1]


# Compression and encodings.

TEXT = b"".join(b"%d,line of a text that is compressed\n" % number for number in range(1, 60_001))


def read_compressed(path, data):
    path.write_bytes(data)
    rows, report = read(path)
    assert [row["n"] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    return len(rows), report


@pytest.mark.parametrize(("name", "suffix", "end"), [("gzip", ".gz", bytes(200_000)), ("zstd", ".zst", b"")])
def test_streams_one_after_the_other_are_read_to_the_end_and_zeros_behind_them_are_no_damage(
    tmp_path, name, suffix, end
):
    data = compress(name, b"n,text\n" + TEXT) + compress(name, b"60001,more\n") + end
    assert read_compressed(tmp_path / f"a.csv{suffix}", data) == (60_001, ReadReport(read=60_001))


@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.parametrize(("name", "suffix"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_of_a_truncated_file_the_rows_before_stay_and_the_place_is_said(tmp_path, name, suffix, share):
    path = tmp_path / f"a.csv{suffix}"
    data = compress(name, b"n,text\n" + TEXT)
    num_rows, report = read_compressed(path, data[: int(len(data) * share)])
    assert 0.4 * share * 60_000 < num_rows < 60_000
    assert report.dropped == {"cut off by damage": 1}
    (place,) = report.places["damaged file"]
    assert place.startswith(f"{path}:{num_rows + 2}: {name} stream: ")
    assert place.endswith("bytes of content")
    with pytest.raises(TableError, match=rf"a\.csv{suffix}:\d+: "):
        read(path, strict=True)


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (lambda data: data[:-8], "ended before the end-of-stream marker"),
        (lambda data: data[:-6] + bytes([data[-6] ^ 0xFF]) + data[-5:], "crc check failed"),
        (lambda data: data + b"something else", "not a gzipped file"),
    ],
)
def test_all_rows_before_a_damaged_end_of_a_gzip_file_are_read(tmp_path, change, damage):
    num_rows, report = read_compressed(tmp_path / "a.csv.gz", change(gzip.compress(b"n,text\n" + TEXT)))
    assert num_rows == 60_000
    assert damage in report.places["damaged file"][0]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32-le"),
        ("cp1252", "cp1252"),
    ],
)
@pytest.mark.parametrize("copies", [1, 20_000])
def test_unicode_and_western_text_is_recognised(write, encoding, found, copies):
    rows, report = read(write("a.csv", ("títle,yéar\n" + "Amélie,2001\n" * copies).encode(encoding)))
    assert rows == [{"títle": "Amélie", "yéar": "2001"}] * copies
    assert report == ReadReport(read=copies, notes=[f"read as {found}"] if found else [])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "название,год\nСталкер,1979\nЗеркало,1975\n"),
        ("cp1253", "τίτλος,έτος\nΑιώνιο μάτι,1998\n"),
        ("shift_jis", "タイトル,年\n東京物語,1953\n七人の侍,1954\n"),
        ("gb18030", "标题,年份\n卧虎藏龙,2000\n英雄,2002\n"),
        ("big5", "標題,年份\n臥虎藏龍,2000\n英雄,2002\n"),
        ("euc_kr", "제목,연도\n올드보이,2003\n기생충,2019\n"),
    ],
)
def test_other_alphabets_are_recognised_by_their_letters(write, encoding, text):
    rows, report = read(write("a.csv", text.encode(encoding)))
    assert [",".join(row.values()) for row in rows] == text.splitlines()[1:]
    assert report.notes == [f"read as {encoding}"]


@pytest.mark.parametrize("encoding", ["shift_jis", "iso8859-15", "utf-16-be"])
def test_an_encoding_that_is_given_is_used(write, encoding):
    rows, report = read(write("a.csv", ("prix,n\n" + "12 °,1\n" * 20_000).encode(encoding)), encoding=encoding)
    assert rows == [{"prix": "12 °", "n": "1"}] * 20_000
    assert report.notes == [f"read as {encoding}"]


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=200), st.integers(1, 50))
def test_characters_are_whole_wherever_blocks_end(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("blocks") / "a.json"
    path.write_text(json.dumps([{"n": "0", "text": text}] * 3, ensure_ascii=False, indent=0), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("navi.tables.textreader.BLOCK_SIZE", size)
        patch.setattr("navi.tables.textreader.HEAD_SIZE", 20)
        rows, _ = read(path, encoding="utf-8")
    assert [row.get("text", "") for row in rows] == [text.strip()] * 3


# What text says: content, the rows it holds, and what is noted.

FILM = {"row_id": 7, "actor": [{"name": "Al", "@type": "Person"}], "rating": {"best": 8.30}, "page_url": "https://a"}
TOLD = "header {0!r} appears more than once: told apart as {1!r}"
TEXTS_READ = {
    "cells as written, but stripped": (
        "a.csv", 'title, year ,note\nHeat, 1995 ,"a ""b"", c"\n007,1e5,\n',
        [{"title": "Heat", "year": "1995", "note": 'a "b", c'}, {"title": "007", "year": "1e5"}], [],
    ),
    "text behind a closing quote": ("a.csv", 'a,b\n"Heat" (1995),x\n', [{"a": "Heat (1995)", "b": "x"}], []),
    "headers that repeat or are missing": (
        "a.csv", "name, name ,,column_3\n1,2,3,4\n",
        [{"name": "1", "name (2)": "2", "column_3": "3", "column_3 (2)": "4"}],
        ["columns without a name: column_3", TOLD.format("name", "name (2)"), TOLD.format("column_3", "column_3 (2)")],
    ),
    "decimal commas in every row": (
        "a.csv", "Typ;Länge;Preis\nHR 40;12,20;10.800,00 €\nHR 38;11,60;9.100,00 €\n",
        [{"Typ": "HR 40", "Länge": "12,20", "Preis": "10.800,00 €"},
         {"Typ": "HR 38", "Länge": "11,60", "Preis": "9.100,00 €"}],
        ["delimiter ';'"],
    ),
    "decimal commas": ("a.csv", "a;b\n1,5;2,5\n", [{"a": "1,5", "b": "2,5"}], ["delimiter ';'"]),
    "a comma in a header": (
        "a.csv", "name, full;price\nx;1\n", [{"name, full": "x", "price": "1"}], ["delimiter ';'"],
    ),
    "tabs": ("a.csv", "a\tb\n1,2\t3\n", [{"a": "1,2", "b": "3"}], ["delimiter '\\t'"]),
    "one column": ("a.csv", "title\nHeat\n", [{"title": "Heat"}], []),
    "as good as the usual delimiter": ("a.csv", "a;b,c;d\nx;y,z;w\n", [{"a;b": "x;y", "c;d": "z;w"}], []),
    "another delimiter within quotes": ("a.csv", '"a;b",c\n"1;2",3\n', [{"a;b": "1;2", "c": "3"}], []),
    "a line that names the delimiter": (
        "a.csv", "sep=;\na;b\n1;2\n", [{"a": "1", "b": "2"}], ["delimiter ';'"],
    ),
    "numbers as written, a control character": (
        "a.jsonl", '{"a": 1.50, "b": 1e5, "c": 12345678901234567890, "d": -0.0, "e": true, "f": NaN, "g": "x\ty"}\n',
        [{"a": "1.50", "b": "1e5", "c": "12345678901234567890", "d": "-0.0", "e": "true", "g": "x\ty"}], [],
    ),
    "repeated keys": (
        "a.jsonl", '{"a": 1, "a": 2, " a ": 4, "": 5}\n{"a": null, "a": 6}\n{"a.b": 7, "a": {"b": 8}}\n',
        [{"a": "1", "a (2)": "2", "a (3)": "4", "unnamed": "5"}, {"a (2)": "6"}, {"a.b": "7", "a.b (2)": "8"}],
        [TOLD.format("a", "a (2)"), TOLD.format("a", "a (3)"), TOLD.format("a.b", "a.b (2)")],
    ),
    "a table of the Web Data Commons": (
        "a.json.gz", gzip.compress(f"{json.dumps(FILM)}\n{json.dumps(FILM | {'row_id': 8})}\n".encode()),
        [{"actor.0.name": "Al", "actor.0.@type": "Person", "rating.best": "8.3"}] * 2,
        ["a Web Data Commons table: row_id and page_url are left out"],
    ),
    "an identifier alone": (
        "a.jsonl", '{"row_id": 1, "a": 2}\n{"row_id": 3, "page_url": "x"}\n',
        [{"row_id": "1", "a": "2"}, {"row_id": "3", "page_url": "x"}], [],
    ),
    "lines": ("a.json", '{"a": 1}\n{"a": 2}\n', [{"a": "1"}, {"a": "2"}], []),
    "a first line that lacks its end": ("a.json", '{"a": 1\n{"a": 2}\n', [{"a": "2"}], []),
    "an array": ("a.json", '[{"a": 1},\n{"a": 2}]', [{"a": "1"}, {"a": "2"}], []),
    "objects over several lines": ("a.json", '{\n "a": 1\n}\n{\n "a": 2\n}', [{"a": "1"}, {"a": "2"}], []),
    "several objects on one line": (
        "a.json", '{"a": 1}{"a": 2}, {"a": 3}', [{"a": "1"}, {"a": "2"}, {"a": "3"}], [],
    ),
    "lines with a comma at the end": ("a.jsonl", '{"a": 1},\n{"a": 2},\n', [{"a": "1"}, {"a": "2"}], []),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "rows", "notes"), TEXTS_READ.values(), ids=TEXTS_READ)
def test_text_is_read_as_it_is_meant(write, name, content, rows, notes):
    found, report = read(write(name, content))
    assert (found, report.notes) == (rows, notes)


@pytest.mark.parametrize(
    ("name", "content", "numbers"),
    [
        ("a.csv", 'a,b\n1,"x\ny\n"\n\n2,z\n', [2, 6]),
        ("a.jsonl", '{"a": 1}\n\n  {"a": 2}\r\n{"a": 3}', [1, 3, 4]),
        ("a.json", '[{"a": 1}, {"a": null}, {"a": 3}]', [1, 3]),
        ("a.json", '{"a": 1}{"a": 2}\n{"a": 3}\n\n{"a": 4}', [1, 2, 3, 4]),
    ],
)
def test_rows_are_numbered_by_the_line_they_begin_in_or_their_place_in_an_array(write, name, content, numbers):
    (source,) = find_sources([write(name, content)]).sources
    (chunk,) = read_chunks(source, ReadReport())
    assert chunk.row_number.tolist() == numbers


# What is lost: content, the rows that stay, how many of each reason, and where.

DEEP = '{"a": ' + "[" * 50_000 + "]" * 50_000 + "}"
LOSSES = {
    "lines that are no objects": (
        "a.jsonl", '{"a": 1}\n[1, 2]\n"text"\nnull\n', [{"a": "1"}],
        {"not an object": 3}, ["2: expected { … }", "3: expected { … }", "4: expected { … }"],
    ),
    "a byte that cp1252 has not": (
        "a.csv", b"a,b\ncaf\xe9 \x81,1\n", [{"a": "café \x81", "b": "1"}],
        {"another encoding": 1}, ["2: byte 81 is not cp1252, read as '\\x81'"],
    ),
    "too many cells": (
        "a.csv", "a,b\n1,2,3,4\n5,6,,\n", [{"a": "1", "b": "2"}, {"a": "5", "b": "6"}],
        {"cell beyond the header": 2}, ["2: 4 cells, the header has 2"],
    ),
    "too few cells": (
        "a.csv", "a,b,c\n1,2,3\n4\n", [{"a": "1", "b": "2", "c": "3"}, {"a": "4"}],
        {"cell missing at the end of the row": 2}, ["3: 1 cells, the header has 3"],
    ),
    "empty cells, but no blank lines": (
        "a.csv", "a,b\n,\n\n  \n1,2\n", [{"a": "1", "b": "2"}], {"row without any cell": 1}, ["2"],
    ),
    "NUL characters": (
        "a.csv", "a,b\n1\0,2\n\0,3\n", [{"a": "1", "b": "2"}, {"b": "3"}],
        {"NUL character": 2}, ["2: taken out", "3: taken out"],
    ),
    "open quotes": (
        "a.csv", 'a,b\n1,"open\n2,y\n3,"open\n4,z\n', [{"a": "2", "b": "y"}, {"a": "4", "b": "z"}],
        {"quote never closed": 2}, ["2: ',' expected after '\"'", "4: unexpected end of data"],
    ),
    "a line in another encoding": (
        "a.csv", "a,b\né,1\n".encode() + b"caf\xe9,2\n", [{"a": "é", "b": "1"}, {"a": "café", "b": "2"}],
        {"another encoding": 1}, ["3: byte e9 is not utf-8, read as 'é'"],
    ),
    "half a character of UTF-16": (
        "a.csv", "a,b\nx,y".encode("utf-16") + b"z", [{"a": "x", "b": "y\ufffd"}],
        {"another encoding": 1}, ["2: not utf-16-le, replaced"],
    ),
    "text of an Arrow file that is not Unicode": (
        "a.arrows", make_arrow(pa.ipc.new_stream, pa.table({"n": ["abcd", "efgh"]})).replace(b"efgh", b"ef\xffh"),
        [{"n": "abcd"}, {"n": "ef\ufffdh"}], {"another encoding": 1}, ["2: n is not utf-8, replaced"],
    ),
    "broken lines": (
        "a.jsonl", '{"a": 1}\n{"a": 2,\n{"a": 3} x\nnonsense\n{"a": 5}\n', [{"a": "1"}, {"a": "3"}, {"a": "5"}],
        {"broken row": 3}, ["2: Expecting property name enclosed in double quotes at column 9",
                            "3: Expecting value at column 10", "4: Expecting value at column 1"],
    ),
    "a broken object of several lines": (
        "a.json", '{\n"a": 1\n}\n{\n"a": \n}\n{\n"a": 3\n}', [{"a": "1"}], {"broken row": 2},
        ["4: the value: Expecting value; nothing behind it is read"],
    ),
    "a first object of several lines that is broken": (
        "a.json", '{\n"a": 1,,\n"cast": [\n{"name": "Ann"},\n{"name": "Bob"}]\n}\n{\n"a": 3\n}', [], {"broken row": 4},
        ["1: the value: Expecting property name enclosed in double quotes; nothing behind it is read"],
    ),
    "a first line that is broken": (
        "a.jsonl", '{\n{"a": 2}\n', [{"a": "2"}], {"broken row": 1},
        ["1: Expecting property name enclosed in double quotes at column 2"],
    ),
    "values that are no objects": (
        "a.json", '[{"a": 1}, 2, [4], nonsense, {"a": 5}]', [{"a": "1"}], {"not an object": 2, "broken row": 1},
        ["2: expected { … }", "3: expected { … }", "1: value 4: Expecting value; nothing behind it is read"],
    ),
    "a line nested too deeply": ("a.jsonl", '{"a": 1}\n' + DEEP, [{"a": "1"}], {"nested too deeply": 1}, ["2"]),
    "a value nested too deeply": (
        "a.json", f'[{{"a": 1}}, {DEEP}]', [{"a": "1"}], {"nested too deeply": 1},
        ["1: value 2; nothing behind it is read"],
    ),
    "text behind an array": (
        "a.json", '[{"a": 1}]\n{"a": 2}', [{"a": "1"}, {"a": "2"}], {}, ["2: text after the end of the array"],
    ),
    "half of a surrogate pair": (
        "a.jsonl", '{"a": "x\\ud800", "b\\udfff": "\\ud83d\\ude00"}\n', [{"a": "x\ufffd", "b\ufffd": "😀"}],
        {"half of a surrogate pair": 1}, ["1: read as 'x\ufffd'"],
    ),
    "a broken value": (
        "a.json", '[{"a": 1},\n{"a": {"b": 1}, {wrong}},\n{"a": "un"quoted"},\n{"a": 4}]',
        [{"a": "1"}], {"broken row": 4},
        ["2: value 2: Expecting property name enclosed in double quotes; nothing behind it is read"],
    ),
    "a title above the header": (
        "a.csv", "Films of 1985,,\n\ntitle,year,land\nRan,1985,jp\nBrazil,1985,uk\n",
        [{"title": "Ran", "year": "1985", "land": "jp"}, {"title": "Brazil", "year": "1985", "land": "uk"}], {},
        ["1: 'Films of 1985'; the header is in row 3"],
    ),
    "remarks above the header": (
        "a.csv", "Source;World Bank\nUpdated;2024-01-02\n\nland;code;1990;1991;1992\nPeru;PER;1;2;3\nChad;TCD;4;5;6\n",
        [{"land": "Peru", "code": "PER", "1990": "1", "1991": "2", "1992": "3"},
         {"land": "Chad", "code": "TCD", "1990": "4", "1991": "5", "1992": "6"}], {},
        ["1: 'Source | World Bank'; the header is in row 4", "2: 'Updated | 2024-01-02'; the header is in row 4"],
    ),
    "an open array": (
        "a.json", '[{"a": 1},\n{"a": "tw', [{"a": "1"}], {"broken row": 1},
        ["2: value 2: Unterminated string starting at; nothing behind it is read"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "rows", "counts", "places"), LOSSES.values(), ids=LOSSES)
def test_what_is_lost_is_counted_and_listed_and_the_rest_stays(write, name, content, rows, counts, places):
    path = write(name, content)
    found, report = read(path)
    assert found == rows
    assert report.dropped + report.cells == counts
    assert [place for listed in report.places.values() for place in listed] == [f"{path}:{place}" for place in places]
    reason, (first, *_) = next(iter(report.places.items()))
    with pytest.raises(TableError, match=re.escape(f"{':'.join(first.split(':')[:2])}: {reason}")):
        read(path, strict=True)


@pytest.mark.parametrize(
    "text",
    [
        ",title\nr1,Heat\nr2,Ran\n",
        "title\nHeat,1995,us\nRan,1985,jp\n",
        "a,b\n1,2,3,4\n5,6,7,8\n",
        "name,,\nHeat,1995,us\nRan,1985,jp\n",
    ],
)
def test_a_first_row_with_few_names_is_the_header_where_no_other_row_looks_like_one(path, text):
    path.write_text(text)
    rows, report = read(path)
    assert len(rows) == 2
    assert "above the header" not in report.places


def test_the_row_of_the_header_and_the_delimiter_may_be_given(path):
    path.write_text("one,two,three\nreal,header,row\n1,2,3\n")
    assert read(path, header_row=2)[0] == [{"real": "1", "header": "2", "row": "3"}]
    path.write_text("Films,,\ntitle,year,land\nRan,1985,jp\n")
    assert read(path, header_row=1)[0][0] == {"Films": "title", "column_2": "year", "column_3": "land"}
    path.write_text("a:b\n1:2\n")
    rows, report = read(path, delimiter=":")
    assert (rows, report.notes) == ([{"a": "1", "b": "2"}], ["delimiter ':'"])


def test_bytes_that_a_given_encoding_has_not_are_replaced_and_counted(write):
    rows, report = read(write("a.csv", b"a,b\nb\xff,1\n"), encoding="ascii")
    assert (rows, report.cells) == ([{"a": "b\ufffd", "b": "1"}], {"another encoding": 1})


# CSV and TSV.


@pytest.fixture
def path(tmp_path):
    return tmp_path / "movies.csv"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(path, newline):
    path.write_text(newline.join(["a,b", '1,"x', 'y"', "2,z", ""]) * 1, newline="")
    assert read(path)[0] == [{"a": "1", "b": f"x{newline}y"}, {"a": "2", "b": "z"}]
    path.write_text(newline.join(["a,b", *(f"{number},x" for number in range(100_000))]), newline="")
    assert len(read(path)[0]) == 100_000


def test_a_stray_quote_far_from_the_end_costs_its_line_alone(path):
    lines = [f"{number},text {number}" for number in range(40_000)]
    lines[5] = '5,"open'
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    rows, report = read(path)
    assert len(rows) == 39_999
    assert report.dropped == {"quote never closed": 1}


def test_a_long_cell_is_one_cell_and_its_lines_are_no_rows(path):
    text = "a line of a long text\n" * 20_000
    path.write_text(f'a,b\n1,"{text}"\n2,x\n')
    rows, report = read(path)
    assert rows == [{"a": "1", "b": text.strip()}, {"a": "2", "b": "x"}]
    assert report.dropped == {}


@pytest.mark.parametrize("tail", ["half a ro", '1,"an open cell\nthat goes on\n', '1,"an open cell\nthat goes o'])
def test_of_a_truncated_csv_the_whole_rows_stay(write, tail):
    rows, report = read(write("movies.csv.gz", gzip.compress(f"a,b\n1,2\n3,4\n{tail}".encode())[:-4]))
    assert rows == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert (report.read, report.dropped) == (3, {"cut off by damage": 1})


# Control characters in plenty are the mark of a binary file.
CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n\r\t"), max_size=8)
CELLS = CELLS.map(str.strip)
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.tuples(
        st.lists(CELLS.filter(bool), min_size=width, max_size=width, unique=True),
        st.lists(st.lists(CELLS, min_size=width, max_size=width).filter(any), min_size=1, max_size=12),
    )
)


@settings(deadline=None, max_examples=60)
@given(TABLES, st.sampled_from([",", ";", "\t", "|"]), st.sampled_from([1, 3, 1000]))
def test_csv_written_by_the_standard_library_reads_back_equal(tmp_path_factory, table, delimiter, chunk_rows):
    header, rows = table
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows([header, *rows])
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    found, report = read(path, chunk_rows=chunk_rows, delimiter=delimiter, encoding="utf-8")
    assert found == [{key: cell for key, cell in zip(header, row, strict=True) if cell} for row in rows]
    assert (report.read, report.dropped, report.cells) == (len(rows), {}, {})


def measure_peak(path, lines):
    """Return the most bytes that Python and Arrow hold while a file is read."""
    path.write_text("".join(lines))
    before, arrow = pa.total_allocated_bytes(), 0
    (source,) = find_sources([path]).sources
    tracemalloc.start()
    try:
        for _ in read_chunks(source, ReadReport(), ReadConfig(chunk_rows=50)):
            arrow = max(arrow, pa.total_allocated_bytes() - before)
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("suffix", "first", "row"),
    [(".csv", "n,title\n", "{0},a film called {0}\n"), (".jsonl", "", '{{"n": {0}, "title": "a film", "c": [1]}}\n')],
)
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, suffix, first, row):
    monkeypatch.setattr("navi.tables.textreader.BLOCK_SIZE", 1 << 14)
    peaks = [
        measure_peak(tmp_path / f"{size}{suffix}", [first, *(row.format(number) for number in range(size))])
        for size in (3_000, 9_000)
    ]
    assert peaks[1] < 1.2 * peaks[0]


# JSON.


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_of_truncated_json_the_whole_rows_stay(tmp_path, suffix):
    path = tmp_path / f"a{suffix}.gz"
    rows = [{"n": str(n), "text": f"{n * 7919}"} for n in range(5000)]
    text = json.dumps(rows) if suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    data = gzip.compress(text.encode())
    path.write_bytes(data[: len(data) // 2])
    found, report = read(path)
    assert found == rows[: len(found)]
    assert len(found) > 1000
    assert report.dropped == {"cut off by damage": 1}
    assert "gzip stream: " in report.places["damaged file"][0]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(str.strip).filter(bool)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=4), min_size=1, max_size=10),
    st.sampled_from(["lines", None, 0, 3]),
    st.booleans(),
    st.sampled_from([1, 1000]),
)
def test_json_written_by_the_standard_library_reads_back_equal(tmp_path_factory, rows, indent, ascii_, chunk_rows):
    path = tmp_path_factory.mktemp("json") / ("rows.jsonl" if indent == "lines" else "rows.json")
    lines = "".join(json.dumps(row, ensure_ascii=ascii_) + "\n" for row in rows)
    text = lines if indent == "lines" else json.dumps(rows, indent=indent, ensure_ascii=ascii_)
    path.write_text(text, encoding="utf-8", newline="")
    assert read(path, chunk_rows=chunk_rows) == (rows, ReadReport(read=len(rows)))


# What no table has, and a hostile file may.


HOSTILE = {
    "a cell": ("a.csv", b"a,b\n1," + b"x" * 1001, r"a\.csv:2: a cell has more than 1,000 characters"),
    "a quoted cell": ("a.csv", b'a,b\n1,"' + b"x\n" * 600 + b'"', r"a\.csv:2: a cell has more than 1,000 characters"),
    "a cell of JSON": ("a.jsonl", b'{"a": "' + b"x" * 1001 + b'"}', r"a\.jsonl:1: a cell has more than 1,000"),
    "a line": ("a.csv", b"a,b\n1" + b",x" * 5_001, r"a\.csv:2: a line has more than 10,000 characters"),
    "a row": ("a.csv", b"a,b\n1" + b',"x\n"' * 5_001, r"a\.csv:2: a row has more than 10,000 characters"),
    "a value": ("a.json", b'[{"a": "' + b"x" * 50_000, r"a\.json:1: a value has more than 10,000 characters"),
    "columns": ("a.csv", b"a," * 100 + b"b\n" + b"1," * 100 + b"2\n", r"a\.csv: it has more than 100 columns"),
    "members": ("a.json", b'[{"a": [' + b"1," * 100 + b"1]}]", r"a\.json:1: a row has more than 100 cells"),
    "nested columns": ("a.parquet", make_parquet(pa.table({"a": [[1] * 101]})), "101 columns, the most are 100"),
    "gzip": ("a.csv.gz", gzip.compress((b"x" * 90 + b",y\n") * 2000), "decompresses to more than 20 times its size"),
    "rows": ("a.csv.gz", gzip.compress(b"a\n" + b"1\n" * 9000), "more than 5,000 rows or lines, far more than a table"),
    "blank lines": ("a.csv.gz", gzip.compress(b"a,b\n" + b"\n" * 9000), "more than 5,000 rows or lines"),
    "values of JSON": ("a.json.gz", gzip.compress(b'[{"a": 1}' + b",2" * 9000), "more than 5,000 rows or lines"),
    "rows of Parquet": ("a.parquet", make_parquet(pa.table({"a": [True] * 9000})), "more than 5,000 rows or lines"),
    "Parquet": (
        "a.parquet", make_parquet(pa.table({"a": ["x" * 50] * 4000})), "its cells take more than 100,000 bytes",
    ),
}  # fmt: skip


@pytest.fixture
def small_limits(monkeypatch):
    """Limits that a small file is beyond."""
    limits = {"MAX_CELL": 1000, "MAX_LINE": 10_000, "MAX_COLUMNS": 100, "MAX_CONTENT": 100_000, "MAX_RATIO": 20}
    limits |= {"MAX_ROWS": 5000, "MAX_ROWS_PER_BYTE": 2}
    for module in ("arrow", "chunk", "delimited", "excel", "json_rows", "sources", "textreader"):
        for name, limit in limits.items():
            monkeypatch.setattr(f"navi.tables.{module}.{name}", limit, raising=False)
    before = csv.field_size_limit(limits["MAX_CELL"])
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(("name", "content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_out_of_all_proportion_is_one_clear_error(write, name, content, message):
    path = write(name, content)
    with pytest.raises(TableError, match=message):
        read(path, max_family=None)


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    """Time that a file of 70,000 good rows takes."""
    path = tmp_path_factory.mktemp("good") / "a.json"
    path.write_bytes(b"[" + b'{"a": 123},' * 70_000 + b'{"a": 1}]')
    begin = time.process_time()
    read(path)
    return time.process_time() - begin


@pytest.mark.parametrize(
    ("name", "content", "num_dropped"),
    [
        ("a.json", b"[" + b'{"a": tru},' * 70_000 + b'{"a": 1}]', 70_001),
        ("a.json", b'[{"a": 1}, {"' + b"a" * (1 << 25), 1),
        ("a.json", b'[{"a": 1}' + b', {"a": {' * 20_000, None),
        ("a.jsonl", b'{"a": 1}\n' + b'{"a": tru}\n' * 70_000, 70_000),
        ("a.csv", b"a,b\n1,x\n" + b'2,"y\n' * 70_000, 70_000),
        ("a.csv", ",".join(f"c{number}" for number in range(60_000)).encode() + b"\n" + b"1\n" * 100_000, 0),
        ("a.jsonl", b'{"a": [' + b"true," * 1_000_000 + b"true]}", 0),
        ("a.jsonl", b'{"a": ' + b'{"b": ' * 990 + b"1" + b"}" * 991, 1),
    ],
)
def test_reading_takes_time_in_proportion_to_the_file_whatever_is_in_it(write, seconds, name, content, num_dropped):
    path, begin = write(name, content), time.process_time()
    _, report = read(path)
    assert time.process_time() - begin < 25 * seconds
    assert num_dropped is None or report.dropped.total() == num_dropped


def test_a_batch_of_nulls_is_no_longer_than_its_bytes(write):
    _, report = read(write("a.arrows", make_arrow(pa.ipc.new_stream, pa.table({"a": pa.nulls(10**6)}))))
    assert report.dropped == {"cut off by damage": 10**6}


def test_details_of_places_are_short(write):
    report = read(write("a.jsonl", '{"' + "h" * 100_000 + '": "x\\ud800", "' + "h" * 100_000 + '": 1}\n'))[1]
    assert max(map(len, [*report.notes, *(place for places in report.places.values() for place in places)])) < 500


# Parquet, Feather and Arrow.

TABLE = pa.table(
    {
        "title": ["Heat", "Ran", None],
        "year": pa.array([1995.0, 1985.0, None]),
        "score": [8.3, 8.0, 7.0],
        "seen": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(2021, 2, 3)]),
        "cast": [[{"name": "Al"}, {"name": "Bob"}, {"name": "Val"}, {"name": "Tom"}], None, []],
    }
)
FIRST = {"title": "Heat", "year": "1995", "score": "8.3", "seen": "2020-01-01"}
FIRST |= {"cast.0.name": "Al", "cast.1.name": "Bob", "cast.2.name": "Val"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", make_parquet(TABLE)),
        ("a.feather", make_feather(TABLE)),
        ("a.arrow", make_arrow(pa.ipc.new_file, TABLE)),
        ("a.arrows", make_arrow(pa.ipc.new_stream, TABLE)),
    ],
)
@pytest.mark.parametrize("chunk_rows", [1, 2, 1000])
def test_columns_nested_or_not_are_written_as_text(write, name, data, chunk_rows):
    path = write(name, data)
    rows, report = read(path, chunk_rows=chunk_rows)
    others = [{"title": "Ran", "year": "1985", "score": "8"}, {"score": "7", "seen": "2021-02-03"}]
    assert rows == [FIRST, *others]
    assert report.places == {"family member beyond the limit": [f"{path}:1: cast has 4 members, 3 stay"]}


def test_a_damaged_row_group_is_dropped_and_the_others_stay(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"n": [f"{n:05}" for n in range(300)]})
    data = bytearray(make_parquet(table, row_group_size=100, compression="gzip", use_dictionary=False))
    path.write_bytes(data)
    offset = pa.parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data[offset : offset + 120] = bytes(120)
    path.write_bytes(data)
    rows, report = read(path)
    assert [row["n"] for row in rows] == [f"{n:05}" for n in (*range(100), *range(200, 300))]
    assert (report.read, report.dropped) == (300, {"cut off by damage": 100})
    assert report.places["cut off by damage"][0].startswith(f"{path}:101: 100 rows: row group 2: ")
    with pytest.raises(TableError, match=r"a\.parquet:101: damaged file: row group 2"):
        read(path, strict=True)


@pytest.mark.parametrize(("name", "new"), [("a.arrow", pa.ipc.new_file), ("a.arrows", pa.ipc.new_stream)])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_of_a_truncated_arrow_file_the_whole_batches_stay(tmp_path, name, new, compression):
    path = tmp_path / f"{name}{compression}"
    data = make_arrow(new, pa.table({"n": [f"{n * 7919:08}" for n in range(1000)], "x": [1.5] * 1000}), 100)
    data = gzip.compress(data) if compression else data
    path.write_bytes(data[: len(data) // 2])
    rows, report = read(path)
    assert rows == [{"n": f"{n * 7919:08}", "x": "1.5"} for n in range(len(rows))]
    assert 100 <= len(rows) <= 700
    assert report.places["damaged file"]
    with pytest.raises(TableError, match=r"a\.arrow.*damaged file: "):
        read(path, strict=True)


def test_an_arrow_file_that_ends_too_early_or_too_late_is_damaged(write):
    table, end = pa.table({"n": ["x"] * 10}), b"\xff\xff\xff\xff\x00\x00\x00\x00"
    whole = make_arrow(pa.ipc.new_file, table, 10)
    for name, data, damage in (
        ("a.arrow", whole[: whole.index(end)], "the file ends too early"),
        ("a.arrows", make_arrow(pa.ipc.new_stream, table) + end * 3, "the stream ends 24 bytes before the file does"),
    ):
        path = write(name, data)
        rows, report = read(path)
        assert len(rows) == 10
        assert report.places["damaged file"] == [f"{path}:11: {damage}"]


def test_a_batch_that_contradicts_itself_is_dropped_and_the_others_stay(tmp_path):
    path = tmp_path / "a.arrows"
    data = bytearray(make_arrow(pa.ipc.new_stream, pa.table({"n": [f"{n:04}" for n in range(30)]}), 10))
    # The offsets of the second batch, 0, 4, 8 and so on, of which one now points far outside.
    offsets = b"".join(number.to_bytes(4, "little") for number in range(0, 44, 4))
    second = data.index(offsets, data.index(offsets) + 1)
    data[second + 8 : second + 12] = (10**9).to_bytes(4, "little")
    path.write_bytes(data)
    rows, report = read(path)
    assert [row["n"] for row in rows] == [f"{n:04}" for n in (*range(10), *range(20, 30))]
    assert (report.read, report.dropped) == (30, {"cut off by damage": 10})
    assert report.places["damaged file"] == [f"{path}:11: batch 2 contradicts itself"]


# Excel.


def write_workbook(path, *sheets):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for number, rows in enumerate(sheets, 1):
        sheet = workbook.create_sheet(f"Sheet{number}")
        for row in rows:
            sheet.append(row)
    workbook.save(path)


@pytest.fixture
def workbook(tmp_path):
    return tmp_path / "movies.xlsx"


@pytest.mark.parametrize("chunk_rows", [1, 1000])
def test_cells_of_a_workbook_are_written_as_text(workbook, chunk_rows):
    write_workbook(
        workbook,
        [
            ["title", 2020, None, "title", "seen", "score"],
            ["Heat", 1, "x", "y", dt.datetime(2020, 1, 2), 8.5],
            [],
            [" Ran ", True, None, None, dt.datetime(2021, 1, 2), 8],
        ],
    )
    rows, report = read(workbook, chunk_rows=chunk_rows)
    assert rows == [
        {"title": "Heat", "2020": "1", "column_3": "x", "title (2)": "y", "seen": "2020-01-02", "score": "8.5"},
        {"title": "Ran", "2020": "true", "seen": "2021-01-02", "score": "8"},
    ]
    assert report.read == 2


def test_each_sheet_with_anything_in_it_is_a_table_and_one_may_be_chosen(workbook, tmp_path):
    write_workbook(workbook, [], [["a"], [1]], [["b"], [2]])
    assert find_names(workbook) == ["movies/Sheet2", "movies/Sheet3"]
    assert read(f"{workbook}#Sheet3")[0] == [{"b": "2"}]
    assert find_names(f"{workbook}#Sheet3") == ["movies"]
    touch(tmp_path, "other.csv")
    write_workbook(tmp_path / "single.xlsx", [["c"], [3]])
    assert find_names(tmp_path) == ["movies/Sheet2", "movies/Sheet3", "other", "single"]
    assert find_names(f"{tmp_path}#Sheet3") == ["movies", "other"]
    with pytest.raises(TableError, match=r"movies\.xlsx has no sheet 'x' with .* Expected one of Sheet2, Sheet3"):
        find_sources([f"{workbook}#x"])
    with pytest.raises(TableError, match=r"No workbook in .* has a sheet 'x'"):
        find_sources([f"{tmp_path}#x"])


def test_a_sheet_may_begin_in_another_column_go_beyond_its_header_or_be_empty(workbook):
    write_workbook(workbook, [[None, "title", "year"], [None, "Ran", 1985]])
    rows, report = read(workbook)
    assert (rows, report.headers) == ([{"title": "Ran", "year": "1985"}], ["title", "year"])
    # A workbook written in one go does not say its width, so rows are as long as they are.
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    for row in (["a", "b"], [1, 2, 3]):
        sheet.append(row)
    book.save(workbook)
    rows, report = read(workbook)
    assert rows == [{"a": "1", "b": "2"}]
    assert report.places == {"cell beyond the header": [f"{workbook}:2: 3 cells, the header has 2"]}
    write_workbook(workbook, [], [])
    rows, report = read(workbook)
    assert rows == []
    assert report.places == {"empty file": [f"{workbook}: no sheet has anything in it"]}


def change_part(workbook, part, old, new):
    """Write a workbook again, with a text of one part replaced."""
    with zipfile.ZipFile(workbook) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new)
    with zipfile.ZipFile(workbook, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


RELATION = '<Relationships><Relationship Id="r1" Type="x/officeDocument" Target="xl/workbook.xml"/></Relationships>'
PARTS = {
    "_rels/.rels": RELATION,
    "xl/workbook.xml": """<x:workbook xmlns:x="a" xmlns:r="b"><x:workbookPr date1904="1"/>
        <x:sheets><x:sheet name="Films" sheetId="1" r:id="r9"/><x:sheet name="Chart" sheetId="2" r:id="r8"/></x:sheets>
        </x:workbook>""",
    "xl/_rels/workbook.xml.rels": """<Relationships>
        <Relationship Id="r9" Type="x/worksheet" Target="worksheets/sheet1.xml"/>
        <Relationship Id="r8" Type="x/chartsheet" Target="chartsheets/sheet1.xml"/>
        <Relationship Id="r7" Type="x/sharedStrings" Target="/xl/sharedStrings.xml"/>
        <Relationship Id="r6" Type="x/styles" Target="styles.xml"/></Relationships>""",
    "xl/sharedStrings.xml": """<x:sst xmlns:x="a"><x:si><t>title</t></x:si><x:si><x:t>seen</x:t></x:si>
        <x:si><x:r><x:t>R</x:t></x:r><x:r><x:t>an_x000A_乱</x:t></x:r><x:rPh><x:t>ラン</x:t></x:rPh></x:si></x:sst>""",
    "xl/styles.xml": """<styleSheet><numFmts><numFmt numFmtId="164" formatCode="[Red]yyyy\\-mm;@"/>
        <numFmt numFmtId="165" formatCode="0.0&quot; days&quot;"/></numFmts>
        <cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>
        <cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="46"/><xf numFmtId="20"/>
        </cellXfs></styleSheet>""",
    "xl/worksheets/sheet1.xml": """<x:worksheet xmlns:x="a"><x:sheetData>
        <x:row><x:c t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>1</x:v></x:c></x:row>
        <x:row r="3"><x:c r="A3" t="s"><x:v>2</x:v></x:c><x:c r="B3" s="1"><x:f>TODAY()</x:f><x:v>1</x:v></x:c></x:row>
        <x:row><x:c r="A4" s="2"><x:v>1.5</x:v></x:c></x:row>
        <x:row><x:c s="0"/><x:c s="3"><x:v>1.25</x:v></x:c></x:row>
        <x:row><x:c t="e"><x:v>#N/A</x:v></x:c><x:c s="4"><x:v>0.25</x:v></x:c></x:row>
        </x:sheetData></x:worksheet>""",
}


def write_parts(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in PARTS.items():
            archive.writestr(name, content)


def test_a_workbook_is_read_as_the_standard_says(workbook):
    write_parts(workbook)
    rows, report = read(workbook)
    assert rows == [
        {"title": "Ran\n乱", "seen": "1904-01-02"},
        {"title": "1.5"},
        {"seen": "1 day, 6:00:00"},
        {"title": "#N/A", "seen": "06:00:00"},
    ]
    assert report == ReadReport(read=4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'ref="A1:B2"', b'ref="A1:A1"'),
        (b'<row r="2"', b'<row r="99999999999999999999"'),
        (b'r="B2"', b'r="ZZZ2"'),
        (b'r="B2"', b'r="A2"'),
        (b'<row r="2"', b'<row r="x"'),
    ],
)
def test_sizes_and_places_that_cannot_be_are_not_believed(workbook, old, new):
    write_workbook(workbook, [["a", "b"], ["x", 7]])
    change_part(workbook, "xl/worksheets/sheet1.xml", old, new)
    assert read(workbook)[0] == [{"a": "x", "b": "7"}]


@pytest.mark.parametrize(
    ("old", "new", "cell", "detail"),
    [
        (b"<v>7</v>", b"<v>seven</v>", "seven", "'seven' is no number, read as text"),
        (b"<v>7</v>", b"<v>nan</v>", "nan", "'nan' is no number, read as text"),
        (b't="n"><v>7</v>', b't="b"><v>7</v>', "7", "'7' is no truth value, read as text"),
        (b't="n"><v>7</v>', b't="s"><v>99</v>', None, "there is no shared text number '99'"),
        (b't="n"><v>7</v>', b't="d"><v>soon</v>', "soon", "'soon' is no date"),
        (b'<c r="B2" t="n"><v>7</v>', b'<c r="B2" s="1" t="n"><v>1e99</v>', "1e99", "1e99 is no date"),
    ],
)
def test_a_cell_that_is_not_what_its_type_says_is_entered(workbook, old, new, cell, detail):
    write_workbook(workbook, [["a", "b", "c"], ["x", 7, dt.datetime(2020, 1, 2)], ["y", 8, None]])
    change_part(workbook, "xl/worksheets/sheet1.xml", old, new)
    rows, report = read(workbook)
    assert (rows[0].get("b"), rows[1]) == (cell, {"a": "y", "b": "8"})
    assert report.places == {"not what its type says": [f"{workbook}:2: {detail}"]}


def test_a_workbook_that_declares_entities_is_refused(workbook):
    write_workbook(workbook, [["a"], ["x"]])
    change_part(workbook, "xl/workbook.xml", b"<workbook", b'<!DOCTYPE x [<!ENTITY a "b">]><workbook')
    with pytest.raises(TableError, match="its XML declares entities, which no workbook does"):
        read(workbook)


@pytest.mark.usefixtures("small_limits")
def test_a_cell_of_a_workbook_may_not_be_endless(workbook):
    write_parts(workbook)
    change_part(workbook, "xl/sharedStrings.xml", b"<t>title</t>", b"<t>" + b"x" * 1001 + b"</t>")
    with pytest.raises(TableError, match="a cell of more than 1,000 characters"):
        read(workbook)
    change_part(workbook, "xl/sharedStrings.xml", b"<t>xxx", b"<t>" + b"x" * 200_000)
    with pytest.raises(TableError, match="bytes that claim to hold 2"):
        read(workbook)


def test_of_a_damaged_sheet_the_rows_before_the_damage_stay(workbook, tmp_path):
    write_workbook(workbook, [["a"], *([f"row {number}"] for number in range(100))])
    damaged = tmp_path / "damaged.xlsx"
    with zipfile.ZipFile(workbook) as whole, zipfile.ZipFile(damaged, "w") as copy:
        for name in whole.namelist():
            data = whole.read(name)
            copy.writestr(name, data[: len(data) // 2] if "sheet1" in name else data)
    rows, report = read(damaged)
    assert rows == [{"a": f"row {number}"} for number in range(len(rows))]
    assert len(rows) > 20
    assert len(report.places["damaged file"]) == 1
    with pytest.raises(TableError, match=r"damaged\.xlsx:\d+: damaged file: "):
        read(damaged, strict=True)


# Which files there are, and what is said of them.


def touch(folder, *names):
    paths = [folder / name for name in names]
    for each in paths:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("a\n1\n")
    return paths


def find_names(*paths):
    return [source.name for source in find_sources(paths).sources]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("movies.v2.JSONL.gz", ("movies.v2", "jsonl", "gzip")),
        ("a.ndjson", ("a", "jsonl", None)),
        ("a.arrow.zstd", ("a", "arrow", "zstd")),
    ],
)
def test_suffixes_promise_format_and_compression_and_are_no_part_of_the_name(tmp_path, name, source):
    (found,) = find_sources(touch(tmp_path, name)).sources
    assert (found.name, found.format, found.compression) == source
    assert pickle.loads(pickle.dumps(found)) == found


def test_folders_and_patterns_are_searched_in_a_fixed_order_and_shared_names_told_apart(tmp_path, monkeypatch):
    one, *_ = touch(tmp_path, "one/b.csv", "two/deep/er/c.csv", "two/a.jsonl")
    assert find_names(tmp_path) == ["b", "a", "c"]
    assert find_names(str(tmp_path / "t*")) == ["a", "c"]
    assert find_names(str(tmp_path / "**" / "*.csv"), one, tmp_path / "one") == ["b", "c"]
    monkeypatch.chdir(tmp_path)
    assert find_names("one/*.csv") == ["b"]
    touch(tmp_path, "x/one/d.csv", "x/two/d.csv", "y/two/d.csv", "e.csv", "e.jsonl")
    assert find_names("e*", "x", "y") == ["e.csv", "e.jsonl", "one/d", "x/two/d", "y/two/d"]


def test_other_files_in_a_folder_are_skipped_with_the_reason(tmp_path):
    touch(tmp_path, "a.csv", "readme.md", ".hidden.csv", ".git/b.csv")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_sources([tmp_path])
    assert [source.name for source in found.sources] == ["a"]
    assert {path.name: reason for path, reason in found.skipped} == {
        "readme.md": "unknown suffix '.md'",
        ".hidden.csv": "hidden file",
        ".git": "hidden folder",
        "loop": "link to a folder",
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.csv", r"Cannot read .*nowhere\.csv: no such file or folder"),
        ("movies.xyz", r"Cannot read .*movies\.xyz: unknown suffix '\.xyz'\. Expected one of \.csv"),
        ("movies.gz", r"Cannot read .*movies\.gz: unknown suffix"),
        ("texts", r"No tables in .*texts: expected files with one of the suffixes \.csv"),
        ("*.csv", r"Cannot read .*\*\.csv: the pattern matches no file"),
        ("**x.csv", r"Cannot read .*\*\*x\.csv: (Invalid pattern|the pattern matches no file)"),
    ],
)
def test_a_path_without_tables_is_one_clear_error(tmp_path, name, message):
    touch(tmp_path, "movies.xyz", "movies.gz", "texts/readme.md")
    with pytest.raises(TableError, match=message):
        find_sources([str(tmp_path / name)])


def test_where_nothing_can_be_read_the_reason_is_said_for_each_file_the_first_ten_and_a_count(tmp_path):
    for number in range(12):
        (tmp_path / f"{number:02}.csv").write_text("" if number % 2 else "a,b\n,\n")
    message = r"00\.csv: row without any cell \(1\); .*01\.csv: empty file: there .*09\.csv[^;]*; and 2 more\.$"
    with pytest.raises(TableError, match=message):
        read_tables(tmp_path)
    with pytest.raises(CorpusError, match=r"12 files were read\. .*" + message):
        prepare([tmp_path], tmp_path / "corpus", PrepareConfig(backbone="minilm"))


def test_formulas_are_quoted_in_csv_if_asked(tmp_path):
    cells = ["=1+1", "+1", "-2.5", "-x", "@a", "\tb", "plain", None]
    table = pa.table({"=head": cells, "n": range(8)})
    write_table(table, tmp_path / "plain.csv")
    write_table(table, tmp_path / "safe.csv", safe_csv=True)
    write_table(table, tmp_path / "typed.parquet", safe_csv=True)
    plain, safe = (
        [row[0] for row in csv.reader(io.StringIO((tmp_path / name).read_text(), newline=""))]
        for name in ("plain.csv", "safe.csv")
    )
    assert plain == ["=head", *(cell or "" for cell in cells)]
    assert safe == ["'=head", "'=1+1", "+1", "-2.5", "'-x", "'@a", "'\tb", "plain", ""]
    assert pa.parquet.read_table(tmp_path / "typed.parquet") == table


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"header_row": 0}, "header_row must be at least 1, got 0"),
        ({"chunk_rows": 0}, "chunk_rows must be at least 1, got 0"),
        ({"max_family": 0}, "max_family must be at least 1, got 0"),
        ({"delimiter": "::"}, "delimiter must be one character, .* got '::'"),
        ({"delimiter": '"'}, "delimiter must be one character"),
        ({"encoding": "klingon"}, "encoding 'klingon' is no text encoding"),
        ({"encoding": "base64"}, "encoding 'base64' is no text encoding"),
    ],
)
def test_settings_out_of_range_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        ReadConfig(**config)


def test_places_are_bounded_counts_are_not_and_a_report_travels_between_processes(path):
    path.write_text("a,b\n" + ",\n" * 1005)
    report = read(path)[1]
    assert report.dropped == {"row without any cell": 1005}
    assert len(report.places["row without any cell"]) == 1000
    assert (report.read, report.kept) == (1005, 0)
    assert pickle.loads(pickle.dumps(report)) == report
