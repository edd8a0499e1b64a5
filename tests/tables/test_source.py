import pickle
from pathlib import Path

import pytest

from navi.errors import TableError
from navi.tables import Source, find_sources


def touch(folder: Path, *names: str) -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")
    return paths


def names(*paths: str | Path) -> list[str]:
    return [source.name for source in find_sources(paths).sources]


def test_a_file_is_named_without_its_suffixes(tmp_path):
    (path,) = touch(tmp_path, "movies.v2.JSONL.gz")
    assert find_sources([path]).sources == (Source("movies.v2", path, "jsonl", "gzip"),)


@pytest.mark.parametrize(
    ("name", "format", "compression"),
    [
        ("a.csv", "csv", None),
        ("a.tsv.zst", "tsv", "zstd"),
        ("a.ndjson", "jsonl", None),
        ("a.json.gz", "json", "gzip"),
        ("a.parquet", "parquet", None),
        ("a.feather", "arrow", None),
        ("a.arrow.zstd", "arrow", "zstd"),
        ("a.xlsx", "excel", None),
    ],
)
def test_suffixes_promise_format_and_compression(tmp_path, name, format, compression):
    (source,) = find_sources(touch(tmp_path, name)).sources
    assert (source.format, source.compression) == (format, compression)


def test_folders_are_searched_to_the_bottom_in_a_fixed_order(tmp_path):
    touch(tmp_path, "b.csv", "deep/er/c.csv", "a.jsonl")
    assert names(tmp_path) == ["a", "b", "c"]


def test_patterns_find_files_and_folders(tmp_path):
    touch(tmp_path, "one/a.csv", "two/b.csv", "two/c.jsonl")
    assert names(str(tmp_path / "*" / "*.csv")) == ["a", "b"]
    assert names(str(tmp_path / "t*")) == ["b", "c"]
    assert names(str(tmp_path / "**" / "*.csv")) == ["a", "b"]


def test_relative_patterns_work(tmp_path, monkeypatch):
    touch(tmp_path, "one/a.csv")
    monkeypatch.chdir(tmp_path)
    assert names("one/*.csv") == ["a"]


def test_a_file_met_twice_is_one_source(tmp_path):
    (path,) = touch(tmp_path, "a.csv")
    assert names(path, tmp_path, str(tmp_path / "*.csv")) == ["a"]


def test_the_order_of_paths_changes_nothing(tmp_path):
    one, two = touch(tmp_path, "one/a.csv", "two/a.csv")
    assert find_sources([one, two]) == find_sources([two, one])


def test_names_that_are_shared_take_as_many_folders_as_they_need(tmp_path):
    touch(tmp_path, "x/one/a.csv", "x/two/a.csv", "y/two/a.csv", "b.csv")
    assert names(tmp_path) == ["b", "one/a", "x/two/a", "y/two/a"]


def test_names_shared_within_a_folder_keep_their_suffixes(tmp_path):
    touch(tmp_path, "a.csv", "a.csv.gz", "a.jsonl", "b.csv")
    assert names(tmp_path) == ["a.csv", "a.csv.gz", "a.jsonl", "b"]


def test_other_files_in_a_folder_are_skipped_with_the_reason(tmp_path):
    touch(tmp_path, "a.csv", "readme.md", ".hidden.csv", ".git/b.csv")
    skipped = {path.name: reason for path, reason in find_sources([tmp_path]).skipped}
    assert skipped == {"readme.md": "unknown suffix '.md'", ".hidden.csv": "hidden file", ".git": "hidden folder"}


def test_a_link_to_a_folder_is_not_followed_and_that_is_said(tmp_path):
    touch(tmp_path, "real/a.csv")
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real")
    found = find_sources([tmp_path])
    assert [source.name for source in found.sources] == ["a"]
    assert found.skipped == ((tmp_path / "real" / "loop", "link to a folder"),)


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(TableError, match=r"Cannot read .*nowhere\.csv: no such file or folder"):
        find_sources([tmp_path / "nowhere.csv"])


def test_an_unknown_suffix_is_an_error_if_the_file_is_named(tmp_path):
    (path,) = touch(tmp_path, "movies.xyz")
    with pytest.raises(TableError, match=r"Cannot read .*movies\.xyz: unknown suffix '\.xyz'\. Expected one of \.csv"):
        find_sources([path])


def test_a_compressed_file_without_a_format_is_an_error(tmp_path):
    (path,) = touch(tmp_path, "movies.gz")
    with pytest.raises(TableError, match="unknown suffix"):
        find_sources([path])


def test_a_folder_without_tables_is_an_error(tmp_path):
    touch(tmp_path, "readme.md")
    with pytest.raises(TableError, match=r"No tables in .*: expected files with one of the suffixes \.csv"):
        find_sources([tmp_path])


def test_a_pattern_without_matches_is_an_error(tmp_path):
    with pytest.raises(TableError, match="the pattern matches no file"):
        find_sources([str(tmp_path / "*.csv")])


def test_sources_travel_between_processes(tmp_path):
    found = find_sources(touch(tmp_path, "a.csv"))
    assert pickle.loads(pickle.dumps(found)) == found
