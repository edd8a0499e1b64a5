"""Evidence that two columns mean the same: what their headers say, and what their values say, for every pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.columns.bags import Bags, TermWeights, compare_bags, make_bags, measure_overlap
from navi.columns.columns import ColumnProfiles
from navi.columns.quantities import KINDS
from navi.columns.sketches import BAGS, FACTS, LEVELS, NUM_ITEMS, SHAPES
from navi.columns.spelling import spell_words
from navi.columns.states import STATES
from navi.corpus import canonicalise
from navi.corpus.hashing import hash_texts

# Shape suffixes: K columns, L other columns, E kinds of evidence, G points of a grid.

HEADER_EVIDENCE = ("header_words", "header_grams", "attribute", "header_state", "together")
"""What is compared of headers: words and trigrams, the attribute out of context, the header in its rows; and, from -1
to 0, whether both stand side by side in one table, which headers of the same meaning seldom do."""
VALUE_EVIDENCE = (
    "contained",
    "shared",
    "frequent",
    "words",
    "grams",
    "numbers",
    "scale",
    "kind",
    "shape",
    "length",
    "lists",
    "diversity",
    "blind_header",
    "blind_value",
)
"""What is compared of values: overlaps of them, of their words and trigrams, ranges of numbers, looks, blind states."""
EVIDENCE = (*HEADER_EVIDENCE, *VALUE_EVIDENCE)
SAME_SHARE = 0.1
"""How much less often headers of the same meaning stand in one table than chance would have it."""
RIVAL_LIMIT = 4.0
"""Logarithm of odds that standing in one table speaks against the same meaning with, at most."""
MAX_GRID = 1024
"""Points at which the distributions of numbers are compared, at most."""

Floats = NDArray[np.float64]
_FACT = {name: place for place, name in enumerate(FACTS)}


@dataclass(frozen=True, kw_only=True)
class HeaderBags:
    """The headers of K columns as bags of words and of trigrams."""

    words: Bags
    grams: Bags


def bag_headers(headers: Sequence[str]) -> HeaderBags:
    """Return the words and trigrams of each header, spelled alike."""
    words = [spell_words(header) for header in headers]
    texts = [" ".join(each) for each in words]
    grams = [[f" {text} "[place : place + 3] for place in range(len(text))] for text in texts]
    return HeaderBags(words=_bag(words), grams=_bag(grams))


def _bag(lists: Sequence[Sequence[str]]) -> Bags:
    owner = np.repeat(np.arange(len(lists)), [len(members) for members in lists])
    terms = hash_texts([term for members in lists for term in members])
    return make_bags(owner, terms, np.ones(len(lists), np.int64), limit=64)


def find_stem(header: str) -> str:
    """Return a header made canonical and without numbers: the same for all members of a list.

    >>> find_stem("actor_1_name"), find_stem("cast.0"), find_stem("star2")
    ('actor name', 'cast', 'star')
    """
    return " ".join(re.sub(r"\d+", " ", canonicalise(header)).split())


class Rivals:
    """Which headers stand side by side in one table, and how much that speaks against the same meaning.

    If two headers meant different things and met by chance, they would share so many tables; if they meant the same,
    `SAME_SHARE` of that. What the tables shared say is the logarithm of the ratio of both probabilities (Poisson).
    """

    def __init__(self, parts: Sequence[ColumnProfiles]) -> None:
        from scipy.sparse import csr_array

        pairs = {(table, find_stem(header)) for part in parts for table, header in _list_columns(part)}
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


def _list_columns(profiles: ColumnProfiles) -> Iterator[tuple[str, str]]:
    return zip(profiles.tables, profiles.headers, strict=True)


class Background:
    """What all columns have in common, so that it does not count as evidence: frequent terms, the mean state."""

    def __init__(self, parts: Sequence[ColumnProfiles]) -> None:
        self.weights = {name: TermWeights([getattr(part.sketches, name) for part in parts]) for name in BAGS}
        headers = [bag_headers(part.headers) for part in parts]
        self.weights["header_words"] = TermWeights([each.words for each in headers])
        self.weights["header_grams"] = TermWeights([each.grams for each in headers])
        shared = [name for name in STATES if all(name in part.states for part in parts)]
        self.centres = {name: np.concatenate([part.states[name] for part in parts]).mean(axis=0) for name in shared}
        self.rivals = Rivals(parts)
        numbers = np.concatenate([part.sketches.quantiles.ravel() for part in parts])
        numbers = np.unique(numbers[~np.isnan(numbers)])
        steps = np.linspace(0, max(len(numbers) - 1, 0), min(MAX_GRID, len(numbers))).astype(np.int64)
        self.grid = numbers[steps]


def measure_evidence(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> NDArray[np.float32]:
    """Return every kind of evidence for every pair of columns, mostly between 0 and 1: (E, K, L).

    Nothing known of a column, its header or its values, gives 0 where likeness is measured.
    """
    found = (
        _compare_headers(first, second, background)
        | _compare_bags(first, second, background)
        | _compare_numbers(first, second, background)
        | _compare_facts(first, second)
        | _compare_states(first, second, background)
    )
    return np.stack([found[name].astype(np.float32) for name in EVIDENCE])


def _compare_headers(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    ours, theirs = bag_headers(first.headers), bag_headers(second.headers)
    return {
        "header_words": compare_bags(ours.words, theirs.words, background.weights["header_words"]),
        "header_grams": compare_bags(ours.grams, theirs.grams, background.weights["header_grams"]),
        "together": background.rivals.compare(first.headers, second.headers),
    }


def _compare_bags(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    ours, theirs, weights = first.sketches, second.sketches, background.weights
    contained, shared = measure_overlap(ours.items, theirs.items, weights["items"], limit=NUM_ITEMS)
    found = {"contained": contained, "shared": shared}
    for name in ("frequent", "words", "grams"):
        found[name] = compare_bags(getattr(ours, name), getattr(theirs, name), weights[name])
    return found


def _compare_numbers(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    """Compare how numbers are distributed (by the greatest difference of shares below a point) and their magnitude."""
    from scipy.spatial.distance import cdist

    share = _FACT["quantities"]
    weight = np.minimum(first.sketches.facts[:, share, None], second.sketches.facts[None, :, share])
    ours, theirs = (_spread(part.sketches.quantiles, background.grid) for part in (first, second))
    apart = cdist(ours, theirs, "chebyshev") if len(background.grid) else np.ones(weight.shape)
    logs = [np.arcsinh(np.nan_to_num(part.sketches.quantiles)) for part in (first, second)]
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


def _compare_facts(first: ColumnProfiles, second: ColumnProfiles) -> dict[str, Floats]:
    from scipy.spatial.distance import cdist

    def difference(names: Sequence[str]) -> Floats:
        places = [_FACT[name] for name in names]
        apart: Floats = cdist(first.sketches.facts[:, places], second.sketches.facts[:, places], "cityblock")
        return apart

    return {
        "kind": np.exp(-difference([*KINDS, "quantities", "whole", "years"])),
        "shape": np.exp(-2 * difference(list(SHAPES))),
        "length": np.exp(-difference(["characters", "words"])),
        "lists": np.exp(-difference(["items"])),
        "diversity": np.exp(-2 * difference(["distinct", "entropy"])),
    }


def _compare_states(first: ColumnProfiles, second: ColumnProfiles, background: Background) -> dict[str, Floats]:
    found = {name: _compare_state(first, second, background, name) for name in STATES if name != "value"}
    found["header_state"] = found.pop("header")
    found["attribute"][_are_spelled_alike(first, second)] = 1.0
    # A header that was never read in a row is compared out of context.
    unread = ~np.outer(_have_state(first, "header"), _have_state(second, "header"))
    found["header_state"][unread] = found["attribute"][unread]
    return found


def _are_spelled_alike(first: ColumnProfiles, second: ColumnProfiles) -> NDArray[np.bool_]:
    """Tell which headers have the same words in the same order, so that a model's view of signs has no part: (K, L)."""
    texts = [[" ".join(spell_words(header)) for header in part.headers] for part in (first, second)]
    numbers = np.unique(np.array([*texts[0], *texts[1]], dtype=object), return_inverse=True)[1]
    ours, theirs = numbers[: len(first)], numbers[len(first) :]
    has_words = np.array([bool(text) for text in texts[0]], np.bool_)
    alike: NDArray[np.bool_] = (ours[:, None] == theirs[None, :]) & has_words[:, None]
    return alike


def _compare_state(first: ColumnProfiles, second: ColumnProfiles, background: Background, name: str) -> Floats:
    """Return the cosine of a state of every pair, the mean state taken away; 0 where one is not known."""
    if name not in background.centres:
        return np.zeros((len(first), len(second)))
    ours, theirs = (_centre(part.states[name], background.centres[name]) for part in (first, second))
    return ours @ theirs.T


def _have_state(profiles: ColumnProfiles, name: str) -> NDArray[np.bool_]:
    state = profiles.states.get(name)
    return np.zeros(len(profiles), np.bool_) if state is None else np.any(state != 0, axis=1)


def _centre(state: NDArray[np.float32], centre: NDArray[np.float32]) -> Floats:
    """Return states of length 1 with the mean taken away; a column without a state keeps zeros."""
    known = np.any(state != 0, axis=1, keepdims=True)
    moved = np.where(known, state - centre, 0.0).astype(np.float64)
    length = np.linalg.norm(moved, axis=1, keepdims=True)
    centred: Floats = moved / np.maximum(length, 1e-9)
    return centred
