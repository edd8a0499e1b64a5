"""From files to a corpus directory: `navi.prepare` and `navi prepare`."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.corpus import AttributeMapping, Corpus, PrepareConfig, ProgressEvent, prepare
from navi.errors import ConfigError, CorpusError, TableError
from navi.tables import ReadConfig

HEADERS = st.sampled_from(["title", "year", "genre", "cast name"])
ROWS = st.lists(
    st.dictionaries(HEADERS, st.sampled_from(["a", "b", "c", "film 1"]), min_size=1), min_size=1, max_size=12
)
TABLES = st.dictionaries(st.sampled_from(["amber", "birch", "cedar", "dogwood"]), ROWS, min_size=1)


def read_files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read_splits(corpus):
    """Return the splits that each row's content has been seen in, by table."""
    seen = {}
    for table, content, split in zip(corpus.arrays.row_table, corpus.row_hash, corpus.row_split, strict=True):
        seen.setdefault((corpus.tables[table], int(content)), set()).add(int(split))
    return seen


# What a corpus holds


def test_corpus_is_what_the_files_hold(film_tables, prepare_config, tmp_path):
    corpus = prepare([film_tables], tmp_path / "out", prepare_config)
    assert corpus.tables == ("amber", "birch", "cedar")
    assert corpus.attributes.to_pylist() == [
        "title", "genre", "year", "movie title", "release year", "colour", "cast name",
    ]  # fmt: skip
    assert corpus.manifest["totals"] == {
        "tables": 3, "read": 120, "rows": 120, "cells": 340, "tokens": int(corpus.arrays.count_row_tokens().sum()),
        "segments": 120 + 10 + 6 + 4, "values": 120 + 3 + 7 + 1 + 4, "value_tokens": len(corpus.arrays.value_tokens),
        "headers": 7, "attributes": 7, "columns": 8,
    }  # fmt: skip


def test_one_path_stands_for_itself_and_a_corpus_says_what_it_is_in_a_line(film_tables, prepare_config, tmp_path):
    corpus = prepare(str(film_tables), tmp_path / "corpus", prepare_config)
    assert corpus.fingerprint == prepare([film_tables], tmp_path / "other", prepare_config).fingerprint
    tables, rows = len(corpus.tables), corpus.arrays.num_rows
    assert repr(corpus) == f"Corpus('{tmp_path / 'corpus'}': {tables} tables, {rows} rows)"


@settings(max_examples=3)
@given(TABLES.filter(lambda tables: len(tables) > 1))
def test_neither_workers_nor_the_order_of_paths_change_a_byte(prepare_config, write_tables, tables):
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(write_tables(Path(folder, "in"), tables).iterdir())
        for workers, paths in ((1, files), (2, files[::-1])):
            prepare(paths, Path(folder, str(workers)), replace(prepare_config, workers=workers))
        assert read_files(Path(folder, "1")) == read_files(Path(folder, "2"))


def test_mapping_decides_attributes_and_what_it_misses_is_noted(film_tables, prepare_config, tmp_path):
    mapping = AttributeMapping({"Movie_Title": "title", "gone": "x"})
    corpus = prepare([film_tables], tmp_path / "out", replace(prepare_config, attributes=mapping))
    assert "movie title" not in corpus.attributes.to_pylist()
    assert corpus.manifest["notes"] == ["attributes: no table has the header 'gone'"]
    assert corpus.config.attributes == mapping


# Splits, unseen tables, limits


def test_splits_never_change(film_tables, prepare_config, tmp_path):
    corpus = prepare([film_tables], tmp_path / "out", prepare_config)
    assert corpus.rows_of("validation").tolist() == [3, 11, 14, 43, 47, 48, 50, 74, 77, 93, 108]
    assert corpus.rows_of("test").tolist() == [1, 2, 8, 12, 28, 46, 49, 59, 76, 85, 86, 104, 106, 109, 115]
    unseen = prepare([film_tables], tmp_path / "unseen", replace(prepare_config, unseen_tables=1))
    assert {unseen.tables[table] for table in unseen.arrays.row_table[unseen.rows_of("unseen")]} == {"cedar"}
    sample = prepare([film_tables], tmp_path / "sample", replace(prepare_config, total_rows=12))
    assert sample.row_number.tolist() == [19, 20, 29, 35, 36, 57, 10, 25, 31, 35, 10, 13]


def test_splits_have_their_shares(prepare_config, write_tables, tmp_path):
    source = write_tables(tmp_path / "in", {"amber": [{"title": f"{number}"} for number in range(10_000)]})
    shares = np.bincount(prepare([source], tmp_path / "out", prepare_config).row_split) / 10_000
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    config = replace(prepare_config, validation_share=0.0, test_share=0.5, seed=1)
    shares = np.bincount(prepare([source], tmp_path / "other", config).row_split) / 10_000
    assert shares == pytest.approx([0.5, 0, 0.5], abs=0.02)


@settings(max_examples=15)
@given(TABLES, ROWS, st.randoms())
def test_split_ignores_the_order_of_rows_and_added_files(prepare_config, write_tables, tables, more, random):
    shuffled = {name: random.sample(rows, len(rows)) for name, rows in tables.items()} | {"added": more}
    with tempfile.TemporaryDirectory() as folder:
        first = prepare([write_tables(Path(folder, "in"), tables)], Path(folder, "out"), prepare_config)
        second = prepare([write_tables(Path(folder, "in2"), shuffled)], Path(folder, "out2"), prepare_config)
        splits, later = read_splits(first), read_splits(second)
        assert {key: later[key] for key in splits} == splits
        # Copies of a row stay together.
        assert all(len(seen) == 1 for seen in later.values())


def test_validation_tables_are_kept_out_beside_the_unseen_ones(film_tables, prepare_config, tmp_path):
    config = replace(prepare_config, unseen_tables=("birch",), validation_tables=("cedar",))
    corpus = prepare([film_tables], tmp_path / "out", config)
    kept_out = {split: set(corpus.arrays.row_table[corpus.rows_of(split)]) for split in ("unseen", "validation_tables")}
    assert kept_out == {"unseen": {1}, "validation_tables": {2}}
    assert set(corpus.arrays.row_table[corpus.rows_of("train")]) == {0}
    with pytest.raises(ConfigError, match="validation_tables names birch, which unseen_tables has already"):
        prepare([film_tables], tmp_path / "twice", replace(config, validation_tables=("birch",)))


def test_unseen_tables_that_are_not_there_or_leave_none_are_refused(film_tables, prepare_config, tmp_path):
    with pytest.raises(
        ConfigError, match=r"unseen_tables names gone, which no table kept is called\. The tables are amber, birch"
    ):
        prepare([film_tables], tmp_path / "out", replace(prepare_config, unseen_tables=("gone", "amber")))
    with pytest.raises(ConfigError, match="leaves no table to train on: 3 of 3 are kept out"):
        prepare([film_tables], tmp_path / "out", replace(prepare_config, unseen_tables=4))


def test_largest_tables_are_chosen_among_those_whose_language_is_known(film_tables, prepare_config, tmp_path):
    (film_tables / "russian.csv").write_text("name,year\n" + "драма ужасы,1999\n" * 50, encoding="utf-8")
    corpus = prepare([film_tables], tmp_path / "out", replace(prepare_config, largest_tables=2, total_rows=50))
    assert [(table["name"], table["kept"], table["dropped"]) for table in corpus.manifest["tables"]] == [
        ("amber", 30, {"sampled down": 30}),
        ("birch", 20, {"sampled down": 20}),
        ("cedar", 0, {"table not among the largest": 20}),
        ("russian", 0, {"table not in the tokenizer's vocabulary": 50}),
    ]
    assert corpus.tables == ("amber", "birch")


@settings(max_examples=10)
@given(TABLES, st.none() | st.integers(1, 4), st.none() | st.integers(1, 30))
def test_rows_always_add_up(prepare_config, write_tables, tables, largest, total):
    config = replace(prepare_config, largest_tables=largest, total_rows=total)
    with tempfile.TemporaryDirectory() as folder:
        corpus = prepare([write_tables(Path(folder, "in"), tables)], Path(folder, "out"), config)
        entries = corpus.manifest["tables"]
        assert [entry["read"] for entry in entries] == [len(tables[name]) for name in sorted(tables)]
        assert all(entry["read"] == entry["kept"] + sum(entry["dropped"].values()) for entry in entries)
        assert sum(entry["kept"] for entry in entries) == corpus.arrays.num_rows
        kept = sorted((len(rows) for rows in tables.values()), reverse=True)[:largest]
        assert corpus.arrays.num_rows == min(sum(kept), total or sum(kept))


# The vocabulary check


def test_only_meaningful_text_is_checked_and_only_above_the_share(prepare_config, write_tables, tmp_path):
    ignored = ["uk", "1999-12-31", "$ 12.50", "...", "https://a.org/b", "www.a.org", "漢字"]
    known = ["drama", "12 min", "http is a protocol", "драма " * 3 + "film " * 7]
    foreign = ["драма", "драма", "драма " * 4 + "film " * 7]
    rows = [{"title": text} for text in [*ignored, *known, *foreign]]
    source = write_tables(tmp_path / "in", {"amber": rows})
    config = replace(prepare_config, max_bad_share=3 / 7)
    entry = prepare([source], tmp_path / "out", config).manifest["tables"][0]
    assert entry["fields"] == {"text": 7, "bad": 3}
    with pytest.raises(CorpusError, match=r"No table is left: the tokenizer's vocabulary misses too much of amber\."):
        prepare([source], tmp_path / "none", replace(prepare_config, max_bad_share=0.4))
    off = prepare([source], tmp_path / "off", replace(prepare_config, max_unknown_share=None))
    assert off.manifest["tables"][0]["fields"] == {"text": 0, "bad": 0}


# What is lost


def test_cells_of_rows_that_are_too_long_are_counted(prepare_config, write_tables, tmp_path):
    rows = [{f"h{number}": "the film" for number in range(9)}]
    short = replace(prepare_config, max_tokens=24, max_header_tokens=8, max_value_tokens=8)
    corpus = prepare([write_tables(tmp_path / "in", {"amber": rows})], tmp_path / "out", short)
    assert corpus.manifest["tables"][0]["cells"] == {"beyond max_tokens": 6}
    assert corpus.manifest["tables"][0]["tokens"] == 19


def test_file_that_is_no_table_is_skipped_with_its_reason(film_tables, prepare_config, tmp_path):
    (film_tables / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    (entry,) = prepare([film_tables], tmp_path / "out", prepare_config).manifest["skipped"]
    assert Path(entry["path"]).name == "broken.parquet"
    assert entry["reason"]


@pytest.mark.parametrize("workers", [1, 2])
def test_strict_reading_makes_every_loss_an_error(film_tables, prepare_config, tmp_path, workers):
    with (film_tables / "amber.jsonl").open("a") as file:
        file.write('{"broken\n')
    strict = replace(prepare_config, workers=workers, read=ReadConfig(strict=True))
    with pytest.raises(TableError, match=r"amber\.jsonl:61"):
        prepare([film_tables], tmp_path / "out", strict)
    assert [path.name for path in tmp_path.iterdir()] == ["films"]


# Where a corpus goes


def test_corpus_among_the_paths_is_not_read_as_tables(film_tables, prepare_config, tmp_path):
    prepare([film_tables], film_tables / "corpus", prepare_config)
    again = prepare([film_tables], film_tables / "corpus", prepare_config, overwrite=True)
    assert again.tables == ("amber", "birch", "cedar")
    assert {entry["reason"] for entry in again.manifest["skipped"]} == {"part of a corpus"}
    with pytest.raises(TableError, match=r"No tables in .*corpus: all files are part of a corpus"):
        prepare([film_tables / "corpus"], tmp_path / "out", prepare_config)


def test_a_corpus_is_replaced_only_when_asked_and_anything_else_never(film_tables, prepare_config, tmp_path):
    first = prepare([film_tables], tmp_path / "out", prepare_config)
    with pytest.raises(CorpusError, match=r"There is a corpus at .* already\. Set overwrite"):
        prepare([film_tables], tmp_path / "out", prepare_config)
    second = prepare([film_tables], tmp_path / "out", replace(prepare_config, seed=1), overwrite=True)
    assert second.fingerprint != first.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["films", "out"]
    diary = tmp_path / "mine" / "diary.txt"
    diary.parent.mkdir()
    diary.write_text("dear")
    for target, overwrite in ((diary, False), (diary, True), (diary.parent, False), (diary.parent, True)):
        with pytest.raises(CorpusError, match="exists and is not a corpus; it will not be replaced"):
            prepare([film_tables], target, prepare_config, overwrite=overwrite)
    assert diary.read_text() == "dear"


def test_a_corpus_goes_into_an_empty_folder_or_a_new_one_and_not_below_a_file(film_tables, prepare_config, tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "not" / "yet" / "there"):
        assert prepare([film_tables], target, prepare_config).tables == ("amber", "birch", "cedar")
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"Cannot write .*file.*: (Not a directory|File exists)"):
        prepare([film_tables], tmp_path / "file" / "out", prepare_config)


# Interruptions and workers

SLOW = """
import signal, sys, time
from navi.corpus import PrepareConfig, prepare

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without it

def wait(event):
    print("reached", flush=True)
    for _ in range(600):  # one long sleep may miss a signal that comes just before it
        time.sleep(0.1)

prepare([sys.argv[1]], sys.argv[2], PrepareConfig(backbone=sys.argv[3], workers=int(sys.argv[4])), wait)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt_ends_it_at_once_and_leaves_nothing(film_tables, prepare_config, tmp_path, workers):
    arguments = [film_tables, tmp_path / "out", prepare_config.backbone, workers]
    command = [sys.executable, "-c", SLOW, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"reached\n"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert time.monotonic() - begun < 20
    assert process.returncode != 0
    assert errors.decode().count("Traceback") == 1
    assert "KeyboardInterrupt" in errors.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["films"]


def test_worker_that_is_killed_is_one_clear_error(film_tables, prepare_config, tmp_path):
    slow = replace(prepare_config, workers=2, read=ReadConfig(chunk_rows=1))
    with (film_tables / "dogwood.jsonl").open("w") as file:
        file.writelines(f'{{"title": "film {number}"}}\n' for number in range(20_000))

    def kill(event: ProgressEvent) -> None:
        if event.done:
            for worker in multiprocessing.active_children():
                worker.kill()

    with pytest.raises(CorpusError, match=r"A worker was killed.*\.jsonl.*Try fewer workers"):
        prepare([film_tables], tmp_path / "out", slow, kill)
    assert [path.name for path in tmp_path.iterdir()] == ["films"]


def test_script_may_prepare_at_its_top_level(film_tables, prepare_config, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from navi.corpus import PrepareConfig, prepare\n"
        "print(prepare([sys.argv[1]], sys.argv[2], PrepareConfig(backbone=sys.argv[3], workers=2)).tables)\n"
    )
    command = [sys.executable, str(script), str(film_tables), str(tmp_path / "out"), str(prepare_config.backbone)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("('amber', 'birch', 'cedar')\n", "")


def test_progress_goes_through_all_stages(film_tables, prepare_config, tmp_path):
    events: list[ProgressEvent] = []
    prepare([film_tables], tmp_path / "out", prepare_config, events.append)
    last = {event.stage: event for event in events}
    assert list(last) == ["read", "merge", "write"]
    assert all(event.done == event.total and event.rows == 120 for event in last.values())


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_value_tokens": 0}, "max_value_tokens must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"total_rows": 0}, "total_rows must be at least 1, got 0"),
        ({"largest_tables": -1}, "largest_tables must be at least 1, got -1"),
        ({"max_tokens": 42}, "max_tokens must hold one whole segment, 43 tokens, got 42"),
        ({"validation_share": 0.5, "test_share": 0.5}, "must leave rows to train on, got 0.5 \\+ 0.5"),
        ({"test_share": -0.1}, "test_share must lie between 0 and 1, got -0.1"),
        ({"max_unknown_share": 2.0}, "max_unknown_share must lie between 0 and 1, got 2.0"),
        ({"theta_low": 0.9, "theta_high": 0.1}, "theta_low must be at most theta_high, got 0.9 > 0.1"),
        ({"normalise": "log"}, "normalise must be one of rows, distinct, got 'log'"),
        ({"unseen_tables": -1}, "unseen_tables must be at least 0, got -1"),
    ],
)
def test_setting_out_of_range_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        PrepareConfig(**settings)


def test_settings_survive_json(tmp_path):
    config = PrepareConfig(
        backbone=str(tmp_path),
        attributes=AttributeMapping({"name": "title"}, {"people": {"name": "person"}}),
        unseen_tables=("amber", "birch"),
        max_unknown_share=None,
        read=ReadConfig(max_family=5),
    )
    assert PrepareConfig.from_settings(json.loads(json.dumps(config.as_settings()))) == config
    assert replace(config, backbone=tmp_path, workers=3).as_settings() == config.as_settings()
    (tmp_path / "mapping.json").write_text('{"name": "title"}')
    settings = PrepareConfig(attributes=tmp_path / "mapping.json").as_settings()
    assert settings["attributes"] == {"headers": {"name": "title"}, "tables": {}}


# The command


@pytest.fixture
def shop(tmp_path):
    """A folder with a table that has two broken lines, and a file that is no table."""
    folder = tmp_path / "shop"
    folder.mkdir()
    good = [json.dumps({"price": str(n % 3), "name": f"red {n}"}) for n in range(20)]
    (folder / "shop.jsonl").write_text("\n".join(["{broken", *good, "[1]"]) + "\n")
    (folder / "notes.docx").write_text("no table")
    return folder


@pytest.fixture
def navi_prepare(navi_command, prepare_config, tmp_path):
    """Run `navi prepare`, by default into the folder corpus."""

    def run(*arguments, out="corpus", code=0):
        flags = ("-o", tmp_path / out, "--backbone", prepare_config.backbone)
        return navi_command("prepare", *arguments, *flags, code=code)

    return run


def test_summary_adds_up_names_the_first_places_and_json_says_the_same(shop, navi_prepare, tmp_path):
    printed = navi_prepare(shop, "--workers", 1, out="my corpus").stdout
    for part in (
        "22 rows read, 20 kept",
        "2 dropped",
        "1 row: broken row",
        "shop.jsonl:1",
        "shop.jsonl:22",
        "notes.docx",
    ):
        assert part in printed
    assert f"navi pretrain '{tmp_path / 'my corpus'}' -o " in printed.replace("\n", "")
    found = json.loads(navi_prepare(shop, "--json").stdout)
    assert found["corpus"] == str(tmp_path / "corpus")
    assert found["totals"]["read"] == 22
    assert found["dropped"] == {"broken row": 1, "not an object": 1}
    assert sum(found["splits"].values()) == 20
    assert navi_prepare(shop, "--quiet", out="other").output == ""


def test_flags_and_settings_file_reach_the_corpus(film_tables, navi_prepare, tmp_path):
    (tmp_path / "navi.toml").write_text("[prepare]\nseed = 4\nmax_header_tokens = 7\nmax_value_tokens = 9\n")
    flags = ("--seed", 3, "--unseen-tables", 1, "--total-rows", 40, "--workers", 1)
    found = json.loads(navi_prepare(film_tables, "--config", tmp_path / "navi.toml", *flags, "--json").stdout)
    assert found["totals"]["rows"] == 40
    assert found["splits"]["unseen"] > 0
    settings = Corpus.open(tmp_path / "corpus").config
    assert (settings.seed, settings.max_value_tokens, settings.max_header_tokens) == (3, 9, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prepare = 5", "prepare is a section of settings, got 5"),
        ("[[prepare]]\nseed = 1", "prepare is a section of settings, got [{'seed': 1}]"),
        ("backbone = 5", "backbone must be text or Path, got 5"),
    ],
)
def test_a_settings_file_of_another_form_is_a_users_mistake(shop, tmp_path, navi_command, text, message):
    (tmp_path / "navi.toml").write_text(text)
    result = navi_command("prepare", shop, "-o", tmp_path / "corpus", "--config", tmp_path / "navi.toml", code=2)
    assert message in result.stderr


def test_backbone_that_is_none_is_a_users_mistake(shop, tmp_path, navi_command, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = navi_command("prepare", shop, "-o", tmp_path / "corpus", "--backbone", "no/such", code=2)
    assert "Cannot find the backbone 'no/such'" in result.stderr


def test_preparing_needs_no_torch(shop, prepare_config, tmp_path):
    backbone = str(prepare_config.backbone)
    arguments = ["prepare", str(shop), "-o", str(tmp_path / "corpus"), "--backbone", backbone, "--workers", "1"]
    run = f"from navi.cli import app; app({arguments!r}, standalone_mode=False)"
    code = f"import sys; {run}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "False"


def test_a_corpus_is_the_same_whatever_part_of_it_is_in_memory(film_tables, prepare_config, tmp_path, monkeypatch):
    whole = prepare([film_tables], tmp_path / "whole", prepare_config)
    monkeypatch.setattr("navi.corpus.hashing.MEMORY_HASHES", 8)
    monkeypatch.setattr("navi.corpus.roles.COUNTED", 16)
    config = replace(prepare_config, read=replace(prepare_config.read, chunk_rows=7))
    parts = prepare([film_tables], tmp_path / "parts", config)
    assert parts.fingerprint == whole.fingerprint
    assert not list((tmp_path / "parts").glob("scratch*"))
