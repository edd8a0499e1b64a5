"""A piece: a chunk of rows turned into segments and tokens, all numbers local to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus.config import PrepareConfig
from navi.corpus.hashing import hash_rows, hash_texts, mix
from navi.corpus.tokens import TextTokenizer, TokenLists
from navi.corpus.vocabulary import FieldCount, count_fields
from navi.tables import Chunk

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Some rows of a table as lists of segments, with the tokens of every value.

    **Shape**: R rows, C cells, S distinct segments, H headers, V distinct values.
    """

    headers: tuple[str, ...]
    """(H,) distinct headers."""
    values: pa.StringArray
    """(V,) distinct values."""
    value_hash: NDArray[np.uint64]
    """(V,) hash of each value's text."""
    value_tokens: TokenLists
    """Tokens of each value."""
    segment_header: NDArray[np.int32]
    """(S,) header of each segment."""
    segment_value: NDArray[np.int32]
    """(S,) value of each segment."""
    row_offsets: NDArray[np.int64]
    """(R + 1,) where each row begins in `row_segments`."""
    row_segments: NDArray[np.int32]
    """(C,) segment of each cell, row after row."""
    row_number: NDArray[np.int64]
    """(R,) place of each row in its source."""
    row_hash: NDArray[np.uint64]
    """(R,) hash of each row's cells as they were read, whatever their order."""
    row_tokens: NDArray[np.int64]
    """(R,) tokens of each row as the encoder sees it."""
    fields: FieldCount
    """What the vocabulary check found."""
    num_beyond: int
    """Cells left out because their rows were longer than `max_tokens`."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_number)

    @property
    def num_segments(self) -> int:
        """Number of distinct segments."""
        return len(self.segment_header)


class ChunkEncoder:
    """Turns chunks into pieces, and remembers words from one chunk to the next."""

    def __init__(self, tokenizer: Tokenizer, config: PrepareConfig) -> None:
        self._tokenizer, self._config = TextTokenizer(tokenizer), config

    def encode(self, chunk: Chunk) -> Piece:
        """Return the segments of a chunk; each distinct value is hashed and tokenised once."""
        return self.encode_all([chunk])[0]

    def encode_all(self, chunks: Sequence[Chunk]) -> list[Piece]:
        """Return the segments of each chunk; to hash and tokenise the texts of many in one go is quicker."""
        encoded = [pc.dictionary_encode(chunk.cell_value) for chunk in chunks]
        texts = list(chain.from_iterable(each.dictionary.to_pylist() for each in encoded))
        headers = list(chain.from_iterable(chunk.headers for chunk in chunks))
        text_hash, header_hash = hash_texts(texts), hash_texts(headers)
        tokens = self._tokenizer.tokenise(texts, self._config.max_value_tokens)
        header_length = self._tokenizer.tokenise(headers, self._config.max_header_tokens).lengths
        values_of = _cut_apart([len(each.dictionary) for each in encoded])
        headers_of = _cut_apart([len(chunk.headers) for chunk in chunks])
        return [
            self._encode(chunk, each, text_hash[own], tokens.take(own), header_hash[heads], header_length[heads])
            for chunk, each, own, heads in zip(chunks, encoded, values_of, headers_of, strict=True)
        ]

    def _encode(
        self,
        chunk: Chunk,
        encoded: pa.DictionaryArray,
        value_hash: NDArray[np.uint64],
        tokens: TokenLists,
        header_hash: NDArray[np.uint64],
        header_length: NDArray[np.int64],
    ) -> Piece:
        config = self._config
        values, cell_value = encoded.dictionary, encoded.indices.to_numpy()
        cell_length = header_length[chunk.cell_header] + tokens.lengths[cell_value] + 2
        cell_hash = mix(header_hash[chunk.cell_header], value_hash[cell_value])
        row_offsets = _count_offsets(chunk.cell_row, chunk.num_rows)
        kept = _fits(cell_length, row_offsets, config.max_tokens)
        segments, row_segments = _find_segments(chunk.cell_header[kept], cell_value[kept], len(values))
        return Piece(
            headers=chunk.headers,
            values=values,
            value_hash=value_hash,
            value_tokens=tokens,
            **segments,
            row_offsets=_count_offsets(chunk.cell_row[kept], chunk.num_rows),
            row_segments=row_segments,
            row_number=chunk.row_number,
            row_hash=hash_rows(cell_hash, row_offsets),
            row_tokens=1 + np.bincount(chunk.cell_row[kept], cell_length[kept], chunk.num_rows).astype(np.int64),
            fields=count_fields(values, cell_value, tokens, config.max_unknown_share),
            num_beyond=len(kept) - len(row_segments),
        )


def encode_chunk(chunk: Chunk, tokenizer: Tokenizer, config: PrepareConfig) -> Piece:
    """Return the segments of one chunk; for several, a `ChunkEncoder` is quicker."""
    return ChunkEncoder(tokenizer, config).encode(chunk)


def _cut_apart(sizes: Sequence[int]) -> list[slice]:
    """Return where each of some lists stands when they are laid end to end.

    >>> _cut_apart([2, 0, 3])
    [slice(0, 2, None), slice(2, 2, None), slice(2, 5, None)]
    """
    return [slice(*each) for each in pairwise(accumulate(sizes, initial=0))]


def _count_offsets(cell_row: NDArray[np.int32], num_rows: int) -> NDArray[np.int64]:
    counts = np.bincount(cell_row, minlength=num_rows)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _fits(cell_length: NDArray[np.int64], row_offsets: NDArray[np.int64], max_tokens: int) -> NDArray[np.bool_]:
    """Tell which cells end within their row's first `max_tokens` tokens."""
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(cell_length)])
    before_row = np.repeat(running[row_offsets[:-1]], np.diff(row_offsets))
    fits: NDArray[np.bool_] = 1 + running[1:] - before_row <= max_tokens
    return fits


def _find_segments(
    cell_header: NDArray[np.int32], cell_value: NDArray[np.int32], num_values: int
) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]:
    """Return header and value of the distinct segments, in order of first use, and the segment of each cell."""
    pairs = pc.dictionary_encode(pa.array(cell_header.astype(np.int64) * num_values + cell_value))
    header, value = np.divmod(pairs.dictionary.to_numpy(), max(num_values, 1))
    segments = {"segment_header": header.astype(np.int32), "segment_value": value.astype(np.int32)}
    return segments, pairs.indices.to_numpy()
