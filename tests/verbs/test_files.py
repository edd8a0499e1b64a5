from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import navi.verbs.files as files
from navi.errors import ConfigError, TableError
from navi.tables import read_chunks
from navi.verbs.embedding import EmbedConfig
from navi.verbs.files import embed_files, read_ahead


def write_table(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path):
    """Two tables; one row of the first has no cells."""
    (tmp_path / "in").mkdir()
    films = [{"title": f"film {n}", "kind": "movie", "year": 1990 + n} for n in range(7)]
    write_table(tmp_path / "in" / "films.jsonl", [*films[:3], {}, *films[3:]])
    write_table(tmp_path / "in" / "songs.jsonl", [{"name": "night"}, {"name": "day", "kind": "old"}])
    return tmp_path / "in"


def read_vectors(path):
    table = pq.read_table(path)
    return table, np.stack(table["embedding"].to_numpy(zero_copy_only=False))


def test_rows_are_written_with_table_and_number_in_the_order_of_the_files(navi, folder, tmp_path):
    report = embed_files(navi, [folder], tmp_path / "out.parquet")
    table, vectors = read_vectors(tmp_path / "out.parquet")
    assert table["table"].to_pylist() == ["films"] * 7 + ["songs"] * 2
    assert table["row"].to_pylist() == [1, 2, 3, 5, 6, 7, 8, 1, 2]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), navi.hidden_size)
    np.testing.assert_allclose(vectors[7], navi.embed_rows({"name": "night"})[0], atol=1e-5)
    assert report.num_vectors == 9
    assert report.reports["films"].dropped.total() == 1


@pytest.mark.parametrize("kind", ["segments", "headers"])
def test_cells_are_written_with_header_and_role(navi, folder, tmp_path, kind):
    embed_files(navi, [folder], tmp_path / "out.parquet", kind=kind)
    table, vectors = read_vectors(tmp_path / "out.parquet")
    assert table.column_names == ["table", "row", "header", "role", "embedding"]
    assert table["header"].to_pylist()[:3] == ["title", "kind", "year"]
    assert table["role"].to_pylist()[:3] == ["high", "low", "high"]
    embed = navi.embed_segments if kind == "segments" else navi.embed_headers
    np.testing.assert_allclose(vectors[:3], embed({"title": "film 0", "kind": "movie", "year": 1990}), atol=1e-5)


def test_roles_are_those_of_the_whole_table_however_few_rows_are_read_at_a_time(navi, folder, tmp_path, monkeypatch):
    embed_files(navi, [folder], tmp_path / "whole.parquet", kind="segments")
    monkeypatch.setitem(files.ROWS_AT_ONCE, "segments", 1)
    embed_files(navi, [folder], tmp_path / "parts.parquet", kind="segments")
    whole, parts = (read_vectors(tmp_path / name) for name in ("whole.parquet", "parts.parquet"))
    assert parts[0].drop_columns("embedding") == whole[0].drop_columns("embedding")
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-5)


def test_a_column_first_met_after_the_rows_that_tell_roles_has_none(navi, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROLE_ROWS", 2)
    monkeypatch.setitem(files.ROWS_AT_ONCE, "segments", 1)
    file = write_table(tmp_path / "films.jsonl", [{"a": "king"}, {"a": "king"}, {"b": "war"}])
    embed_files(navi, [file], tmp_path / "out.parquet", kind="segments")
    assert pq.read_table(tmp_path / "out.parquet")["role"].to_pylist() == ["low", "low", None]


def test_attributes_are_written_once_each(navi, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(files.ROWS_AT_ONCE, "attributes", 2)
    embed_files(navi, [folder], tmp_path / "out.parquet", kind="attributes")
    table, vectors = read_vectors(tmp_path / "out.parquet")
    assert table["attribute"].to_pylist() == ["title", "kind", "year", "name"]
    np.testing.assert_allclose(vectors[3], navi.embed_attributes({"name": "a"})[0], atol=1e-5)


def test_settings_apply_to_what_is_written(navi, folder, tmp_path):
    config = EmbedConfig(dtype="float16", normalize=True, pooling="values", output="torch")
    embed_files(navi, [folder], tmp_path / "out.parquet", config=config)
    table, vectors = read_vectors(tmp_path / "out.parquet")
    assert table.schema.field("embedding").type == pa.list_(pa.float16(), navi.hidden_size)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=1e-3)


def test_progress_is_told_table_by_table(navi, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(files.ROWS_AT_ONCE, "rows", 4)
    told = []
    embed_files(navi, [folder], tmp_path / "out.parquet", progress=lambda table, rows: told.append((table, rows)))
    assert told == [("films", 3), ("films", 4), ("songs", 2)]


def test_no_more_than_a_few_chunks_are_read_ahead(navi, tmp_path, monkeypatch):
    monkeypatch.setitem(files.ROWS_AT_ONCE, "rows", 2)
    file = write_table(tmp_path / "films.jsonl", [{"title": f"film {n}"} for n in range(40)])
    read, written = [], []

    def read_slowly(source, losses, config):
        for chunk in read_chunks(source, losses, config):
            read.append(len(read))
            assert len(read) - len(written) <= 4, "chunks pile up in memory"
            yield chunk

    monkeypatch.setattr(files, "read_chunks", read_slowly)
    embed_files(navi, [file], tmp_path / "out.parquet", progress=lambda table, rows: written.append(rows))
    assert len(read) == 20


def test_nothing_is_left_behind_when_reading_fails(navi, folder, tmp_path, monkeypatch):
    def fail(source, losses, config):
        yield from read_chunks(source, losses, config)
        raise TableError("injected")

    monkeypatch.setattr(files, "read_chunks", fail)
    (tmp_path / "to").mkdir()
    with pytest.raises(TableError, match="injected"):
        embed_files(navi, [folder], tmp_path / "to" / "out.parquet")
    assert list((tmp_path / "to").iterdir()) == []


def test_an_earlier_result_stays_until_the_new_one_is_whole(navi, folder, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_text("earlier")
    (tmp_path / "empty.csv").write_text("title\n")
    with pytest.raises(TableError, match="has any row"):
        embed_files(navi, [tmp_path / "empty.csv"], out)
    assert out.read_text() == "earlier"
    embed_files(navi, [folder], out)
    assert pq.read_table(out).num_rows == 9


def test_an_unknown_kind_is_refused(navi, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot embed 'cells'. Expected one of rows, segments, headers, attributes"):
        embed_files(navi, [folder], tmp_path / "out.parquet", kind="cells")


def test_a_folder_that_is_not_there_is_refused(navi, folder, tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        embed_files(navi, [folder], tmp_path / "nowhere" / "out.parquet")


def test_items_come_in_order_and_errors_come_through():
    assert list(read_ahead(iter(range(5)))) == list(range(5))

    def fail():
        yield 1
        raise TableError("injected")

    with pytest.raises(TableError, match="injected"):
        list(read_ahead(fail()))


def test_a_name_that_promises_another_format_is_refused(navi, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"rows\.csv: vectors go to Parquet, so its suffix must be \.parquet\."):
        embed_files(navi, [folder], tmp_path / "rows.csv")


def test_the_suffix_may_be_in_capitals(navi, folder, tmp_path):
    assert embed_files(navi, [folder], tmp_path / "ROWS.PARQUET").path.is_file()
