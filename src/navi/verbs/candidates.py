"""Candidate headers: those of the trained domain, and words that a model puts together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.columns import ColumnProfiles, is_useless

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: K known columns, C candidates, Q columns to name, N masks, V vocabulary.

MAX_FREE_WORDS = 3
"""Tokens of the longest header that a model puts together."""
FREE_TOKENS = 3
"""Single tokens proposed, the likeliest."""
LEAST_LIKELY = -2.0
"""Mean log-likelihood of a word from which it may be part of a free header: each is chosen without the others."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The headers of the trained domain, one for each attribute."""

    attributes: tuple[str, ...]
    """(C,) the attributes, ascending."""
    headers: tuple[str, ...]
    """(C,) each one's header, the one that most tables have."""
    column: Ints
    """Known columns with a header that says something, by candidate."""
    starts: Ints
    """(C,) where each candidate's columns begin in `column`."""
    spellings: tuple[tuple[tuple[int, ...], ...], ...]
    """(C,) the distinct token sequences of each one's headers."""

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def lengths(self) -> set[int]:
        """Numbers of tokens that the headers have."""
        return {len(tokens) for each in self.spellings for tokens in each}

    def find_best(self, score: NDArray[np.floating]) -> tuple[Floats, Ints]:
        """Return each candidate's best score over its known columns, and which column gives it: (Q, C) twice."""
        sorted_score = score[:, self.column]
        best: Floats = np.maximum.reduceat(sorted_score, self.starts, axis=1).astype(np.float64)
        sizes = np.diff(np.append(self.starts, len(self.column)))
        hit = sorted_score == np.repeat(best, sizes, axis=1)
        # Of equal columns the first counts: places run from high to low, so the maximum is the first hit.
        places = np.where(hit, len(self.column) - np.arange(len(self.column)), 0)
        first = len(self.column) - np.maximum.reduceat(places, self.starts, axis=1)
        return best, self.column[first]

    def measure_likelihood(self, tokens: Mapping[int, NDArray[np.float32]]) -> Floats:
        """Return each candidate's log-likelihood, that of its likeliest spelling: (Q, C).

        `tokens` has (Q, N, V) for some numbers of masks N; a candidate that is longer than all gets the row's median.
        """
        num_columns = len(next(iter(tokens.values())))
        found = np.full((num_columns, len(self)), -np.inf)
        for place, spellings in enumerate(self.spellings):
            for spelling in spellings:
                if len(spelling) in tokens:
                    likelihood = tokens[len(spelling)][:, np.arange(len(spelling)), spelling].sum(axis=1)
                    found[:, place] = np.maximum(found[:, place], likelihood)
        known = np.isfinite(found[0])
        found[:, ~known] = np.median(found[:, known], axis=1, keepdims=True) if known.any() else 0.0
        return found


def list_candidates(known: ColumnProfiles, tokenizer: Tokenizer) -> Candidates:
    """Return the candidates that known columns give; headers that say nothing are none."""
    useful = np.array([place for place, header in enumerate(known.headers) if not is_useless(header)], np.int64)
    attributes, attribute = np.unique([known.attributes[place] for place in useful], return_inverse=True)
    order = np.argsort(attribute, kind="stable")
    column = useful[order]
    starts = np.searchsorted(attribute[order], np.arange(len(attributes)))
    headers, spellings = [], []
    for group in np.split(column, starts[1:]):
        counted = Counter(known.headers[place] for place in group.tolist())
        headers.append(counted.most_common(1)[0][0])
        encoded = tokenizer.encode_batch(sorted(counted), add_special_tokens=False)
        spellings.append(tuple(sorted({tuple(each.ids) for each in encoded if each.ids})))
    return Candidates(
        attributes=tuple(attributes.tolist()),
        headers=tuple(headers),
        column=column,
        starts=starts.astype(np.int64),
        spellings=tuple(spellings),
    )


def list_words(tokenizer: Tokenizer) -> tuple[tuple[str, ...], Ints]:
    """Return the tokens of a vocabulary that are whole words of letters, and their numbers."""
    vocabulary = tokenizer.get_vocab()
    words = sorted(word for word in vocabulary if len(word) > 1 and word.isalpha())
    return tuple(words), np.array([vocabulary[word] for word in words], np.int64)


def spell_free(
    tokens: Mapping[int, NDArray[np.float32]], words: tuple[Sequence[str], Ints], known: Collection[str]
) -> list[tuple[str, float]]:
    """Return headers that are not known, with their log-likelihoods, put together from the likeliest words.

    `tokens` has (N, V) for some numbers of masks N; `words` are those allowed, and their tokens. No word comes twice.
    """
    texts, numbers = words
    spelled: dict[str, float] = {}
    for length, table in tokens.items():
        if length > MAX_FREE_WORDS or not texts:
            continue
        allowed = table[:, numbers]
        for rank in range(min(FREE_TOKENS, len(texts)) if length == 1 else 1):
            chosen = np.argsort(-allowed, axis=1)[:, rank]
            text = " ".join(texts[place] for place in chosen)
            likelihood = float(allowed[np.arange(length), chosen].sum())
            distinct = len(set(chosen.tolist())) == length
            if distinct and likelihood >= LEAST_LIKELY * length and text not in known and not is_useless(text):
                spelled.setdefault(text, likelihood)
    return sorted(spelled.items(), key=lambda each: -each[1])
