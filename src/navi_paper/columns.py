"""Columns as tasks see them: what they are called, what they mean, and which of their rows are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.randomness import fold, make_key, order_keys
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: R rows, C cells, K columns of the corpus, Q columns asked for, D hidden size.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
ROWS_AT_ONCE = 2048
"""Rows whose cells' embeddings are held at a time."""
NUMBER = r"^[-+]?[$€£]?\s?(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?([eE][-+]?\d+)?\s?%?$"
"""What counts as a number: digits, perhaps in groups, with a sign, a currency or a per cent sign."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Some columns of a corpus."""

    number: Ints
    """(Q,) their numbers in the corpus, ascending."""
    table: NDArray[np.str_]
    """(Q,) the table of each."""
    header: NDArray[np.str_]
    """(Q,) the header of each."""
    concept: NDArray[np.str_]
    """(Q,) what each means, by the gold."""

    def __len__(self) -> int:
        return len(self.number)

    def keep(self, kept: Bools) -> Columns:
        """Return some of the columns."""
        changes: dict[str, Any] = {name: array[kept] for name, array in vars(self).items()}
        return replace(self, **changes)


def list_gold_columns(bench: Bench) -> Columns:
    """Return the columns of the corpus whose concept the gold tells."""
    tables, headers = name_columns(bench.corpus)
    concepts = [bench.gold.concepts.get(pair) for pair in zip(tables, headers, strict=True)]
    number = np.array([place for place, concept in enumerate(concepts) if concept is not None], dtype=np.int64)
    return Columns(
        number=number,
        table=np.array([tables[place] for place in number], dtype=np.str_),
        header=np.array([headers[place] for place in number], dtype=np.str_),
        concept=np.array([concepts[place] for place in number], dtype=np.str_),
    )


def name_columns(corpus: Corpus) -> tuple[list[str], list[str]]:
    """Return table and header of each column of a corpus: (K,) each."""
    headers: list[str] = corpus.headers.take(np.asarray(corpus.arrays.column_header)).to_pylist()
    return [corpus.tables[table] for table in corpus.arrays.column_table], headers


def sample_cells(bench: Bench, split: str, columns: Ints, count: int, purpose: int) -> tuple[Ints, Ints]:
    """Return at most `count` cells of each of these columns in a split: (row, column) of each, by column.

    Rows are preferred alike by all columns of a table, so that few rows serve them all.
    """
    arrays = bench.corpus.arrays
    rows = bench.draw_rows(split, None)
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    row_C, column_C = np.repeat(rows, lengths), arrays.cell_column[cells]
    asked = np.isin(column_C, columns)
    row_C, column_C = row_C[asked], column_C[asked]
    order = np.lexsort((order_keys(fold(make_key(bench.config.seed, purpose), row_C)), column_C))
    row_C, column_C = row_C[order], column_C[order]
    rank = np.arange(len(order)) - np.searchsorted(column_C, column_C)
    return row_C[rank < count], column_C[rank < count]


def average_columns(
    encoder: TableEncoder, arrays: SegmentArrays, rows: Ints, wanted: tuple[Ints, Ints], parts: Sequence[str]
) -> dict[str, Floats]:
    """Return the mean embedding of each column over some of its cells: (K, D), zeros where it has none.

    `wanted` has row and column of these cells; all their rows are among `rows`. Other cells of these rows do not count.
    """
    num_columns = len(arrays.column_table)
    keys = np.sort(wanted[0] * num_columns + wanted[1])
    counts = np.bincount(wanted[1], minlength=num_columns)
    sums: dict[str, NDArray[np.float64]] = {}
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        taken = arrays.take_rows(some)
        column_C = taken.cell_column
        chosen = np.isin(np.repeat(some, np.diff(taken.row_offsets)) * num_columns + column_C, keys)
        found = encoder.embed(taken, np.arange(len(some)), parts=parts)
        for part in parts:
            sums.setdefault(part, np.zeros((num_columns, found[part].shape[1])))
            add_groups(sums[part], column_C[chosen], found[part][chosen])
    return {part: (total / np.maximum(counts, 1)[:, None]).astype(np.float32) for part, total in sums.items()}


def add_groups(sums: NDArray[np.float64], group_C: Ints, embedded_CD: Floats) -> None:
    """Add each embedding to its group's sum."""
    if not len(group_C):
        return
    order = np.argsort(group_C, kind="stable")
    groups, starts = np.unique(group_C[order], return_index=True)
    sums[groups] += np.add.reduceat(embedded_CD[order].astype(np.float64), starts, axis=0)


def find_numeric_columns(bench: Bench) -> Bools:
    """Tell of each column of the corpus whether most of its cells are numbers: (K,)."""
    arrays, values = bench.corpus.arrays, bench.corpus.values
    shaped = pc.match_substring_regex(values, NUMBER)
    digits = pc.match_substring_regex(values, r"\d")
    number_V = np.asarray(pc.and_(shaped, digits).to_numpy(zero_copy_only=False), dtype=np.float64)
    number_C = number_V[arrays.segment_value[arrays.row_segments]]
    share = np.bincount(arrays.cell_column, weights=number_C, minlength=arrays.num_columns)
    numeric: Bools = share > 0.5 * np.bincount(arrays.cell_column, minlength=arrays.num_columns)
    return numeric
