"""Tests of the Arrow files of a corpus."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from navi.corpus import encode_tables
from navi.corpus.columns import ScratchFolder
from navi.corpus.storage import make_batches, read_batch, read_encoded, write_batch
from navi.errors import CorpusError


@pytest.fixture
def encoded(tokenizer, config, make_chunk):
    """Two tables in memory."""
    rows = [{"title": "the film", "year": "1999"}, {"title": "drama"}, {"name": "漢字", "title": "film"}]
    return encode_tables({"amber": [make_chunk(rows)], "birch": [make_chunk(rows[:1])]}, tokenizer, config)


def test_files_give_back_what_was_written(encoded, tmp_path):
    for name, batch in make_batches(encoded).items():
        write_batch(tmp_path / name, batch, {})
    found = read_encoded({name: read_batch(tmp_path / name) for name in make_batches(encoded)}, encoded.tables)
    for owner in ("arrays", "columns"):
        for name, array in vars(getattr(encoded, owner)).items():
            np.testing.assert_array_equal(getattr(getattr(found, owner), name), array, strict=True)
    for name in ("row_number", "row_hash", "row_split"):
        np.testing.assert_array_equal(getattr(found, name), getattr(encoded, name), strict=True)
    for name in ("tables", "headers", "values", "attributes"):
        assert getattr(found, name) == getattr(encoded, name)


def test_arrays_are_memory_mapped(encoded, tmp_path):
    batch = make_batches(encoded)["rows.arrow"]
    write_batch(tmp_path / "rows.arrow", batch, {})
    before = pa.total_allocated_bytes()
    found = read_batch(tmp_path / "rows.arrow")
    assert pa.total_allocated_bytes() == before
    assert not found.column("hash").to_numpy().flags.owndata


def test_digest_is_that_of_the_file(encoded, tmp_path):
    digest = write_batch(tmp_path / "file", make_batches(encoded)["values.arrow"], {})
    assert digest == hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest()


def test_array_in_a_scratch_file_is_copied_from_there(tmp_path):
    scratch = ScratchFolder(tmp_path / "scratch")
    growing = scratch.make("numbers", np.int64)
    growing.append(np.arange(3_000_000))
    array = growing.finish()
    batch = pa.RecordBatch.from_pydict(
        {"a": pa.Array.from_buffers(pa.int64(), len(array), [None, pa.py_buffer(array)])}
    )
    first = write_batch(tmp_path / "copied", batch, scratch.files)
    second = write_batch(tmp_path / "written", batch, {})
    assert first == second
    assert read_batch(tmp_path / "copied").column("a").to_numpy()[-1] == 2_999_999


@pytest.mark.parametrize("content", [b"", b"ARROW1", None])
def test_damaged_or_missing_file_is_said(tmp_path, content):
    if content is not None:
        (tmp_path / "rows.arrow").write_bytes(content)
    with pytest.raises(CorpusError, match=r"Cannot read .*rows\.arrow: the file is missing or damaged"):
        read_batch(tmp_path / "rows.arrow")
