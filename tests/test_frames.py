from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from navi.errors import ConfigError, TableError
from navi.tables import WRITERS, check_output, name_frames, read_table, read_tables, stream_tables, write_table

ROWS = [{"title": "king", "cast": [{"name": "love"}]}, {"year": "1999"}]


def test_a_mapping_of_frames_holds_tables_and_any_other_is_one_row():
    frame = pd.DataFrame(ROWS)
    assert list(name_frames({"a": frame, "b": ROWS, "c": read_table(ROWS)})) == ["a", "b", "c"]
    assert name_frames({"title": "king", "cast": [{"name": "love"}]}).keys() == {"table"}
    assert name_frames({}) == {"table": {}}


def test_a_list_of_frames_holds_tables_and_a_list_of_rows_is_one():
    assert list(name_frames([ROWS, pa.table({"a": [1]})])) == ["table 1", "table 2"]
    assert list(name_frames(ROWS)) == ["table"]


def test_a_table_is_read_once_and_stays_what_it_is():
    table = read_table(ROWS, name="films")
    assert read_table(table) is table
    assert read_tables([table]) == {"films": table}
    assert read_tables({"others": table})["others"].name == "others"


def test_rows_without_cells_are_counted_and_keep_their_place():
    table = read_table([{}, *ROWS, {"title": None}])
    assert table.num_rows == 4
    assert [number for chunk in table.chunks for number in chunk.row_number] == [2, 3]
    assert table.text["title"].to_pylist() == [None, "king", None, None]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_keeps_its_types_its_order_and_its_empty_columns(make):
    table = read_table(make({"year": [None, 1979], "title": ["Heat", "Alien"], "note": [None, None]}))
    assert table.headers == ("year", "title", "note")
    assert table.to_arrow()["year"].to_pylist() == [None, 1979]
    assert table.text.to_pylist() == [
        {"year": None, "title": "Heat", "note": None},
        {"year": "1979", "title": "Alien", "note": None},
    ]


def test_columns_of_a_file_stand_in_its_order_and_empty_ones_stay(tmp_path):
    (tmp_path / "films.csv").write_text("title,year,note\nHeat,,\n,,\nAlien,1979,\n")
    table = read_table(tmp_path / "films.csv")
    assert table.name == "films"
    assert table.row_number.tolist() == [2, 4]
    assert table.report.dropped.total() == 1
    assert table.to_arrow().to_pylist() == [
        {"title": "Heat", "year": None, "note": None},
        {"title": "Alien", "year": "1979", "note": None},
    ]


def test_nested_columns_of_a_typed_file_are_flat_in_the_chunks_and_whole_in_arrow(tmp_path):
    cells = pa.table({"title": ["Alien", None], "cast": [["a", "b", "c", "d"], None], "year": [1979, None]})
    pq.write_table(cells, tmp_path / "films.parquet")
    table = read_table(str(tmp_path / "films.parquet"), whole=True)
    assert table.headers == ("title", "cast.0", "cast.1", "cast.2", "year")
    assert table.to_arrow().equals(cells)
    assert table.num_rows == 2


def test_every_member_of_a_list_is_kept_where_a_table_is_read_whole(tmp_path):
    (tmp_path / "films.jsonl").write_text('{"cast": ["a", "b", "c", "d", "e"]}\n')
    assert read_table(tmp_path / "films.jsonl", whole=True).to_arrow().num_columns == 5
    assert read_table(tmp_path / "films.jsonl").to_arrow().num_columns == 3


@pytest.mark.parametrize("columns", [None, ["title"]])
def test_tables_that_are_streamed_are_those_that_are_read(columns, tmp_path):
    (tmp_path / "d.csv").write_text("title\nprince\n")
    frames = {"a": pd.DataFrame(ROWS), "b": pa.table({"title": ["queen", None]}), "c": ROWS}
    for some in (frames, {"a": frames["a"], "b": frames["b"]}, tmp_path):
        row_number, chunks = stream_tables(some, columns=columns)
        tables = read_tables(some, columns=columns)
        assert {name: numbers.tolist() for name, numbers in row_number.items()} == {
            name: table.row_number.tolist() for name, table in tables.items()
        }
        expected = [(name, chunk) for name, table in tables.items() for chunk in table.chunks]
        for (name, chunk), (expected_name, other) in zip(chunks, expected, strict=True):
            assert name == expected_name
            assert chunk.cell_value.equals(other.cell_value)


def test_frames_that_tell_their_length_are_read_when_their_chunks_are_taken():
    row_number, chunks = stream_tables({"first": pa.table({"a": [1]}), "second": pd.DataFrame({"a": [1, 2j]})})
    assert {name: len(numbers) for name, numbers in row_number.items()} == {"first": 1, "second": 2}
    assert next(chunks)[0] == "first"


def test_a_table_without_rows_is_refused_before_any_is_read():
    with pytest.raises(TableError, match=r"The table 'b' has no rows"):
        stream_tables({"a": pd.DataFrame(ROWS), "b": pd.DataFrame({"title": []})})
    assert list(read_tables({"b": pd.DataFrame({"title": []})}, keep_empty=True)["b"].headers) == ["title"]


def test_chosen_columns_keep_their_cells_and_all_rows_keep_their_place():
    table = read_table(ROWS).select(["cast", "title"])
    assert table.text.to_pylist() == [{"title": "king", "cast.0.name": "love"}, {"title": None, "cast.0.name": None}]
    assert [chunk.row_number.tolist() for chunk in table.chunks] == [[1]]


def test_a_column_that_no_row_has_is_refused_with_those_there_are():
    table = read_table([{"title": "Alien", "year": 1979}], name="films")
    with pytest.raises(TableError, match=r"The table 'films' has no column 'price'. It has title, year."):
        table.find_headers(["price"])
    with pytest.raises(TableError, match=r"Did you mean 'title'\?"):
        read_tables({"films": table}, columns=["tilte"])


def test_files_and_folders_are_read_with_their_names(catalogues, truth):
    tables = read_tables([catalogues])
    assert set(tables) == set(truth.films)
    assert sum(table.num_rows for table in tables.values()) == 400


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


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"its suffix must be one of \.parquet, \.csv"):
        check_output(tmp_path / "films.docx")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        check_output(tmp_path / "no" / "films.csv")


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def fill_the_disk(table, out):
        out.write_text("half")
        raise OSError(28, "No space left on device", str(out))

    monkeypatch.setitem(WRITERS, ".csv", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        write_table(pa.table({"x": ["a"]}), tmp_path / "films.csv")
    assert list(tmp_path.iterdir()) == []
