"""The row scorer: from what two rows have in common to the odds that they are about the same thing.

Three logistic regressions. The first, over what any two rows have in common, was fitted once, on rows of many tables
and copies of them as another source would have written them (scripts/fit_row_scorer.py). The second adapts it to the
tables at hand: pairs far ahead of all their rivals are taken for right ones, those rivals for wrong ones, and labels
for what they say. The third, fitted once like the first, turns a score and its leads over rivals into odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import ModelError
from navi.files import read_json
from navi.model.runner import Floats, Ints
from navi.verbs.row_comparison import ROW_FEATURES, Bools, ComparedRows, PairComparison, measure_leads

# Shape suffixes: P pairs of rows, C compared columns, G features of a pair, F of the tables at hand, V of rivals.

NONE: Ints = np.zeros(0, np.int64)
PACKAGED = Path(__file__).parent / "data" / "row_scorer.json"
PAIR_FEATURES = ("words", "aligned", "rare", "codes", "worst", "agreement")
"""What is known of a pair of any tables: its rows as wholes, how much less alike than usual the worst of its cells is,
and how alike its cells are, each column weighing what it is worth in the tables at hand."""
WHOLES = [ROW_FEATURES.index(name) for name in PAIR_FEATURES[:4]]
"""Places of the first four among the features of rows."""
RIVAL_FEATURES = ("least_lead", "lead", "place")
"""What is known of a score among its rivals: how far it is ahead of the best other of either row, the lesser and the
greater; and where it lies between the scores of wrong pairs, 0, and of the clearest pairs, 1."""
FEATURES = {"pair_features": PAIR_FEATURES, "rival_features": RIVAL_FEATURES}
"""What the weights that come with the package were fitted to."""
CLEAR, LEAST_SCORE = 2.0, -3.0
"""A pair is taken for right if it is so far ahead of all its rivals, in nats, and has such a score at least."""
FEW = 10
"""Clear pairs below which nothing is learned from them and no odds are lifted, and wrong ones below which nothing is
known of their scores."""
MAX_CLEAR, MAX_RIVALS = 300, 20_000
"""What clear pairs count together, at most, and their rivals: as many labels; and rivals that are looked at."""
PRIOR_SHARE = 0.5
"""What the first regression counts beside the second: they look at the same cells."""
RIDGE = 2.0
"""How strongly weights are drawn to what they were before, in labels."""
LABEL_WEIGHT = 3.0
"""What a label counts beside a clear pair."""
RIVAL_SHARE = 0.2
"""By how much less labels change what leads over rivals count for than they change the threshold."""
LIMIT = 8.0
"""How far ahead of a rival or behind it counts, at most, in nats."""
SEEMING_NONE, SEEMING_ALL = 0.3, 0.87
"""Shares of rows that seem to have a right partner where none has, the mean of nine tables cut into halves, and where
all have, the mean of five pairs of lists."""
MAX_LIFT = 2.5
"""What is added to log-odds, at most, where more rows seem to have a right partner than were given one."""
USUAL_WRONG, USUAL_RIGHT = -5.0, 3.0
"""Scores of wrong and of right pairs where too few are known."""
SAME_TABLE = np.float32(-2.5)
"""What is added to the log-odds of two rows of one table: the scorer was fitted to two sources, and a source has
siblings oftener than duplicates. Chosen for the scorer before this one, on tables with and without duplicates."""


class ColumnWorth:
    """What columns are worth in the tables at hand: how much more alike they are in likely pairs than in others."""

    def __init__(self, rows: ComparedRows, pairs_P2: Ints, compared: PairComparison, seed: int = 0) -> None:
        """Weigh columns by that, squared, and by how distinct their cells are."""
        score, likeness = compared.feature("grams") + compared.feature("aligned"), compared.cells[:, :, 0]
        lead = measure_leads(compared.groups, score).min(axis=0)
        best = np.flatnonzero(lead > 0)
        likely = best[lead[best] >= np.median(lead[best])] if len(best) else best
        shuffled = np.random.default_rng(seed).permutation(pairs_P2[best, 1])
        random = rows.compare(np.stack([pairs_P2[best, 0], shuffled], axis=1))
        usual, chance = (
            np.where(both, cells, 0).sum(axis=0, dtype=np.float32) / np.maximum(both.sum(axis=0), 1)
            for cells, both in ((likeness[likely], compared.both[likely]), (random.cells[:, :, 0], random.both))
        )
        distinct = np.array([column.distinct for column in rows.columns], np.float32)
        worth = np.maximum(usual - chance, 0) ** 2 * np.sqrt(distinct)
        self.share: Floats = worth / max(float(worth.sum()), 1e-9)
        """(C,) the weight of each column, 1 in all."""
        self.usual: Floats = usual
        """(C,) mean likeness of the cells of likely pairs."""


def describe_pairs(compared: PairComparison, worth: ColumnWorth) -> Floats:
    """Return (P, C + 1, G) what `PAIR_FEATURES` names, of each column, and last of the row as a whole."""
    features = np.zeros((len(compared.both), len(worth.share) + 1, len(PAIR_FEATURES)), np.float32)
    features[:, -1, : len(WHOLES)] = compared.whole[:, WHOLES]
    if len(worth.share):
        behind = np.where(compared.both, compared.cells[:, :, 0].astype(np.float32) - worth.usual, 0)
        behind = np.minimum(behind, 0) * np.sqrt(worth.share / max(float(worth.share.max()), 1e-9))
        worst = behind.argmin(axis=1)[:, None]
        np.put_along_axis(features[:, :-1, -2], worst, np.take_along_axis(behind, worst, 1), 1)
        # What cannot be compared is half as alike as usual.
        features[:, :-1, -1] = worth.share * np.where(compared.both, compared.cells[:, :, 0], worth.usual / 2)
    return features


@dataclass(frozen=True, kw_only=True)
class RowScorer:
    """The weights of what is the same for all tables."""

    pair_weights: Floats
    """(G + 1,) weights of the features of a pair, the bias last."""
    rival_weights: Floats
    """(V + 1,) weights of the features of a score among its rivals, the bias last."""

    def score(
        self, rows: ComparedRows, pairs_P2: Ints, place: Ints = NONE, same: Bools = NONE > 0
    ) -> tuple[Floats, Floats]:
        """Return the log-odds of each pair, (P,), and what contributed, (P, C + 2): the columns, the whole row, rivals.

        Pairs at some places may be labelled.
        """
        compared = rows.compare(pairs_P2)
        worth = ColumnWorth(rows, pairs_P2, compared)
        parts, clear = adapt(compared, worth, self.pair_weights, place, same)
        score = parts.sum(axis=1)
        rivals = measure_rivals(compared.groups, score, clear)
        logit = rivals @ self.rival_weights[:-1] + self.rival_weights[-1]
        first, second = rows.table[pairs_P2].T
        if len(rows.tables) == 2 and clear.sum() >= FEW:  # where nothing is clear, tables may share nothing
            across = first != second
            logit[across] = lift(compared.groups[:, across], score[across], logit[across])
        if len(place):
            known = np.column_stack([RIVAL_SHARE * rivals, np.ones(len(rivals), np.float32)])
            logit = logit + known @ fit_change(known[place], logit[place], same, np.ones(len(place)))
        logit = np.where(first == second, logit + SAME_TABLE, logit).astype(np.float32)
        return logit, np.concatenate([parts, (logit - score)[:, None]], axis=1)


def adapt(
    compared: PairComparison, worth: ColumnWorth, weights: Floats, place: Ints = NONE, same: Bools = NONE > 0
) -> tuple[Floats, Bools]:
    """Return what contributes to the score of each pair in the tables at hand, (P, C + 1), and (P,) the clear pairs.

    Weights are drawn to what they are for all tables, the less the more clear pairs and labels there are.
    """
    parts = describe_pairs(compared, worth) @ weights[:-1]
    parts[:, -1] += weights[-1]
    score = parts.sum(axis=1)
    clear = (measure_leads(compared.groups, score).min(axis=0) > CLEAR) & (score > LEAST_SCORE)
    right = clear.copy()
    right[place] = same
    if right.sum() < FEW:
        return parts, clear
    has_partner = np.zeros(int(compared.groups.max()) + 1, np.bool_)
    has_partner[compared.groups[:, right]] = True
    wrong = np.flatnonzero(has_partner[compared.groups].any(axis=0) & ~right)
    wrong = np.random.default_rng(0).permutation(wrong)[:MAX_RIVALS]
    learned = np.unique(np.concatenate([np.flatnonzero(right), wrong, place]))
    counts = np.where(
        right[learned], min(right.sum(), MAX_CLEAR) / right.sum(), min(right.sum(), MAX_CLEAR) / max(len(wrong), 1)
    )
    counts[np.isin(learned, place)] = LABEL_WEIGHT
    num_pairs, num_columns, num_features = compared.cells.shape
    of_cells = num_columns * num_features
    design = np.concatenate([compared.cells.reshape(num_pairs, of_cells), compared.whole], axis=1).astype(np.float32)
    design -= design[learned].mean(axis=0)
    known = np.column_stack([design[learned], np.ones(len(learned))])
    change = fit_change(known, PRIOR_SHARE * score[learned], right[learned], counts).astype(np.float32)
    parts *= PRIOR_SHARE
    parts[:, :-1] += (design * change[:-1])[:, :of_cells].reshape(compared.cells.shape).sum(axis=2)
    parts[:, -1] += design[:, of_cells:] @ change[of_cells:-1] + change[-1]
    return parts, clear


def fit_change(features: Floats, before: Floats, same: Bools, counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return (F,) the weights that a logistic regression adds to a score, drawn to none."""
    from scipy.optimize import minimize

    known, before = features.astype(np.float64), before.astype(np.float64)
    sign = np.where(same, 1.0, -1.0)

    def measure_loss(change: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (before + known @ change)
        slope = -sign * counts / (1 + np.exp(np.clip(margin, -30, 30)))
        loss = counts @ np.logaddexp(0, -margin) + RIDGE / 2 * (change**2).sum()
        return float(loss), known.T @ slope + RIDGE * change

    found: NDArray[np.float64] = minimize(measure_loss, np.zeros(known.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def measure_rivals(groups_2P: Ints, score: Floats, clear: Bools) -> Floats:
    """Return (P, V) what `RIVAL_FEATURES` names.

    Of the pairs that are the best of neither of their rows next to all are wrong.
    """
    leads = measure_leads(groups_2P, score)
    wrong = score[(leads < 0).all(axis=0)]
    low = float(wrong.mean()) if len(wrong) >= FEW else USUAL_WRONG
    high = float(score[clear].mean()) if clear.sum() >= FEW else max(USUAL_RIGHT, low + 1)
    found = {
        "least_lead": np.clip(leads.min(axis=0), -LIMIT, LIMIT),
        "lead": np.clip(leads.max(axis=0), -LIMIT, LIMIT),
        "place": np.clip((score - low) / (high - low + 0.5), -1, 2),
    }
    return np.stack([found[name] for name in RIVAL_FEATURES], axis=1).astype(np.float32)


def lift(groups_2P: Ints, score: Floats, logit: Floats) -> Floats:
    """Return log-odds, those of an assignment lifted until as many rows have a partner as seem to have one.

    The best wrong partner of a row is taken to be ahead of its second best by as much as that is of the third. Rows
    whose best partner has no more than that usually has have none.
    """
    side = min(groups_2P, key=lambda group: len(np.unique(group)))
    highest_N3 = rank_groups(side, score)
    if len(highest_N3) < FEW:
        return logit
    wrong_best = 2 * highest_N3[:, 1] - highest_N3[:, 2]
    usual = np.median(wrong_best)
    alone = ((highest_N3[:, 0] <= usual).sum() + 2) / ((wrong_best <= usual).sum() + 2)
    partnered = min((1 - alone - SEEMING_NONE) / (SEEMING_ALL - SEEMING_NONE), 1) * len(np.unique(side))
    best = assign_greedily(groups_2P, score)
    lifts = np.linspace(0, MAX_LIFT, 41)
    expected = (1 / (1 + np.exp(-logit[best, None] - lifts))).sum(axis=0)
    added = lifts[np.searchsorted(expected, partnered).clip(0, len(lifts) - 1)]
    return np.where(best, logit + added, logit).astype(np.float32)


def assign_greedily(groups_2P: Ints, score: Floats) -> Bools:
    """Return (P,) the pairs that are the best of both their rows, then those that are once these are taken, and so on.

    >>> groups = np.array([[0, 0, 1, 1], [9, 8, 9, 8]])
    >>> assign_greedily(groups, np.array([3.0, 2.0, 2.5, 1.0], np.float32)).tolist()
    [True, False, False, True]
    """
    chosen, taken = np.zeros(len(score), np.bool_), np.zeros(int(groups_2P.max(initial=0)) + 1, np.bool_)
    rest, best, score = np.arange(len(score)), np.ones(1, np.int64), score - score.min(initial=0) + 1
    while len(rest) and len(best):
        best = rest[(measure_leads(groups_2P[:, rest], score[rest]) > 0).all(axis=0)]
        chosen[best] = taken[groups_2P[:, best]] = True
        rest = rest[~taken[groups_2P[:, rest]].any(axis=0)]
    return chosen


def rank_groups(group: Ints, score: Floats) -> Floats:
    """Return (N, 3) the three highest scores of each group that has as many."""
    order = np.lexsort((-score, group))
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    begins = begins[np.diff(np.append(begins, len(order))) >= 3]
    highest: Floats = score[order[begins[:, None] + np.arange(3)]]
    return highest


@cache
def load_row_scorer() -> RowScorer:
    """Return the scorer that comes with the package."""
    found: dict[str, Any] = read_json(PACKAGED, ModelError, "Reinstall navi-tables.")
    if any(found.pop(name, None) != list(features) for name, features in FEATURES.items()):
        raise ModelError(f"{PACKAGED} was made for other features of rows. Reinstall navi-tables.")
    return RowScorer(**{name: np.array(weight, np.float32) for name, weight in found.items()})
