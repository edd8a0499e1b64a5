"""Features of a pair of columns: what speaks for the same meaning, by their headers, by their values, by both."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import pairwise

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
Features = NDArray[np.float32]
_FACT = {name: place for place, name in enumerate(FACTS)}


def have_headers(profiles: ColumnProfiles) -> Flags:
    """Return which columns have a header that says something: (K,)."""
    return np.array([not is_useless(header) for header in profiles.headers], np.bool_)


def measure_features(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> Features:
    """Return every feature of every pair of columns, mostly between 0 and 1: (E, K, L).

    What is compared of headers is 0 where one says nothing, what is compared of values where one column has none.
    """
    return FeatureBlocks(first, second, background).measure(slice(None))


class FeatureBlocks:
    """Measures the features of some pairs at a time; what takes one column alone, or all terms, is found once."""

    def __init__(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> None:
        ours = _Side(first, background)
        self._sides = ours, ours if second is first else _Side(second, background)
        bags = {name: (first.bags[name], second.bags[name], background.weights[name]) for name in BAGS}
        self._overlaps = Overlaps(*bags.pop("items"), BAGS["items"])
        self._cosines = {name: Cosines(*each) for name, each in bags.items()}

    def measure(self, rows: slice, columns: slice = slice(None)) -> Features:
        """Return every feature of the pairs of some of the first columns and some of the second: (E, K, L)."""
        ours, theirs = (side.cut(cut) for side, cut in zip(self._sides, (rows, columns), strict=True))
        found = np.empty((len(FEATURES), len(ours.named), len(theirs.named)), np.float32)
        feature = dict(zip(FEATURES, found, strict=True))
        feature["numbers"][:], feature["scale"][:] = _compare_numbers(ours, theirs)
        for name in ("header", "value", "column"):
            feature[f"{name}_vector"][:] = ours.vectors[name] @ theirs.vectors[name].T
        feature["contained"][:], feature["shared"][:] = self._overlaps.measure(rows, columns)
        for name, cosines in self._cosines.items():
            feature[name][:] = cosines.measure(rows, columns)
        for name, (rate, facts) in FACT_GROUPS.items():
            places = [_FACT[fact] for fact in facts]
            feature[name][:] = np.exp(-rate * cdist(ours.facts[:, places], theirs.facts[:, places], "cityblock"))
        feature["named"][:] = np.outer(ours.named, theirs.named)
        feature["filled"][:] = np.outer(ours.filled, theirs.filled)
        for name, state in (("quantities", "quantities"), ("few", "entropy")):
            feature[name][:] = np.minimum.outer(ours.facts[:, _FACT[state]], theirs.facts[:, _FACT[state]])
        np.subtract(1, feature["few"], out=feature["few"])
        for name in HEADER_FEATURES:
            feature[name] *= feature["named"]
        for name in (*VALUE_FEATURES, "quantities", "few"):
            feature[name] *= feature["filled"]
        return found


class _Side:
    """What is compared of K columns, but for their bags."""

    def __init__(self, profiles: ColumnProfiles, background: Background) -> None:
        self.named, self.filled, self.facts = have_headers(profiles), profiles.cells > 0, profiles.facts
        self.vectors = {name: vector.astype(np.float64) for name, vector in profiles.vectors.items()}
        self.logs = np.arcsinh(np.nan_to_num(profiles.quantiles))
        self.numbers = np.flatnonzero(~np.isnan(profiles.quantiles[:, 0]))
        """(N,) the columns that have numbers."""
        self.spread = _spread(profiles.quantiles[self.numbers], background.grid)
        """(N, G) the share of their numbers up to each point."""

    def cut(self, columns: slice) -> _Side:
        """Return some columns that lie side by side, without copying what is known of them."""
        start, stop, _ = columns.indices(len(self.named))
        part = copy(self)
        for name in ("named", "filled", "facts", "logs"):
            setattr(part, name, getattr(self, name)[columns])
        part.vectors = {name: vector[columns] for name, vector in self.vectors.items()}
        inside = slice(*np.searchsorted(self.numbers, (start, stop)).tolist())
        part.numbers, part.spread = self.numbers[inside] - start, self.spread[inside]
        return part


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


class Cosines:
    """The weighted cosines of K bags with L others, by the roots of shares; 0 where one is empty."""

    def __init__(self, first: csr_array, second: csr_array, weights: TermWeights) -> None:
        scaled = []
        for bags in (first, second):
            entries = np.sqrt(bags.data) * weights.find(bags.indices)
            owner = np.repeat(np.arange(bags.shape[0]), np.diff(bags.indptr))
            length = np.sqrt(np.bincount(owner, weights=entries**2, minlength=bags.shape[0]))
            scaled.append(entries / np.maximum(length[owner], 1e-12))
        self._products = _Products(first, scaled[0], second, scaled[1])

    def measure(self, rows: slice = slice(None), columns: slice = slice(None)) -> Floats:
        """Return the cosines of some of the first and some of the second: (K, L)."""
        return self._products.measure(rows, columns)


class Overlaps:
    """How much of the smaller of two bags, and of both together, K bags share with L others.

    A sampled bag of `limit` terms holds those up to some term; a pair is compared up to the smaller of its two bounds,
    where both samples are complete.
    """

    def __init__(self, first: csr_array, second: csr_array, weights: TermWeights, limit: int) -> None:
        ours, theirs = weights.find(first.indices), weights.find(second.indices)
        self._products = _Products(first, np.sqrt(ours), second, np.sqrt(theirs))
        self._samples = _Samples(first, ours, limit), _Samples(second, theirs, limit)

    def measure(self, rows: slice = slice(None), columns: slice = slice(None)) -> tuple[Floats, Floats]:
        """Return both shares of some of the first and some of the second: (K, L) twice."""
        common, (first, second) = self._products.measure(rows, columns), self._samples
        bound = np.minimum(first.bound[rows, None], second.bound[None, columns])
        mass_first, mass_second = first.sum_below(rows, bound), second.sum_below(columns, bound.T).T
        union = mass_first + mass_second - common
        return common / (np.minimum(mass_first, mass_second) + SMOOTHING), common / (union + SMOOTHING)


class _Products:
    """Sums of products over the terms that two bags share."""

    def __init__(self, first: csr_array, ours: Floats, second: csr_array, theirs: Floats) -> None:
        terms, place = np.unique(np.concatenate([first.indices, second.indices]), return_inverse=True)
        self._first = csr_array((ours, place[: first.nnz], first.indptr), shape=(first.shape[0], len(terms)))
        right = csr_array((theirs, place[first.nnz :], second.indptr), shape=(second.shape[0], len(terms)))
        self._second = csr_array(right.T)  # by terms: multiplying would sort it so each time

    def measure(self, rows: slice, columns: slice) -> Floats:
        """Return the sums of some of the first and some of the second: (K, L)."""
        product: Floats = (self._first[rows] @ self._second).toarray()
        return product[:, columns]


class _Samples:
    """The terms of K bags in ascending order, each complete up to some term."""

    def __init__(self, bags: csr_array, weight: Floats, limit: int) -> None:
        ends = list(pairwise(bags.indptr.tolist()))
        self._terms = [bags.indices[start:end] for start, end in ends]
        self._running = [np.r_[0.0, np.cumsum(weight[start:end])] for start, end in ends]
        self._largest = np.array([terms[-1] if len(terms) else -1 for terms in self._terms], np.int64)
        self._total = np.array([running[-1] for running in self._running])
        is_full = np.diff(bags.indptr) >= limit
        self.bound = np.where(is_full, self._largest, np.iinfo(np.int64).max)
        """(K,) the largest term that each bag is complete up to."""

    def sum_below(self, rows: slice, bound: NDArray[np.int64]) -> Floats:
        """Return the weight of some bags' terms up to each of their bounds: (K, L)."""
        sums = np.repeat(self._total[rows, None], bound.shape[1], axis=1)
        start = rows.indices(len(self._total))[0]
        for row in np.flatnonzero((bound < self._largest[rows, None]).any(axis=1)).tolist():
            places = np.searchsorted(self._terms[start + row], bound[row], side="right")
            sums[row] = self._running[start + row][places]
        return sums


def _compare_numbers(ours: _Side, theirs: _Side) -> tuple[Floats, Floats]:
    """Compare how numbers are distributed (by the greatest difference of shares below a point) and their magnitude."""
    share = _FACT["quantities"]
    weight = np.minimum(ours.facts[:, share, None], theirs.facts[None, :, share])
    apart = np.ones(weight.shape)
    # Columns without a number weigh nothing; comparing distributions is what takes time here.
    if len(ours.numbers) and len(theirs.numbers):
        apart[np.ix_(ours.numbers, theirs.numbers)] = cdist(ours.spread, theirs.spread, "chebyshev")
    steps = cdist(ours.logs, theirs.logs, "cityblock") / len(LEVELS)
    return weight * (1 - apart), weight * np.exp(-steps)


def _spread(quantiles: Floats, grid: Floats) -> Floats:
    """Return the share of each column's numbers up to each point of the grid: (K, G)."""
    shares = np.zeros((len(quantiles), len(grid)))
    for number, levels in enumerate(quantiles):
        # Ties are spread by a hair: interpolation needs rising points.
        shares[number] = np.interp(grid, levels + np.arange(len(LEVELS)) * 1e-9 * (1 + np.abs(levels)), LEVELS)
    return shares
