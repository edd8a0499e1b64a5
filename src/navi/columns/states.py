"""States: what a model makes of each column, averaged over some of its cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.batches.layout import Layout
from navi.columns.cells import sample_cells, shuffle_rows
from navi.columns.hiding import Hidden, hide_headers
from navi.corpus import Encoded
from navi.corpus.arrays import SegmentArrays
from navi.randomness import fold, make_key, order_keys

if TYPE_CHECKING:
    from torch import Tensor

    from navi.batches import Rows
    from navi.model.encoder import NaviOutput
    from navi.model.runner import Mask, Runner

# Shape suffixes: R rows, C cells, S segments, K columns, D hidden size.

STATES = ("attribute", "header", "value", "blind_header", "blind_value")
"""The context-free attribute, header and value in their rows, and both again with the column's own header hidden."""
FEW_CELLS = 20
"""Cells that rows are added for where a table's first rows have fewer of a column."""
NUM_PASSES = 4
"""Passes in which all headers are hidden once, each time those of about one in so many columns of a row."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Columns = Callable[[Layout], Ints]


def choose_rows(encoded: Encoded, rows: Ints, rows_per_table: int) -> Ints:
    """Return the rows that states are averaged over: as many of each table, and at most that many for sparse columns.

    For sparse columns come those rows that hold cells of most of them.
    """
    first = shuffle_rows(encoded, rows, rows_per_table)
    few = min(FEW_CELLS, rows_per_table)
    cells = sample_cells(encoded, rows, few)
    met = np.bincount(cells.column[np.isin(cells.row, first)], minlength=len(encoded.arrays.column_table))
    added, served = np.unique(cells.row[met[cells.column] < few], return_counts=True)
    added, served = added[~np.isin(added, first)], served[~np.isin(added, first)]
    return np.union1d(first, added[np.argsort(-served, kind="stable")[: len(first)]])


def average_states(runner: Runner, arrays: SegmentArrays, *, blind: bool = True) -> dict[str, Floats]:
    """Return the states of each column, averaged over all rows of `arrays`: (K, D) each; zeros without a cell."""
    column_C = arrays.cell_column
    found = _average(runner, arrays, column_C, ("attribute", "header", "value"))
    if not blind:
        return found
    group_C = _deal_columns(arrays)[column_C]
    parts = []
    for group in range(NUM_PASSES):
        hidden = hide_headers(arrays, group_C == group, runner.special.mask)
        parts.append(_average(runner, hidden.arrays, column_C, ("header", "value"), hidden))
    for name in ("header", "value"):
        # Each column is hidden in one pass and zero in the others.
        found[f"blind_{name}"] = np.sum([part[name] for part in parts], axis=0)
    return found


def _deal_columns(arrays: SegmentArrays) -> Ints:
    """Return the pass in which each column is hidden: a table's columns are dealt out evenly, in random order."""
    drawn = order_keys(fold(make_key(0), np.arange(len(arrays.column_table))))
    order = np.lexsort((drawn, arrays.column_table))
    begins = np.searchsorted(arrays.column_table, arrays.column_table)
    group = np.empty(len(order), np.int64)
    group[order] = (np.arange(len(order)) - begins) % NUM_PASSES
    return group


def _average(
    runner: Runner, arrays: SegmentArrays, column_C: Ints, names: tuple[str, ...], hidden: Hidden | None = None
) -> dict[str, Floats]:
    """Return states averaged by column, over hidden cells alone where some are."""
    num_columns, width = len(arrays.column_table), runner.model.config.hidden_size
    sums = {name: np.zeros((num_columns, width), np.float32) for name in names}
    counts = np.zeros(num_columns, np.int64)
    read = _make_reader(arrays, column_C, names, hidden)
    mask: Mask | None = hidden.mask if hidden else None
    for _, layout, found in runner.run(arrays, np.arange(arrays.num_rows), read, mask=mask):
        column_S = _find_columns(arrays, column_C, layout, hidden)
        columns, cells = np.unique(column_S[column_S >= 0], return_counts=True)
        counts[columns] += cells
        for name in names:
            sums[name][columns] += found[name]
    return {name: (total / np.maximum(counts, 1)[:, None]).astype(np.float32) for name, total in sums.items()}


def _find_columns(arrays: SegmentArrays, column_C: Ints, layout: Layout, hidden: Hidden | None) -> Ints:
    """Return the column of each segment of a layout, -1 for those that are not hidden while others are."""
    column_S = column_C[arrays.row_offsets[layout.rows][layout.segment_row] + layout.segment_rank]
    return column_S if hidden is None else np.where(layout.segment_id >= hidden.num_shown, column_S, -1)


def _make_reader(
    arrays: SegmentArrays, column_C: Ints, names: tuple[str, ...], hidden: Hidden | None
) -> Callable[[NaviOutput, Rows, Layout], dict[str, Tensor]]:
    import torch

    def read(output: NaviOutput, rows: Rows, layout: Layout) -> dict[str, Tensor]:
        column_S = _find_columns(arrays, column_C, layout, hidden)
        kept = np.flatnonzero(column_S >= 0)
        columns, place = np.unique(column_S[kept], return_inverse=True)
        kept_S, place_S = (torch.from_numpy(each).to(output.headers.device) for each in (kept, place))
        states = {"header": output.headers, "value": output.values}
        if "attribute" in names:
            states["attribute"] = output.attribute_table[rows.segment_slot]
        summed = {}
        for name in names:
            chosen = states[name][kept_S].float()
            summed[name] = chosen.new_zeros(len(columns), chosen.shape[1]).index_add(0, place_S, chosen)
        return summed

    return read
