"""Pieces of many tables into one set of numbers: each distinct header, value and segment once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.segments.arrays import SegmentArrays
from navi.segments.attributes import load_attributes
from navi.segments.columns import GrowingLists, GrowingTexts, MakeGrowing, gather_lists
from navi.segments.config import PrepareConfig
from navi.segments.encoded import Encoded
from navi.segments.hashing import HashIndex, hash_texts, mix
from navi.segments.pieces import Piece
from navi.segments.roles import route
from navi.segments.splits import TRAIN, UNSEEN
from navi.segments.summary import ColumnSummary, TableCounter
from navi.segments.tokens import tokenise

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Merger:
    """Takes pieces table by table and numbers what they hold in order of first use.

    Memory: 12 bytes for each distinct value and segment of the corpus, and 20 for each segment of the current table's
    pieces; the rest goes where `make` puts it.
    """

    def __init__(self, make: MakeGrowing, tokenizer: Tokenizer, config: PrepareConfig) -> None:
        self._config = config
        self._mapping = load_attributes(config.attributes)
        self._headers = TextNumbers(make, "headers", tokenizer, config.max_header_tokens)
        self._attributes = TextNumbers(make, "attributes", tokenizer, config.max_header_tokens)
        self._values, self._value_index = GrowingTexts(make, "values"), HashIndex()
        self._segment_index = HashIndex()
        names = ("attribute", "header", "value")
        self._segments = {name: make(f"segment.{name}", np.int32) for name in names}
        types = {"table": np.int32, "split": np.int8, "number": np.int64, "hash": np.uint64}
        self._rows = {name: make(f"row.{name}", dtype) for name, dtype in types.items()}
        self._row_segments = GrowingLists(make, "row.segments", np.int32)
        self._tables: list[str] = []
        self._columns: list[dict[str, NDArray[Any]]] = []

    @property
    def num_segments(self) -> int:
        """Distinct segments so far."""
        return len(self._segment_index)

    def begin_table(self, name: str) -> None:
        """Start a table; the pieces that follow are its rows, in order."""
        self._tables.append(name)
        self._counter = TableCounter()
        self._num_rows = 0
        self._is_unseen = False

    def add(self, piece: Piece, row_split: NDArray[np.int8], stay: NDArray[np.bool_] | None = None) -> None:
        """Take in a piece of the current table, or those of its rows that stay."""
        rows = np.arange(piece.num_rows) if stay is None else np.flatnonzero(stay)
        if not len(rows):
            return
        lengths, cells = gather_lists(piece.row_offsets, piece.row_segments, rows)
        counts = np.bincount(cells, minlength=len(piece.segment_header))
        used = np.flatnonzero(counts)
        numbers = self._number_segments(piece, used)
        self._row_segments.append(lengths, _translate(used, numbers[0], len(counts))[cells])
        row_split = row_split[rows]
        trains = np.repeat(row_split == TRAIN, lengths)
        train_counts = np.bincount(cells[trains], minlength=len(counts))
        self._counter.add(np.stack([*numbers, counts[used], train_counts[used]]), _count_tokens(piece, used, counts, numbers[1]))
        self._is_unseen = bool(row_split[0] == UNSEEN)
        self._add_rows(piece, rows, row_split)

    def end_table(self) -> None:
        """Sum up the columns of the current table."""
        if not self._num_rows:
            raise ValueError
        config, table = self._config, len(self._tables) - 1
        columns = self._counter.sum_up(self._num_rows, self._is_unseen, config.normalise)
        headers = [self._headers.texts[header] for header in columns["header"]]
        columns["table"] = np.full(len(headers), table)
        columns["attribute"] = self._attribute_of(headers)
        columns["role"] = route(columns["entropy"], self._tables[-1], headers, config)
        self._columns.append(columns)
'''
