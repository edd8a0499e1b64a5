"""Columns as texts: what the encoder reads of a column, and views of it as other tables would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.columns.headers import is_useless
from navi.columns.perturb import perturb_header, perturb_values
from navi.columns.profiles import ColumnProfiles, sample_cells, sketch_columns
from navi.corpus import Encoded, canonicalise
from navi.corpus.hashing import hash_texts
from navi.corpus.tokens import TextTokenizer, TokenLists
from navi.randomness import fold, make_key, order_keys

if TYPE_CHECKING:
    from navi.model.runner import Runner

# Shape suffixes: K columns, N texts, T tokens (packed), D hidden size.

MAX_VALUES, MAX_CHARACTERS, MAX_TOKENS = 10, 40, 64
"""Values of a column that are read, characters of each, and tokens of the whole text."""
NUM_VIEWS = 6
"""Perturbed views made of each column."""
CLEAN, CLEAN_HEADER, FIRST_VIEW = 0, 1, 2
"""Texts of a column: as it is, its header alone, then the perturbed views."""
NUM_TEXTS = FIRST_VIEW + NUM_VIEWS
ALONE_SHARE = 0.15
"""Share of the views that have a header alone, and of those that have values alone."""

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


def embed_texts(runner: Runner, tokenizer: TextTokenizer, texts: Sequence[str]) -> Floats:
    """Return a vector of length 1 for each text, (N, D); zeros for an empty one. Equal texts are read once."""
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    vectors = runner.embed_texts(tokenizer.tokenise(list(distinct), MAX_TOKENS))
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    vectors[distinct.get("", len(vectors)) :][:1] = 0.0
    return vectors[[distinct[text] for text in texts]]


def profile_columns(
    runner: Runner, tokenizer: TextTokenizer, encoded: Encoded, rows: Ints | None = None
) -> ColumnProfiles:
    """Return the profile of each column of `encoded`, in its order, made from the given rows alone; None takes all."""
    rows = np.arange(encoded.arrays.num_rows) if rows is None else rows
    profiles = sketch_columns(encoded, rows)
    examples = list_examples(encoded, rows)
    columns = list(zip(profiles.headers, examples, strict=True))
    texts = {
        "header": [write_column(header, []) for header, _ in columns],
        "value": [write_column("", values) for _, values in columns],
        "column": [write_column(header, values) for header, values in columns],
    }
    vectors = embed_texts(runner, tokenizer, [text for kind in texts.values() for text in kind])
    return replace(profiles, vectors=dict(zip(texts, np.split(vectors, len(texts)), strict=True)))


def list_examples(encoded: Encoded, rows: Ints, limit: int = MAX_VALUES) -> list[list[str]]:
    """Return some distinct values of each column, (K,), in an order that they give, whatever their rows hold beside."""
    sample = sample_cells(encoded, rows, 3 * limit)
    values = encoded.values.take(sample.value).to_pylist()
    examples: list[dict[str, int]] = [{} for _ in range(encoded.arrays.num_columns)]
    for column, value, drawn in zip(sample.column.tolist(), values, hash_texts(values).tolist(), strict=True):
        examples[column][value] = drawn
    return [sorted(list(each)[:limit], key=each.__getitem__) for each in examples]


@dataclass(frozen=True, kw_only=True)
class ColumnViews:
    """`NUM_TEXTS` texts of each of K columns, tokenised."""

    texts: TokenLists
    """K · NUM_TEXTS texts, column after column."""
    tables: NDArray[np.int32]
    """(K,) table of each column, ascending."""
    attributes: NDArray[np.int32]
    """(K,) attribute of each column: those of equal attributes are not told apart."""

    def __len__(self) -> int:
        return len(self.tables)

    def choose(self, num_columns: int, key: int) -> Ints:
        """Return columns for one step, those of whole tables: columns of one table are the hardest to tell apart."""
        numbers, table = np.unique(self.tables, return_inverse=True)
        drawn = order_keys(fold(key, np.arange(len(numbers))))[table]
        within = order_keys(fold(make_key(key, 1), np.arange(len(self))))
        return np.lexsort((within, drawn))[:num_columns]


def make_views(encoded: Encoded, tokenizer: TextTokenizer, rows: Ints, seed: int) -> ColumnViews:
    """Return the views of every column that has cells in the given rows; the views' values come from different rows."""
    arrays = encoded.arrays
    sample = sample_cells(encoded, rows, MAX_VALUES * (1 + NUM_VIEWS))
    columns, begins = np.unique(sample.column, return_index=True)
    ends = np.append(begins[1:], len(sample.column))
    headers, values = encoded.headers.to_pylist(), encoded.values.take(sample.value).to_pylist()
    texts: list[str] = []
    for column, begin, end in zip(columns.tolist(), begins.tolist(), ends.tolist(), strict=True):
        generator = Random(make_key(seed, column))
        texts += _write_views(headers[arrays.column_header[column]], values[begin:end], generator)
    return ColumnViews(
        texts=tokenizer.tokenise(texts, MAX_TOKENS),
        tables=arrays.column_table[columns],
        attributes=arrays.column_attribute[columns],
    )


def _write_views(header: str, cells: Sequence[str], generator: Random) -> list[str]:
    """Return `NUM_TEXTS` texts of a column; each perturbed one reads every so many-th cell."""
    named = not is_useless(header)
    texts = [write_column(header, cells), write_column(header, [] if named else cells)]
    for view in range(NUM_VIEWS):
        shown = perturb_values((cells[view::NUM_VIEWS] or cells)[:MAX_VALUES], generator)
        called = perturb_header(header, generator) if named else ""
        draw = generator.random()
        if named and draw < ALONE_SHARE:
            shown = []
        elif draw > 1 - ALONE_SHARE:
            called = ""
        texts.append(write_column(called, shown) or texts[CLEAN])
    return texts
