"""What models are evaluated on: a corpus with its gold, the rows drawn from it, its columns; and what a task is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.randomness import fold, make_key, order_keys
from navi.settings import check_bounds
from navi_paper.gold import Gold, name_columns
from navi_paper.table_encoder import Bools, Floats, Ints, TableEncoder
from navi_paper.table_views import permute_columns

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: R rows, C cells, K columns of the corpus, Q columns asked for, D hidden size.

Arrays = Mapping[str, NDArray[Any]]
Columns = Any
"""A record array of columns with what they mean: `number`, `table`, `header`, `concept`."""
SPLITS = ("test", "validation_tables", "unseen")
"""What is measured: rows of known tables, and tables that no model has seen: some to choose by, some to judge by."""
ROWS_AT_ONCE = 2048
"""Rows whose cells' embeddings are held at a time: bounds memory."""
NUMBER = r"^[-+]?[$€£]?\s?((\d+|\d{1,3}(,\d{3})+)(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?\s?%?$"
"""What counts as a number: digits, perhaps in groups, with a sign, a currency or a per cent sign."""


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How much each task looks at."""

    rows: int = 1000
    """Rows of one run of a task."""
    runs: int = 8
    """Runs of row classification, each with other rows."""
    column_rows: int = 64
    """Rows that a column's embedding is averaged over, at most."""
    hidden_share: float = 0.25
    """Share of a row's headers, or values, hidden for a prediction; at least one."""
    max_tokens: int = 512
    """Rows that any encoder writes out in more tokens than this are not drawn: every one must see them whole."""
    seed: int = 0
    """Decides every draw."""

    def __post_init__(self) -> None:
        check_bounds(self, "rows", "runs", "column_rows", "max_tokens", least=1)
        check_bounds(self, "hidden_share", above=0)
        check_bounds(self, "hidden_share", least=0, most=1)


@dataclass(frozen=True, kw_only=True)
class EvaluationData:
    """A corpus with its gold, and how much of it is looked at."""

    corpus: Corpus
    """The corpus; models saw its training rows alone."""
    gold: Gold = field(default_factory=Gold)
    """What people know of it; any part may be missing."""
    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    """How much each task looks at."""

    def draw_rows(self, split: str, count: int | None, *purpose: int) -> Ints:
        """Return at most `count` rows of a split that fit every encoder, ascending; None for all.

        The same seed and purpose draw the same rows, whatever else is drawn.
        """
        rows = self.corpus.rows_of(split)
        rows = rows[self.row_tokens[rows] <= self.config.max_tokens]
        if count is None or len(rows) <= count:
            return rows
        keys = fold(make_key(self.config.seed, *purpose), rows)
        return np.sort(rows[draw_members(np.zeros_like(rows), keys, count)])

    @cached_property
    def row_tokens(self) -> Ints:
        """Tokens of each row of the corpus as the wordiest encoder writes it, with quotes and braces."""
        arrays = self.corpus.arrays
        tokens: Ints = arrays.count_row_tokens() + 4 * np.diff(arrays.row_offsets) + 2
        return tokens

    @cached_property
    def permuted(self) -> SegmentArrays:
        """The corpus's arrays with the columns of each row in another order."""
        return permute_columns(self.corpus.arrays, seed=self.config.seed)

    @cached_property
    def numeric_columns(self) -> Bools:
        """(K,) whether most cells of each column of the corpus are numbers."""
        arrays = self.corpus.arrays
        number_V = ~np.isnan(parse_numbers(self.corpus.values))
        number_C = number_V[arrays.segment_value[arrays.row_segments]]
        share = np.bincount(arrays.cell_column, weights=number_C, minlength=arrays.num_columns)
        numeric: Bools = share > 0.5 * np.bincount(arrays.cell_column, minlength=arrays.num_columns)
        return numeric


def parse_numbers(values: pa.Array) -> NDArray[np.float64]:
    """Return the number that each text is, NaN if it is none; currency and per cent signs are left out.

    >>> parse_numbers(pa.array(["1,200", "$3.50", "12%", "ten"])).tolist()
    [1200.0, 3.5, 12.0, nan]
    """
    # Arrow reads no plus sign.
    bare = pc.replace_substring_regex(values, r"[$€£%,+\s]", "")
    texts = pc.if_else(pc.match_substring_regex(values, NUMBER), bare, None)
    numbers: NDArray[np.float64] = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


@dataclass(frozen=True)
class TaskResult:
    """What came of a task."""

    measures: dict[str, float]
    """Figures by name; the deviation of a figure has its name with `_deviation` behind it."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What figures and later tasks need, kept beside the results; numbers and plain strings alone."""

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            assert array.dtype != np.object_, f"{name} would have to be pickled"


@dataclass(frozen=True, kw_only=True)
class Task:
    """Something measured of each encoder, or of the arrays that an earlier task kept of it."""

    name: str
    run: Callable[[Any, EvaluationData], TaskResult]
    """Measures an encoder; where `after` is set, the arrays of that task."""
    needs: tuple[str, ...] = ()
    """Parts of the gold that it cannot do without."""
    requires: frozenset[str] = frozenset()
    """Abilities of the encoders that it is for."""
    after: str | None = None
    """The task whose arrays it measures; None measures the encoder itself."""
    missing: Callable[[], str | None] = lambda: None
    """Returns what has to be installed before it can run; None if nothing."""

    def __call__(self, measured: TableEncoder | Arrays, data: EvaluationData) -> TaskResult:
        """Measure an encoder, or the arrays kept of it."""
        return self.run(measured, data)


def list_gold_columns(data: EvaluationData) -> Columns:
    """Return (Q,) the columns of the corpus whose concept is in the gold: their `number`, ascending, and texts."""
    tables, headers = name_columns(data.corpus)
    concepts = [data.gold.concepts.get(pair, "") for pair in zip(tables, headers, strict=True)]
    texts = [np.array(each, dtype=np.str_) for each in (tables, headers, concepts)]
    arrays = [np.arange(len(tables)), *texts]
    columns: Columns = np.rec.fromarrays(arrays, names="number,table,header,concept", formats=None)
    return columns[columns.concept != ""]


def draw_members(group: Ints, keys: Ints, count: int | Ints) -> Ints:
    """Return the places of at most `count` members of each group, those with the least keys, group after group.

    A count for each member, alike for those of a group, draws another number from each group.
    """
    order = np.lexsort((order_keys(keys), group))
    ranked = group[order]
    return order[np.arange(len(order)) - np.searchsorted(ranked, ranked) < np.broadcast_to(count, len(order))[order]]


def sample_cells(data: EvaluationData, split: str, columns: Ints, count: int, purpose: int) -> tuple[Ints, Ints]:
    """Return at most `count` cells of each of these columns in a split: (row, column) of each, by column.

    Rows are preferred alike by all columns of a table, so that few rows serve them all.
    """
    arrays = data.corpus.arrays
    rows = data.draw_rows(split, None)
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    row_C, column_C = np.repeat(rows, lengths), arrays.cell_column[cells]
    asked = np.isin(column_C, columns)
    row_C, column_C = row_C[asked], column_C[asked]
    drawn = draw_members(column_C, fold(make_key(data.config.seed, purpose), row_C), count)
    return row_C[drawn], column_C[drawn]


def sum_by(group_N: Ints, vectors_ND: NDArray[np.floating], num_groups: int) -> NDArray[np.float64]:
    """Return the sum of the vectors of each group: (groups, D)."""
    ones = np.ones(len(group_N))
    summing = csr_array((ones, (group_N, np.arange(len(group_N)))), shape=(num_groups, len(group_N)))
    sums: NDArray[np.float64] = summing @ vectors_ND
    return sums


def average_columns(
    encoder: TableEncoder, arrays: SegmentArrays, rows: Ints, wanted: tuple[Ints, Ints], parts: Sequence[str]
) -> dict[str, Floats]:
    """Return the mean embedding of each column over some of its cells: (K, D), zeros where it has none.

    `wanted` has row and column of these cells; all their rows are among `rows`. Other cells of these rows do not count.
    """
    num_columns = arrays.num_columns
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
            sums[part] = sums.get(part, 0.0) + sum_by(column_C[chosen], found[part][chosen], num_columns)
    return {part: (total / np.maximum(counts, 1)[:, None]).astype(np.float32) for part, total in sums.items()}
