"""The words that rows share, weighed by how rare they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_texts
from navi.verbs.pool import Floats, Ints

# Shape suffixes: R rows, W distinct words, P pairs of a row and a word.

Words = NDArray[np.uint64]
"""Words as hashes of their texts."""
MAX_SHARE = 0.1
"""In a large index, words in a larger share of the rows than this are passed over: they tell next to nothing."""
LARGE = 100_000


def list_words(encoded: Encoded) -> tuple[Ints, Words]:
    """Return the distinct words of each row's values: (P,) the rows, ascending, and the words.

    A word is a run of letters or of digits, without case and accents, of the value's whole text.
    """
    arrays = encoded.arrays
    offsets, words = split_words(encoded.values)
    vocabulary, code = np.unique(words, return_inverse=True)
    lengths, places = gather_ranges(offsets, arrays.segment_value[arrays.row_segments])
    row = np.repeat(np.repeat(np.arange(arrays.num_rows), np.diff(arrays.row_offsets)), lengths)
    pairs = np.unique(row * max(len(vocabulary), 1) + code[places])
    return pairs // max(len(vocabulary), 1), vocabulary[pairs % max(len(vocabulary), 1)]


def split_words(texts: pa.LargeStringArray) -> tuple[Ints, Words]:
    """Return the words of all texts, one after the other, and where each text's begin."""
    plain = pc.utf8_lower(pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKD"), r"\p{M}", ""))
    spaced = pc.replace_substring_regex(plain, r"(\p{N}+)", r" \1 ")
    lists = pc.split_pattern_regex(spaced, r"[^\p{L}\p{N}]+")
    flat = pc.list_flatten(lists).dictionary_encode()
    code, hashes = np.asarray(flat.indices), hash_texts(flat.dictionary.to_pylist())
    text = np.asarray(pc.list_parent_indices(lists))
    is_word = np.asarray(pc.greater(pc.binary_length(flat.dictionary), 0))[code]
    counts = np.bincount(text[is_word], minlength=len(texts))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), hashes[code[is_word]]


def weigh(num_rows: int, rows_with_word: Ints) -> Floats:
    """Return the weight of words that so many of the rows have: 0 if every row has one, the more the rarer it is."""
    return np.log((1 + num_rows) / (1 + rows_with_word)).astype(np.float32)


@dataclass(frozen=True)
class WordIndex:
    """For each word, the rows whose values have it."""

    words: Words
    """(W,) the words, ascending."""
    offsets: Ints
    """(W + 1,) where each word's rows begin."""
    rows: NDArray[np.int32]
    """(P,) the rows of each word, ascending, word after word."""
    num_rows: int
    """Rows in all."""

    @classmethod
    def build(cls, rows: NDArray[np.int32], words: Words, num_rows: int) -> Self:
        """Return the index of pairs of a row and a word, each pair once, sorted by row."""
        vocabulary, counts = np.unique(words, return_counts=True)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(vocabulary, offsets, rows[np.argsort(words, kind="stable")].astype(np.int32), num_rows)

    def share(self, words: Words) -> Floats:
        """Return (R,): how much of the weight of some distinct words each row has, from 0 to 1.

        Words that no row has weigh most, and count against every row.
        """
        place = np.minimum(np.searchsorted(self.words, words), max(len(self.words) - 1, 0))
        place = place[self.words[place] == words]
        counts = self.offsets[place + 1] - self.offsets[place]
        weights = weigh(self.num_rows, counts)
        total = float(weights.sum() + (len(words) - len(place)) * weigh(self.num_rows, np.zeros(1, np.int64))[0])
        shared = np.zeros(self.num_rows, np.float32)
        few = counts <= (MAX_SHARE if self.num_rows > LARGE else 1) * self.num_rows
        for begin, count, weight in zip(self.offsets[place][few], counts[few], weights[few], strict=True):
            shared[self.rows[begin : begin + count]] += weight / total if total else 0
        return np.minimum(shared, 1)
