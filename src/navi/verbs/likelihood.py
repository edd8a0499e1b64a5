"""How likely a model thinks each token is in the place of hidden headers, averaged over the rows of a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.batches.layout import Layout
from navi.columns.hiding import Hidden, hide_headers
from navi.corpus.arrays import SegmentArrays

if TYPE_CHECKING:
    from torch import Tensor

    from navi.batches import Rows
    from navi.model.encoder import NaviOutput
    from navi.model.runner import Runner

# Shape suffixes: C cells, S segments, K columns, N masks, V vocabulary, D hidden size.

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Blind:
    """What a model says of columns whose headers it does not see, averaged over their cells."""

    headers: Floats
    """(K, D) state in the place of the header."""
    values: Floats
    """(K, D) state of the value."""
    tokens: Floats
    """(K, N, V) logarithm of each token's probability at each [MASK], averaged."""

    def take(self, columns: Ints) -> Blind:
        """Return some of the columns."""
        return Blind(headers=self.headers[columns], values=self.values[columns], tokens=self.tokens[columns])


def read_blind(runner: Runner, arrays: SegmentArrays, hidden_K: NDArray[np.bool_], num_masks: int) -> Blind:
    """Return what the model says of the hidden columns, in their order, each header hidden by `num_masks` [MASK]."""
    column_C = arrays.cell_column
    hidden = hide_headers(arrays, hidden_K[column_C], runner.special.mask, num_masks)
    place_K = np.cumsum(hidden_K) - 1
    width, size = runner.model.config.hidden_size, runner.model.config.vocab_size
    shapes = {"headers": (width,), "values": (width,), "tokens": (num_masks * size,)}
    sums = {name: np.zeros((int(hidden_K.sum()), *shape), np.float32) for name, shape in shapes.items()}
    cells = np.zeros(int(hidden_K.sum()), np.int64)
    read = _make_reader(runner, hidden, column_C, num_masks)
    row_C = np.repeat(hidden.rows, np.diff(arrays.row_offsets))
    asked = np.unique(row_C[hidden_K[column_C]])
    for _, layout, found in runner.run(hidden.arrays, asked, read, mask=hidden.mask):
        columns, counts = np.unique(place_K[_find_columns(hidden, column_C, layout)], return_counts=True)
        cells[columns] += counts
        for name, total in sums.items():
            total[columns] += found[name]
    for total in sums.values():
        total /= np.maximum(cells, 1)[:, None]
    headers, values, tokens = (sums[name] for name in ("headers", "values", "tokens"))
    return Blind(headers=headers, values=values, tokens=tokens.reshape(-1, num_masks, size))


def _find_columns(hidden: Hidden, column_C: Ints, layout: Layout) -> Ints:
    """Return the column of each hidden segment of a layout."""
    chosen = np.flatnonzero(layout.segment_id >= hidden.num_shown)
    first = hidden.arrays.row_offsets[layout.rows][layout.segment_row[chosen]]
    columns: Ints = column_C[first + layout.segment_rank[chosen]]
    return columns


def _make_reader(
    runner: Runner, hidden: Hidden, column_C: Ints, num_masks: int
) -> Callable[[NaviOutput, Rows, Layout], dict[str, Tensor]]:
    import torch

    def read(output: NaviOutput, _: Rows, layout: Layout) -> dict[str, Tensor]:
        segments, places = hidden.find_masks(layout, num_masks)
        columns, owner = np.unique(_find_columns(hidden, column_C, layout), return_inverse=True)
        device = output.tokens.device
        segment_S, owner_S = (torch.from_numpy(each).to(device) for each in (segments, owner))
        positions = torch.from_numpy(places.reshape(-1)).to(device)
        logits = runner.model.predict_tokens(output, positions).float()
        logged = torch.log_softmax(logits, dim=1).view(len(segments), -1)
        found = {"headers": output.headers[segment_S], "values": output.values[segment_S], "tokens": logged}
        return {
            name: state.new_zeros(len(columns), state.shape[1]).index_add(0, owner_S, state)
            for name, state in found.items()
        }

    return read
