"""Features of a pair of columns: what speaks for the same meaning, by their headers and by their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from navi.columns.headers import find_stem, split_header
from navi.columns.profiles import BAGS, FACTS, LEVELS, SHAPES, ColumnProfiles
from navi.columns.quantities import KINDS
from navi.corpus.hashing import inverse_document_frequency

# Shape suffixes: K columns, L other columns, E features, G points of a grid.

HEADER_FEATURES = ("header_words", "header_grams", "attribute", "header_state", "together")
"""What is compared of headers: words and trigrams, the attribute out of context, the header in its rows; and, from -1
to 0, whether both stand side by side in one table, which headers of the same meaning seldom do."""
VALUE_FEATURES = (
    "contained", "shared", "frequent", "words", "grams", "numbers", "scale", "kind", "shape", "length", "lists",
    "diversity", "blind_header", "blind_value",
)  # fmt: skip
"""What is compared of values: overlaps of them, of their words and trigrams, ranges of numbers, looks, blind states."""
FEATURES = (*HEADER_FEATURES, *VALUE_FEATURES)
SMOOTHING = 5.0
"""Added to what two bags could share, in weights of terms: two flags with the same two values share little."""
SAME_SHARE = 0.1
"""How much less often headers of the same meaning stand in one table than chance would have it."""
RIVAL_LIMIT = 4.0
"""Logarithm of odds that standing in one table speaks against the same meaning with, at most."""
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
_FACT = {name: place for place, name in enumerate(FACTS)}


def measure_features(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> NDArray[np.float32]:
    """Return every feature of every pair of columns, mostly between 0 and 1: (E, K, L).

    Nothing known of a column, its header or its values, gives 0 where likeness is measured.
    """
    found = _compare_states(first, second, background) | _compare_numbers(first, second, background)
    for name in BAGS:
        if name == "items":
            overlap = measure_overlap(first.bags[name], second.bags[name], background.weights[name], BAGS[name])
            found["contained"], found["shared"] = overlap
        else:
            found[name] = compare_bags(first.bags[name], second.bags[name], background.weights[name])
    for name, (rate, facts) in FACT_GROUPS.items():
        places = [_FACT[fact] for fact in facts]
        found[name] = np.exp(-rate * cdist(first.facts[:, places], second.facts[:, places], "cityblock"))
    found["together"] = background.rivals.compare(first.headers, second.headers)
    return np.stack([found[name].astype(np.float32) for name in FEATURES])


class Background:
    """What all columns have in common, so that it does not count for a pair: frequent terms, the mean state."""

    def __init__(self, parts: Sequence[ColumnProfiles]) -> None:
        self.weights = {name: TermWeights([part.bags[name] for part in parts]) for name in BAGS}
        self.centres = {
            name: np.concatenate([part.states[name] for part in parts]).mean(axis=0) for name in parts[0].states
        }
        self.rivals = Rivals(parts)
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


class Rivals:
    """Which headers stand side by side in one table, and how much that speaks against the same meaning.

    If two headers meant different things and met by chance, they would share so many tables; if they meant the same,
    `SAME_SHARE` of that. What the tables shared say is the logarithm of the ratio of both probabilities (Poisson).
    """

    def __init__(self, parts: Sequence[ColumnProfiles]) -> None:
        pairs = {
            (table, find_stem(header))
            for part in parts
            for table, header in zip(part.tables, part.headers, strict=True)
        }
        tables, table = np.unique([table for table, _ in pairs], return_inverse=True)
        stems, stem = np.unique([stem for _, stem in pairs], return_inverse=True)
        self._place = {text: place for place, text in enumerate(stems.tolist())}
        held = csr_array((np.ones(len(table)), (table, stem)), shape=(len(tables), len(stems)))
        met = (held.T @ held).tocoo()
        count: Floats = held.sum(axis=0)
        chance = count[met.coords[0]] * count[met.coords[1]] / max(len(tables), 1)
        ratio = met.data * np.log(SAME_SHARE) + (1 - SAME_SHARE) * chance
        ratio = np.clip(ratio / RIVAL_LIMIT, -1, 0) * (met.coords[0] != met.coords[1])
        self._ratio = csr_array((ratio, met.coords), shape=(len(stems), len(stems)))

    def compare(self, first: Sequence[str], second: Sequence[str]) -> Floats:
        """Return from -1 to 0 how much sharing tables speaks against the same meaning, for every pair: (K, L)."""
        ours, theirs = ([self._place.get(find_stem(header), -1) for header in each] for each in (first, second))
        known = np.outer(np.array(ours) >= 0, np.array(theirs) >= 0)
        ratio: Floats = self._ratio[ours][:, theirs].toarray() * known
        return ratio


def _compare_numbers(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    """Compare how numbers are distributed (by the greatest difference of shares below a point) and their magnitude."""
    share = _FACT["quantities"]
    weight = np.minimum(first.facts[:, share, None], second.facts[None, :, share])
    ours, theirs = (_spread(part.quantiles, background.grid) for part in (first, second))
    apart = cdist(ours, theirs, "chebyshev") if len(background.grid) else np.ones(weight.shape)
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


def _compare_states(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    """Return the cosines of states of every pair, the mean state taken away; 0 where one is not known."""
    found = dict.fromkeys(("attribute", "header", "blind_header", "blind_value"), np.zeros((len(first), len(second))))
    for name, centre in background.centres.items():
        ours, theirs = (_centre(part.states[name], centre) for part in (first, second))
        found[name] = ours @ theirs.T
    # Headers of the same words are one attribute, whatever a model makes of their signs.
    texts = [" ".join(split_header(header)) for header in (*first.headers, *second.headers)]
    code = np.unique([text or f"\0{number}" for number, text in enumerate(texts)], return_inverse=True)[1]
    alike = code[: len(first), None] == code[None, len(first) :]
    attribute = np.where(alike, 1.0, found["attribute"])
    # A header that was never read in a row is compared out of context.
    read = [np.any(part.states.get("header", np.zeros((len(part), 1))) != 0, axis=1) for part in (first, second)]
    header_state = np.where(np.outer(*read), found["header"], attribute)
    return {**found, "attribute": attribute, "header_state": header_state}


def _centre(state: NDArray[np.float32], centre: NDArray[np.float32]) -> Floats:
    """Return states of length 1 with the mean taken away; a column without a state keeps zeros."""
    known = np.any(state != 0, axis=1, keepdims=True)
    moved = np.where(known, state - centre, 0.0).astype(np.float64)
    length = np.linalg.norm(moved, axis=1, keepdims=True)
    centred: Floats = moved / np.maximum(length, 1e-9)
    return centred
