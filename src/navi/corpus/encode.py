"""Chunks of tables to segments and tokens: each chunk by itself, then all in one set of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from navi.corpus.arrays import ArrayStore, Encoded, gather_ranges
from navi.corpus.hashing import Hashes, HashIndex, hash_rows, hash_texts, mix
from navi.corpus.prepareconfig import PrepareConfig, load_attributes
from navi.corpus.roles import summarise_columns
from navi.corpus.tokens import TextTokenizer, TokenLists
from navi.tables import Chunk

Ints = NDArray[np.int64]
CELLS_AT_ONCE = 1 << 16
"""Cells of chunks that are tokenised together, or of one chunk: many small tables go through the tokenizer as one."""
_URL = r"(?i)^\s*([a-z][a-z0-9+.-]*://|www\.|mailto:)"

_EMPTY = Chunk(
    headers=(),
    cell_row=np.zeros(0, np.int32),
    cell_header=np.zeros(0, np.int32),
    cell_value=pa.nulls(0, pa.string()),
    row_number=np.zeros(0, np.int64),
)


@dataclass(frozen=True, kw_only=True)
class EncodedChunk:
    """Some rows of a table as lists of segments, all numbers local to them.

    **Shape**: R rows, C cells, S distinct segments, H headers, V distinct values.
    """

    headers: tuple[str, ...]
    """(H,) distinct headers."""
    values: pa.StringArray
    """(V,) distinct values."""
    value_hash: Hashes
    """(V,) hash of each value's text."""
    value_tokens: TokenLists
    """Tokens of each value."""
    segment_header: NDArray[np.int32]
    """(S,) header of each segment."""
    segment_value: NDArray[np.int32]
    """(S,) value of each segment."""
    row_offsets: Ints
    """(R + 1,) where each row begins in `row_segments`."""
    row_segments: NDArray[np.int32]
    """(C,) segment of each cell, row after row."""
    row_number: Ints
    """(R,) place of each row in its source."""
    row_hash: Hashes
    """(R,) hash of each row's cells as they were read, whatever their order."""
    row_tokens: Ints
    """(R,) tokens of each row as the encoder sees it."""
    num_text: int
    """Cells of meaningful text, if the vocabulary is checked."""
    num_bad: int
    """Those among them that hold too much [UNK]."""
    num_beyond: int
    """Cells left out because their rows were longer than `max_tokens`."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_number)


class RowEncoder:
    """Turns rows of tables into segments, and remembers words from call to call."""

    def __init__(self, tokenizer: Tokenizer, config: PrepareConfig | None = None) -> None:
        self._config = config or PrepareConfig()
        self._tokenizer = TextTokenizer(tokenizer)

    def encode(self, tables: Mapping[str, Iterable[Chunk]]) -> Encoded:
        """Return tables as segments, without disk, splits or a vocabulary check; roles come from all the rows given."""
        held = {name: list(chunks) for name, chunks in tables.items()}
        encoded = self._encode_groups(chain.from_iterable(held.values()))
        merger = self.make_merger(ArrayStore())
        for name, chunks in held.items():
            merger.begin_table(name)
            for chunk in islice(encoded, len(chunks)):
                merger.add(chunk, np.zeros(chunk.num_rows, np.int8))
        return merger.finish()

    def make_merger(self, store: ArrayStore, scratch: Path | None = None) -> Merger:
        """Return what puts encoded chunks together in a store; with a scratch folder, in bounded memory."""
        merger = Merger(store, self._tokenizer, self._config, scratch)
        # Every array begins with an empty part, so that it has its type whatever comes.
        (empty,) = self.encode_chunks([_EMPTY])
        merger.add(empty, np.zeros(0, np.int8))
        return merger

    def encode_chunks(self, chunks: Sequence[Chunk], max_unknown_share: float | None = None) -> list[EncodedChunk]:
        """Return the segments of each chunk; each distinct value is hashed and tokenised once.

        The vocabulary is checked where there is a `max_unknown_share`.
        """
        values = [pc.dictionary_encode(chunk.cell_value) for chunk in chunks]
        texts = list(chain.from_iterable(each.dictionary.to_pylist() for each in values))
        headers = list(chain.from_iterable(chunk.headers for chunk in chunks))
        text_hash, header_hash = hash_texts(texts), hash_texts(headers)
        tokens = self._tokenizer.tokenise(texts, self._config.max_value_tokens)
        header_length = self._tokenizer.tokenise(headers, self._config.max_header_tokens).lengths
        limits, encoded = (self._config.max_tokens, max_unknown_share), []
        v, h = slice(0, 0), slice(0, 0)
        for chunk, each in zip(chunks, values, strict=True):
            v, h = slice(v.stop, v.stop + len(each.dictionary)), slice(h.stop, h.stop + len(chunk.headers))
            of_values, of_headers = (text_hash[v], tokens.take(v)), (header_hash[h], header_length[h])
            encoded.append(_encode_chunk(chunk, each, *of_values, *of_headers, *limits))
        return encoded

    def _encode_groups(self, chunks: Iterable[Chunk]) -> Iterator[EncodedChunk]:
        """Yield each chunk encoded; those of small tables go through the tokenizer together."""
        waiting: list[Chunk] = []
        num_cells = 0
        for chunk in chunks:
            num_cells += chunk.num_cells
            if waiting and num_cells > CELLS_AT_ONCE:
                yield from self.encode_chunks(waiting)
                waiting, num_cells = [], chunk.num_cells
            waiting.append(chunk)
        yield from self.encode_chunks(waiting)


def _encode_chunk(
    chunk: Chunk,
    encoded: pa.DictionaryArray,
    value_hash: Hashes,
    tokens: TokenLists,
    header_hash: Hashes,
    header_length: Ints,
    max_tokens: int,
    max_unknown_share: float | None,
) -> EncodedChunk:
    values, cell_value = encoded.dictionary, encoded.indices.to_numpy()
    cell_length = header_length[chunk.cell_header] + tokens.lengths[cell_value] + 2
    cell_hash = mix(header_hash[chunk.cell_header], value_hash[cell_value])
    row_offsets = _count_offsets(chunk.cell_row, chunk.num_rows)
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(cell_length)])
    before_row = np.repeat(running[row_offsets[:-1]], np.diff(row_offsets))
    fits = 1 + running[1:] - before_row <= max_tokens
    # Segments are pairs of header and value, numbered in order of first use.
    pair = chunk.cell_header[fits].astype(np.int64) * len(values) + cell_value[fits]
    pairs = pc.dictionary_encode(pa.array(pair))
    segment_header, segment_value = np.divmod(pairs.dictionary.to_numpy(), max(len(values), 1))
    num_text = num_bad = 0
    if max_unknown_share is not None:
        cells, is_text = np.bincount(cell_value, minlength=len(values)), find_text(values)
        is_bad = is_text & (tokens.unknown > max_unknown_share * tokens.lengths)
        num_text, num_bad = int(cells[is_text].sum()), int(cells[is_bad].sum())
    return EncodedChunk(
        headers=chunk.headers,
        values=values,
        value_hash=value_hash,
        value_tokens=tokens,
        segment_header=segment_header.astype(np.int32),
        segment_value=segment_value.astype(np.int32),
        row_offsets=_count_offsets(chunk.cell_row[fits], chunk.num_rows),
        row_segments=pairs.indices.to_numpy(),
        row_number=chunk.row_number,
        row_hash=hash_rows(cell_hash, row_offsets),
        row_tokens=1 + np.bincount(chunk.cell_row[fits], cell_length[fits], chunk.num_rows).astype(np.int64),
        num_text=num_text,
        num_bad=num_bad,
        num_beyond=len(fits) - len(pair),
    )


def _count_offsets(cell_row: NDArray[np.int32], num_rows: int) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(cell_row, minlength=num_rows))])


def find_text(values: pa.StringArray) -> NDArray[np.bool_]:
    """Return which values are meaningful text: no URL, at least 3 characters, a letter among them.

    >>> find_text(pa.array(["drama", "https://a.org/drama", "$ 12.50", "uk"])).tolist()
    [True, False, False, False]
    """
    is_long = pc.greater_equal(pc.utf8_length(values), 3)
    has_letter = pc.match_substring_regex(values, r"\pL")
    is_url = pc.match_substring_regex(values, _URL)
    found: NDArray[np.bool_] = pc.and_not(pc.and_(is_long, has_letter), is_url).to_numpy(zero_copy_only=False)
    return found


class Merger:
    """Takes encoded chunks, table after table, and numbers what they hold in order of first use.

    Memory: 12 bytes for each distinct value and segment, which lie in a scratch folder if there is one, and what the
    store keeps.
    """

    def __init__(
        self, store: ArrayStore, tokenizer: TextTokenizer, config: PrepareConfig, scratch: Path | None = None
    ) -> None:
        self._store, self._tokenizer, self._config = store, tokenizer, config
        self._mapping = load_attributes(config.attributes)
        self._tables: list[str] = []
        self._headers: dict[str, int] = {}
        self._attributes: dict[str, int] = {}
        self._values, self._segments = HashIndex(scratch), HashIndex(scratch)

    def begin_table(self, name: str) -> None:
        """Start a table; the chunks that follow are its rows, in order."""
        self._tables.append(name)

    def add(self, chunk: EncodedChunk, row_split: NDArray[np.int8], rows: Ints | None = None) -> None:
        """Take in a chunk of the current table, or only some of its rows."""
        rows = np.arange(chunk.num_rows) if rows is None else rows
        lengths, places = gather_ranges(chunk.row_offsets, rows)
        cells = chunk.row_segments[places]
        used = np.flatnonzero(np.bincount(cells, minlength=len(chunk.segment_header)))
        numbers = np.zeros(len(chunk.segment_header), np.int32)
        numbers[used] = self._number_segments(chunk, used)
        self._store.append_lists("row_segments", "row_offsets", lengths, numbers[cells])
        self._store.append("row_table", np.full(len(rows), len(self._tables) - 1, np.int32))
        self._store.append("row_split", row_split[rows])
        self._store.append("row_number", chunk.row_number[rows])
        self._store.append("row_hash", chunk.row_hash[rows])

    def finish(self) -> Encoded:
        """Return all that was taken in."""
        # What they hold is written; where there is much of it, the summary needs the memory.
        del self._values, self._segments
        for part, texts in (("header", list(self._headers)), ("attribute", list(self._attributes))):
            tokens = self._tokenizer.tokenise(texts, self._config.max_header_tokens)
            self._store.append_lists(f"{part}_tokens", f"{part}_offsets", tokens.lengths, tokens.tokens)
            self._store.append_texts(f"{part}_text", pa.array(texts, pa.string()))
        named = self._store.read()
        columns = summarise_columns(named, len(self._tables), self._config)
        for name, array in columns.items():
            self._store.append(name, array)
        return Encoded.from_arrays(self._tables, named | columns)

    def _number_segments(self, chunk: EncodedChunk, used: Ints) -> NDArray[np.int32]:
        header, value = chunk.segment_header[used], chunk.segment_value[used]
        table = self._tables[-1] if self._tables else ""
        attributes = [self._mapping.attribute_of(table, header) for header in chunk.headers]
        column_hash = mix(hash_texts(attributes), hash_texts(chunk.headers))
        header_number, attribute_number = np.zeros((2, len(chunk.headers)), np.int32)
        for place in np.unique(header):
            header_number[place] = self._headers.setdefault(chunk.headers[place], len(self._headers))
            attribute_number[place] = self._attributes.setdefault(attributes[place], len(self._attributes))
        value_number = self._number_values(chunk, value)
        numbers, new = self._segments.add(mix(column_hash[header], chunk.value_hash[value]))
        self._store.append("segment_attribute", attribute_number[header[new]])
        self._store.append("segment_header", header_number[header[new]])
        self._store.append("segment_value", value_number[value[new]])
        return numbers

    def _number_values(self, chunk: EncodedChunk, value: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of each of the chunk's values that are among `value`, 0 for the others."""
        used = np.flatnonzero(np.bincount(value, minlength=len(chunk.values)))
        numbers = np.zeros(len(chunk.values), np.int32)
        numbers[used], new = self._values.add(chunk.value_hash[used])
        tokens = chunk.value_tokens
        lengths, places = gather_ranges(tokens.offsets, used[new])
        self._store.append_lists("value_tokens", "value_offsets", lengths, tokens.tokens[places])
        self._store.append("value_unknown", tokens.unknown[used[new]])
        self._store.append("value_cut", tokens.cut[used[new]])
        self._store.append_texts("value_text", chunk.values.take(pa.array(used[new])))
        return numbers
