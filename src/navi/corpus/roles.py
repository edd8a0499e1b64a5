"""Roles: how diverse a column's values are, and whether that makes it low, mid or high in its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, TRAIN, UNSEEN
from navi.corpus.prepareconfig import PrepareConfig

# Shape suffixes: C cells of a table, S its distinct segments, K its columns.

NUM_EXAMPLES = 3
"""Example values kept of each column, the most frequent."""

# Sums in different orders differ in their last bits; columns that are alike must tie all the same.
_DECIMALS = 12
_EVEN = 0.5


def measure_entropy(
    column: NDArray[Any], counts: NDArray[Any], num_columns: int, normalise: str = "rows"
) -> NDArray[np.float64]:
    """Return the normalised entropy of each column: 0 is one repeated value, 1 is all different.

    `counts` says how often each distinct value occurs and `column` where. A single cell has entropy 0, a column
    without cells has none (NaN). With `normalise="distinct"`, 1 means all values equally often.

    >>> measure_entropy(np.array([0, 1, 1, 2, 2]), np.array([4, 1, 1, 2, 2]), 3).tolist()
    [0.0, 1.0, 0.5]
    """
    column, counts = column[counts > 0], counts[counts > 0].astype(np.float64)
    cells = np.bincount(column, weights=counts, minlength=num_columns)
    distinct = np.bincount(column, minlength=num_columns)
    # H = -sum p log p, with p = count / cells, written so that both ends come out exact.
    repeated = np.bincount(column, weights=counts / cells[column] * np.log(counts), minlength=num_columns)
    entropy = np.log(np.maximum(cells, 1)) - repeated
    most = np.log(np.maximum(cells if normalise == "rows" else distinct, 1))
    normalised = np.divide(entropy, most, out=np.zeros(num_columns), where=most > 0)
    return np.where(cells > 0, np.clip(np.round(normalised, _DECIMALS), 0, 1), np.nan)


def assign_roles(entropy: NDArray[np.float64], theta_low: float, theta_high: float) -> NDArray[np.int8]:
    """Return the role of each column of one table by the quantiles of its entropies, ties included.

    Where both bounds hold, as in a table of one column, less than one half is low. A column without entropy is mid.

    >>> assign_roles(np.array([0.0, 0.0, 0.4, 0.9, 1.0, 1.0]), 0.05, 0.95).tolist()
    [1, 1, 0, 0, 2, 2]
    """
    roles = np.full(len(entropy), ROLE_MID, np.int8)
    known = ~np.isnan(entropy)
    if not known.any():
        return roles
    low, high = np.quantile(entropy[known], [theta_low, theta_high])
    is_low, is_high = known & (entropy <= low), known & (entropy >= high)
    both = is_low & is_high
    roles[is_low & ~(both & (entropy >= _EVEN))] = ROLE_LOW
    roles[is_high & ~(both & (entropy < _EVEN))] = ROLE_HIGH
    return roles


def summarise_columns(
    named: Mapping[str, NDArray[Any]], num_tables: int, config: PrepareConfig
) -> dict[str, NDArray[Any]]:
    """Return the arrays that describe columns, from those of rows, segments and values, all under their names."""
    begins = np.searchsorted(named["row_table"], np.arange(num_tables + 1))
    # Without tables there are no columns, but still arrays of their types.
    tables = [
        _summarise_table(named, table, slice(*begins[table : table + 2]), config) for table in range(num_tables)
    ] or [_summarise_table(named, 0, slice(0, 0), config)]
    return {f"column_{name}": np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _summarise_table(
    named: Mapping[str, NDArray[Any]], table: int, rows: slice, config: PrepareConfig
) -> dict[str, NDArray[Any]]:
    offsets, split = named["row_offsets"][rows.start : rows.stop + 1], named["row_split"][rows]
    segment_C = named["row_segments"][offsets[0] : offsets[-1]]
    segment_S, count_S = np.unique(segment_C, return_counts=True)
    counts_C = np.repeat((split == TRAIN) | (split >= UNSEEN), np.diff(offsets))
    entropy_count_S = np.zeros(len(segment_S), np.int64)
    counting, counts = np.unique(segment_C[counts_C], return_counts=True)
    entropy_count_S[np.searchsorted(segment_S, counting)] = counts
    header_S, value_S = named["segment_header"][segment_S], named["segment_value"][segment_S]
    has_column = np.bincount(header_S) > 0
    column_S, num_columns = (np.cumsum(has_column) - 1)[header_S], int(has_column.sum())
    attribute_K = np.zeros(num_columns, np.int32)
    attribute_K[column_S] = named["segment_attribute"][segment_S]

    def total(amount_S: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(column_S, weights=amount_S, minlength=num_columns).astype(np.float64, copy=False)

    entropy = measure_entropy(column_S, entropy_count_S, num_columns, config.normalise)
    value_offsets = named["value_offsets"]
    cells, tokens = total(count_S), total(count_S * (value_offsets[value_S + 1] - value_offsets[value_S]))
    return {
        "table": np.full(num_columns, table, np.int32),
        "header": np.flatnonzero(has_column).astype(np.int32),
        "attribute": attribute_K,
        "role": assign_roles(entropy, config.theta_low, config.theta_high),
        "entropy": entropy,
        "entropy_cells": total(entropy_count_S).astype(np.int64),
        "fill": cells / max(len(split), 1),
        "distinct": np.bincount(column_S, minlength=num_columns),
        "mean_tokens": tokens / cells,
        "unknown": total(count_S * named["value_unknown"][value_S]) / tokens,
        "cut": total(count_S * named["value_cut"][value_S]) / cells,
        "examples": _choose_examples(column_S, count_S, value_S, num_columns),
    }


def _choose_examples(
    column_S: NDArray[np.int64], count_S: NDArray[np.int64], value_S: NDArray[np.int32], num_columns: int
) -> NDArray[np.int32]:
    order = np.lexsort((-count_S, column_S))
    begins = np.searchsorted(column_S[order], np.arange(num_columns))
    rank = np.arange(len(order)) - begins[column_S[order]]
    chosen, rank = order[rank < NUM_EXAMPLES], rank[rank < NUM_EXAMPLES]
    examples = np.full((num_columns, NUM_EXAMPLES), -1, np.int32)
    examples[column_S[chosen], rank] = value_S[chosen]
    return examples
