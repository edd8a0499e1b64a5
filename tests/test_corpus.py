"""Opening a corpus directory: what it holds, its splits, and what is said of one that is damaged."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from navi.corpus import Corpus, PrepareConfig, RowEncoder, prepare
from navi.errors import CorpusError
from navi.files import write_json
from navi.tables import find_sources, read_chunks


@pytest.fixture
def folder(film_tables, prepare_config, tmp_path):
    """A corpus directory."""
    return prepare([film_tables], tmp_path / "corpus", prepare_config).path


def test_corpus_holds_what_the_tables_hold_in_memory(folder, film_tables, word_tokenizer, make_chunk):
    from navi.tables import ReadReport

    corpus = Corpus.open(folder)
    chunks = {source.name: read_chunks(source, ReadReport()) for source in find_sources([film_tables]).sources}
    encoded = RowEncoder(word_tokenizer, PrepareConfig()).encode(chunks)
    for name, array in vars(encoded.arrays).items():
        if name != "column_role":
            np.testing.assert_array_equal(getattr(corpus.arrays, name), array, strict=True)
    for name in ("fill", "distinct", "mean_tokens", "unknown", "cut", "examples"):
        np.testing.assert_array_equal(getattr(corpus.columns, name), getattr(encoded.columns, name), strict=True)
    for name in ("row_number", "row_hash"):
        np.testing.assert_array_equal(getattr(corpus, name), getattr(encoded, name), strict=True)
    for name in ("tables", "headers", "values", "attributes"):
        assert getattr(corpus, name) == getattr(encoded, name)


def test_arrays_are_memory_mapped(folder):
    arrays = Corpus.open(folder).arrays
    assert not arrays.row_segments.flags.owndata
    assert not arrays.row_segments.flags.writeable
    assert type(arrays.row_segments) is np.ndarray


def test_unknown_split_is_refused(folder):
    with pytest.raises(CorpusError, match=r"There is no split 'dev'\. Expected one of train, validation, test, unseen"):
        Corpus.open(folder).rows_of("dev")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, r"no such directory\. `navi prepare PATHS… -o"),
        ([], r"is not a corpus: it has no corpus\.json\. `navi prepare PATHS… -o CORPUS` makes one"),
        (["model.safetensors"], "it looks like a model directory"),
    ],
)
def test_what_is_no_corpus_is_said(tmp_path, names, message):
    folder = tmp_path / "folder"
    for name in () if names is None else (".", *names):
        (folder / name).mkdir() if name == "." else (folder / name).write_bytes(b"")
    with pytest.raises(CorpusError, match=message):
        Corpus.open(folder)


def change(data, **entries):
    """Return a manifest with other entries, and a checksum that fits."""
    content = {name: entry for name, entry in (json.loads(data) | entries).items() if name != "checksum"}
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder, "corpus.json"), content, checksum=True)
        return Path(folder, "corpus.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("row_hash.npy", lambda data: data[:50], r"row_hash\.npy has 50 bytes where \d+ were written"),
        ("row_hash.npy", lambda data: bytes(len(data)), r"row_hash\.npy is not as it was written.* Prepare the"),
        ("row_hash.npy", None, r"The corpus lacks .*row_hash\.npy"),
        ("corpus.json", lambda _: b"", r"Cannot read .*corpus\.json"),
        ("corpus.json", lambda _: b"[]", r"Cannot read .*corpus\.json: expected an object, found list"),
        ("corpus.json", lambda _: b"{}", r"corpus\.json is not as it was written"),
        (
            "corpus.json",
            lambda data: change(data, format_version=99),
            r"has format version 99, this is NAVI .* and reads \d+\.",
        ),
        ("corpus.json", lambda data: data.replace(b'"kept": 60', b'"kept": 61'), r"corpus\.json is not as it was"),
        ("corpus.json", lambda data: change(data, tables=[{}]), r"Cannot read the corpus in .*: 'kept'"),
        ("corpus.json", lambda data: change(data, settings={}), r"Cannot read the corpus in .*attributes"),
        ("tokenizer.json", lambda data: data.replace(b"drama", b"DRAMA"), r"tokenizer\.json is not as it was written"),
    ],
)
def test_damaged_corpus_is_said(folder, name, edit, message):
    (file,) = folder.rglob(name)
    file.write_bytes(edit(file.read_bytes())) if edit else file.unlink()
    with pytest.raises(CorpusError, match=message):
        Corpus.open(folder)


def test_a_change_of_any_byte_of_a_large_file_is_seen_when_verified(folder, monkeypatch):
    monkeypatch.setattr("navi.files.SAMPLED_BYTES", 512)
    (file,) = folder.rglob("value_tokens.npy")
    data = bytearray(file.read_bytes())
    assert len(data) > 1000
    data[-100] ^= 1  # between two of the pieces that are read
    file.write_bytes(data)
    with pytest.raises(CorpusError, match=r"value_tokens\.npy is not as it was written"):
        Corpus.open(folder, verify=True)
