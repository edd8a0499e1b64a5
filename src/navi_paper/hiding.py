"""Which cells are hidden from an encoder, and how well it guesses what stood there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays
from navi.randomness import fold, make_key, order_keys
from navi_paper.encoder import Hidden, Ints, TableEncoder, list_hidden_tokens

# Shape suffixes: R rows, C cells, H hidden cells, T hidden tokens.


def draw_cells(arrays: SegmentArrays, share: float, *purpose: int) -> NDArray[np.bool_]:
    """Choose a share of each row's cells, rounded, at least one: (C,).

    The draw depends on row and header alone, so with its columns in another order a row has the same cells chosen.
    """
    row_C = arrays.cell_row
    keys_R = fold(make_key(*purpose), np.arange(arrays.num_rows))
    keys_C = fold(keys_R[row_C], arrays.segment_header[arrays.row_segments].astype(np.int64))
    order = np.lexsort((order_keys(keys_C), row_C))
    counts_R = np.diff(arrays.row_offsets)
    rank = np.arange(len(order)) - np.repeat(arrays.row_offsets[:-1], counts_R)
    wanted_R = np.maximum(1, np.rint(share * counts_R))
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[rank < np.repeat(wanted_R, counts_R)]] = True
    return chosen


@dataclass(frozen=True)
class Score:
    """How much of what was hidden is guessed."""

    token: float
    """Share of the tokens."""
    exact: float
    """Share of the headers, or values, of which every token is."""


def score_guesses(guessed: Ints, true: Ints, lengths: Ints) -> Score:
    """Return the score of guesses, cell after cell; `lengths` (H,) says how many tokens each cell has."""
    assert len(guessed) == len(true) == lengths.sum(), "there is one guess for each hidden token"
    right = guessed == true
    whole = np.add.reduceat(right, np.cumsum(lengths) - lengths) == lengths
    return Score(token=float(right.mean()), exact=float(whole.mean()))


def score_encoder(encoder: TableEncoder, arrays: SegmentArrays, hidden: Hidden) -> Score:
    """Return how well an encoder guesses what is hidden in all rows."""
    rows = np.arange(arrays.num_rows)
    true, lengths = list_hidden_tokens(arrays, rows, hidden)
    return score_guesses(encoder.predict(arrays, rows, hidden), true, lengths)
