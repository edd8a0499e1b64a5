"""The row scorer: from what two rows have in common to the odds that they are about the same thing.

It was fitted once, on rows of many tables and copies of them as another source would have written them
(scripts/fit_row_scorer.py), and comes with the package. Labelled pairs move its weights, the more the more there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import ModelError
from navi.files import read_json, write_json
from navi.model.runner import Floats, Ints
from navi.verbs.row_comparison import CELL_FEATURES, PAIRS_AT_ONCE, ROW_FEATURES, ComparedRows, find_clear

# Shape suffixes: P pairs of rows, C compared columns, E features of a cell, G features of a row, H hidden units.

PACKAGED = Path(__file__).parent / "data" / "row_scorer.json"
RIVAL_FEATURES = ("score", "rivals", "fewer_rivals", "own_table", "clear")
"""What makes a score odds: itself, the logarithm of 1 and the odds of all rivals of either row (of the row that has
more of them, and of the other), and whether both rows are of one table, where few are about the same thing; last, the
share of rows that have a clear partner in these tables."""
FEATURES = {"cell_features": CELL_FEATURES, "row_features": ROW_FEATURES, "rival_features": RIVAL_FEATURES}
"""What the weights that come with the package were fitted to."""
RELEARNED = ("grams", "words", "contained", "equal", "codes", "clash", "same_number", "same_whole", "near")
"""Features of cells that labels weigh again, for each column on its own."""
RIDGE = 2.0
"""How strongly the scorer is drawn to what it was before labels, in labels."""


@dataclass(frozen=True, kw_only=True)
class RowScorer:
    """A small network over the features of each cell, one over those of the row; their sums compete with rivals'."""

    cell_hidden: Floats
    """(E + 1, H) weights of the hidden units of a cell, the bias last."""
    cell_output: Floats
    """(H + 1,) weights of what a cell contributes, the bias last."""
    row_hidden: Floats
    """(G + 1, H) likewise for the row as a whole."""
    row_output: Floats
    """(H + 1,)."""
    rival_output: Floats
    """(V + 1,) weights of what is known of a score among its rivals, the bias last."""

    def score(self, rows: ComparedRows, pairs_P2: Ints, whole_PG: Floats) -> Floats:
        """Return (P, C + 1): what each cell, and last the row as a whole, contributes, as logarithms of odds."""
        scores = np.zeros((len(pairs_P2), len(rows.columns) + 1), np.float32)
        for number in range(len(rows.columns)):
            parts = [
                np.where(both, weigh(features, self.cell_hidden, self.cell_output), 0)
                for features, both in rows.compare(number, pairs_P2)
            ]
            scores[:, number] = np.concatenate(parts)
        scores[:, -1] = weigh(whole_PG, self.row_hidden, self.row_output)
        return scores

    def compete(self, rows: ComparedRows, pairs_P2: Ints, score: Floats) -> Floats:
        """Return (P,) the logarithm of the odds of each pair, given that its rows may have better partners."""
        known: Floats = measure_rivals(rows, pairs_P2, score) @ self.rival_output[:-1] + self.rival_output[-1]
        return known

    def save(self, file: Path) -> None:
        """Write the weights."""
        weights = {name: weight.astype(np.float64).round(4).tolist() for name, weight in vars(self).items()}
        write_json(file, {name: list(features) for name, features in FEATURES.items()} | weights)


def weigh(features: Floats, hidden: Floats, output: Floats) -> Floats:
    """Return what a network of one hidden layer makes of features, (P, E) in and (P,) out, in blocks of pairs."""
    weighed = np.zeros(features.shape[:-1], np.float32)
    for start in range(0, len(features), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        weighed[block] = np.maximum(features[block] @ hidden[:-1] + hidden[-1], 0) @ output[:-1] + output[-1]
    return weighed


def measure_rivals(rows: ComparedRows, pairs_P2: Ints, score: Floats) -> Floats:
    """Return (P, V) what `RIVAL_FEATURES` names: a row has one partner in a table, so that its pairs compete."""
    groups = np.unique(rows.group(pairs_P2), return_inverse=True)[1].reshape(2, -1)
    odds = np.exp(np.clip(score, -20, 20).astype(np.float64))
    others = np.bincount(groups.reshape(-1), np.tile(odds, 2))[groups] - odds
    rivals = np.log1p(np.maximum(others, 0))
    own_table = rows.table[pairs_P2[:, 0]] == rows.table[pairs_P2[:, 1]]
    clear = find_clear(rows.group(pairs_P2), score).sum() / max(min(len(np.unique(group)) for group in groups), 1)
    found = (score, rivals.max(axis=0), rivals.min(axis=0), own_table, np.full(len(score), clear))
    return np.stack(found, axis=1).astype(np.float32)


def learn_labels(
    rows: ComparedRows, pairs_P2: Ints, whole_PG: Floats, weights: Floats, place: Ints, same: NDArray[np.bool_]
) -> Floats:
    """Return what contributes to each pair, (P, C + 2), when the pairs at some places are labelled.

    A logistic regression over what is known of a pair, drawn to no change at all, is added to what contributed before.
    """
    from scipy.optimize import minimize

    last, logit = weights.shape[1] - 1, weights.sum(axis=1)
    rivals = measure_rivals(rows, pairs_P2, logit)
    design: list[Floats] = [weights * np.float32(0.25), whole_PG, rivals, np.ones((len(logit), 1), np.float32)]
    # Which of the contributions each feature changes.
    owner = [*range(last + 1), *[last - 1] * whole_PG.shape[1], *[last] * (rivals.shape[1] + 1)]
    chosen = [CELL_FEATURES.index(name) for name in RELEARNED]
    for number in range(len(rows.columns)):
        blocks = [np.column_stack([features[:, chosen], both]) for features, both in rows.compare(number, pairs_P2)]
        design.append(np.concatenate(blocks))
        owner += [number] * (len(RELEARNED) + 1)
    known_PF = np.concatenate(design, axis=1).astype(np.float32)
    labelled, before = known_PF[place].astype(np.float64), logit[place].astype(np.float64)
    sign = np.where(same, 1.0, -1.0)

    def measure_loss(change: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (before + labelled @ change)
        slope = -sign / (1 + np.exp(np.clip(margin, -30, 30)))
        loss = np.logaddexp(0, -margin).sum() + RIDGE / 2 * (change**2).sum()
        return float(loss), labelled.T @ slope + RIDGE * change

    change = minimize(measure_loss, np.zeros(known_PF.shape[1]), jac=True, method="L-BFGS-B").x
    added = np.zeros((known_PF.shape[1], last + 1), np.float32)
    added[np.arange(len(owner)), owner] = change
    learned: Floats = weights + known_PF @ added
    return learned


@cache
def load_row_scorer() -> RowScorer:
    """Return the scorer that comes with the package."""
    found: dict[str, Any] = read_json(PACKAGED, ModelError, "Reinstall navi-tables.")
    if any(found.pop(name, None) != list(features) for name, features in FEATURES.items()):
        raise ModelError(f"{PACKAGED} was made for other features of rows. Reinstall navi-tables.")
    return RowScorer(**{name: np.array(weight, np.float32) for name, weight in found.items()})
