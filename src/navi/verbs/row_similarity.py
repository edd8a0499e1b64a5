"""What makes two rows alike: vectors in a whitened space, and the words that both have, rare ones weighing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_texts, inverse_document_frequency
from navi.model.runner import Floats, Ints
from navi.verbs.embed import normalize_rows

# Shape suffixes: R rows, D hidden size, W distinct words, P pairs of a row and a word.

Words = NDArray[np.uint64]
"""Words as hashes of their texts."""
FIT_ROWS = 20_000
"""Rows that a whitening is fitted on, at most."""
LEAST_VARIANCE = 1e-2
"""Least variance of a direction, as a share of the largest: below it, whitening would amplify noise."""
WORDS_WORTH = 3
"""How much more a shared word says of two rows than vectors that are as far beyond their noise."""
USUAL_WEIGHT, USUAL_PAIRS = 0.25, 1000
"""What similarity weighs if nothing is known, and how many pairs of rows it takes to know as much."""
MAX_SHARE, LARGE = 0.1, 100_000
"""In an index of more than so many rows, words that a larger share of them has are passed over: it saves time."""


@dataclass(frozen=True)
class Whitening:
    """Centres, whitens and scales vectors to length 1, so that their inner product is a similarity.

    All rows of a domain look alike to an encoder: without whitening, what they share outweighs what tells them apart.
    """

    mean: Floats
    """(D,) what all rows share."""
    directions: Floats
    """(D, D) from centred vectors to directions of equal variance."""

    @classmethod
    def fit(cls, vectors_RD: Floats) -> Self:
        """Return the whitening of some rows, or of a sample of them."""
        if len(vectors_RD) > FIT_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(len(vectors_RD), FIT_ROWS, replace=False))
            vectors_RD = vectors_RD[chosen]
        mean = vectors_RD.mean(axis=0, dtype=np.float64)
        centred = vectors_RD - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
        least = max(LEAST_VARIANCE * variances[-1], np.finfo(np.float32).tiny)
        directions = directions / np.sqrt(np.maximum(variances, least))
        return cls(mean.astype(np.float32), directions.astype(np.float32))

    def transform(self, vectors_RD: Floats) -> Floats:
        """Return (R, D): unit vectors; of a vector that is the mean, zeros."""
        whitened: Floats = ((vectors_RD - self.mean) @ self.directions).astype(np.float32)
        return normalize_rows(whitened)


def weigh_similarity(similarity: Floats, overlap: Floats) -> float:
    """Return what the similarity of vectors should weigh beside the overlap of words, from 0 to 1.

    Both are given for many pairs of rows, of which next to none belong together: what they spread is noise, and each
    counts the more the less it has of it. A few pairs say little: then it is the usual weight.
    """
    noise, other = WORDS_WORTH * float(np.std(similarity)), float(np.std(overlap))
    measured = other / (noise + other) if noise + other > 0 else USUAL_WEIGHT
    return (measured * similarity.size + USUAL_WEIGHT * USUAL_PAIRS) / (similarity.size + USUAL_PAIRS)


def list_words(encoded: Encoded) -> tuple[Ints, Words]:
    """Return the distinct words of each row's values: (P,) the rows, ascending, and the words.

    A word is a run of letters or of digits, without case and accents, of the value's whole text.
    """
    arrays = encoded.arrays
    offsets, words = _split_words(encoded.values)
    vocabulary, code = np.unique(words, return_inverse=True)
    lengths, places = gather_ranges(offsets, arrays.segment_value[arrays.row_segments])
    size = max(len(vocabulary), 1)
    pairs = np.unique(np.repeat(arrays.cell_row, lengths) * size + code[places])
    return pairs // size, vocabulary[pairs % size]


def _split_words(texts: pa.LargeStringArray) -> tuple[Ints, Words]:
    """Return the words of all texts, one after the other, and where each text's begin."""
    plain = pc.utf8_lower(pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKD"), r"\p{M}", ""))
    spaced = pc.replace_substring_regex(plain, r"(\p{N}+)", r" \1 ")
    lists = pc.split_pattern_regex(spaced, r"[^\p{L}\p{N}]+")
    flat = pc.list_flatten(lists).dictionary_encode()
    code, hashes = np.asarray(flat.indices), hash_texts(flat.dictionary.to_pylist())
    is_word = np.asarray(pc.greater(pc.binary_length(flat.dictionary), 0))[code]
    counts = np.bincount(np.asarray(pc.list_parent_indices(lists))[is_word], minlength=len(texts))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), hashes[code[is_word]]


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

    def measure_overlap(self, words: Words) -> Floats:
        """Return (R,): how much of the weight of some distinct words each row has, from 0 to 1.

        Words that no row has weigh most, and count against every row.
        """
        begin, end = (self.offsets[np.searchsorted(self.words, words, side)] for side in ("left", "right"))
        counts = end - begin
        weights = inverse_document_frequency(self.num_rows, counts)
        shares = weights / max(float(weights.sum()), 1e-9)
        shared = np.zeros(self.num_rows, np.float32)
        few = counts <= (MAX_SHARE if self.num_rows > LARGE else 1) * self.num_rows
        for first, last, share in zip(begin[few], end[few], shares[few], strict=True):
            shared[self.rows[first:last]] += share
        return np.minimum(shared, 1)
