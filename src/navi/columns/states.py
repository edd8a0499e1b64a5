"""What a model makes of each column in its rows: the tokens that it expects where the header is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.batches import Layout
from navi.columns.profiles import sample_cells, shuffle_rows
from navi.corpus import Encoded
from navi.corpus.arrays import SegmentArrays

if TYPE_CHECKING:
    from navi.model.encoder import NaviOutput
    from navi.model.runner import Runner

# Shape suffixes: R rows, C cells, S segments of a batch, K columns, D hidden size.

FEW_CELLS = 20
"""Cells that rows are added for where a table's first rows have fewer of a column."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]


def choose_rows(encoded: Encoded, rows: Ints, rows_per_table: int) -> Ints:
    """Return the rows that states are averaged over: as many of each table, and at most that many for sparse columns.

    For sparse columns come those rows that hold cells of most of them.
    """
    first = shuffle_rows(encoded, rows, rows_per_table)
    few = min(FEW_CELLS, rows_per_table)
    cells = sample_cells(encoded, rows, few)
    met = np.bincount(cells.column[np.isin(cells.row, first)], minlength=encoded.arrays.num_columns)
    added, served = np.unique(cells.row[met[cells.column] < few], return_counts=True)
    new = ~np.isin(added, first)
    return np.union1d(first, added[new][np.argsort(-served[new], kind="stable")[: len(first)]])


def average_columns(runner: Runner, arrays: SegmentArrays, hidden_K: Flags, *, num_masks: int = 1) -> Floats:
    """Return the mean log-probability of each token at each [MASK] of each hidden header: (hidden columns, masks · V).

    Each hidden header is `num_masks` [MASK], and its attribute unknown. A column without a cell has zeros.
    """
    import torch

    place_C = np.where(hidden_K, np.cumsum(hidden_K) - 1, -1)[arrays.cell_column]
    cells = np.bincount(place_C[place_C >= 0], minlength=int(hidden_K.sum()))
    sums = torch.zeros(len(cells), num_masks * runner.model.config.vocab_size, device=runner.device)

    def mask(layout: Layout) -> Layout:
        return replace(layout, segment_unknown=layout.segment_id >= arrays.num_segments)

    def read(output: NaviOutput, layout: Layout) -> None:
        place_S = place_C[layout.segment_cell.numpy()]
        chosen = np.flatnonzero(place_S >= 0)
        place = torch.from_numpy(place_S[chosen]).to(output.tokens.device)
        at = (layout.segment_starts[chosen][:, None] + torch.arange(num_masks)).view(-1)
        logits = runner.model.predict_tokens(output, at.to(place.device)).float()
        sums.index_add_(0, place, torch.log_softmax(logits, dim=1).view(len(chosen), -1))

    rows = np.unique(arrays.cell_row[place_C >= 0])
    runner.run(_hide_headers(arrays, place_C >= 0, runner.special.mask, num_masks), rows, read, mask=mask)
    means: Floats = (sums.cpu().numpy() / np.maximum(cells, 1)[:, None]).astype(np.float32)
    return means


def _hide_headers(arrays: SegmentArrays, hidden_C: Flags, mask_token: int, num_masks: int) -> SegmentArrays:
    """Return the rows with `num_masks` [MASK] for the header of some cells; their segments come after all others."""
    num_segments = arrays.num_segments
    masks = np.full(num_masks, mask_token, dtype=arrays.header_tokens.dtype)
    return replace(
        arrays,
        row_segments=(arrays.row_segments + num_segments * hidden_C).astype(np.int32),
        segment_header=np.r_[arrays.segment_header, np.full(num_segments, arrays.num_headers, np.int32)],
        segment_attribute=np.tile(arrays.segment_attribute, 2),
        segment_value=np.tile(arrays.segment_value, 2),
        header_offsets=np.r_[arrays.header_offsets, arrays.header_offsets[-1] + num_masks],
        header_tokens=np.r_[arrays.header_tokens, masks],
    )
