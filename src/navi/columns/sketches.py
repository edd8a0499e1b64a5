"""Sketches: what the values of each column look like, in a few kilobytes a column, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.columns.bags import Bags, empty_bags, join_bags, make_bags
from navi.columns.cells import Cells, sample_cells
from navi.columns.quantities import KINDS, parse_quantities
from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_texts

# Shape suffixes: C cells, U distinct values, K columns, Q quantiles, F facts.

MAX_CELLS = 5000
"""Cells of a column whose values are hashed, at most."""
MAX_READ = 500
"""Cells of a column whose text is read for words, trigrams, quantities and shape, at most."""
NUM_ITEMS, NUM_FREQUENT, NUM_WORDS, NUM_GRAMS = 256, 64, 192, 192
"""Terms kept of each bag."""
LEVELS = np.linspace(0.0, 1.0, 21)
"""The quantiles kept of a column's numbers."""
SHAPES = {
    "digits": r"[0-9]",
    "letters": r"\p{L}",
    "capitals": r"\p{Lu}",
    "spaces": r"\s",
    "signs": r"[[:punct:]]",
}
"""Kinds of characters, and the pattern of one."""
FACTS = (*SHAPES, "characters", "words", "items", "distinct", "entropy", "quantities", *KINDS, "whole", "years")
"""What is measured of a column: shares of characters, logarithms of lengths, diversity, shares of quantities."""

Ints = NDArray[np.int64]
_SEPARATORS = r"\s*[,;|/]\s*"
_WORD_BREAKS = r"[^\p{L}\p{N}]+"
_SHORT_NUMBER = r"^[-+]?[0-9.,]{1,6}$"
_HEAD, _GRAM_HEAD, _LONGEST_ITEM = 240, 80, 40
_FIRST_YEAR, _LAST_YEAR = 1850, 2100


@dataclass(frozen=True, kw_only=True)
class Sketches:
    """The sketches of K columns."""

    items: Bags
    """A sample of the values and of the members of lists in them, the same hashes in every column."""
    frequent: Bags
    """The most frequent of these."""
    words: Bags
    """The most frequent words."""
    grams: Bags
    """The most frequent trigrams of bytes."""
    quantiles: NDArray[np.float64]
    """(K, Q) quantiles of the cells that are quantities; NaN where none is."""
    facts: NDArray[np.float32]
    """(K, F) what `FACTS` names."""
    cells: Ints
    """(K,) cells read; 0 where nothing is known of the values."""

    def take(self, columns: Ints) -> Sketches:
        """Return the sketches of some columns."""
        bags = {name: getattr(self, name).take(columns) for name in BAGS}
        return Sketches(**bags, quantiles=self.quantiles[columns], facts=self.facts[columns], cells=self.cells[columns])


BAGS = tuple(field.name for field in fields(Sketches) if field.type == "Bags")
"""Names of the bags in a sketch."""


def join_sketches(parts: Sequence[Sketches]) -> Sketches:
    """Return the sketches of all parts, one part after another."""
    joined: dict[str, Any] = {name: join_bags([getattr(part, name) for part in parts]) for name in BAGS}
    for name in ("quantiles", "facts", "cells"):
        joined[name] = np.concatenate([getattr(part, name) for part in parts])
    return Sketches(**joined)


def empty_sketches(num_columns: int) -> Sketches:
    """Return sketches that know nothing of the values."""
    return Sketches(
        **{name: empty_bags(num_columns) for name in BAGS},
        quantiles=np.full((num_columns, len(LEVELS)), np.nan),
        facts=np.zeros((num_columns, len(FACTS)), np.float32),
        cells=np.zeros(num_columns, np.int64),
    )


def sketch_columns(encoded: Encoded, rows: Ints) -> Sketches:
    """Return the sketch of each column of `encoded`, made from the given rows alone."""
    num_columns = len(encoded.arrays.column_table)
    cells = sample_cells(encoded, rows, MAX_CELLS)
    cells_K = np.bincount(cells.column, minlength=num_columns)
    if len(cells.column) == 0:
        return empty_sketches(num_columns)
    column, items = _list_items(encoded, cells)
    read = _Reading(encoded, cells.keep(MAX_READ), num_columns)
    return Sketches(
        items=make_bags(column, items, cells_K, limit=NUM_ITEMS, sampled=True),
        frequent=make_bags(column, items, cells_K, limit=NUM_FREQUENT),
        words=read.bag_words(),
        grams=read.bag_grams(),
        quantiles=read.measure_quantiles(),
        facts=read.measure_facts(),
        cells=cells_K.astype(np.int64),
    )


def _normalise(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, _HEAD))


def _list_items(encoded: Encoded, cells: Cells) -> tuple[Ints, NDArray[np.uint64]]:
    """Return (column, hash) of each cell's value and of each member of a list in it; short numbers have none."""
    values, place = np.unique(cells.value, return_inverse=True)
    texts = _normalise(encoded.values.take(pa.array(values)))
    members = pc.split_pattern_regex(texts, _SEPARATORS)
    owner = np.repeat(np.arange(len(values)), pc.list_value_length(members).to_numpy(zero_copy_only=False))
    several = pc.list_value_length(members).to_numpy(zero_copy_only=False)[owner] > 1
    parts = members.flatten().filter(pa.array(several))
    owners = np.r_[np.arange(len(values)), owner[several]]
    terms = pc.utf8_trim_whitespace(pa.concat_arrays([texts, parts.cast(texts.type)]))
    length = pc.utf8_length(terms).to_numpy(zero_copy_only=False)
    short = pc.match_substring_regex(terms, _SHORT_NUMBER).to_numpy(zero_copy_only=False)
    whole = np.arange(len(terms)) < len(values)
    kept = np.flatnonzero(~short & (length > 0) & (whole | (length <= _LONGEST_ITEM)))
    hashes = _hash(terms.take(pa.array(kept)))
    return _spread(cells.column, place, owners[kept], hashes)


def _hash(texts: pa.Array) -> NDArray[np.uint64]:
    encoded = texts.dictionary_encode()
    hashes: NDArray[np.uint64] = hash_texts(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return hashes


def _spread(column: Ints, place: Ints, owner: Ints, hashes: NDArray[np.uint64]) -> tuple[Ints, NDArray[np.uint64]]:
    """Return (column, hash) for each cell and each distinct hash of its value; `place` is the value of each cell."""
    order = np.lexsort((hashes, owner))
    owner, hashes = owner[order], hashes[order]
    distinct = np.r_[True, (owner[1:] != owner[:-1]) | (hashes[1:] != hashes[:-1])] if len(owner) else []
    owner, hashes = owner[distinct], hashes[distinct]
    offsets = np.searchsorted(owner, np.arange(place.max(initial=0) + 2)).astype(np.int64)
    lengths, places = gather_ranges(offsets, place)
    return np.repeat(column, lengths), hashes[places]


class _Reading:
    """The text of some cells, each distinct value read once."""

    def __init__(self, encoded: Encoded, cells: Cells, num_columns: int) -> None:
        values, self._place = np.unique(cells.value, return_inverse=True)
        self._column = cells.column
        self._whole = encoded.values.take(pa.array(values))
        self._texts = _normalise(self._whole)
        self._cells_K = np.bincount(cells.column, minlength=num_columns).astype(np.int64)
        self._kind, self._number = parse_quantities(self._texts)

    def bag_words(self) -> Bags:
        """Return the most frequent words of each column."""
        words = pc.split_pattern_regex(self._texts, _WORD_BREAKS)
        owner = np.repeat(np.arange(len(self._texts)), pc.list_value_length(words).to_numpy(zero_copy_only=False))
        flat = words.flatten()
        useless = pc.or_(pc.equal(flat, ""), pc.match_substring_regex(flat, _SHORT_NUMBER))
        kept = np.flatnonzero(~useless.to_numpy(zero_copy_only=False))
        column, terms = _spread(self._column, self._place, owner[kept], _hash(flat.take(pa.array(kept))))
        return make_bags(column, terms, self._cells_K, limit=NUM_WORDS)

    def bag_grams(self) -> Bags:
        """Return the most frequent trigrams of each column, every digit read as 0."""
        heads = pc.replace_substring_regex(pc.utf8_slice_codeunits(self._texts, 0, _GRAM_HEAD), "[0-9]", "0")
        space, nothing = (pa.scalar(text, pa.large_string()) for text in (" ", ""))
        padded = pc.binary_join_element_wise(space, heads.cast(pa.large_string()), space, nothing)
        offsets = np.frombuffer(padded.buffers()[1], np.int64)[padded.offset : padded.offset + len(padded) + 1]
        text = np.frombuffer(padded.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
        grams = text[:-2] << np.uint64(16) | text[1:-1] << np.uint64(8) | text[2:]
        owner = np.repeat(np.arange(len(padded)), np.diff(offsets))
        inside = owner[:-2] == owner[2:]
        column, terms = _spread(self._column, self._place, owner[:-2][inside], grams[inside])
        return make_bags(column, terms, self._cells_K, limit=NUM_GRAMS)

    def measure_quantiles(self) -> NDArray[np.float64]:
        """Return the quantiles of each column's quantities: (K, Q)."""
        number_C = self._number[self._place]
        known = np.flatnonzero(~np.isnan(number_C))
        quantiles = np.full((len(self._cells_K), len(LEVELS)), np.nan)
        bounds = np.searchsorted(self._column[known], np.arange(len(self._cells_K) + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            quantiles[number] = np.quantile(number_C[known[bounds[number] : bounds[number + 1]]], LEVELS)
        return quantiles

    def measure_facts(self) -> NDArray[np.float32]:
        """Return what `FACTS` names of each column: (K, F)."""
        length = np.maximum(_count(pc.utf8_length(self._texts)), 1)
        facts = {name: _count(pc.count_substring_regex(self._whole, SHAPES[name])) / length for name in SHAPES}
        facts["characters"] = np.log1p(length)
        facts["words"] = np.log1p(_count(pc.count_substring_regex(self._texts, r"\s+")))
        facts["items"] = np.log1p(_count(pc.count_substring_regex(self._texts, r"[,;|/]")))
        whole = self._number == np.round(self._number)
        tests = {"quantities": self._kind >= 0, "whole": whole}
        tests |= {name: self._kind == kind for kind, name in enumerate(KINDS)}
        tests["years"] = whole & (self._number >= _FIRST_YEAR) & (self._number <= _LAST_YEAR)
        facts |= {name: test.astype(np.float64) for name, test in tests.items()}
        averages = {name: self._average(fact) for name, fact in facts.items()}
        averages["distinct"], averages["entropy"] = self._measure_diversity()
        return np.stack([averages[name] for name in FACTS], axis=1).astype(np.float32)

    def _average(self, fact_U: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(self._column, weights=fact_U[self._place], minlength=len(self._cells_K))
        return sums / np.maximum(self._cells_K, 1)

    def _measure_diversity(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the share of distinct values among each column's cells, and their entropy over its greatest."""
        num_values = len(self._texts)
        pair, count = np.unique(self._column * num_values + self._place, return_counts=True)
        column = pair // num_values
        cells = np.maximum(self._cells_K, 1)
        distinct = np.bincount(column, minlength=len(cells)) / cells
        share = count / cells[column]
        entropy = np.bincount(column, weights=-share * np.log(share), minlength=len(cells))
        return distinct, entropy / np.log(np.maximum(cells, 2))


def _count(counts: pa.Array) -> NDArray[np.float64]:
    counted: NDArray[np.float64] = counts.to_numpy(zero_copy_only=False).astype(np.float64)
    return counted
