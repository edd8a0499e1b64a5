"""Tests of files to a corpus."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.corpus import AttributeMapping, Corpus, ProgressEvent, prepare
from navi.errors import CorpusError, TableError
from navi.tables import ReadConfig

HEADERS = st.sampled_from(["title", "year", "genre", "cast name"])
ROWS = st.lists(
    st.dictionaries(HEADERS, st.sampled_from(["a", "b", "c", "film 1"]), min_size=1), min_size=1, max_size=12
)
TABLES = st.dictionaries(st.sampled_from(["amber", "birch", "cedar", "dogwood"]), ROWS, min_size=1)


def read_files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_splits(corpus):
    """Return the splits that each row's content has been seen in, by table."""
    names = [corpus.tables[table] for table in corpus.arrays.row_table]
    seen = {}
    for name, content, split in zip(names, corpus.row_hash.tolist(), corpus.row_split.tolist(), strict=True):
        seen.setdefault((name, content), set()).add(split)
    return seen


def read_tables(corpus):
    """Return the rows of each table as they were, by table."""
    arrays = corpus.arrays
    tables = {name: [] for name in corpus.tables}
    for row, table in enumerate(arrays.row_table):
        segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        headers = corpus.headers.take(arrays.segment_header[segments]).to_pylist()
        values = corpus.values.take(arrays.segment_value[segments]).to_pylist()
        tables[corpus.tables[table]].append(dict(zip(headers, values, strict=True)))
    return tables


@settings(max_examples=15)
@given(TABLES)
def test_every_row_can_be_read_back(config, write_tables, tables):
    with tempfile.TemporaryDirectory() as folder:
        corpus = prepare([write_tables(Path(folder, "in"), tables)], Path(folder, "out"), config)
        assert read_tables(corpus) == dict(sorted(tables.items()))


@settings(max_examples=15)
@given(TABLES, ROWS, st.randoms())
def test_split_ignores_the_order_of_rows_and_added_files(config, write_tables, tables, more, random):
    shuffled = {name: random.sample(rows, len(rows)) for name, rows in tables.items()} | {"added": more}
    with tempfile.TemporaryDirectory() as folder:
        first = prepare([write_tables(Path(folder, "in"), tables)], Path(folder, "out"), config)
        second = prepare([write_tables(Path(folder, "in2"), shuffled)], Path(folder, "out2"), config)
        splits, later = read_splits(first), read_splits(second)
        assert {key: later[key] for key in splits} == splits
        assert all(len(seen) == 1 for seen in later.values())


def test_copies_of_a_row_never_straddle_splits(config, write_tables, tmp_path):
    rows = [{"title": f"film {number % 50}"} for number in range(500)]
    corpus = prepare([write_tables(tmp_path / "in", {"a": rows, "b": rows[::-1]})], tmp_path / "out", config)
    content = {}
    for row, split in zip(corpus.row_hash.tolist(), corpus.row_split.tolist(), strict=True):
        content.setdefault(row, set()).add(split)
    assert len(content) == 50
    assert all(len(splits) == 1 for splits in content.values())
    assert {split for splits in content.values() for split in splits} == {0, 1, 2}


@settings(max_examples=3)
@given(TABLES.filter(lambda tables: len(tables) > 1))
def test_number_of_workers_does_not_change_a_byte(config, write_tables, tables):
    with tempfile.TemporaryDirectory() as folder:
        source = write_tables(Path(folder, "in"), tables)
        for workers in (1, 2):
            prepare([source], Path(folder, str(workers)), replace(config, workers=workers))
        assert read_files(Path(folder, "1")) == read_files(Path(folder, "2"))


def test_order_of_paths_does_not_change_a_byte(films, config, tmp_path):
    files = sorted(films.iterdir())
    for name, paths in {"first": files, "second": files[::-1]}.items():
        prepare(paths, tmp_path / name, config)
    assert read_files(tmp_path / "first") == read_files(tmp_path / "second")


def test_size_of_chunks_changes_nothing_but_the_order_of_numbers(films, config, tmp_path):
    whole = prepare([films], tmp_path / "whole", config)
    small = prepare([films], tmp_path / "small", replace(config, read=ReadConfig(chunk_rows=7)))
    assert read_tables(small) == read_tables(whole)
    assert small.row_split.tolist() == whole.row_split.tolist()
    assert small.manifest["totals"] == whole.manifest["totals"]


def test_corpus_is_what_the_files_hold(films, config, tmp_path):
    corpus = prepare([films], tmp_path / "out", config)
    assert corpus.tables == ("amber", "birch", "cedar")
    assert corpus.attributes.to_pylist() == [
        "title", "genre", "year", "movie title", "release year", "colour", "cast name",
    ]  # fmt: skip
    assert corpus.manifest["totals"] == {
        "tables": 3, "read": 120, "rows": 120, "cells": 340, "tokens": int(corpus.arrays.count_row_tokens().sum()),
        "segments": 120 + 10 + 6 + 4, "values": 120 + 3 + 7 + 1 + 4, "value_tokens": len(corpus.arrays.value_tokens),
        "headers": 7, "attributes": 7, "columns": 8,
    }  # fmt: skip


def test_entropy_counts_rows_that_train_alone(config, write_tables, tmp_path):
    values = [f"kind {number % 7}" for number in range(60)]
    rows = [{"title": f"film {number}", "kind": value} for number, value in enumerate(values)]
    corpus = prepare([write_tables(tmp_path / "in", {"amber": rows})], tmp_path / "out", config)
    column = corpus.headers.to_pylist().index("kind")
    trained = [values[row] for row in corpus.rows_of("train")]
    assert corpus.column_entropy[column] == pytest.approx(measure(trained))
    assert corpus.column_entropy[column] != pytest.approx(measure(values))


def measure(values):
    shares = np.array(list(Counter(values).values())) / len(values)
    return -(shares * np.log(shares)).sum() / np.log(len(values))


def test_unseen_tables_are_a_split_of_their_own(films, config, tmp_path):
    corpus = prepare([films], tmp_path / "out", replace(config, unseen_tables=("birch",)))
    assert set(corpus.arrays.row_table[corpus.rows_of("unseen")].tolist()) == {1}
    assert len(corpus.rows_of("unseen")) == 40
    assert corpus.manifest["tables"][1]["splits"] == {"train": 0, "validation": 0, "test": 0, "unseen": 40}
    assert not np.isnan(corpus.column_entropy).any()


def test_rows_are_sampled_down_in_proportion(films, config, tmp_path):
    corpus = prepare([films], tmp_path / "out", replace(config, total_rows=30))
    assert [table["kept"] for table in corpus.manifest["tables"]] == [15, 10, 5]
    assert corpus.manifest["tables"][0]["dropped"] == {"sampled down": 45}
    assert np.bincount(corpus.arrays.row_table).tolist() == [15, 10, 5]
    whole = prepare([films], tmp_path / "whole", config)
    assert read_splits(corpus).items() <= read_splits(whole).items()
    assert set(corpus.arrays.segment_value.tolist()) == set(range(len(corpus.values)))


def test_foreign_table_is_left_out_and_said_so(films, config, tmp_path):
    (films / "russian.csv").write_text("name,year\n" + "драма ужасы,1999\n" * 5, encoding="utf-8")
    corpus = prepare([films], tmp_path / "out", config)
    entry = corpus.manifest["tables"][-1]
    assert corpus.tables == ("amber", "birch", "cedar")
    assert (entry["name"], entry["read"], entry["kept"]) == ("russian", 5, 0)
    assert entry["dropped"] == {"table not in the tokenizer's vocabulary": 5}
    assert entry["fields"] == {"text": 5, "bad": 5}


def test_losses_of_reading_are_in_the_manifest_and_add_up(films, config, tmp_path):
    with (films / "amber.jsonl").open("a") as file:
        file.write('{"broken\n[1]\n{}\n')
    entry = prepare([films], tmp_path / "out", config).manifest["tables"][0]
    assert (entry["read"], entry["kept"]) == (63, 60)
    assert sum(entry["dropped"].values()) == 3
    places = [place for places in entry["places"].values() for place in places]
    assert sorted(place.split(":")[1] for place in places) == ["61", "62", "63"]


def test_cells_of_rows_that_are_too_long_are_counted(config, write_tables, tmp_path):
    rows = [{f"h{number}": "the film" for number in range(9)}]
    short = replace(config, max_tokens=24, max_header_tokens=8, max_value_tokens=8)
    corpus = prepare([write_tables(tmp_path / "in", {"amber": rows})], tmp_path / "out", short)
    assert corpus.manifest["tables"][0]["cells"] == {"beyond max_tokens": 6}
    assert corpus.manifest["tables"][0]["tokens"] == 19


def test_file_that_is_no_table_is_skipped_with_its_reason(films, config, tmp_path):
    (films / "notes.txt").write_text("hello")
    (films / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    skipped = prepare([films], tmp_path / "out", config).manifest["skipped"]
    assert [Path(entry["path"]).name for entry in skipped] == ["broken.parquet", "notes.txt"]
    assert all(entry["reason"] for entry in skipped)


def test_strict_reading_makes_every_loss_an_error(films, config, tmp_path):
    with (films / "amber.jsonl").open("a") as file:
        file.write('{"broken\n')
    for workers in (1, 2):
        strict = replace(config, workers=workers, read=ReadConfig(strict=True))
        with pytest.raises(TableError, match=r"amber\.jsonl:61"):
            prepare([films], tmp_path / "out", strict)
    assert [path.name for path in tmp_path.iterdir()] == ["films"]


def test_corpus_among_the_paths_is_not_read_as_tables(films, config, tmp_path):
    prepare([films], films / "corpus", config)
    again = prepare([films], films / "corpus", config, overwrite=True)
    assert again.tables == ("amber", "birch", "cedar")
    assert {entry["reason"] for entry in again.manifest["skipped"]} >= {"part of a corpus"}
    with pytest.raises(CorpusError, match=r"No tables in .*rows\.arrow: all files are part of a corpus"):
        prepare([films / "corpus" / "rows.arrow"], tmp_path / "out", config)


def test_existing_corpus_is_replaced_only_when_asked(films, config, tmp_path):
    first = prepare([films], tmp_path / "out", config)
    with pytest.raises(CorpusError, match="There is a corpus at"):
        prepare([films], tmp_path / "out", config)
    second = prepare([films], tmp_path / "out", replace(config, seed=1), overwrite=True)
    assert second.fingerprint != first.fingerprint


def test_mapping_decides_attributes_and_what_it_misses_is_noted(films, config, tmp_path):
    mapping = AttributeMapping({"Movie_Title": "title", "gone": "x"})
    corpus = prepare([films], tmp_path / "out", replace(config, attributes=mapping))
    assert "movie title" not in corpus.attributes.to_pylist()
    assert corpus.manifest["notes"] == ["attributes: no table has the header 'gone'"]
    assert corpus.config.attributes == mapping


def test_progress_goes_through_all_stages(films, config, tmp_path):
    events: list[ProgressEvent] = []
    prepare([films], tmp_path / "out", config, events.append)
    last = {event.stage: event for event in events}
    assert list(last) == ["read", "merge", "write"]
    assert all(event.done == event.total and event.rows == 120 for event in last.values())


KILLED = """
import sys, time
from navi.corpus import PrepareConfig, prepare

def wait(event):
    if event.stage == sys.argv[4]:
        print("reached", flush=True)
        time.sleep(60)

prepare([sys.argv[1]], sys.argv[2], PrepareConfig(backbone=sys.argv[3], workers=int(sys.argv[5])), wait)
"""


@pytest.mark.parametrize(("stage", "workers"), [("read", 1), ("read", 2), ("merge", 1), ("write", 1)])
def test_interrupted_prepare_leaves_nothing_that_looks_like_a_corpus(films, backbone, config, tmp_path, stage, workers):
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(films), str(out), backbone, stage, str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"reached\n"
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    for left in tmp_path.iterdir():
        assert not (left / "corpus.json").exists()
        with pytest.raises(CorpusError, match="is not a corpus"):
            Corpus.open(left)
    assert prepare([films], out, config).tables == ("amber", "birch", "cedar")


def test_manifest_holds_nothing_of_the_moment(films, config, tmp_path):
    manifest = json.loads((prepare([films], tmp_path / "out", config).path / "corpus.json").read_text())
    assert list(manifest) == [
        "format_version", "navi_version", "fingerprint", "tokenizer", "settings", "totals", "notes", "skipped",
        "files", "tables",
    ]  # fmt: skip
    assert list(manifest["tables"][0])[:4] == ["name", "path", "read", "kept"]
