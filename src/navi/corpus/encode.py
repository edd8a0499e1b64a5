"""Tables in memory to segments: the way of frames through a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from navi.corpus.columns import GrowingMemory
from navi.corpus.config import PrepareConfig
from navi.corpus.encoded import Encoded
from navi.corpus.merge import Merger
from navi.corpus.pieces import ChunkEncoder, Piece
from navi.corpus.splits import TRAIN
from navi.tables import Chunk

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CELLS_AT_ONCE = 1 << 16
"""Cells of chunks that are tokenised together, or of one chunk."""


class RowEncoder:
    """Turns rows of tables into segments, without disk, splits or workers, and remembers words from call to call."""

    def __init__(self, tokenizer: Tokenizer, config: PrepareConfig | None = None) -> None:
        # The vocabulary check is for choosing what to learn from; here every table is wanted.
        self._config = replace(config or PrepareConfig(), max_unknown_share=None)
        self._tokenizer = tokenizer
        self._encoder = ChunkEncoder(tokenizer, self._config)

    def encode(self, tables: Mapping[str, Iterable[Chunk]]) -> Encoded:
        """Return tables as segments; roles come from all the rows given."""
        merger = Merger(GrowingMemory, self._tokenizer, self._config)
        held = {name: list(chunks) for name, chunks in tables.items()}
        pieces = self._encode_chunks(chain.from_iterable(held.values()))
        for name, chunks in held.items():
            merger.begin_table(name)
            for piece in islice(pieces, len(chunks)):
                merger.add(piece, np.full(piece.num_rows, TRAIN, np.int8))
            merger.end_table()
        return merger.finish()

    def _encode_chunks(self, chunks: Iterable[Chunk]) -> Iterator[Piece]:
        """Yield the piece of each chunk; those of small tables are made together."""
        waiting: list[Chunk] = []
        num_cells = 0
        for chunk in chunks:
            num_cells += chunk.num_cells
            if waiting and num_cells > CELLS_AT_ONCE:
                yield from self._encoder.encode_all(waiting)
                waiting, num_cells = [], chunk.num_cells
            waiting.append(chunk)
        yield from self._encoder.encode_all(waiting)


def encode_tables(
    tables: Mapping[str, Iterable[Chunk]], tokenizer: Tokenizer, config: PrepareConfig | None = None
) -> Encoded:
    """Return tables as segments; for lots of rows one after the other, a `RowEncoder` is quicker."""
    return RowEncoder(tokenizer, config).encode(tables)
