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


def encode_tables(
    tables: Mapping[str, Iterable[Chunk]], tokenizer: Tokenizer, config: PrepareConfig | None = None
) -> Encoded:
    """Return tables as segments, without disk, splits or workers; roles come from all the rows given."""
    # The vocabulary check is for choosing what to learn from; here every table is wanted.
    config = replace(config or PrepareConfig(), max_unknown_share=None)
    encoder = ChunkEncoder(tokenizer, config)
    merger = Merger(GrowingMemory, tokenizer, config)
    for name, chunks in tables.items():
        merger.begin_table(name)
        for chunk in chunks:
            merger.add(encoder.encode(chunk), np.full(chunk.num_rows, TRAIN, np.int8))
        merger.end_table()
    return merger.finish()
