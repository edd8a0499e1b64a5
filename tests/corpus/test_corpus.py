"""Tests of opening a corpus."""

from __future__ import annotations

import json

import numpy as np
import pytest

from navi.corpus import SPLITS, Corpus, prepare
from navi.errors import CorpusError


@pytest.fixture
def folder(films, config, tmp_path):
    """A corpus directory."""
    return prepare([films], tmp_path / "corpus", config).path


def test_corpus_opens_with_everything_it_was_made_of(folder, config, tokenizer):
    corpus = Corpus.open(str(folder))
    assert corpus.path == folder
    assert corpus.config.as_settings() == config.as_settings()
    assert corpus.tokenizer.get_vocab() == tokenizer.get_vocab()
    assert corpus.fingerprint == corpus.manifest["fingerprint"]


def test_splits_share_out_all_rows(folder):
    corpus = Corpus.open(folder)
    rows = np.concatenate([corpus.rows_of(split) for split in SPLITS])
    assert np.sort(rows).tolist() == list(range(120))
    assert [len(corpus.rows_of(split)) > 0 for split in SPLITS] == [True, True, True, False]


def test_splits_are_counted_in_the_manifest(folder):
    corpus = Corpus.open(folder)
    for split in SPLITS:
        assert sum(table["splits"][split] for table in corpus.manifest["tables"]) == len(corpus.rows_of(split))


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


def test_newer_format_is_refused(folder):
    manifest = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps(manifest | {"format_version": 2}))
    with pytest.raises(CorpusError, match=r"has format version 2, this is NAVI .* and reads 1"):
        Corpus.open(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format'])
def test_damaged_manifest_is_said(folder, content):
    (folder / "corpus.json").write_text(content)
    with pytest.raises(CorpusError, match=r"Cannot read .*corpus\.json: it is damaged"):
        Corpus.open(folder)


@pytest.mark.parametrize("name", ["rows.arrow", "values.arrow", "tokenizer.json"])
def test_truncated_file_is_said(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(CorpusError, match=rf"{name} has \d+ bytes where {len(content)} were written"):
        Corpus.open(folder)


def test_missing_file_is_said(folder):
    (folder / "segments.arrow").unlink()
    with pytest.raises(CorpusError, match=r"The corpus lacks .*segments\.arrow"):
        Corpus.open(folder)


def test_files_are_as_their_digests_say(folder):
    import hashlib

    for name, entry in Corpus.open(folder).manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"]
