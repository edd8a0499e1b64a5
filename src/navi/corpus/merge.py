"""Pieces of many tables into one set of numbers: each distinct header, value and segment once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays
from navi.corpus.attributes import load_attributes
from navi.corpus.columns import GrowingLists, GrowingTexts, MakeGrowing, gather_lists
from navi.corpus.config import PrepareConfig
from navi.corpus.encoded import Encoded
from navi.corpus.hashing import HashIndex, hash_texts, mix
from navi.corpus.pieces import Piece
from navi.corpus.roles import assign_roles
from navi.corpus.splits import TRAIN, UNSEEN
from navi.corpus.summary import TableCounter, join_columns
from navi.corpus.tokens import TextTokenizer, TokenLists

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SEGMENT_FIELDS = ("attribute", "header", "value")
_ROW_FIELDS = {"table": np.int32, "split": np.int8, "number": np.int64, "hash": np.uint64}


class Merger:
    """Takes pieces, table after table, and numbers what they hold in order of first use.

    Memory: 12 bytes for each distinct value and segment of the corpus, and 20 for each segment of the current table's
    pieces; the rest goes where `make` puts it.
    """

    def __init__(self, make: MakeGrowing, tokenizer: Tokenizer, config: PrepareConfig) -> None:
        self._tokenizer, self._config = TextTokenizer(tokenizer), config
        self._mapping = load_attributes(config.attributes)
        self._headers: dict[str, int] = {}
        self._attributes: dict[str, int] = {}
        self._values, self._value_index = GrowingTexts(make, "values"), HashIndex()
        self._segments = {name: make(f"segments.{name}", np.int32) for name in _SEGMENT_FIELDS}
        self._segment_index = HashIndex()
        self._rows = {name: make(f"rows.{name}", dtype) for name, dtype in _ROW_FIELDS.items()}
        self._row_segments = GrowingLists(make, "rows.segments", np.int32)
        self._tables: list[str] = []
        self._columns: list[dict[str, NDArray[Any]]] = []

    def begin_table(self, name: str) -> None:
        """Start a table; the pieces that follow are its rows, in order."""
        self._tables.append(name)
        self._counter = TableCounter()

    def add(self, piece: Piece, row_split: NDArray[np.int8], stay: NDArray[np.bool_] | None = None) -> None:
        """Take in a piece of the current table, or only those of its rows that stay."""
        rows = np.arange(piece.num_rows) if stay is None else np.flatnonzero(stay)
        if not len(rows):
            return
        lengths, cells = gather_lists(piece.row_offsets, piece.row_segments, rows)
        trains = np.repeat(row_split[rows] == TRAIN, lengths)
        counts = np.bincount(cells, minlength=piece.num_segments)
        train_counts = np.bincount(cells[trains], minlength=piece.num_segments)
        used = np.flatnonzero(counts)
        segment, header, value = self._number_segments(piece, used)
        self._counter.add(
            np.stack([segment, header, value, counts[used], train_counts[used]]),
            _count_tokens(piece, used, header, counts[used]),
            len(rows),
        )
        numbers = np.zeros(piece.num_segments, np.int32)
        numbers[used] = segment
        self._row_segments.append(lengths, numbers[cells])
        self._add_rows(piece, rows, row_split)

    def end_table(self) -> None:
        """Sum up the columns of the current table."""
        if not self._counter.num_rows:
            return
        name, texts = self._tables[-1], list(self._headers)
        columns = self._counter.sum_up(self._config.normalise)
        headers = [texts[header] for header in columns["header"]]
        columns["table"] = np.full(len(headers), len(self._tables) - 1)
        columns["attribute"] = np.array([self._attributes[self._mapping.attribute_of(name, each)] for each in headers])
        columns["role"] = assign_roles(columns["entropy"], self._config.theta_low, self._config.theta_high)
        self._columns.append(columns)

    def finish(self) -> Encoded:
        """Return all that was taken in."""
        header_tokens = self._tokenise(self._headers)
        attribute_tokens = self._tokenise(self._attributes)
        values, value_offsets, value_tokens = self._values.finish()
        row_offsets, row_segments = self._row_segments.finish()
        rows = {name: growing.finish() for name, growing in self._rows.items()}
        columns = join_columns(self._columns)
        arrays = SegmentArrays(
            row_offsets=row_offsets,
            row_segments=row_segments,
            row_table=rows["table"],
            **{f"segment_{name}": growing.finish() for name, growing in self._segments.items()},
            header_offsets=header_tokens.offsets,
            header_tokens=header_tokens.tokens,
            value_offsets=value_offsets,
            value_tokens=value_tokens,
            attribute_offsets=attribute_tokens.offsets,
            attribute_tokens=attribute_tokens.tokens,
            column_table=columns.table,
            column_header=columns.header,
            column_attribute=columns.attribute,
            column_role=columns.role,
        )
        return Encoded(
            arrays=arrays,
            tables=tuple(self._tables),
            headers=pa.array(list(self._headers), pa.large_string()),
            values=values,
            attributes=pa.array(list(self._attributes), pa.large_string()),
            row_number=rows["number"],
            row_hash=rows["hash"],
            row_split=rows["split"],
            columns=columns,
        )

    def _number_segments(
        self, piece: Piece, used: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return number, header and value of the piece's segments that are used."""
        local_header, local_value = piece.segment_header[used], piece.segment_value[used]
        value = self._number_values(piece, local_value)
        header_number, attribute_number, column_hash = self._number_headers(piece.headers, np.unique(local_header))
        header, attribute = header_number[local_header], attribute_number[local_header]
        segment, new = self._segment_index.add(mix(column_hash[local_header], piece.value_hash[local_value]))
        for name, numbers in zip(_SEGMENT_FIELDS, (attribute, header, value), strict=True):
            self._segments[name].append(numbers[new])
        return segment, header, value

    def _number_values(self, piece: Piece, local_value: NDArray[np.int32]) -> NDArray[np.int32]:
        is_used = np.zeros(len(piece.values), np.bool_)
        is_used[local_value] = True
        used = np.flatnonzero(is_used)
        numbers, new = self._value_index.add(piece.value_hash[used])
        tokens = gather_lists(piece.value_tokens.offsets, piece.value_tokens.tokens, used[new])
        self._values.append(piece.values.take(pa.array(used[new])), *tokens)
        translation = np.zeros(len(piece.values), np.int32)
        translation[used] = numbers
        return translation[local_value]

    def _number_headers(
        self, headers: tuple[str, ...], used: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
        """Return header number, attribute number and hash of both for each of the piece's headers."""
        header_number, attribute_number = np.zeros((2, len(headers)), np.int32)
        attributes = [self._mapping.attribute_of(self._tables[-1], header) for header in headers]
        for place in used:
            header_number[place] = self._headers.setdefault(headers[place], len(self._headers))
            attribute_number[place] = self._attributes.setdefault(attributes[place], len(self._attributes))
        return header_number, attribute_number, mix(hash_texts(attributes), hash_texts(headers))

    def _add_rows(self, piece: Piece, rows: NDArray[np.int64], row_split: NDArray[np.int8]) -> None:
        self._rows["table"].append(np.full(len(rows), len(self._tables) - 1))
        self._rows["split"].append(row_split[rows])
        self._rows["number"].append(piece.row_number[rows])
        self._rows["hash"].append(piece.row_hash[rows])
        self._counter.is_unseen = bool(row_split[0] == UNSEEN)

    def _tokenise(self, texts: dict[str, int]) -> TokenLists:
        return self._tokenizer.tokenise(list(texts), self._config.max_header_tokens)


def _count_tokens(
    piece: Piece, used: NDArray[np.int64], header: NDArray[np.int32], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return header, cells, value tokens, [UNK] among them and cut cells of each header met."""
    value = piece.segment_value[used]
    tokens = piece.value_tokens
    headers, column = np.unique(header, return_inverse=True)
    each = (1, tokens.lengths[value], tokens.unknown[value], tokens.cut[value])
    sums = [np.bincount(column, weights=counts * fact) for fact in each]
    return np.stack([headers, *sums]).astype(np.int64)
