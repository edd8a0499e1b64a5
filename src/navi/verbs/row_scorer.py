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
from navi.verbs.row_comparison import CELL_FEATURES, PAIRS_AT_ONCE, ROW_FEATURES, ComparedRows, measure_leads

# Shape suffixes: P pairs of rows, C compared columns, E features of a cell, G features of a row, H hidden units.

PACKAGED = Path(__file__).parent / "data" / "row_scorer.json"
LIMIT = 8.0
"""How far ahead of a rival or behind it counts, at most, in points of the score."""
RIVAL_FEATURES = (
    "score", "lead", "least_lead", "beyond", "odd_score", "odd_lead", "odd_least_lead", "round", "free_lead",
    "free_least_lead", "top", "top_low", "top_score", "mutual", "clear", "partnered", "left_over",
)  # fmt: skip
"""What is known of a score among its rivals: itself, its better and its worse lead, how far beyond those of wrong
pairs it is, and how seldom the best of wrong pairs has such a score or lead; in which round it is the best of both its
rows when the best pairs are taken out round after round, and its leads over rivals that are still there; then, of the
pairs that are the best of both their rows, how far beyond they are on average and at the lower end, their score, and
how many rows have such a partner, and a clear one; the share of rows that seem to have a right partner, and of those
that no round gave one."""
FEATURES = {"cell_features": CELL_FEATURES, "row_features": ROW_FEATURES, "rival_features": RIVAL_FEATURES}
"""What the weights that come with the package were fitted to."""
ROUNDS = 6
"""Rounds in which the best pairs are taken out."""
RELEARNED = ("grams", "words", "contained", "equal", "codes", "clash", "same_number", "same_whole", "near")
"""Features of cells that labels weigh again, for each column on its own."""
RIDGE = 2.0
"""How strongly the scorer is drawn to what it was before labels, in labels."""
SAME_TABLE = np.float32(-2.5)
"""What is added to the log-odds of two rows of one table: the networks were fitted to two sources, and a source has
siblings oftener than duplicates. Chosen on fabricated tables with and without duplicates."""
FEW = 20
USUAL_WRONG = (-6.0, 2.0)
"""Mean and spread of the scores of wrong pairs where fewer than `FEW` are known."""


@dataclass(frozen=True, kw_only=True)
class RowScorer:
    """A small network over the features of each cell, one over those of the row; their sums compete."""

    cell_hidden: Floats
    """(E + 1, H) weights of the hidden units of a cell, the bias last."""
    cell_output: Floats
    """(H + 1,) weights of what a cell contributes, the bias last."""
    row_hidden: Floats
    """(G + 1, H) likewise for the row as a whole."""
    row_output: Floats
    """(H + 1,)."""
    rival_hidden: Floats
    """(V + 1, H) likewise for a score among its rivals."""
    rival_output: Floats
    """(H + 1,)."""

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
        logit = weigh(measure_rivals(rows, pairs_P2, score), self.rival_hidden, self.rival_output)
        return np.where(rows.table[pairs_P2[:, 0]] == rows.table[pairs_P2[:, 1]], logit + SAME_TABLE, logit)

    def save(self, file: Path) -> None:
        """Write the weights."""
        weights = {name: weight.astype(np.float64).round(5).tolist() for name, weight in vars(self).items()}
        write_json(file, {name: list(features) for name, features in FEATURES.items()} | weights)


def weigh(features: Floats, hidden: Floats, output: Floats) -> Floats:
    """Return what a network of one hidden layer makes of features, (P, E) in and (P,) out, in blocks of pairs."""
    weighed = np.zeros(features.shape[:-1], np.float32)
    for start in range(0, len(features), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        weighed[block] = np.maximum(features[block] @ hidden[:-1] + hidden[-1], 0) @ output[:-1] + output[-1]
    return weighed


def measure_rivals(rows: ComparedRows, pairs_P2: Ints, score: Floats) -> Floats:
    """Return (P, V) what `RIVAL_FEATURES` names.

    Of the pairs that are the best of neither of their rows next to all are wrong: they show what scores mean here. The
    best wrong partner of a row is taken to be ahead of its second best by as much as that is of the third.
    """
    groups = rows.group(pairs_P2)
    left, right = measure_leads(groups, score)
    lead, least_lead = np.maximum(left, right), np.minimum(left, right)
    wrong, best = score[(left < 0) & (right < 0)], (left > 0) & (right > 0)
    centre, spread = (float(wrong.mean()), float(wrong.std())) if len(wrong) >= FEW else USUAL_WRONG
    beyond = np.clip((score - centre) / (spread + 0.5), -3, 15)
    top = beyond[best] if best.any() else np.zeros(1, np.float32)
    highest_N3 = rank_groups(groups.reshape(-1), np.tile(score, 2))
    gap = highest_N3[:, 1] - highest_N3[:, 2]
    wrong_best = highest_N3[:, 1] + gap
    low = np.median(wrong_best) if len(wrong_best) else 0.0
    alone = ((highest_N3[:, 0] <= low).sum() + 3) / ((wrong_best <= low).sum() + 3)
    fewer = max(min(len(np.unique(group)) for group in groups), 1)
    rounds, free_lead, free_least = take_rounds(groups, score)
    found = {
        "score": score / 4,
        "lead": np.clip(lead, -LIMIT, LIMIT) / 4,
        "least_lead": np.clip(least_lead, -LIMIT, LIMIT) / 4,
        "beyond": beyond / 4,
        "odd_score": measure_oddness(score, wrong_best),
        "odd_lead": measure_oddness(lead, gap),
        "odd_least_lead": measure_oddness(least_lead, gap),
        "round": rounds,
        "free_lead": np.clip(free_lead, 0, LIMIT) / 4,
        "free_least_lead": np.clip(free_least, 0, LIMIT) / 4,
        "top": np.mean(top) / 4,
        "top_low": np.quantile(top, 0.2) / 4,
        "top_score": np.mean(score[best]) / 4 if best.any() else 0.0,
        "mutual": best.sum() / fewer,
        "clear": (least_lead > 1).sum() / fewer,
        "partnered": 1 - min(float(alone), 1.0),
        "left_over": 1 - (rounds > 0).sum() / fewer,
    }
    return np.stack([np.broadcast_to(found[name], len(score)) for name in RIVAL_FEATURES], axis=1).astype(np.float32)


def take_rounds(groups_2P: Ints, score: Floats) -> tuple[Floats, Floats, Floats]:
    """Return 1 / the round in which each pair is the best of both its rows, 0 for none, and its leads then: (P,).

    The pairs of a round are taken out with their rows, so that what is left competes no more with rows that have found
    theirs. Where no rival is left, the lead is that over the lowest score of all.

    >>> groups = np.array([[0, 0, 1, 1], [9, 8, 9, 8]])
    >>> take_rounds(groups, np.array([3.0, 2.0, 2.5, 1.0], np.float32))[0].tolist()
    [1.0, 0.0, 0.0, 0.5]
    """
    rounds, better, worse = (np.zeros(len(score), np.float32) for _ in range(3))
    score = score - score.min(initial=0)
    rest, taken = np.arange(len(score)), np.zeros(int(groups_2P.max(initial=0)) + 1, np.bool_)
    for number in range(1, ROUNDS + 1):
        left, right = measure_leads(groups_2P[:, rest], score[rest])
        best = (left > 0) & (right > 0)
        chosen = rest[best]
        rounds[chosen] = 1 / number
        better[chosen], worse[chosen] = np.maximum(left, right)[best], np.minimum(left, right)[best]
        taken[groups_2P[:, chosen]] = True
        rest = rest[~taken[groups_2P[:, rest]].any(axis=0)]
    return rounds, better, worse


def rank_groups(group: Ints, score: Floats) -> Floats:
    """Return (N, 3) the three highest scores of each group that has as many."""
    order = np.lexsort((-score, group))
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    begins = begins[np.diff(np.append(begins, len(order))) >= 3]
    highest: Floats = score[order[begins[:, None] + np.arange(3)]]
    return highest


def measure_oddness(found: Floats, usual: Floats) -> Floats:
    """Return how seldom what is usual reaches what was found: 0 where it always does, 1 where once in a thousand times.

    >>> measure_oddness(np.array([0.5, 9.0]), np.arange(9.0)).astype(float).round(2).tolist()
    [0.02, 0.33]
    """
    reached = len(usual) - np.searchsorted(np.sort(usual), found)
    odd: Floats = (-np.log10((reached + 1) / (len(usual) + 1)) / 3).astype(np.float32)
    return np.minimum(odd, 1)


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
