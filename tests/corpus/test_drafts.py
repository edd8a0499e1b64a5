"""Tests of one source read and encoded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from navi.corpus import drafts
from navi.corpus.drafts import draft_source
from navi.corpus.pieces import ChunkEncoder
from navi.corpus.scratch import read_pieces
from navi.errors import TableError
from navi.tables import ReadConfig, find_sources


def draft(folder, name, config, tokenizer, rows=None):
    sources = {source.path.name: source for source in find_sources([folder]).sources}
    report = (rows if rows is not None else []).append
    return draft_source(sources[name], folder / "pieces", ChunkEncoder(tokenizer, config), config, report)


def test_rows_are_laid_down_piece_by_piece(films, config, tokenizer):
    rows = []
    made = draft(films, "amber.jsonl", replace(config, read=ReadConfig(chunk_rows=25)), tokenizer, rows)
    assert rows == [25, 25, 10]
    assert [piece.num_rows for piece in read_pieces(made.pieces)] == rows
    assert (made.num_rows, made.losses.read, made.trouble) == (60, 60, None)


def test_fields_of_all_pieces_are_counted(films, config, tokenizer):
    made = draft(films, "amber.jsonl", replace(config, read=ReadConfig(chunk_rows=7)), tokenizer)
    assert tuple(made.fields) == (120, 0)


def test_file_that_cannot_be_read_is_a_trouble(films, config, tokenizer):
    (films / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    made = draft(films, "broken.parquet", config, tokenizer)
    assert made.num_rows == 0
    assert "broken.parquet" in made.trouble


def test_file_that_cannot_be_read_is_an_error_where_reading_is_strict(films, config, tokenizer):
    (films / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(TableError, match=r"broken\.parquet"):
        draft(films, "broken.parquet", replace(config, read=ReadConfig(strict=True)), tokenizer)


def test_rows_met_before_an_error_are_kept_or_counted(films, config, tokenizer, make_chunk, monkeypatch):
    def read_some(source, losses, config):
        losses.read += 5
        yield make_chunk([{"title": "drama"}, {"title": "film"}])
        raise TableError("the rest is noise")

    monkeypatch.setattr(drafts, "read_chunks", read_some)
    made = draft(films, "amber.jsonl", config, tokenizer)
    assert (made.num_rows, made.trouble) == (2, "the rest is noise")
    assert made.losses.dropped == {"reading ended early": 3}
    assert made.losses.places == {"reading ended early": ["the rest is noise"]}
