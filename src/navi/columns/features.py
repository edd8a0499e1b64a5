"""Features of a pair of columns: what speaks for the same meaning, by their headers, by their values, by both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from navi.columns.headers import is_useless
from navi.columns.profiles import BAGS, FACTS, LEVELS, SHAPES, ColumnProfiles
from navi.columns.quantities import KINDS
from navi.corpus.hashing import inverse_document_frequency

# Shape suffixes: K columns, L other columns, E features, G points of a grid.

HEADER_FEATURES = ("header_vector", "header_words", "header_grams")
"""What is compared of headers: what the model makes of them, their words, their trigrams."""
VALUE_FEATURES = (
    "value_vector", "contained", "shared", "frequent", "words", "grams", "numbers", "scale", "kind", "shape", "length",
    "lists", "diversity",
)  # fmt: skip
"""What is compared of values: the model's vectors, overlaps of values, words and trigrams, ranges of numbers, looks."""
STATES = ("named", "filled", "quantities", "few")
"""What tells how much the others can say: both have a header, both have values; the share of quantities, and how few
values there are, of the column that has less."""
FEATURES = (*HEADER_FEATURES, *VALUE_FEATURES, "column_vector", *STATES)
SMOOTHING = 5.0
"""Added to what two bags could share, in weights of terms: two flags with the same two values share little."""
MAX_GRID = 1024
"""Points at which the distributions of numbers are compared, at most."""
FACT_GROUPS = {
    "kind": (1.0, (*KINDS, "quantities", "whole", "years")),
    "shape": (2.0, tuple(SHAPES)),
    "length": (1.0, ("characters", "words")),
    "lists": (1.0, ("items",)),
    "diversity": (2.0, ("distinct", "entropy")),
}
"""Features that compare facts: how much a difference counts, and which facts."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_FACT = {name: place for place, name in enumerate(FACTS)}


def have_headers(profiles: ColumnProfiles) -> Flags:
    """Return which columns have a header that says something: (K,)."""
    return np.array([not is_useless(header) for header in profiles.headers], np.bool_)


def measure_features(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> NDArray[np.float32]:
    """Return every feature of every pair of columns, mostly between 0 and 1: (E, K, L).

    What is compared of headers is 0 where one says nothing, what is compared of values where one column has none.
    """
    found = _compare_numbers(first, second, background)
    for name in ("header", "value", "column"):
        found[f"{name}_vector"] = first.vectors[name].astype(np.float64) @ second.vectors[name].T
    for name in BAGS:
        if name == "items":
            overlap = measure_overlap(first.bags[name], second.bags[name], background.weights[name], BAGS[name])
            found["contained"], found["shared"] = overlap
        else:
            found[name] = compare_bags(first.bags[name], second.bags[name], background.weights[name])
    for name, (rate, facts) in FACT_GROUPS.items():
        places = [_FACT[fact] for fact in facts]
        found[name] = np.exp(-rate * cdist(first.facts[:, places], second.facts[:, places], "cityblock"))
    named = np.outer(have_headers(first), have_headers(second))
    filled = np.outer(first.cells > 0, second.cells > 0)
    for name in HEADER_FEATURES:
        found[name] = found[name] * named
    for name in VALUE_FEATURES:
        found[name] = found[name] * filled
    quantities, entropy = (each.facts[:, _FACT["quantities"]] for each in (first, second)), _FACT["entropy"]
    found["named"], found["filled"] = named.astype(np.float64), filled.astype(np.float64)
    found["quantities"] = np.minimum.outer(*quantities) * filled
    found["few"] = (1 - np.minimum.outer(first.facts[:, entropy], second.facts[:, entropy])) * filled
    return np.stack([found[name].astype(np.float32) for name in FEATURES])


class Background:
    """What all columns have in common, so that it does not count for a pair: frequent terms, and where numbers lie."""

    def __init__(self, parts: Sequence[ColumnProfiles]) -> None:
        self.weights = {name: TermWeights([part.bags[name] for part in parts]) for name in BAGS}
        numbers = np.concatenate([part.quantiles.ravel() for part in parts])
        numbers = np.unique(numbers[~np.isnan(numbers)])
        self.grid = numbers[np.linspace(0, max(len(numbers) - 1, 0), min(MAX_GRID, len(numbers))).astype(np.int64)]
        """(G,) some of the numbers that columns hold, ascending."""


class TermWeights:
    """How much each term says: the fewer columns hold it, the more."""

    def __init__(self, parts: Sequence[csr_array]) -> None:
        self._terms, frequency = np.unique(np.concatenate([part.indices for part in parts]), return_counts=True)
        self._terms, frequency = np.append(self._terms, np.iinfo(np.int64).max), np.append(frequency, 0)
        self._weights = 1 + inverse_document_frequency(sum(part.shape[0] for part in parts), frequency)

    def find(self, terms: NDArray[np.int64]) -> Floats:
        """Return the weight of each term; one that no column holds says most."""
        places = np.searchsorted(self._terms, terms)
        weights: Floats = self._weights[np.where(self._terms[places] == terms, places, -1)]
        return weights


def compare_bags(first: csr_array, second: csr_array, weights: TermWeights) -> Floats:
    """Return the weighted cosine of every pair of bags, by the roots of shares: (K, L); 0 where one is empty."""
    scaled = []
    for bags in (first, second):
        entries = np.sqrt(bags.data) * weights.find(bags.indices)
        owner = np.repeat(np.arange(bags.shape[0]), np.diff(bags.indptr))
        length = np.sqrt(np.bincount(owner, weights=entries**2, minlength=bags.shape[0]))
        scaled.append(entries / np.maximum(length[owner], 1e-12))
    return _multiply(first, scaled[0], second, scaled[1])


def _multiply(first: csr_array, ours: Floats, second: csr_array, theirs: Floats) -> Floats:
    """Return the sum of products over the terms that two bags share, for every pair: (K, L)."""
    terms, place = np.unique(np.concatenate([first.indices, second.indices]), return_inverse=True)
    left = csr_array((ours, place[: first.nnz], first.indptr), shape=(first.shape[0], len(terms)))
    right = csr_array((theirs, place[first.nnz :], second.indptr), shape=(second.shape[0], len(terms)))
    product: Floats = (left @ right.T).toarray()
    return product


def measure_overlap(first: csr_array, second: csr_array, weights: TermWeights, limit: int) -> tuple[Floats, Floats]:
    """Return how much of the smaller bag, and of both together, two columns share, for every pair: (K, L) twice.

    A sampled bag of `limit` terms holds those up to some term; a pair is compared up to the smaller of its two bounds,
    where both samples are complete.
    """
    ours, theirs = weights.find(first.indices), weights.find(second.indices)
    common = _multiply(first, np.sqrt(ours), second, np.sqrt(theirs))
    bound = np.minimum(_find_bounds(first, limit)[:, None], _find_bounds(second, limit)[None, :])
    mass_first, mass_second = _sum_below(ours, first, bound), _sum_below(theirs, second, bound.T).T
    union = mass_first + mass_second - common
    return common / (np.minimum(mass_first, mass_second) + SMOOTHING), common / (union + SMOOTHING)


def _find_bounds(bags: csr_array, limit: int) -> NDArray[np.int64]:
    """Return the largest term that each bag is complete up to."""
    bounds = np.full(bags.shape[0], np.iinfo(np.int64).max)
    full = np.flatnonzero(np.diff(bags.indptr) >= limit)
    bounds[full] = bags.indices[bags.indptr[full + 1] - 1]
    return bounds


def _sum_below(weight: Floats, bags: csr_array, bound: NDArray[np.int64]) -> Floats:
    """Return the weight of each bag's terms up to each of its bounds: (K, L)."""
    sums = np.zeros(bound.shape)
    for number, (start, end) in enumerate(zip(bags.indptr[:-1], bags.indptr[1:], strict=True)):
        running = np.r_[0.0, np.cumsum(weight[start:end])]
        sums[number] = running[np.searchsorted(bags.indices[start:end], bound[number], side="right")]
    return sums


def _compare_numbers(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    """Compare how numbers are distributed (by the greatest difference of shares below a point) and their magnitude."""
    share = _FACT["quantities"]
    weight = np.minimum(first.facts[:, share, None], second.facts[None, :, share])
    apart = np.ones(weight.shape)
    # Columns without a number weigh nothing; comparing distributions is what takes time here.
    some = [np.flatnonzero(~np.isnan(part.quantiles[:, 0])) for part in (first, second)]
    ours, theirs = (_spread(part.quantiles[k], background.grid) for part, k in zip((first, second), some, strict=True))
    if len(ours) and len(theirs):
        apart[np.ix_(*some)] = cdist(ours, theirs, "chebyshev")
    logs = [np.arcsinh(np.nan_to_num(part.quantiles)) for part in (first, second)]
    steps = cdist(logs[0], logs[1], "cityblock") / len(LEVELS)
    return {"numbers": weight * (1 - apart), "scale": weight * np.exp(-steps)}


def _spread(quantiles: Floats, grid: Floats) -> Floats:
    """Return the share of each column's numbers up to each point of the grid: (K, G); 0 for columns without any."""
    shares = np.zeros((len(quantiles), len(grid)))
    for number in np.flatnonzero(~np.isnan(quantiles[:, 0])).tolist():
        # Ties are spread by a hair: interpolation needs rising points.
        points = quantiles[number] + np.arange(len(LEVELS)) * 1e-9 * (1 + np.abs(quantiles[number]))
        shares[number] = np.interp(grid, points, LEVELS)
    return shares
