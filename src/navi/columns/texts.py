"""Columns and rows as texts: what the encoder reads of them, and views of each as other tables would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.columns.headers import is_useless
from navi.columns.perturb import misspell, perturb_header, perturb_values
from navi.columns.profiles import FACTS, ColumnProfiles, sample_cells, shuffle_rows, sketch_columns
from navi.corpus import Encoded, canonicalise
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_texts
from navi.corpus.tokens import TextTokenizer, TokenLists
from navi.randomness import make_key, permute

if TYPE_CHECKING:
    from navi.model.runner import Runner

# Shape suffixes: K columns, N texts, T tokens (packed), D hidden size.

MAX_VALUES, MAX_CHARACTERS, MAX_ROW_CHARACTERS, MAX_TOKENS = 10, 40, 120, 64
"""Values of a column that are read, characters of each and of each value of a row, and tokens of the whole text."""
MAX_READ_VALUES = 40
"""Values of a column of texts that a profile reads, `MAX_VALUES` in each text: the more, the better it is matched."""
CLEAN, CLEAN_HEADER, FIRST_VIEW = 0, 1, 2
"""Texts of a column: as it is, its header alone, then the perturbed views. Of a row: its values, headers too, views."""
ALONE_SHARE = 0.15
"""Share of a column's views that have a header alone, and of those that have values alone."""
ROWS_OF_VIEWS, LEAST_ROWS, MOST_ROWS = 500, 8, 200
"""Rows that get views in all, and the bounds for each table."""
LACKING_SHARE, EMPTY_SHARE, MISSPELLED_SHARE = 0.3, 0.1, 0.15
"""Of a view of rows: share of the columns that it lacks, of the other cells that are empty, and misspelled."""
MOST_OF_A_TABLE = 16
"""Columns, or rows, of one table that are compared in one step."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


def write_column(header: str, values: Sequence[str]) -> str:
    """Return what is read of a column; a header that says nothing is left out.

    >>> write_column("releaseDate", ["1979", "1986", "1979"]), write_column("col_3", ["1979"])
    ('release date: 1979, 1986', '1979')
    """
    name = "" if is_useless(header) else canonicalise(header)
    listed = ", ".join(value[:MAX_CHARACTERS] for value in list(dict.fromkeys(values))[:MAX_VALUES])
    return f"{name}: {listed}" if name and listed else name or listed


def write_row(values: Sequence[str]) -> str:
    """Return what is read of a row as a text: its values.

    >>> write_row(["Alien", "1979", "Ridley Scott"])
    'Alien, 1979, Ridley Scott'
    """
    return ", ".join(value[:MAX_ROW_CHARACTERS] for value in values)


def embed_texts(runner: Runner, tokenizer: TextTokenizer, texts: Sequence[str]) -> Floats:
    """Return a vector of length 1 for each text, (N, D); zeros for an empty one. Equal texts are read once."""
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors = runner.embed_texts(tokenizer.tokenise(list(distinct), MAX_TOKENS))
    vectors = normalise(vectors)
    vectors[distinct.get("", len(vectors)) :][:1] = 0.0
    return vectors[[distinct[text] for text in texts]]


def normalise(vectors: Floats) -> Floats:
    """Return vectors of length 1, and zeros for zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = np.divide(vectors, np.maximum(lengths, 1e-9), dtype=np.float32)
    return unit


def profile_columns(
    runner: Runner, tokenizer: TextTokenizer, encoded: Encoded, rows: Ints | None = None
) -> ColumnProfiles:
    """Return the profile of each column of `encoded`, in its order, made from the given rows alone; None takes all."""
    rows = np.arange(encoded.arrays.num_rows) if rows is None else rows
    profiles = sketch_columns(encoded, rows)
    examples = list_examples(encoded, rows)
    # More values of numbers tell the model nothing new; those of texts do, ten in a text.
    is_text = profiles.facts[:, FACTS.index("quantities")] <= 0.5
    num_parts = [max(1, -(-len(values) // MAX_VALUES)) for values in examples]
    parts = [
        [values[place::num] for place in range(num if text else 1)]
        for values, num, text in zip(examples, num_parts, is_text.tolist(), strict=True)
    ]
    texts = {
        "header": [write_column(header, []) for header in profiles.headers],
        "value": [write_column("", values) for values in examples],
        "column": [
            write_column(header, part) for header, lot in zip(profiles.headers, parts, strict=True) for part in lot
        ],
    }
    vectors = embed_texts(runner, tokenizer, [text for kind in texts.values() for text in kind])
    header_KD, value_KD, part_ND = np.split(vectors, np.cumsum([len(kind) for kind in texts.values()])[:-1])
    begins = np.cumsum([0, *(len(lot) for lot in parts)])[:-1]
    column_KD = normalise(np.add.reduceat(part_ND, begins, axis=0)) if len(begins) else part_ND
    return replace(profiles, vectors={"header": header_KD, "value": value_KD, "column": column_KD})


def list_examples(encoded: Encoded, rows: Ints, limit: int = MAX_READ_VALUES) -> list[list[str]]:
    """Return some distinct values of each column, (K,), in an order that they give, whatever their rows hold beside."""
    sample = sample_cells(encoded, rows, 3 * limit)
    values = encoded.values.take(sample.value).to_pylist()
    examples: list[dict[str, int]] = [{} for _ in range(encoded.arrays.num_columns)]
    for column, value, drawn in zip(sample.column.tolist(), values, hash_texts(values).tolist(), strict=True):
        examples[column][value] = drawn
    return [sorted(list(each)[:limit], key=each.__getitem__) for each in examples]


@dataclass(frozen=True, kw_only=True)
class TextViews:
    """As many texts of each of K columns and rows, tokenised."""

    texts: TokenLists
    """K · num_texts texts, column after column."""
    num_texts: int
    """Texts of each: two as it is, then the views."""
    num_columns: int
    """The first that many are columns, the others rows."""
    tables: NDArray[np.int32]
    """(K,) table of each column, ascending; the rows of a table count as a table of their own."""
    meanings: NDArray[np.int64]
    """(K,) attribute of each column, hash of each row: those of equal meaning are not told apart."""

    def __len__(self) -> int:
        return len(self.tables)

    def choose(self, count: int, key: int) -> Ints:
        """Return columns and rows for one step, many of a table: those are the hardest to tell apart."""
        sizes = np.diff(self._begins)
        order = permute(key, len(sizes))
        order = order[: 1 + np.searchsorted(np.cumsum(np.minimum(sizes[order], MOST_OF_A_TABLE)), count)]
        drawn = [permute(make_key(key, table), sizes[table])[:MOST_OF_A_TABLE] for table in order.tolist()]
        return np.concatenate([self._begins[table] + lot for table, lot in zip(order, drawn, strict=True)])[:count]

    @cached_property
    def _begins(self) -> Ints:
        """Where each table begins, and the end."""
        return np.append(np.unique(self.tables, return_index=True)[1], len(self))


def make_views(encoded: Encoded, tokenizer: TextTokenizer, rows: Ints, num_views: int, seed: int) -> TextViews:
    """Return the views of every column that has cells in the given rows, and those of some rows of each table.

    The values of a column's views come from different rows.
    """
    arrays = encoded.arrays
    sample = sample_cells(encoded, rows, MAX_VALUES * (1 + num_views))
    columns, begins = np.unique(sample.column, return_index=True)
    ends = np.append(begins[1:], len(sample.column))
    headers, values = encoded.headers.to_pylist(), encoded.values.take(sample.value).to_pylist()
    texts: list[str] = []
    for column, begin, end in zip(columns.tolist(), begins.tolist(), ends.tolist(), strict=True):
        header = headers[arrays.column_header[column]]
        texts += _view_column(header, values[begin:end], num_views, Random(make_key(seed, column)))
    limit = min(max(ROWS_OF_VIEWS // max(len(encoded.tables), 1), LEAST_ROWS), MOST_ROWS)
    chosen = shuffle_rows(encoded, rows, limit)
    tables, starts = np.unique(arrays.row_table[chosen], return_index=True)
    for table, lot in zip(tables.tolist(), np.split(chosen, starts[1:]), strict=True):
        texts += _view_rows(*_list_cells(encoded, lot), len(lot), num_views, Random(make_key(seed, table, 1)))
    return TextViews(
        texts=tokenizer.tokenise(texts, MAX_TOKENS),
        num_texts=FIRST_VIEW + num_views,
        num_columns=len(columns),
        tables=np.concatenate([arrays.column_table[columns], arrays.row_table[chosen] + len(encoded.tables)]),
        meanings=np.concatenate([arrays.column_attribute[columns], encoded.row_hash[chosen].astype(np.int64)]),
    )


def _view_column(header: str, cells: Sequence[str], num_views: int, generator: Random) -> list[str]:
    """Return the texts of a column; each view reads every so many-th cell."""
    named = not is_useless(header)
    texts = [write_column(header, cells), write_column(header, [] if named else cells)]
    for view in range(num_views):
        shown = perturb_values((cells[view::num_views] or cells)[:MAX_VALUES], generator)
        called = perturb_header(header, generator) if named else ""
        draw = generator.random()
        if named and draw < ALONE_SHARE:
            shown = []
        elif draw > 1 - ALONE_SHARE:
            called = ""
        texts.append(write_column(called, shown) or texts[CLEAN])
    return texts


def _list_cells(encoded: Encoded, rows: Ints) -> tuple[list[int], list[str], list[str]]:
    """Return row (its place among the given ones), header and value of each cell of some rows of a table."""
    lengths, places = gather_ranges(encoded.arrays.row_offsets, rows)
    segments = encoded.arrays.row_segments[places]
    headers = encoded.headers.take(encoded.arrays.segment_header[segments]).to_pylist()
    values = encoded.values.take(encoded.arrays.segment_value[segments]).to_pylist()
    return np.repeat(np.arange(len(rows)), lengths).tolist(), headers, values


def _view_rows(
    owners: list[int], headers: list[str], values: list[str], num_rows: int, num_views: int, generator: Random
) -> list[str]:
    """Return the texts of rows of one table; a view writes each column in its own way, and lacks some."""
    columns: dict[str, list[int]] = {}
    for cell, header in enumerate(headers):
        columns.setdefault(header, []).append(cell)
    distinct = {header: len({values[cell] for cell in cells}) for header, cells in columns.items()}
    main = max(distinct, key=lambda header: (distinct[header], header))
    rows: list[list[int]] = [[] for _ in range(num_rows)]
    for cell, owner in enumerate(owners):
        rows[owner].append(cell)
    texts = [[write_row([values[cell] for cell in cells])] for cells in rows]
    for lot, cells in zip(texts, rows, strict=True):
        lot.append(write_row([write_column(headers[cell], [values[cell]]) for cell in cells]))
    for _ in range(num_views):
        views: list[list[str]] = [[] for _ in range(num_rows)]
        for header in generator.sample(list(columns), len(columns)):
            if header != main and generator.random() < LACKING_SHARE:
                continue
            for cell, value in zip(
                columns[header], perturb_values([values[c] for c in columns[header]], generator), strict=True
            ):
                if generator.random() >= EMPTY_SHARE:
                    views[owners[cell]].append(
                        misspell(value, generator) if generator.random() < MISSPELLED_SHARE else value
                    )
        for lot, view in zip(texts, views, strict=True):
            lot.append(write_row(view) or lot[CLEAN])
    return [text for lot in texts for text in lot]
