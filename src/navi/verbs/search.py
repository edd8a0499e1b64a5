"""Nearest rows across tables with different schemas, by example or by a row written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.columns import GrowingLists, GrowingMemory, MakeGrowing
from navi.errors import ConfigError, TableError
from navi.verbs.embedding import embed_value_means
from navi.verbs.like import parse_like
from navi.verbs.nearest import METHODS, Nearest, build_nearest, choose_method
from navi.verbs.pool import Floats, Progress
from navi.verbs.space import Space, weigh_similarity
from navi.verbs.words import WordIndex, Words, list_words

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, D hidden size.

ROWS_AT_ONCE = 65_536
WEIGHT_ROWS = 64
"""Rows whose likeness to all others tells what similarity and overlap should weigh."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A row that is like the one asked for."""

    table: str
    """Its table."""
    row: int
    """Its number in the table, from 1; in a text file, its line."""
    confidence: float
    """How alike, from 0 to 1: the weighted mean of the next two."""
    similarity: float
    """Cosine of the two rows' vectors; 0 where they are opposed."""
    overlap: float
    """Share of the asked row's words that this row has, rare ones weighing more."""
    cells: dict[str, str]
    """What the row holds."""


@dataclass(frozen=True, kw_only=True)
class SearchIndex:
    """Rows of any tables, ready to be searched."""

    navi: Navi
    """The model."""
    space: Space
    """Where rows are compared."""
    vectors: Floats
    """(R, D) unit vectors of the rows."""
    words: WordIndex
    """The words of the rows."""
    rows: pa.Table
    """(R,) `table`, `row` and `cells`, as JSON, of each row."""
    similarity_weight: float
    """What the similarity of vectors weighs in a confidence; the words that rows share weigh the rest."""
    method: str
    """How rows are found: exact, hnsw or ivf."""
    nearest: Nearest
    """Finds them."""

    def search(self, like: Any, k: int = 10) -> list[list[Neighbour]]:
        """Return the k nearest rows for each row of `like`: a frame, a list of rows, one row, or the text of one.

        A row may have cells for a few headers alone, and headers that no table has.
        """
        if k < 1:
            raise ConfigError(f"k must be at least 1, got {k}.")
        tables = self.navi.read(parse_like(like) if isinstance(like, str) else like)
        encoded = self.navi.encode(tables)
        if encoded.arrays.num_rows < sum(table.num_rows for table in tables.values()):
            raise TableError("A row to search for has no cells. Give it at least one, such as title=Alien.")
        vectors = self.space.apply(embed_value_means(self.navi.pool, encoded.arrays))
        rows, words = list_words(encoded)
        return [self._find(vector, words[rows == place], k) for place, vector in enumerate(vectors)]

    def search_row(self, table: str, row: int, k: int = 10) -> list[Neighbour]:
        """Return the k rows nearest to one of the index's own, which is not among them."""
        cells = json.loads(self.rows["cells"][self.find_row(table, row)].as_py())
        found = self.search(cells, k + 1)[0]
        return [each for each in found if (each.table, each.row) != (table, row)][:k]

    def find_row(self, table: str, row: int) -> int:
        """Return the place of a table's row in the index."""
        names = self.rows["table"].unique().to_pylist()
        if table not in names:
            raise TableError(f"The index has no table '{table}'. It has {', '.join(names)}.")
        is_table = self.rows["table"].to_numpy() == table
        found = np.flatnonzero(is_table & (self.rows["row"].to_numpy() == row))
        if not len(found):
            raise TableError(
                f"The table '{table}' has no row {row}, or one without cells. "
                "Rows are named by their line in a text file, else by their record, from 1."
            )
        return int(found[0])

    def _find(self, vector: Floats, words: Words, k: int) -> list[Neighbour]:
        overlap = self.words.share(words)
        proposed = self.nearest.propose(vector, overlap, k)
        similarity = np.clip(self.vectors[proposed] @ vector, 0, 1)
        overlap = overlap[proposed]
        confidence = self.similarity_weight * similarity + (1 - self.similarity_weight) * overlap
        best = np.argsort(-confidence, kind="stable")[:k]
        places = np.arange(len(self.vectors))[proposed][best]
        facts = self.rows.take(pa.array(places)).to_pylist()
        return [
            Neighbour(
                table=fact["table"],
                row=fact["row"],
                confidence=float(confidence[place]),
                similarity=float(similarity[place]),
                overlap=float(overlap[place]),
                cells=json.loads(fact["cells"]),
            )
            for place, fact in zip(best, facts, strict=True)
        ]


class IndexBuilder:
    """Takes encoded rows, some at a time, and makes a search index of them."""

    def __init__(self, navi: Navi, make: MakeGrowing = GrowingMemory) -> None:
        self._navi, self._make = navi, make
        self._vectors = make("vectors", np.float32)
        self._words, self._word_rows = make("words", np.uint64), make("words.rows", np.int32)
        self._cells = GrowingLists(make, "cells", np.uint8)
        self._number, self._table = make("number", np.int64), make("table", np.int32)
        self._tables: dict[str, int] = {}
        self.num_rows = 0

    def add(self, encoded: Encoded, progress: Progress | None = None) -> None:
        """Take in rows."""
        arrays = encoded.arrays
        self._vectors.append(embed_value_means(self._navi.pool, arrays, progress=progress).reshape(-1))
        rows, words = list_words(encoded)
        self._word_rows.append(rows + self.num_rows)
        self._words.append(words)
        texts = [text.encode() for text in write_cells(encoded)]
        self._cells.append(np.array([len(text) for text in texts]), np.frombuffer(b"".join(texts), np.uint8))
        numbers = [self._tables.setdefault(name, len(self._tables)) for name in encoded.tables]
        self._table.append(np.array(numbers, np.int32)[arrays.row_table])
        self._number.append(encoded.row_number)
        self.num_rows += arrays.num_rows

    def finish(self, method: str = "auto") -> SearchIndex:
        """Return the index; `method` is one of `METHODS`."""
        if method not in METHODS:
            raise ConfigError(f"Unknown method '{method}'. Expected one of {', '.join(METHODS)}.")
        if not self.num_rows:
            raise TableError("No row to search in: these tables have none with any cell.")
        width, method = self._navi.hidden_size, choose_method(method, self.num_rows)
        raw = self._vectors.finish().reshape(self.num_rows, width)
        space, unit = Space.fit(raw), self._make("unit", np.float32)
        for start in range(0, self.num_rows, ROWS_AT_ONCE):
            unit.append(space.apply(np.asarray(raw[start : start + ROWS_AT_ONCE])).reshape(-1))
        vectors = unit.finish().reshape(self.num_rows, width)
        rows, words = self._word_rows.finish(), self._words.finish()
        index = WordIndex.build(rows, words, self.num_rows)
        return SearchIndex(
            navi=self._navi,
            space=space,
            vectors=vectors,
            words=index,
            rows=self._list_rows(),
            similarity_weight=_measure_weight(vectors, index, rows, words),
            method=method,
            nearest=build_nearest(vectors, method),
        )

    def _list_rows(self) -> pa.Table:
        offsets, content = self._cells.finish()
        cells = pa.LargeStringArray.from_buffers(self.num_rows, pa.py_buffer(offsets), pa.py_buffer(content))
        table = pa.DictionaryArray.from_arrays(
            pa.array(self._table.finish()), pa.array(list(self._tables), pa.string())
        )
        return pa.table({"table": table, "row": self._number.finish(), "cells": cells})


def _measure_weight(vectors: Floats, index: WordIndex, rows: NDArray[np.int32], words: Words) -> float:
    chosen = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), WEIGHT_ROWS)).astype(np.int64))
    similarity, overlap = [], []
    for row in chosen:
        begin, end = np.searchsorted(rows, [row, row + 1])
        similarity.append(np.clip(vectors @ vectors[row], 0, 1))
        overlap.append(index.share(words[begin:end]))
    return weigh_similarity(np.concatenate(similarity), np.concatenate(overlap))


def index_frames(navi: Navi, frames: Any, *, method: str = "auto", progress: Progress | None = None) -> SearchIndex:
    """Return an index, in memory, of the rows of one frame or several."""
    builder = IndexBuilder(navi)
    builder.add(navi.encode(frames), progress)
    return builder.finish(method)


def write_cells(encoded: Encoded) -> Iterable[str]:
    """Yield each row's headers and values as a JSON object."""
    arrays = encoded.arrays
    headers = encoded.headers.take(pa.array(arrays.segment_header[arrays.row_segments])).to_pylist()
    values = encoded.values.take(pa.array(arrays.segment_value[arrays.row_segments])).to_pylist()
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        yield json.dumps(dict(zip(headers[begin:end], values[begin:end], strict=True)), ensure_ascii=False)
