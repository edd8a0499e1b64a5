"""Tests of pieces on disk."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from navi.corpus import encode_chunk
from navi.corpus.scratch import PieceWriter, read_pieces

TABLES = [
    [{"title": "the film", "genre": "drama"}, {"genre": "drama", "year": "1999"}],
    [{"title": "the film"}],
    [{"x": "драма"}],
]


def test_pieces_survive_the_disk(tokenizer, config, make_chunk, tmp_path):
    pieces = [encode_chunk(make_chunk(rows), tokenizer, config) for rows in TABLES]
    writer = PieceWriter(tmp_path / "pieces")
    for piece in pieces:
        writer.write(piece)
    writer.close()
    for piece, found in zip(pieces, read_pieces(tmp_path / "pieces"), strict=True):
        for field in fields(piece):
            before, after = getattr(piece, field.name), getattr(found, field.name)
            if field.name == "value_tokens":
                for part in fields(before):
                    np.testing.assert_array_equal(getattr(before, part.name), getattr(after, part.name))
            elif isinstance(before, np.ndarray):
                np.testing.assert_array_equal(before, after, strict=True)
            else:
                assert before == after


def test_source_without_pieces_reads_back_as_none(tmp_path):
    PieceWriter(tmp_path / "pieces").close()
    assert list(read_pieces(tmp_path / "pieces")) == []
