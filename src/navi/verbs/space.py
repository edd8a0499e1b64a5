"""The space that rows are compared in: means of value states, whitened over the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from navi.verbs.embedding import normalize_rows
from navi.verbs.pool import Floats

# Shape suffixes: R rows, D hidden size.

SAMPLE_ROWS = 20_000
"""Rows that a space is fitted on, at most."""
WORDS_WORTH = 3
"""How much more a shared word says of two rows than vectors that are as far beyond their noise."""
USUAL_WEIGHT, USUAL_PAIRS = 0.25, 1000
"""What similarity weighs if nothing is known, and how many pairs of rows it takes to know as much."""
SHRINKAGE = 1e-2
"""Least variance of a direction, as a share of the largest: below it, whitening would amplify noise."""


def weigh_similarity(similarity: Floats, overlap: Floats) -> float:
    """Return what the similarity of vectors should weigh beside the overlap of words, from 0 to 1.

    Both are given for many pairs of rows, of which next to none belong together: what they spread is noise, and each
    counts the more the less it has of it. A few pairs tell little: then it is the usual weight.
    """
    noise, other = WORDS_WORTH * float(np.std(similarity)), float(np.std(overlap))
    measured = other / (noise + other) if noise + other > 0 else USUAL_WEIGHT
    return (measured * similarity.size + USUAL_WEIGHT * USUAL_PAIRS) / (similarity.size + USUAL_PAIRS)


@dataclass(frozen=True)
class Space:
    """Centres, whitens and scales vectors to length 1, so that their inner product is a similarity.

    All rows of a domain look alike to an encoder: without whitening, what they share outweighs what tells them apart.
    """

    mean: Floats
    """(D,) what all rows share."""
    transform: Floats
    """(D, D) from centred vectors to directions of equal variance."""

    @classmethod
    def fit(cls, vectors_RD: Floats) -> Self:
        """Return the space of some rows, or of a sample of them."""
        if len(vectors_RD) > SAMPLE_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(len(vectors_RD), SAMPLE_ROWS, replace=False))
            vectors_RD = vectors_RD[chosen]
        mean = vectors_RD.mean(axis=0, dtype=np.float64)
        centred = vectors_RD - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
        least = max(SHRINKAGE * variances[-1], np.finfo(np.float32).tiny)
        transform = directions / np.sqrt(np.maximum(variances, least))
        return cls(mean.astype(np.float32), transform.astype(np.float32))

    def apply(self, vectors_RD: Floats) -> Floats:
        """Return (R, D): unit vectors; of a vector that is the mean, zeros."""
        whitened: Floats = ((vectors_RD - self.mean) @ self.transform).astype(np.float32)
        return normalize_rows(whitened)
