import csv
import gzip
import io
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import TableError
from navi.tables import ReadConfig, ReadReport, Source, compression, read_chunks, to_arrow
from navi.tables.delimited import detect_delimiter, is_delimited, name_columns
from navi.tables.readreport import (
    BEYOND_HEADER,
    CUT_OFF,
    DAMAGED,
    EMPTY_ROW,
    MISSING_CELL,
    NUL_CHARACTER,
    UNCLOSED_QUOTE,
    WRONG_ENCODING,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "movies.csv"


def test_cells_are_text_as_written_but_stripped(path, read):
    path.write_text('title, year ,note\nHeat, 1995 ,"a ""b"", c"\n007,1e5,\n')
    rows, losses = read(path)
    assert rows == [{"title": "Heat", "year": "1995", "note": 'a "b", c'}, {"title": "007", "year": "1e5"}]
    assert losses == ReadReport(read=2)


def test_rows_are_numbered_by_the_line_they_begin_in(path):
    path.write_text('a,b\n1,"x\ny\n"\n\n2,z\n')
    (chunk,) = read_chunks(Source("movies", path, "csv"), ReadReport())
    assert chunk.cell_value.to_pylist() == ["1", "x\ny", "2", "z"]
    assert chunk.row_number.tolist() == [2, 6]


@pytest.mark.parametrize(
    ("head", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("name, full;price\nx;1\ny;2\n", ";"),
        ("a\tb\n1,2\t3\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ("title\nHeat\n", ","),
        ("a;b,c;d\nx;y,z;w\n", ","),
        ('"a;b",c\n"1;2",3\n', ","),
        ("sep=;\na;b\n1;2\n", ";"),
        ("a;b", ";"),
    ],
)
def test_the_delimiter_is_told_by_the_first_rows(head, delimiter):
    assert detect_delimiter(head, ",") == delimiter


def test_another_delimiter_than_the_suffix_promises_is_noted(path, read):
    path.write_text("a;b\n1;2\n")
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}]
    assert losses.notes == ["delimiter ';'"]


def test_the_line_by_which_spreadsheets_tell_the_delimiter_is_no_header(path, read):
    path.write_text("sep=;\na;b\n1;2\n")
    assert read(path)[0] == [{"a": "1", "b": "2"}]


def test_a_told_delimiter_is_used(path, read):
    path.write_text("a:b\n1:2\n")
    assert read(path, delimiter=":")[0] == [{"a": "1", "b": "2"}]


def test_tabs_are_usual_in_a_tsv_file(tmp_path, read):
    path = tmp_path / "movies.tsv"
    path.write_text("a\tb\n1\t2\n")
    assert read(path) == ([{"a": "1", "b": "2"}], ReadReport(read=1))


@pytest.mark.parametrize(("text", "answer"), [("a,b\n1,2\n", True), ("a\nb\n", False), ("one, two\nthree\n", False)])
def test_tables_are_told_from_other_text(text, answer):
    assert is_delimited(text) is answer


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(path, read, newline):
    path.write_text(newline.join(["a,b", '1,"x', 'y"', "2,z", ""]), newline="")
    assert read(path)[0] == [{"a": "1", "b": f"x{newline}y"}, {"a": "2", "b": "z"}]


def test_headers_that_repeat_or_are_missing_get_names_of_their_own():
    losses = ReadReport(source="f")
    names = name_columns(["name", " name ", "", "name (2)", "column_3"], losses)
    assert names == ["name", "name (3)", "column_3", "name (2)", "column_3 (2)"]
    assert "header 'name' appears more than once: told apart as 'name (3)'" in losses.notes


def test_a_row_with_too_many_cells_is_kept_and_the_rest_is_counted(path, read):
    path.write_text("a,b\n1,2,3,4\n5,6,,\n7,8\n")
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}, {"a": "5", "b": "6"}, {"a": "7", "b": "8"}]
    assert (losses.read, losses.dropped, losses.cells) == (3, {}, {BEYOND_HEADER: 2})
    assert losses.places == {BEYOND_HEADER: [f"{path}:2: 4 cells, the header has 2"]}
    with pytest.raises(TableError, match=r"movies\.csv:2: cell beyond the header: 4 cells, the header has 2"):
        read(path, strict=True)


def test_a_row_with_too_few_cells_is_kept_and_counted(path, read):
    path.write_text("a,b,c\n1,2,3\n4\n")
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2", "c": "3"}, {"a": "4"}]
    assert losses.cells == {MISSING_CELL: 2}
    assert losses.places == {MISSING_CELL: [f"{path}:3: 1 cells, the header has 3"]}
    with pytest.raises(TableError, match=r"movies\.csv:3: cell missing at the end of the row"):
        read(path, strict=True)


def test_a_row_of_empty_cells_is_dropped_and_a_blank_line_is_no_row(path, read):
    path.write_text("a,b\n,\n\n  \n1,2\n")
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}]
    assert (losses.read, losses.dropped) == (2, {EMPTY_ROW: 1})
    assert losses.places == {EMPTY_ROW: [f"{path}:2"]}


def test_nul_bytes_are_taken_out_and_counted(path, read):
    path.write_bytes(b"a,b\n1\0,2\n\0,3\n")
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}, {"b": "3"}]
    assert losses.cells == {NUL_CHARACTER: 2}
    assert losses.places == {NUL_CHARACTER: [f"{path}:2: taken out", f"{path}:3: taken out"]}


def test_a_file_in_cp1252_is_recognised_and_noted(path, read):
    path.write_bytes("títle,b\nAmélie – 1,2\n".encode("cp1252"))
    rows, losses = read(path)
    assert rows == [{"títle": "Amélie – 1", "b": "2"}]
    assert losses == ReadReport(read=1, notes=["read as cp1252"])


def test_a_row_in_another_encoding_is_kept_and_counted(path, read):
    path.write_bytes("a,b\né,1\n".encode() + b"caf\xe9,2\n")
    rows, losses = read(path)
    assert rows == [{"a": "é", "b": "1"}, {"a": "café", "b": "2"}]
    assert losses.cells == {WRONG_ENCODING: 1}
    assert losses.places == {WRONG_ENCODING: [f"{path}:3: byte e9 is not utf-8, read as 'é'"]}


def test_a_quote_that_is_never_closed_costs_its_line_alone(path, read):
    path.write_text('a,b\n1,x\n2,"open\n3,y\n4,z\n')
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "x"}, {"a": "3", "b": "y"}, {"a": "4", "b": "z"}]
    assert (losses.read, losses.dropped) == (4, {UNCLOSED_QUOTE: 1})
    assert losses.places == {UNCLOSED_QUOTE: [f"{path}:3: unexpected end of data"]}
    with pytest.raises(TableError, match=r"movies\.csv:3: quote never closed"):
        read(path, strict=True)


def test_two_stray_quotes_do_not_swallow_the_rows_between(path, read):
    path.write_text('a,b\n1,"open\n2,y\n3,"open\n4,z\n')
    rows, losses = read(path)
    assert [row["a"] for row in rows] == ["2", "4"]
    assert losses.dropped == {UNCLOSED_QUOTE: 2}


def test_a_stray_quote_far_from_the_end_costs_its_line_alone(path, read):
    lines = [f"{number},text {number}" for number in range(40_000)]
    lines[5] = '5,"open'
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    rows, losses = read(path)
    assert len(rows) == 39_999
    assert losses.dropped == {UNCLOSED_QUOTE: 1}


def test_text_behind_a_closing_quote_is_kept(path, read):
    path.write_text('a,b\n"Heat" (1995),x\n')
    assert read(path) == ([{"a": "Heat (1995)", "b": "x"}], ReadReport(read=1))


@pytest.mark.parametrize("tail", ["half a ro", '1,"an open cell\nthat goes on\n', '1,"an open cell\nthat goes o'])
def test_of_a_truncated_gzip_the_whole_rows_stay(tmp_path, read, tail):
    path = tmp_path / "movies.csv.gz"
    path.write_bytes(gzip.compress(f"a,b\n1,2\n3,4\n{tail}".encode())[:-4])
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert (losses.read, losses.dropped) == (3, {CUT_OFF: 1})
    assert "the file ends too early" in losses.places[DAMAGED][0]


def test_a_header_without_rows_is_a_table_without_rows(path, read):
    path.write_text("a,b\n")
    assert read(path) == ([], ReadReport())


# Control characters in plenty are the mark of a binary file.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n\r\t")
CELLS = st.text(CHARACTERS, max_size=8).map(str.strip)
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.tuples(
        st.lists(CELLS.filter(bool), min_size=width, max_size=width, unique=True),
        st.lists(st.lists(CELLS, min_size=width, max_size=width).filter(any), min_size=1, max_size=12),
    )
)


@settings(deadline=None, max_examples=60)
@given(TABLES, st.sampled_from([",", ";", "\t", "|"]), st.sampled_from([1, 3, 1000]))
def test_files_written_by_the_standard_library_read_back_equal(tmp_path_factory, table, delimiter, chunk_rows):
    header, rows = table
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows([header, *rows])
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    losses = ReadReport(source="f")
    config = ReadConfig(chunk_rows=chunk_rows, delimiter=delimiter, encoding="utf-8")
    chunks = list(read_chunks(Source("rows", path, "csv"), losses, config))
    found = [{key: cell for key, cell in row.items() if cell is not None} for row in to_arrow(chunks).to_pylist()]
    assert found == [{key: cell for key, cell in zip(header, row, strict=True) if cell} for row in rows]
    assert (losses.read, losses.dropped, losses.cells) == (len(rows), {}, {})


def measure_peak(path, monkeypatch, num_rows: int) -> int:
    """Return the most bytes that Python and Arrow hold while a file of so many rows is read."""
    with path.open("w") as file:
        file.write("n,title,cast\n")
        for number in range(num_rows):
            file.write(f'{number},a film called {number},"Ann, Bob"\n')
    monkeypatch.setattr(compression, "BLOCK_SIZE", 1 << 14)
    before = pa.total_allocated_bytes()
    arrow = 0
    tracemalloc.start()
    try:
        for chunk in read_chunks(Source("movies", path, "csv"), ReadReport(), ReadConfig(chunk_rows=100)):
            arrow = max(arrow, pa.total_allocated_bytes() - before)
            assert chunk.num_rows
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_file(path, monkeypatch):
    assert measure_peak(path, monkeypatch, 10_000) < 1.2 * measure_peak(path, monkeypatch, 3_000)
