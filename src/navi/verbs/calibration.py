"""How well probabilities agree with how often answers are right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Shape suffixes: B bins.

NUM_BINS = 10

Floats = NDArray[np.float64]
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
