"""Tables in memory to segments: the way of frames through a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from navi.segments.columns import GrowingMemory
from navi.segments.config import PrepareConfig
from navi.segments.encoded import Encoded
from navi.segments.merge import Merger
from navi.segments.pieces import ChunkEncoder
from navi.segments.splits import TRAIN
from navi.tables import Chunk

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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
        for name, chunks in tables.items():
            merger.begin_table(name)
            for chunk in chunks:
                merger.add(self._encoder.encode(chunk), np.full(chunk.num_rows, TRAIN, np.int8))
            merger.end_table()
        return merger.finish()


def encode_tables(
    tables: Mapping[str, Iterable[Chunk]], tokenizer: Tokenizer, config: PrepareConfig | None = None
) -> Encoded:
    """Return tables as segments; for lots of rows one after the other, a `RowEncoder` is quicker."""
    return RowEncoder(tokenizer, config).encode(tables)
