from __future__ import annotations

import pyarrow as pa
import pytest

from navi.cli.files import WRITERS, check_output, read_table, read_tables, write_table
from navi.errors import ConfigError, TableError


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_table_written_reads_back_equal(suffix, tmp_path):
    table = pa.table({"title": ["Alien", 'Say "a, b"\tc'], "year": ["1979", None]})
    out = tmp_path / f"films{suffix}"
    write_table(table, out)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert read_table(out).frame.to_pylist() == table.to_pylist()


def test_rows_know_where_they_stand_in_the_file(tmp_path):
    (tmp_path / "films.csv").write_text("title,year\nAlien,1979\n,\nHeat,1995\n")
    table = read_table(tmp_path / "films.csv")
    assert table.row_number.tolist() == [2, 4]
    assert table.losses.dropped.total() == 1


def test_every_member_of_a_list_is_kept(tmp_path):
    (tmp_path / "films.jsonl").write_text('{"cast": ["a", "b", "c", "d", "e"]}\n')
    assert read_table(tmp_path / "films.jsonl").frame.num_columns == 5


def test_tables_without_rows_are_left_out(tmp_path):
    (tmp_path / "films.csv").write_text("title\nAlien\n")
    (tmp_path / "none.csv").write_text("title\n")
    assert list(read_tables([tmp_path])) == ["films"]


def test_no_rows_at_all_are_an_error(tmp_path):
    (tmp_path / "none.csv").write_text("title\n")
    with pytest.raises(TableError, match="has any row"):
        read_tables([tmp_path])


def test_several_tables_where_one_is_wanted_are_an_error(tables):
    with pytest.raises(TableError, match=r"holds 3 tables, .* Give one file"):
        read_table(tables)


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
