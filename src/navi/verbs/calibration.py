"""From evidence to a choice and a calibrated probability, by logistic regressions, and how far off that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from navi.verbs.candidate_values import USUAL_WEIGHTS, Floats, Ints

# Shape suffixes: M cells, K candidates of each, E kinds of evidence, B bins.

NUM_BINS = 10
LEAST_CELLS = 100
"""Cells from which a calibration is fitted; fewer say too little."""
NUM_FOLDS = 5
"""Folds in which reliability is measured."""
USUAL_OTHER = (-0.7, 0.7)
"""Score of a value that is no candidate where nothing was fitted: in a column all of whose values are different, and
what the logarithm of the column's share of such values adds."""
SMALLEST = 1e-4
"""Chances nearer to 0 or 1 than this are not told apart."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How well confidence agrees with accuracy, in bins of equal width.

    **Shape**: B bins.
    """

    confidence: tuple[float, ...]
    """(B,) mean confidence of the answers of each bin; 0 for an empty one."""
    accuracy: tuple[float, ...]
    """(B,) share of right answers."""
    count: tuple[int, ...]
    """(B,) number of answers."""
    ece: float
    """Expected calibration error: the mean distance of confidence and accuracy over all answers."""


def measure_reliability(probability: Floats, correct: Bools, num_bins: int = NUM_BINS) -> Reliability:
    """Return the reliability of some answers; no answers have no error.

    >>> measure_reliability(np.array([0.9, 0.9, 0.9, 0.9]), np.array([True, True, True, False])).ece
    0.15
    """
    place = np.minimum((probability * num_bins).astype(np.int64), num_bins - 1)
    count = np.bincount(place, minlength=num_bins)
    filled = np.maximum(count, 1)
    confidence = np.bincount(place, probability, num_bins) / filled
    accuracy = np.bincount(place, correct.astype(np.float64), num_bins) / filled
    ece = float((np.abs(confidence - accuracy) * count).sum() / max(1, count.sum()))
    return Reliability(
        confidence=tuple(confidence.tolist()),
        accuracy=tuple(accuracy.tolist()),
        count=tuple(count.tolist()),
        ece=round(ece, 12),
    )


@dataclass(frozen=True, kw_only=True)
class KnownCells:
    """The candidates of some cells of one column whose values are known: what a calibration is fitted to."""

    evidence: Floats
    """(M, K, E) what speaks for each candidate."""
    unseen: float
    """Chance that a cell of the column has a value of no other cell."""
    right: Bools
    """(M, K) which candidate is right; none where the value is not among them."""

    def take(self, chosen: Bools) -> KnownCells:
        """Return some of the cells."""
        return replace(self, evidence=self.evidence[chosen], right=self.right[chosen])


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What evidence weighs in the choice of a candidate, and how sure the best one is."""

    weights: tuple[float, ...] = tuple(USUAL_WEIGHTS.tolist())
    """(E,) weight of each kind of evidence in a candidate's score."""
    other: tuple[float, float] = USUAL_OTHER
    """Score of a value that is no candidate, and what the logarithm of the column's share of such values adds to it."""
    confidence: tuple[float, ...] | None = None
    """Intercept and weights, of the log-odds of the best candidate's chance, of the evidence for it and of the share of
    other values, in the log-odds that it is right; None leaves chances as they are."""
    margin: float = 0.0
    """Distance that probabilities keep from 0 and 1: one answer among those fitted to."""
    reliability: Reliability | None = None
    """How far the probabilities are off on cells that had no part in the fit; None where nothing was fitted."""

    @classmethod
    def fit(cls, cells: Sequence[KnownCells], *, seed: int = 0) -> Self:
        """Return the calibration of cells whose values are known; reliability is measured in folds."""
        if not cells:
            return cls()
        ends = np.cumsum([len(each.right) for each in cells])
        folds = np.split(np.random.default_rng(seed).permutation(ends[-1]) % NUM_FOLDS, ends[:-1])
        sure, right = [], []
        for number in range(NUM_FOLDS):
            fitted = cls._fit([each.take(fold != number) for each, fold in zip(cells, folds, strict=True)])
            for each, fold in zip(cells, folds, strict=True):
                held = each.take(fold == number)
                best, probability = fitted.answer(held.evidence, held.unseen)
                sure.append(probability)
                right.append(held.right[np.arange(len(best)), best])
        reliability = measure_reliability(np.concatenate(sure), np.concatenate(right))
        return replace(cls._fit(cells), reliability=reliability)

    @classmethod
    def _fit(cls, cells: Sequence[KnownCells]) -> Self:
        right = np.concatenate([each.right.reshape(-1) for each in cells])
        chosen = cls()
        if right.any() and not right.all():
            lines = np.concatenate(
                [_add_unseen(each.evidence.reshape(-1, len(chosen.weights)), each.unseen) for each in cells]
            )
            intercept, *weights, unseen = _fit_logistic(lines, right)
            chosen = cls(weights=tuple(weights), other=(-intercept, -unseen))
        answers = [chosen._choose(each.evidence, each.unseen) for each in cells]
        facts = np.concatenate([facts for _, _, facts in answers])
        hits = [each.right[np.arange(len(best)), best] for each, (best, _, _) in zip(cells, answers, strict=True)]
        confidence = _fit_logistic(facts, np.concatenate(hits))
        return replace(chosen, confidence=confidence, margin=1.0 / (len(facts) + 2))

    def answer(self, evidence_MKE: Floats, unseen: float) -> tuple[Ints, Floats]:
        """Return the best candidate of each cell of a column, and how sure it is: (M,)."""
        best, probability, facts = self._choose(evidence_MKE, unseen)
        if self.confidence is not None:
            intercept, *weights = self.confidence
            probability = 1 / (1 + np.exp(-intercept - facts @ np.array(weights)))
        return best, np.clip(probability, self.margin, 1 - self.margin)

    def _choose(self, evidence_MKE: Floats, unseen: float) -> tuple[Ints, Floats, Floats]:
        """Return the best candidate of each cell, its chance among all and any other value, and what says how sure."""
        scores_MK = evidence_MKE @ np.array(self.weights) - self.other[0] - self.other[1] * np.log(unseen)
        best = scores_MK.argmax(axis=1)
        highest = np.maximum(scores_MK.max(axis=1, keepdims=True), 0)
        total = np.exp(scores_MK - highest).sum(axis=1) + np.exp(-highest[:, 0])
        chance = np.exp(scores_MK.max(axis=1) - highest[:, 0]) / total
        odds = np.log(np.maximum(chance, SMALLEST) / np.maximum(1 - chance, SMALLEST))
        evidence_ME = evidence_MKE[np.arange(len(best)), best]
        return best, chance, np.column_stack([odds, _add_unseen(evidence_ME, unseen)])


def _add_unseen(evidence: Floats, unseen: float) -> Floats:
    return np.column_stack([evidence, np.full(len(evidence), np.log(unseen))])


def _fit_logistic(features: Floats, label: Bools) -> tuple[float, ...]:
    """Return the intercept and the weights of a logistic regression; of equal labels, the log-odds of their share."""
    from sklearn.linear_model import LogisticRegression

    if label.all() or not label.any():
        return (float(np.log((label.sum() + 0.5) / ((~label).sum() + 0.5))), *np.zeros(features.shape[1]).tolist())
    fitted = LogisticRegression(max_iter=1000).fit(features, label)
    return (float(fitted.intercept_[0]), *fitted.coef_[0].tolist())
