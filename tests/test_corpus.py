"""Opening a corpus directory: what it holds, its splits, and what is said of one that is damaged."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from navi.corpus import SPLITS, Corpus, PrepareConfig, RowEncoder, prepare
from navi.errors import CorpusError
from navi.tables import find_sources, read_chunks


@pytest.fixture
def folder(film_tables, prepare_config, tmp_path):
    """A corpus directory."""
    return prepare([film_tables], tmp_path / "corpus", prepare_config).path


@pytest.fixture
def largest_file(folder):
    """Some file of arrays."""
    return max(
        (path for path in folder.rglob("*") if path.suffix in (".arrow", ".npy")), key=lambda p: p.stat().st_size
    )


def test_corpus_opens_with_everything_it_was_made_of(folder, prepare_config, word_tokenizer):
    corpus = Corpus.open(str(folder))
    assert corpus.path == folder
    assert corpus.config.as_settings() == prepare_config.as_settings()
    assert corpus.tokenizer.get_vocab() == word_tokenizer.get_vocab()
    assert corpus.fingerprint == corpus.manifest["fingerprint"]


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


def test_splits_share_out_all_rows_and_are_counted_in_the_manifest(folder):
    corpus = Corpus.open(folder)
    rows = {split: corpus.rows_of(split) for split in SPLITS}
    assert np.sort(np.concatenate(list(rows.values()))).tolist() == list(range(120))
    assert [len(rows[split]) > 0 for split in SPLITS] == [True, True, True, False]
    for split in SPLITS:
        assert sum(table["splits"][split] for table in corpus.manifest["tables"]) == len(rows[split])


def test_unknown_split_is_refused(folder):
    with pytest.raises(CorpusError, match=r"There is no split 'dev'\. Expected one of train, validation, test, unseen"):
        Corpus.open(folder).rows_of("dev")


def test_missing_directory_is_said(tmp_path):
    with pytest.raises(CorpusError, match=r"no such directory\. `navi prepare PATHS… -o"):
        Corpus.open(tmp_path / "gone")


def test_other_directory_is_not_a_corpus(tmp_path):
    with pytest.raises(
        CorpusError, match=r"is not a corpus: it has no corpus\.json\. `navi prepare PATHS… -o CORPUS` makes one"
    ):
        Corpus.open(tmp_path)


def test_model_directory_is_recognised(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CorpusError, match="it looks like a model directory"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize("version", [0, 99])
def test_another_format_is_refused(folder, version):
    manifest = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps(manifest | {"format_version": version}))
    with pytest.raises(CorpusError, match=rf"has format version {version}, this is NAVI .* and reads \d+\."):
        Corpus.open(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format'])
def test_damaged_manifest_is_said(folder, content):
    (folder / "corpus.json").write_text(content)
    with pytest.raises(CorpusError, match=r"Cannot read .*corpus\.json"):
        Corpus.open(folder)


def test_truncated_file_is_said(folder, largest_file):
    content = largest_file.read_bytes()
    largest_file.write_bytes(content[: len(content) // 2])
    with pytest.raises(CorpusError, match=rf"{largest_file.name} has \d+ bytes where {len(content)} were written"):
        Corpus.open(folder)


def test_missing_file_is_said(folder, largest_file):
    largest_file.unlink()
    with pytest.raises(CorpusError, match=rf"The corpus lacks .*{largest_file.name}"):
        Corpus.open(folder)


def test_damaged_file_is_said(folder, largest_file):
    largest_file.write_bytes(b"\0" * largest_file.stat().st_size)
    with pytest.raises(CorpusError, match=rf"Cannot read .*{largest_file.name}: .*damaged.* Prepare the corpus again"):
        Corpus.open(folder)


def test_files_are_as_their_digests_say(folder):
    files = Corpus.open(folder).manifest["files"]
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        *files,
        "corpus.json",
    }
    for name, entry in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"]
