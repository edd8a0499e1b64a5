"""What two rows have in common: their texts as a whole, and cell by cell in the columns that mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, hstack
from torch import get_num_threads

from navi.columns.quantities import NOT_A_QUANTITY, parse_quantities
from navi.corpus.hashing import inverse_document_frequency
from navi.model.runner import Floats, Ints
from navi.tables import Table

# Shape suffixes: R rows of all tables, T terms, C compared columns, P pairs of rows, E features of a cell, G of a row.

CELL_FEATURES = ("likeness", "equal")
"""What is compared of two cells: how alike they are, from 0 to 1, and whether they are the same text."""
ROW_FEATURES = ("grams", "words", "aligned", "rare", "codes")
"""What is compared of two rows: the cosines of their trigrams, their words, and the trigrams of all aligned cells; how
rare the words and the codes are that both have."""
MAX_RARITY = 12.0
"""Weight of shared words, in nats, beyond which more says nothing."""
MAX_TEXT = 400
"""Characters of a cell that are read."""
PAIRS_AT_ONCE = 65_536
ORTHOGONAL = 2**0.5
"""Distance of two vectors of length 1 that have nothing in common."""
FREQUENT_SHARE, MANY_ROWS = 0.02, 20_000
"""Among more rows than this, terms that a larger share of them has are not looked up: it saves time."""
_INSIDE_WORDS, _BREAKS, _CODE = r"[-.'’_&+]", r"[^\p{L}\p{N}]+", r"^[\p{L}\p{N}]*[0-9][\p{L}\p{N}]*$"
_SHORTEST_CODE = 3

Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ColumnAlignment:
    """Columns of several tables that mean the same, to be compared as one."""

    name: str
    headers: Mapping[str, tuple[str, ...]]
    """Headers of each table that has any; the cells of several are read as one."""


class TermBags:
    """The distinct terms of each row, rare ones weighing more."""

    def __init__(self, row: Ints, term: Ints, num_rows: int, weight: Floats | None = None) -> None:
        """Take the terms of rows, numbered from 0; their weights are given, or follow from how rare they are."""
        size = len(weight) if weight is not None else int(term.max(initial=0)) + 1
        pairs = np.unique(row * size + term)
        row, term = pairs // size, pairs % size
        if weight is None:
            weight = inverse_document_frequency(num_rows, np.bincount(term, minlength=size)).astype(np.float32)
        self.weight = weight
        """(T,) weight of each term."""
        row, term = row[weight[term] > 0], term[weight[term] > 0]
        self.weighted = csr_array((np.sqrt(weight[term]), (row, term)), shape=(num_rows, size))
        """(R, T) roots of the weights: a product of two rows sums the weights of what both have."""
        self.total: Floats = np.bincount(row, weight[term], num_rows).astype(np.float32)
        """(R,) weight of all terms of each row."""

    @cached_property
    def unit(self) -> csr_array:
        """(R, T) of length 1: a product of two rows is their cosine."""
        return normalize_bags(self.weighted.power(2))

    def share(self, first: Ints, second: Ints) -> Floats:
        """Return the weight of the terms that both rows of each pair have: (P,)."""
        return multiply_rows(self.weighted, first, self.weighted, second)


def normalize_bags(bags: csr_array) -> csr_array:
    """Return rows of length 1."""
    length = np.sqrt(np.asarray(bags.power(2).sum(axis=1)).reshape(-1))
    scale = np.repeat(np.maximum(length, 1e-9), np.diff(bags.indptr))
    return csr_array(((bags.data / scale).astype(np.float32), bags.indices, bags.indptr), shape=bags.shape)


def multiply_rows(ours: csr_array, first: Ints, theirs: csr_array, second: Ints) -> Floats:
    """Return the product of a row of ours and one of theirs for each pair: (P,)."""
    product: Floats = np.asarray(ours[first].multiply(theirs[second]).sum(axis=1), np.float32).reshape(-1)
    return product


def clean_texts(texts: pa.Array) -> pa.Array:
    """Return texts in lower case, without accents, of limited length; empty where there is none."""
    heads = pc.utf8_slice_codeunits(pc.fill_null(texts.cast(pa.string()), ""), 0, MAX_TEXT)
    plain = pc.replace_substring_regex(pc.utf8_normalize(heads, "NFKD"), r"\p{M}", "")
    return pc.utf8_trim_whitespace(pc.utf8_lower(plain))


def _split(texts: pa.Array, pattern: str) -> tuple[Ints, pa.Array]:
    """Return the parts of all texts that are not empty, and the text of each."""
    parts = pc.split_pattern_regex(texts, pattern)
    flat = pc.list_flatten(parts)
    kept = np.flatnonzero(np.asarray(pc.greater(pc.binary_length(flat), 0)))
    return np.asarray(pc.list_parent_indices(parts)).astype(np.int64)[kept], flat.take(pa.array(kept))


def _number(terms: pa.Array) -> Ints:
    return np.asarray(terms.dictionary_encode().indices).astype(np.int64)


def bag_words(texts: pa.Array, vocabulary: pa.Array, weight: Floats | None = None) -> TermBags:
    """Return the words of each text, as far as they are in a vocabulary."""
    row, words = _split(texts, _BREAKS)
    term = np.asarray(pc.fill_null(pc.index_in(words, vocabulary), -1)).astype(np.int64)
    return TermBags(row[term >= 0], term[term >= 0], len(texts), weight)


def bag_codes(texts: pa.Array) -> TermBags:
    """Return the codes of each text: words with a digit and more, signs inside them left out."""
    row, words = _split(pc.replace_substring_regex(texts, _INSIDE_WORDS, ""), _BREAKS)
    long = pc.greater_equal(pc.utf8_length(words), _SHORTEST_CODE)
    kept = np.flatnonzero(np.asarray(pc.and_(long, pc.match_substring_regex(words, _CODE))))
    return TermBags(row[kept], _number(words.take(pa.array(kept))), len(texts))


def bag_grams(texts: pa.Array) -> TermBags:
    """Return the trigrams, of bytes, of the words of each text; signs inside words are left out."""
    joined = pc.replace_substring_regex(pc.replace_substring_regex(texts, _INSIDE_WORDS, ""), _BREAKS, " ")
    padded = pc.binary_join_element_wise(pa.scalar(" "), pc.utf8_trim_whitespace(joined), pa.scalar(" "), "")
    lengths = np.asarray(pc.binary_length(padded)).astype(np.int64)
    text = np.frombuffer("".join(padded.to_pylist()).encode(), np.uint8).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    if len(text) < 3:
        return TermBags(np.zeros(0, np.int64), np.zeros(0, np.int64), len(texts))
    inside = (row[:-2] == row[2:]) & (text[1:-1] != ord(" "))
    grams = text[:-2] << 16 | text[1:-1] << 8 | text[2:]
    return TermBags(row[:-2][inside], np.unique(grams[inside], return_inverse=True)[1], len(texts))


class ComparedColumn:
    """One column of all tables, ready to be compared cell by cell."""

    def __init__(self, alignment: ColumnAlignment, texts: pa.Array, vocabulary: pa.Array, words: TermBags) -> None:
        """Take the cells, and the words of whole rows with their vocabulary."""
        self.alignment = alignment
        self.texts = texts
        plain = clean_texts(texts)
        self.filled = np.asarray(pc.greater(pc.binary_length(plain), 0))
        """(R,) whether the row has a cell."""
        self.value = _number(plain)
        """(R,) number of the cell's text."""
        self.grams, self.words = bag_grams(plain), bag_words(plain, vocabulary, words.weight)
        self.row_words = words
        kind, number = parse_quantities(plain)
        self.is_number = self.filled & (kind != NOT_A_QUANTITY) & np.isfinite(number)
        self.number = np.where(self.is_number, number, 0.0)
        own = self.number[self.is_number]
        self.spread = max(float(np.std(own)), 1e-9) if len(own) else 1.0
        filled = self.value[self.filled]
        self.distinct = len(np.unique(filled)) / max(len(filled), 1)
        self.length = float(np.mean(np.asarray(pc.utf8_length(plain))[self.filled])) if len(filled) else 0.0

    def compare(self, first: Ints, second: Ints) -> tuple[Floats, Bools]:
        """Return (P, E) the features of pairs of cells, zeros where either is empty, and (P,) where both are there."""
        both = self.filled[first] & self.filled[second]
        features = np.zeros((len(first), len(CELL_FEATURES)), np.float32)
        first, second = first[both], second[both]
        equal = self.value[first] == self.value[second]
        fewer = np.minimum(self.words.total[first], self.words.total[second])
        contained = self.words.share(first, second) / np.maximum(fewer, 1e-6)
        likeness = np.maximum(equal, (multiply_rows(self.grams.unit, first, self.grams.unit, second) + contained) / 2)
        numbers = self.is_number[first] & self.is_number[second]
        apart = np.abs(self.number[first] - self.number[second]) / self.spread
        likeness = np.maximum(likeness, np.where(numbers, np.exp(-10 * apart), self._cross(first, second)))
        features[both] = np.stack([np.minimum(likeness, 1), equal], axis=1)
        return features, both

    def _cross(self, first: Ints, second: Ints) -> Floats:
        """Return (P,) the share of either cell's words that the other row has anywhere, the larger of both."""
        shares = [
            multiply_rows(self.words.weighted, cell, self.row_words.weighted, row)
            / np.maximum(self.words.total[cell], 1e-6)
            for cell, row in ((first, second), (second, first))
        ]
        return np.maximum(*shares)


@dataclass(frozen=True, kw_only=True)
class PairComparison:
    """What the rows of pairs have in common."""

    groups: Ints
    """(2, P) the groups of rivals of each pair: those of its first row with the second's table, and vice versa."""
    cells: NDArray[np.float16]
    """(P, C, E) features of cells."""
    both: Bools
    """(P, C) whether both rows have a cell."""
    whole: Floats
    """(P, G) features of the rows as wholes."""

    def feature(self, name: str) -> Floats:
        """Return (P,) a feature of the rows as wholes."""
        feature: Floats = self.whole[:, ROW_FEATURES.index(name)]
        return feature


class ComparedRows:
    """The rows of all tables, ready to be compared."""

    def __init__(self, tables: Mapping[str, Table], alignments: Sequence[ColumnAlignment], *, within: bool) -> None:
        """Take tables, which of their columns mean the same, and whether rows of one may be about the same thing."""
        whole = [join_cells(each.text, each.text.column_names) for each in tables.values()]
        texts = clean_texts(pa.concat_arrays(whole))
        self.tables, self.within = tuple(tables), within
        self.table: Ints = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables.values()])
        """(R,) table of each row."""
        self.number: Ints = np.concatenate([each.row_number for each in tables.values()])
        """(R,) number of each row in its table, from 1."""
        vocabulary = pc.unique(_split(texts, _BREAKS)[1])
        self.grams, self.words, self.codes = bag_grams(texts), bag_words(texts, vocabulary), bag_codes(texts)
        """Of the whole rows."""
        self.columns: list[ComparedColumn] = []
        """(C,) the columns that are compared."""
        for alignment in alignments:
            parts = [join_cells(each.text, alignment.headers.get(name, ())) for name, each in tables.items()]
            self.columns.append(ComparedColumn(alignment, pa.concat_arrays(parts), vocabulary, self.words))

    @property
    def num_rows(self) -> int:
        """Rows of all tables."""
        return len(self.table)

    @cached_property
    def aligned(self) -> csr_array:
        """(R, T) trigrams of all compared cells, of length 1."""
        if not self.columns:
            return self.grams.unit
        return normalize_bags(hstack([column.grams.weighted.power(2) for column in self.columns], format="csr"))

    def find_candidates(self, k: int, vectors: Floats | None = None) -> Ints:
        """Return (P, 2) pairs of rows worth comparing, the lower first: the k nearest of each by texts, or vectors."""
        spaces = [self.grams.unit, self.aligned, self.words.unit]
        keys = [self._propose(space, k) for space in spaces]
        if vectors is not None:
            keys.append(self._propose(vectors, k))
        found = np.unique(np.concatenate(keys))
        return np.stack([found // self.num_rows, found % self.num_rows], axis=1)

    def _propose(self, space: csr_array | Floats, k: int) -> Ints:
        """Return, as one number for each pair, the k nearest rows of each row in another table, or in any."""
        if isinstance(space, csr_array):
            space = _drop_frequent(space)
        keys = []
        for table in (None,) if self.within else range(len(self.tables)):
            ours = np.flatnonzero(self.table == table) if table is not None else np.arange(self.num_rows)
            theirs = np.flatnonzero(self.table != table) if table is not None else ours
            row, place = find_nearest(space[ours], space[theirs], k if table is not None else k + 1)
            pair = np.sort(np.stack([ours[row], theirs[place]]), axis=0)
            keys.append((pair[0] * self.num_rows + pair[1])[pair[0] < pair[1]])
        return np.unique(np.concatenate(keys))

    def group(self, pairs_P2: Ints) -> Ints:
        """Return (2, P) the groups of rivals of each pair: those of its first row with the second's table, and v. v."""
        first, second = pairs_P2.T
        count = len(self.tables)
        return np.stack([first * count + self.table[second], second * count + self.table[first]])

    def compare(self, pairs_P2: Ints) -> PairComparison:
        """Return what the rows of pairs have in common, found in blocks."""
        count = len(pairs_P2)
        cells = np.zeros((count, len(self.columns), len(CELL_FEATURES)), np.float16)
        both, whole = np.zeros(cells.shape[:2], np.bool_), np.zeros((count, len(ROW_FEATURES)), np.float32)
        for start in range(0, count, PAIRS_AT_ONCE):
            block = slice(start, start + PAIRS_AT_ONCE)
            first, second = pairs_P2[block].T
            for place, column in enumerate(self.columns):
                cells[block, place], both[block, place] = column.compare(first, second)
            whole[block] = self._compare_wholes(first, second)
        return PairComparison(groups=self.group(pairs_P2), cells=cells, both=both, whole=whole)

    def _compare_wholes(self, first: Ints, second: Ints) -> Floats:
        spaces = {"grams": self.grams.unit, "words": self.words.unit, "aligned": self.aligned}
        found = {name: multiply_rows(space, first, space, second) for name, space in spaces.items()}
        for name, bags in (("rare", self.words), ("codes", self.codes)):
            found[name] = (np.minimum(bags.share(first, second), MAX_RARITY) / MAX_RARITY).astype(np.float32)
        return np.stack([found[name] for name in ROW_FEATURES], axis=1)


def join_cells(table: pa.Table, headers: Sequence[str]) -> pa.Array:
    """Return the cells of some columns, those of one row as one text."""
    if not headers:
        return pa.nulls(table.num_rows, pa.string())
    columns = [pc.fill_null(table[header].combine_chunks().cast(pa.string()), "") for header in headers]
    return pc.utf8_trim_whitespace(pc.binary_join_element_wise(*columns, " "))


def find_nearest(ours: csr_array | Floats, theirs: csr_array | Floats, k: int) -> tuple[Ints, Ints]:
    """Return which of ours and which of theirs: the k rows with the highest product above 0 for each of ours.

    Sparse rows are multiplied row by row, dense ones of length 1 in blocks: all products are never held at once.
    """
    if isinstance(ours, csr_array):
        from sparse_dot_topn import sp_matmul_topn

        both = csr_matrix(ours), csr_matrix(theirs.T)
        best = sp_matmul_topn(*both, top_n=k, threshold=1e-6, n_threads=get_num_threads()).tocoo()
        return best.row.astype(np.int64), best.col.astype(np.int64)
    from sklearn.neighbors import NearestNeighbors

    ours_held, theirs_held = (np.flatnonzero(vectors.any(axis=1)) for vectors in (ours, theirs))
    if not len(ours_held) or not len(theirs_held):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    index = NearestNeighbors(n_neighbors=min(k, len(theirs_held)), algorithm="brute").fit(theirs[theirs_held])
    distance, found = index.kneighbors(ours[ours_held])
    row, place = np.nonzero(distance < ORTHOGONAL)
    return ours_held[row], theirs_held[found[row, place]]


def _drop_frequent(space: csr_array) -> csr_array:
    """Return a space without the terms of too many rows, where there are many rows."""
    if space.shape[0] <= MANY_ROWS:
        return space
    kept = np.bincount(space.indices, minlength=space.shape[1]) <= FREQUENT_SHARE * space.shape[0]
    return space[:, np.flatnonzero(kept)]


def measure_lead(group: Ints, score: Floats) -> Floats:
    """Return how far each is ahead of the best other of its group, or else of 0.

    >>> measure_lead(np.array([7, 7, 9]), np.array([0.75, 0.5, 0.25], np.float32)).tolist()
    [0.25, -0.25, 0.25]
    """
    order = np.lexsort((-score, group))
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    number = np.cumsum(np.diff(group[order], prepend=-1) != 0) - 1
    best = score[order[begins]]
    second = np.zeros_like(best)
    follows = np.diff(np.append(begins, len(order))) > 1
    second[follows] = score[order[begins[follows] + 1]]
    lead = np.empty_like(score)
    is_first = np.zeros(len(order), np.bool_)
    is_first[begins] = True
    lead[order] = score[order] - np.where(is_first, second[number], best[number])
    return lead


def measure_leads(groups_2P: Ints, score: Floats) -> Floats:
    """Return (2, P) how far each pair is ahead of the best rival of its first row, and of its second."""
    return measure_lead(groups_2P.reshape(-1), np.tile(score, 2)).reshape(2, -1)
