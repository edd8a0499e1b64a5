"""One score from several kinds of evidence: the model's, the column's, the nearest rows' and the companion's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

# Shape suffixes: E kinds of evidence, N values of a set.

Floats = NDArray[np.float64]
MODEL, PRIOR, VOTES, NEARNESS, COMPANION = range(5)
NUM_EVIDENCE = 5
"""Kinds of evidence, and their lines in an array of it."""
NEGLIGIBLE = 0.005
"""A weight below this is none: evidence that tells nothing need not be gathered."""
WORTH_ASKING = 0.005
"""Gain in log-likelihood a cell from which the model is asked."""
SMALLEST = 1e-12
PENALTY = 1.0
"""How much fitted weights are drawn to the usual ones: as much as one cell would at unit distance."""


@dataclass(frozen=True, kw_only=True)
class Blend:
    """Weights of the evidence for a value, and the score of the answer that no listed value is right.

    They are those of a conditional logit: its softmax is the chance of each value.
    """

    model: float = 0.05
    """Weight of the value's log-likelihood under the model, divided by the square root of its number of tokens."""
    prior: float = 0.2
    """Weight of the log-share of the column's cells with the value."""
    votes: float = 0.5
    """Weight of the log-share of the nearest rows with the value."""
    nearness: float = 0.3
    """Weight of the log of how near these rows are."""
    companion: float = 0.4
    """Weight of the value's log-share beside the row's most telling other cell."""
    none: float = -0.7
    """Score of a value outside the set in a column all of whose values are different."""
    unseen: float = 0.7
    """Weight of the log of the column's share of such values."""

    def score(self, evidence_EN: Floats) -> Floats:
        """Return the score of each value: (N,)."""
        weights = np.array([self.model, self.prior, self.votes, self.nearness, self.companion])
        scores: Floats = weights @ evidence_EN
        return scores

    def weigh(self, evidence_EN: Floats, unseen: float) -> Floats:
        """Return the chance of each value; what is missing to 1 is that of a value outside the set."""
        scores = np.append(self.score(evidence_EN), self.none + self.unseen * np.log(unseen))
        chances = np.exp(scores - scores.max())
        shares: Floats = (chances / chances.sum())[:-1]
        return shares


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The evidence for one cell whose value is known."""

    evidence: Floats
    """(E, N) evidence for each value of the set, or of its likelier part."""
    unseen: float
    """The column's share of values that occur once."""
    truth: int
    """Number of the right value; N where it is not among them."""


def choose_blend(choices: Sequence[Choice], start: Blend) -> Blend:
    """Return fitted weights; none for the model, whose passes cost most, where it tells too little to be asked."""
    whole = fit_blend(choices, start)
    blind = [
        replace(choice, evidence=np.vstack([0 * choice.evidence[PRIOR], choice.evidence[1:]])) for choice in choices
    ]
    without = fit_blend(blind, replace(start, model=0.0))
    return whole if _measure(whole, choices) - _measure(without, blind) > WORTH_ASKING else without


def _measure(blend: Blend, choices: Sequence[Choice]) -> float:
    """Return the mean log-likelihood of what is right."""
    shares = [(blend.weigh(choice.evidence, choice.unseen), choice.truth) for choice in choices]
    right = [found[truth] if truth < len(found) else 1 - found.sum() for found, truth in shares]
    return float(np.log(np.maximum(right, SMALLEST)).mean())


def fit_blend(choices: Sequence[Choice], start: Blend | None = None) -> Blend:
    """Return the weights under which the right values are likeliest, none of the evidence counted against a value."""
    from scipy.optimize import minimize

    start = start or Blend()
    usual = np.array(astuple(start))
    features, unseen, truth = _pad(choices)

    def lose(weights: Floats) -> tuple[float, Floats]:
        scores = np.einsum("e,cne->cn", weights[:NUM_EVIDENCE], features)
        scores[:, -1] = weights[-2] + weights[-1] * unseen
        scores[np.isnan(features[:, :, 0])] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(truth))
        chances_minus = chances.copy()
        chances_minus[rows, truth] -= 1.0
        slope = np.einsum("cn,cne->e", chances_minus, np.nan_to_num(features))
        slope = np.concatenate([slope, [chances_minus[:, -1].sum(), chances_minus[:, -1] @ unseen]])
        distance = weights - usual
        loss = -np.log(np.maximum(chances[rows, truth], SMALLEST)).sum() + PENALTY / 2 * distance @ distance
        return float(loss), slope + PENALTY * distance

    bounds = [(0.0, None)] * NUM_EVIDENCE + [(None, None), (0.0, None)]
    found = minimize(lose, usual, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = np.where((found.x < NEGLIGIBLE) & (found.x > 0), 0.0, found.x)
    return Blend(**{field.name: float(weight) for field, weight in zip(fields(Blend), weights, strict=True)})


def _pad(choices: Sequence[Choice]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the evidence of all cells side by side, NaN where a set has fewer values; the last is for none of them."""
    widest = max(choice.evidence.shape[1] for choice in choices)
    features = np.full((len(choices), widest + 1, NUM_EVIDENCE), np.nan)
    for number, choice in enumerate(choices):
        features[number, : choice.evidence.shape[1]] = choice.evidence.T
        features[number, -1] = 0.0
    truth = np.array([c.truth if c.truth < c.evidence.shape[1] else widest for c in choices], dtype=np.int64)
    return features, np.log([choice.unseen for choice in choices]), truth
