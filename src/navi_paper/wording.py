"""Other headers for some columns: synonyms that people wrote down, and slips of the pen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.corpus import canonicalise
from navi.randomness import fold, make_key, order_keys

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns.

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SYNONYMS, _TYPOS, _EDITS = range(3)
_BITS = (1 << 64) - 1
"""Makes a key unsigned, so that its remainders are those of its bits."""


def draw_synonyms(
    corpus: Corpus,
    synonyms: Mapping[str, Sequence[str]],
    eligible_K: NDArray[np.bool_],
    *,
    share: float = 0.5,
    seed: int = 0,
) -> dict[int, str]:
    """Return unseen synonyms for a share of the eligible columns, or for as many of them as have any.

    A synonym belongs to a header by its canonical words, so that of `release_year` serves `Release Year` too. One that
    the corpus has, or another column of the table got, is not taken.
    """
    known = {canonicalise(header): tuple(others) for header, others in synonyms.items()}
    taken = {canonicalise(header) for header in corpus.headers.to_pylist()}
    headers = _list_headers(corpus)
    used: set[tuple[int, str]] = set()
    drawn: dict[int, str] = {}
    limit = _count(eligible_K, share)
    for column, key in _shuffle(eligible_K, seed, _SYNONYMS):
        table = int(corpus.arrays.column_table[column])
        others = [
            other
            for other in known.get(canonicalise(headers[column]), ())
            if canonicalise(other) not in taken and (table, other) not in used
        ]
        if others and len(drawn) < limit:
            drawn[column] = others[key % len(others)]
            used.add((table, drawn[column]))
    return drawn


def draw_typos(corpus: Corpus, eligible_K: NDArray[np.bool_], *, share: float = 0.5, seed: int = 0) -> dict[int, str]:
    """Return misspelled headers, each one or two edits away, for a share of the eligible columns."""
    headers = _list_headers(corpus)
    taken = {canonicalise(header) for header in corpus.headers.to_pylist()}
    limit = _count(eligible_K, share)
    chosen = list(_shuffle(eligible_K, seed, _TYPOS))[:limit]
    return {column: misspell(headers[column], key, taken) for column, key in chosen}


def misspell(text: str, key: int, taken: set[str]) -> str:
    """Return a text one or two edits away whose canonical words are not among those taken; the key decides which.

    An edit drops, doubles or replaces a letter, or swaps it with the next.
    """
    taken = taken | {canonicalise(text), ""}
    draws = _draw(key)
    while True:
        found = text
        for _ in range(1 + next(draws) % 2):
            found = _edit(found, next(draws) % 4, next(draws), next(draws))
        if canonicalise(found) not in taken:
            return found


def _edit(text: str, kind: int, where: int, what: int) -> str:
    place = where % len(text) if text else 0
    before, letter, after = text[:place], text[place : place + 1], text[place + 1 :]
    if kind == 0:
        return before + after
    if kind == 1:
        return before + letter + letter + after
    if kind == 2:
        return before + LETTERS[what % len(LETTERS)] + after
    return before + after[:1] + letter + after[1:]


def _draw(key: int) -> Iterator[int]:
    """Yield numbers without end that the key decides."""
    stream = make_key(key, _EDITS)
    count = 0
    while True:
        yield int(fold(stream, np.array([count]))[0]) & _BITS
        count += 1


def _list_headers(corpus: Corpus) -> list[str]:
    """Return the header of each column."""
    headers: list[str] = corpus.headers.take(np.asarray(corpus.arrays.column_header)).to_pylist()
    return headers


def _count(eligible_K: NDArray[np.bool_], share: float) -> int:
    return int(np.ceil(share * eligible_K.sum()))


def _shuffle(eligible_K: NDArray[np.bool_], seed: int, purpose: int) -> Iterator[tuple[int, int]]:
    """Yield the eligible columns in an order that the seed decides, each with a key of its own."""
    columns = np.flatnonzero(eligible_K)
    keys = fold(make_key(seed, purpose), columns)
    for place in np.argsort(order_keys(keys), kind="stable"):
        yield int(columns[place]), int(keys[place]) & _BITS
