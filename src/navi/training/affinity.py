"""Which columns of different tables hold the same kind of thing, by their values alone, before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.columns import Background, fit_scorer, sketch_columns

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns, A columns with known affinities.

MIN_CELLS = 20
"""Cells that a column must have for its values to say what it is."""
MAX_COLUMNS = 4096
"""Columns that are compared, those with the most cells: each pair of them takes two bytes."""
SURE = 0.9
"""Probability from which two columns that are each other's best are taken for the same."""
DOUBTFUL = 0.3
"""What all other pairs have at most: too little to be the same, and too much to be surely not."""


def relate_columns(corpus: Corpus, seed: int = 0) -> tuple[NDArray[np.int64], Tensor]:
    """Return the columns that are compared by their training values, (A,), and how surely each two are alike, (A, A).

    What likeness of values means is learned from which columns of different tables have the same header. Likeness
    alone proposes too much (any two columns of years are alike), so a column is taken for the same only as the one in
    its table that is most alike, both ways, headers that are equal coming first.
    """
    arrays = corpus.arrays
    sketched = sketch_columns(corpus, corpus.rows_of("train"))
    enough = np.flatnonzero(sketched.cells >= MIN_CELLS)
    columns = np.sort(enough[np.argsort(-sketched.cells[enough], kind="stable")[:MAX_COLUMNS]])
    profiles = sketched.take(columns)
    odds = fit_scorer(profiles, seed=seed).score(profiles, profiles, Background([profiles])).values
    affinity = 1 / (1 + np.exp(-odds.astype(np.float64)))
    attribute = arrays.column_attribute[columns]
    ranked = np.where(attribute[:, None] == attribute[None, :], 1.0, affinity)
    sure = pair_up(ranked, arrays.column_table[columns]) & (affinity >= SURE)
    affinity = np.where(sure, affinity, np.minimum(affinity, DOUBTFUL))
    return columns, torch.from_numpy(affinity.astype(np.float16))


def pair_up(affinity: NDArray[np.float64], table: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which columns of different tables are each other's best in the other's table: (A, A)."""
    best = np.zeros(affinity.shape, np.bool_)
    every = np.arange(len(table))
    for number in np.unique(table):
        own = np.flatnonzero(table == number)
        best[every, own[affinity[:, own].argmax(axis=1)]] = True
    paired: NDArray[np.bool_] = best & best.T & (table[:, None] != table[None, :])
    return paired
