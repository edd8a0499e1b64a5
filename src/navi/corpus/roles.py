"""Roles: how diverse a column's values are, and whether that makes it low, mid or high in its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, TRAIN, UNSEEN, release
from navi.corpus.prepareconfig import PrepareConfig

# Shape suffixes: C cells of a table, S its distinct segments, K its columns.

NUM_EXAMPLES = 3
"""Example values kept of each column, the most frequent."""
COUNTED = 1 << 18
"""Distinct segments of a table that are counted at a time, and cells that are read at a time."""

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
    repeated = np.bincount(column, weights=counts * np.log(counts), minlength=num_columns)
    return _normalise_entropy(cells, repeated, cells if normalise == "rows" else distinct)


def _normalise_entropy(cells: NDArray[Any], repeated: NDArray[Any], most: NDArray[Any]) -> NDArray[np.float64]:
    """Return H = log n - (sum of c log c) / n over log `most`, for n cells of which c have each value."""
    entropy = np.log(np.maximum(cells, 1)) - repeated / np.maximum(cells, 1)
    scale = np.log(np.maximum(most, 1))
    normalised = np.divide(entropy, scale, out=np.zeros(len(cells)), where=scale > 0)
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
    parts = [_sum_up(named, *counted) for counted in _count_segments(named, rows)]
    # A column is found in several parts where its table has very many distinct segments.
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    header_K, column = np.unique(whole["header"], return_inverse=True)
    num_columns = len(header_K)
    attribute_K = np.zeros(num_columns, np.int32)
    attribute_K[column] = whole["attribute"]

    def total(name: str) -> NDArray[np.float64]:
        return np.bincount(column, weights=whole[name], minlength=num_columns).astype(np.float64, copy=False)

    cells, tokens, entropy_cells = total("cells"), total("tokens"), total("entropy_cells")
    most = entropy_cells if config.normalise == "rows" else total("entropy_distinct")
    entropy = _normalise_entropy(entropy_cells, total("repeated"), most)
    of_examples = np.concatenate([np.repeat(part["header"], NUM_EXAMPLES) for part in parts])
    examples, counts = (np.concatenate([part[name].ravel() for part in parts]) for name in ("examples", "counts"))
    there = examples >= 0
    column_S = np.searchsorted(header_K, of_examples[there])
    return {
        "table": np.full(num_columns, table, np.int32),
        "header": header_K.astype(np.int32),
        "attribute": attribute_K,
        "role": assign_roles(entropy, config.theta_low, config.theta_high),
        "entropy": entropy,
        "entropy_cells": entropy_cells.astype(np.int64),
        "fill": cells / max(rows.stop - rows.start, 1),
        "distinct": total("distinct").astype(np.int64),
        "mean_tokens": tokens / cells,
        "unknown": total("unknown") / tokens,
        "cut": total("cut") / cells,
        "examples": _choose_examples(column_S, counts[there], examples[there], num_columns)[0],
    }


Counted = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _count_segments(named: Mapping[str, NDArray[Any]], rows: slice) -> Iterator[Counted]:
    """Yield the segments of a table, ascending, how often each occurs, and how often in rows that entropy counts.

    At most `COUNTED` come at a time: where a table has more cells, they are read once for each such range of numbers.
    """
    offsets, split, segments = named["row_offsets"], named["row_split"], named["row_segments"]
    first, last = int(offsets[rows.start]), int(offsets[rows.stop])
    step = max(1, COUNTED * (rows.stop - rows.start) // max(last - first, 1))

    def read() -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
        for begin in range(rows.start, rows.stop, step):
            end = min(begin + step, rows.stop)
            bounds = np.array(offsets[begin : end + 1])
            counts = (split[begin:end] == TRAIN) | (split[begin:end] >= UNSEEN)
            yield np.array(segments[bounds[0] : bounds[-1]]), np.repeat(counts, np.diff(bounds))
            release(offsets, split, segments)

    if last - first <= COUNTED:
        segment_C, counts_C = next(read(), (segments[:0], np.zeros(0, np.bool_)))
        segment_S, place_C = np.unique(segment_C, return_inverse=True)
        yield segment_S, np.bincount(place_C), np.bincount(place_C[counts_C], minlength=len(segment_S))
        return
    lowest, highest = min(int(ids.min()) for ids, _ in read()), max(int(ids.max()) for ids, _ in read())
    for start in range(lowest, highest + 1, COUNTED):
        count, entropy_count = np.zeros((2, COUNTED), np.int64)
        for segment_C, counts_C in read():
            inside = (segment_C >= start) & (segment_C < start + COUNTED)
            count += np.bincount(segment_C[inside] - start, minlength=COUNTED)
            entropy_count += np.bincount(segment_C[inside & counts_C] - start, minlength=COUNTED)
        there = np.flatnonzero(count)
        if len(there):
            yield there + start, count[there], entropy_count[there]


def _sum_up(
    named: Mapping[str, NDArray[Any]],
    segment_S: NDArray[np.int64],
    count_S: NDArray[np.int64],
    entropy_count_S: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Return sums over some segments of a table for each of their headers."""
    header_S, value_S = named["segment_header"][segment_S], named["segment_value"][segment_S]
    has_column = np.bincount(header_S) > 0
    column_S, num_columns = (np.cumsum(has_column) - 1)[header_S], int(has_column.sum())
    attribute_K = np.zeros(num_columns, np.int32)
    attribute_K[column_S] = named["segment_attribute"][segment_S]
    offsets = named["value_offsets"]
    amounts = {
        "cells": count_S,
        "tokens": count_S * (offsets[value_S + 1] - offsets[value_S]),
        "unknown": count_S * named["value_unknown"][value_S],
        "cut": count_S * named["value_cut"][value_S],
        "distinct": np.ones(len(count_S)),
        "entropy_cells": entropy_count_S,
        "entropy_distinct": entropy_count_S > 0,
        "repeated": entropy_count_S * np.log(np.maximum(entropy_count_S, 1)),
    }
    examples, counts = _choose_examples(column_S, count_S, value_S, num_columns)
    release(*named.values())
    sums = {name: np.bincount(column_S, weights=each, minlength=num_columns) for name, each in amounts.items()}
    return sums | {
        "header": np.flatnonzero(has_column),
        "attribute": attribute_K,
        "examples": examples,
        "counts": counts,
    }


def _choose_examples(
    column_S: NDArray[np.int64], count_S: NDArray[np.int64], value_S: NDArray[np.int32], num_columns: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (K, 3) most frequent values of each column, the first among equals, and how often each occurs."""
    order = np.lexsort((-count_S, column_S))
    begins = np.searchsorted(column_S[order], np.arange(num_columns))
    rank = np.arange(len(order)) - begins[column_S[order]]
    chosen, rank = order[rank < NUM_EXAMPLES], rank[rank < NUM_EXAMPLES]
    examples = np.full((num_columns, NUM_EXAMPLES), -1, np.int32)
    counts = np.zeros((num_columns, NUM_EXAMPLES), np.int64)
    examples[column_S[chosen], rank], counts[column_S[chosen], rank] = value_S[chosen], count_S[chosen]
    return examples, counts
