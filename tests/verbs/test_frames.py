from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import navi.verbs.frames as module
from navi.errors import TableError
from navi.tables import ReadConfig, to_arrow
from navi.verbs.frames import find_headers, keep_columns, name_frames, read_files, read_tables, stream_tables

ROWS = [{"title": "king", "cast": [{"name": "love"}]}, {"year": "1999"}]


def test_a_mapping_of_frames_holds_tables_and_any_other_is_one_row():
    frame = pd.DataFrame(ROWS)
    assert list(name_frames({"a": frame, "b": ROWS})) == ["a", "b"]
    assert name_frames({"title": "king", "cast": [{"name": "love"}]}).keys() == {"table"}
    assert name_frames({}) == {"table": {}}


def test_a_list_of_frames_holds_tables_and_a_list_of_rows_is_one():
    assert list(name_frames([ROWS, pa.table({"a": [1]})])) == ["table 1", "table 2"]
    assert list(name_frames(ROWS)) == ["table"]


def test_rows_without_cells_are_counted():
    tables = read_tables([{}, *ROWS, {"title": None}], ReadConfig())
    assert tables.num_rows == {"table": 4}
    assert sum(chunk.num_rows for chunk in tables.chunks["table"]) == 2


@pytest.mark.parametrize("columns", [None, ["title"]])
def test_tables_that_are_streamed_are_those_that_are_read(columns):
    frames = {"a": pd.DataFrame(ROWS), "b": pa.table({"title": ["queen", None]}), "c": ROWS}
    for some in (frames, {"a": frames["a"], "b": frames["b"]}):
        num_rows, chunks = stream_tables(some, ReadConfig(), columns)
        whole = read_tables(some, ReadConfig(), columns)
        assert num_rows == whole.num_rows
        pairs = [(name, chunk) for name, own in whole.chunks.items() for chunk in own]
        for (name, chunk), (expected_name, expected) in zip(chunks, pairs, strict=True):
            assert name == expected_name
            assert to_arrow([chunk]).equals(to_arrow([expected]))


def test_frames_that_tell_their_length_are_read_when_their_chunks_are_taken(monkeypatch):
    read = []
    monkeypatch.setattr(module, "read_frame", lambda frame, **_: read.append(frame) or iter([frame]))
    first, second = pa.table({"a": [1]}), pd.DataFrame({"a": [1, 2]})
    num_rows, chunks = stream_tables({"first": first, "second": second}, ReadConfig())
    assert num_rows == {"first": 1, "second": 2}
    assert not read
    assert next(chunks) == ("first", first)
    assert len(read) == 1


def test_a_table_without_rows_is_refused_before_any_is_read():
    with pytest.raises(TableError, match=r"The table 'b' has no rows"):
        stream_tables({"a": pd.DataFrame(ROWS), "b": pd.DataFrame({"title": []})}, ReadConfig())


def test_columns_keep_their_cells_and_rows_without_any_of_them_go():
    (chunk,) = keep_columns(read_tables(ROWS, ReadConfig()).chunks["table"], ["cast", "title"], "films")
    assert to_arrow([chunk]).to_pylist() == [{"title": "king", "cast.0.name": "love"}]
    assert chunk.row_number.tolist() == [1]


def test_a_column_that_no_row_has_is_refused_with_those_there_are():
    with pytest.raises(TableError, match=r"The table 'films' has no column 'price'. It has title, year."):
        find_headers(["title", "year"], ["price"], "films")


def test_files_are_read_with_their_names(catalogues, truth):
    tables = read_files([catalogues], ReadConfig())
    assert set(tables.chunks) == set(truth.films)
    assert sum(tables.num_rows.values()) == 400


def test_files_without_rows_are_refused(tmp_path):
    (tmp_path / "empty.csv").write_text("title,year\n")
    with pytest.raises(TableError, match=r"No table in .* has any row"):
        read_files([tmp_path], ReadConfig())
