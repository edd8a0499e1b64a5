"""The words that rows share, weighed by how rare they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from navi.inference.pool import Floats, Ints

# Shape suffixes: R rows, V vocabulary, P pairs of a row and a word.

MAX_SHARE = 0.1
"""In a large index, words in a larger share of the rows than this are passed over: they tell next to nothing."""
LARGE = 100_000


@dataclass(frozen=True)
class WordIndex:
    """For each word of the vocabulary, the rows whose values have it."""

    offsets: Ints
    """(V + 1,) where each word's rows begin."""
    rows: NDArray[np.int32]
    """(P,) the rows of each word, ascending, word after word."""
    num_rows: int
    """Rows in all."""

    @classmethod
    def build(cls, row_P: Ints, word_P: Ints, num_rows: int, vocabulary_size: int) -> Self:
        """Return the index of pairs of a row and a word, each pair once, sorted by row."""
        order = np.argsort(word_P, kind="stable")
        counts = np.bincount(word_P, minlength=vocabulary_size)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(offsets, row_P[order].astype(np.int32), num_rows)

    @property
    def rarity(self) -> Floats:
        """(V,) weight of each word: 0 if every row has it, the more the rarer it is; one in no row weighs most."""
        rarity: Floats = np.log((1 + self.num_rows) / (1 + np.diff(self.offsets))).astype(np.float32)
        return rarity

    def share(self, words: Ints, rarity: Floats) -> Floats:
        """Return (R,): how much of the weight of these words each row has, from 0 to 1."""
        total = float(rarity[words].sum())
        shared = np.zeros(self.num_rows, np.float32)
        if total == 0:
            return shared
        for word in words:
            rows = self.rows[self.offsets[word] : self.offsets[word + 1]]
            if self.num_rows <= LARGE or len(rows) <= MAX_SHARE * self.num_rows:
                shared[rows] += rarity[word] / total
        return np.minimum(shared, 1)
