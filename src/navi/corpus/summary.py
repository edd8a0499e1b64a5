"""What is known of each column: how full, how diverse, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.roles import measure_entropy

NUM_EXAMPLES = 3
"""Example values kept of each column, the most frequent."""


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """Facts about K columns over all their table's rows; entropy and role over those that train.

    The columns of an unseen table have no rows that train: their entropy and role come from all rows, and go into
    nothing that is learnt.
    """

    table: NDArray[np.int32]
    """(K,) table of each column; columns are sorted by (table, header)."""
    header: NDArray[np.int32]
    """(K,) header of each column."""
    attribute: NDArray[np.int32]
    """(K,) attribute of each column."""
    role: NDArray[np.int8]
    """(K,) role of each column."""
    entropy: NDArray[np.float64]
    """(K,) normalised entropy; NaN where no row that trains has a cell."""
    fill: NDArray[np.float64]
    """(K,) share of the table's rows that have a cell."""
    distinct: NDArray[np.int64]
    """(K,) number of distinct values."""
    mean_tokens: NDArray[np.float64]
    """(K,) tokens of a cell's value, on average."""
    unknown: NDArray[np.float64]
    """(K,) share of [UNK] among these tokens."""
    cut: NDArray[np.float64]
    """(K,) share of cells whose value was cut."""
    examples: NDArray[np.int32]
    """(K, 3) most frequent values, the first met among equals; -1 where there are fewer."""


class TableCounter:
    """Counts the segments of one table, piece by piece, until its columns can be summed up."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.is_unseen = False
        self._segments: list[NDArray[np.int32]] = []
        self._tokens: list[NDArray[np.int64]] = []

    def add(self, segments: NDArray[Any], tokens: NDArray[np.int64], num_rows: int) -> None:
        """Count a piece.

        **Shape**: `segments` is (5, S): number, header, value, cells and cells that train of each distinct segment;
        `tokens` is (5, H): header, cells, value tokens, [UNK] among them and cut cells of each header.
        """
        self._segments.append(segments.astype(np.int32))
        self._tokens.append(tokens)
        self.num_rows += num_rows

    def sum_up(self, normalise: str) -> dict[str, NDArray[Any]]:
        """Return what counts alone tell of the columns, sorted by header, under the names of `ColumnSummary`."""
        number, header, value, cells, train_cells = np.concatenate(self._segments, axis=1)
        _, first, place = np.unique(number, return_index=True, return_inverse=True)
        headers, column = np.unique(header[first], return_inverse=True)
        counts = np.bincount(place, weights=cells).astype(np.int64)
        train_counts = np.bincount(place, weights=train_cells).astype(np.int64)
        return {
            "header": headers,
            "entropy": measure_entropy(column, counts if self.is_unseen else train_counts, len(headers), normalise),
            "fill": np.bincount(column, weights=counts) / self.num_rows,
            "distinct": np.bincount(column),
            "examples": _choose_examples(column, counts, value[first], len(headers)),
        } | self._average_tokens(headers)

    def _average_tokens(self, headers: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
        header, *sums = np.concatenate(self._tokens, axis=1)
        column = np.searchsorted(headers, header)
        cells, tokens, unknown, cut = (np.bincount(column, weights=each, minlength=len(headers)) for each in sums)
        return {"mean_tokens": tokens / cells, "unknown": unknown / tokens, "cut": cut / cells}


def _choose_examples(
    column: NDArray[np.int64], counts: NDArray[np.int64], value: NDArray[np.int32], num_columns: int
) -> NDArray[np.int32]:
    order = np.lexsort((-counts, column))
    begins = np.searchsorted(column[order], np.arange(num_columns))
    rank = np.arange(len(order)) - begins[column[order]]
    chosen = order[rank < NUM_EXAMPLES]
    examples = np.full((num_columns, NUM_EXAMPLES), -1, np.int32)
    examples[column[chosen], rank[rank < NUM_EXAMPLES]] = value[chosen]
    return examples


_TYPES = {
    "table": np.int32,
    "header": np.int32,
    "attribute": np.int32,
    "role": np.int8,
    "entropy": np.float64,
    "fill": np.float64,
    "distinct": np.int64,
    "mean_tokens": np.float64,
    "unknown": np.float64,
    "cut": np.float64,
}


def join_columns(tables: Sequence[Mapping[str, NDArray[Any]]]) -> ColumnSummary:
    """Return the columns of all tables, one table after another."""
    examples = [np.zeros((0, NUM_EXAMPLES), np.int32), *(table["examples"] for table in tables)]
    facts = {
        name: np.concatenate([np.zeros(0, dtype), *(table[name] for table in tables)]).astype(dtype)
        for name, dtype in _TYPES.items()
    }
    return ColumnSummary(**facts, examples=np.concatenate(examples))
