"""Bags of hashed terms, one a column: the values, words or trigrams that it holds, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import gather_ranges

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Shape suffixes: K columns, L other columns, N terms of all columns, V distinct terms.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SMOOTHING = 5.0
"""Added to what two bags could share, in weights of terms: little shared is little evidence."""


@dataclass(frozen=True, kw_only=True)
class Bags:
    """The terms of K columns as flat arrays; those of column k are `terms[offsets[k]:offsets[k + 1]]`, ascending."""

    offsets: Ints
    """(K + 1,) where each column's terms begin."""
    terms: NDArray[np.uint64]
    """(N,) hash of each term."""
    shares: NDArray[np.float32]
    """(N,) share of the column's cells that hold the term."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """(K,) number of terms of each column."""
        return np.diff(self.offsets)

    def take(self, columns: Ints) -> Bags:
        """Return the bags of some columns."""
        lengths, places = gather_ranges(self.offsets, columns)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Bags(offsets=offsets, terms=self.terms[places], shares=self.shares[places])


def make_bags(column: Ints, term: NDArray[np.uint64], cells_K: Ints, *, limit: int, sampled: bool = False) -> Bags:
    """Return bags of at most `limit` terms a column from one (column, term) for each cell and each term in it.

    The terms kept are the most frequent or, with `sampled`, those of smallest hash: the same sample of the terms in
    every column, so that the overlap of two columns can be told from it.
    """
    if len(column) == 0:
        return empty_bags(len(cells_K))
    order = np.lexsort((term, column))
    column, term = column[order], term[order]
    first = np.flatnonzero(np.r_[True, (column[1:] != column[:-1]) | (term[1:] != term[:-1])])
    count = np.diff(np.r_[first, len(column)])
    column, term = column[first], term[first]
    ranked = np.lexsort((term, column)) if sampled else np.lexsort((term, -count, column))
    begins = np.searchsorted(column, np.arange(len(cells_K)))
    rank = np.arange(len(column)) - begins[column]
    kept = np.sort(ranked[rank < limit])
    sizes = np.bincount(column[kept], minlength=len(cells_K))
    return Bags(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        terms=term[kept],
        shares=(count[kept] / np.maximum(cells_K[column[kept]], 1)).astype(np.float32),
    )


def empty_bags(num_columns: int) -> Bags:
    """Return bags with nothing in them."""
    return Bags(
        offsets=np.zeros(num_columns + 1, np.int64), terms=np.zeros(0, np.uint64), shares=np.zeros(0, np.float32)
    )


def join_bags(parts: Sequence[Bags]) -> Bags:
    """Return the bags of all parts, one part after another."""
    sizes = np.concatenate([part.sizes for part in parts])
    return Bags(
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        terms=np.concatenate([part.terms for part in parts]),
        shares=np.concatenate([part.shares for part in parts]),
    )


class TermWeights:
    """How much each term says: the fewer columns hold it, the more (inverse document frequency)."""

    def __init__(self, parts: Sequence[Bags]) -> None:
        self._terms, frequency = np.unique(np.concatenate([part.terms for part in parts]), return_counts=True)
        self._num_columns = sum(len(part) for part in parts)
        self._weights = np.log((1 + self._num_columns) / (1 + frequency)) + 1.0

    def find(self, terms: NDArray[np.uint64]) -> Floats:
        """Return the weight of each term; one that no column holds says most."""
        weights = np.full(len(terms), np.log(1 + self._num_columns) + 1.0)
        if len(self._terms):
            places = np.minimum(np.searchsorted(self._terms, terms), len(self._terms) - 1)
            known = self._terms[places] == terms
            weights[known] = self._weights[places[known]]
        return weights


def compare_bags(first: Bags, second: Bags, weights: TermWeights) -> Floats:
    """Return the weighted cosine of every pair of bags, by the roots of shares: (K, L); 0 where one is empty."""
    ours, theirs = (_normalise(bags, np.sqrt(bags.shares) * weights.find(bags.terms)) for bags in (first, second))
    return _multiply(first, ours, second, theirs)


def _normalise(bags: Bags, entries: Floats) -> Floats:
    owner = np.repeat(np.arange(len(bags)), bags.sizes)
    length = np.sqrt(np.bincount(owner, weights=entries**2, minlength=len(bags)))
    return entries / np.maximum(length[owner], 1e-12)


def _multiply(first: Bags, ours: Floats, second: Bags, theirs: Floats) -> Floats:
    """Return the sum of products over the terms that two bags share, for every pair: (K, L)."""
    shared = np.intersect1d(first.terms, second.terms)
    product: Floats = (_matrix(first, ours, shared) @ _matrix(second, theirs, shared).T).toarray()
    return product


def _matrix(bags: Bags, entries: Floats, vocabulary: NDArray[np.uint64]) -> csr_array:
    from scipy.sparse import csr_array

    kept = np.flatnonzero(np.isin(bags.terms, vocabulary))
    owner = np.repeat(np.arange(len(bags)), bags.sizes)[kept]
    places = np.searchsorted(vocabulary, bags.terms[kept])
    matrix: csr_array = csr_array((entries[kept], (owner, places)), shape=(len(bags), len(vocabulary)))
    return matrix


def measure_overlap(first: Bags, second: Bags, weights: TermWeights, *, limit: int) -> tuple[Floats, Floats]:
    """Return how much of the smaller bag, and of both together, two columns share, for every pair: (K, L) twice.

    A sampled bag holds the terms below some hash; a pair is compared below the smaller of its two bounds, where both
    samples are complete. `SMOOTHING` keeps two flags with the same two values from sharing everything.
    """
    ours, theirs = weights.find(first.terms), weights.find(second.terms)
    common = _multiply(first, np.sqrt(ours), second, np.sqrt(theirs))
    bound = np.minimum(_find_bounds(first, limit)[:, None], _find_bounds(second, limit)[None, :])
    mass_first = _sum_below(ours, first, bound)
    mass_second = _sum_below(theirs, second, bound.T).T
    smaller = np.minimum(mass_first, mass_second)
    union = mass_first + mass_second - common
    return common / (smaller + SMOOTHING), common / (union + SMOOTHING)


def _find_bounds(bags: Bags, limit: int) -> NDArray[np.uint64]:
    """Return the largest hash that each bag is complete up to."""
    bounds = np.full(len(bags), np.iinfo(np.uint64).max, np.uint64)
    full = np.flatnonzero(bags.sizes >= limit)
    bounds[full] = bags.terms[bags.offsets[full + 1] - 1]
    return bounds


def _sum_below(weight: Floats, bags: Bags, bound: NDArray[np.uint64]) -> Floats:
    """Return the weight of each bag's terms up to each of its bounds: (K, L)."""
    sums = np.zeros(bound.shape)
    for number, (start, end) in enumerate(zip(bags.offsets[:-1], bags.offsets[1:], strict=True)):
        running = np.r_[0.0, np.cumsum(weight[start:end])]
        sums[number] = running[np.searchsorted(bags.terms[start:end], bound[number], side="right")]
    return sums
