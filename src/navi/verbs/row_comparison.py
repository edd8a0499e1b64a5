"""What two rows have in common: their texts as a whole, and cell by cell in the columns that mean the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, hstack
from torch import get_num_threads

from navi.columns.quantities import KINDS, NOT_A_QUANTITY, parse_quantities
from navi.corpus.hashing import inverse_document_frequency
from navi.model.runner import Floats, Ints
from navi.tables import Table

# Shape suffixes: R rows of all tables, T terms, C compared columns, P pairs of rows, E features of a cell, G of a row.

CELL_FEATURES = (
    "grams", "words", "contained", "equal", "rare", "codes", "clash", "numbers", "same_number", "same_whole", "hair",
    "near", "far", "top_agreement", "random_agreement", "distinct", "filled", "length", "alignment",
)  # fmt: skip
"""What is compared of two cells: trigrams, words (shared of all, and of the fewer), the same text, how rare the shared
words are, codes that both have or that differ, numbers (the same, the same before the point, and how far apart); then
what says how much that is worth: how alike the column is in the likeliest pairs and in random ones, how distinct, full
and long its cells are, and how surely its columns mean the same."""
ROW_FEATURES = (
    "grams", "words", "contained", "rare", "codes", "clash", "aligned", "lead_left", "lead_right", "aligned_left",
    "aligned_right", "compared", "top_grams", "usual_grams", "top_aligned", "usual_aligned",
)  # fmt: skip
"""What is compared of two rows: their texts as one, the trigrams of all aligned cells, how far either is ahead of the
best rival of each row, and the share of cells that can be compared; then how alike the pairs are that are the best of
both their rows, and the others."""
MAX_RARITY = 12.0
"""Weight of shared words, in nats, beyond which more says nothing."""
MAX_TEXT = 400
"""Characters of a cell that are read."""
PAIRS_AT_ONCE = 65_536
ORTHOGONAL = 2**0.5
"""Distance of two vectors of length 1 that have nothing in common."""
FREQUENT_SHARE, MANY_ROWS = 0.02, 20_000
"""Among more rows than this, terms that a larger share of them has are not looked up: it saves time."""
SAMPLE = 2000
"""Pairs that a column's agreement is estimated on."""
_INSIDE_WORDS, _BREAKS, _CODE = r"[-.'’_&+]", r"[^\p{L}\p{N}]+", r"^[\p{L}\p{N}]*[0-9][\p{L}\p{N}]*$"
_SHORTEST_CODE = 3


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Columns of several tables that mean the same, to be compared as one."""

    name: str
    headers: Mapping[str, tuple[str, ...]]
    """Headers of each table that has any; the cells of several are read as one."""
    probability: float = 1.0
    """How surely they mean the same."""


class TermBags:
    """The distinct terms of each row, rare ones weighing more."""

    def __init__(self, row: Ints, term: Ints, num_rows: int) -> None:
        self.terms, place = np.unique(term, return_inverse=True)
        size = max(len(self.terms), 1)
        pairs = np.unique(row * size + place)
        row, place = pairs // size, pairs % size
        self.frequency = np.bincount(place, minlength=size)
        weight = inverse_document_frequency(num_rows, self.frequency).astype(np.float32)
        entries = weight[place]
        self.weighted = csr_array((np.sqrt(entries), (row, place)), shape=(num_rows, size))
        """(R, T) roots of the weights: a product of two rows sums the weights of what both have."""
        self.total: Floats = np.bincount(row, entries, num_rows).astype(np.float32)
        """(R,) weight of all terms of each row."""
        length = np.sqrt(np.bincount(row, entries.astype(np.float64) ** 2, num_rows))
        unit = entries / np.maximum(length, 1e-9)[row]
        self.unit = csr_array((unit.astype(np.float32), (row, place)), shape=(num_rows, size))
        """(R, T) of length 1: a product of two rows is their cosine."""

    def share(self, first: Ints, second: Ints) -> Floats:
        """Return the weight of the terms that both rows of each pair have: (P,)."""
        return multiply_rows(self.weighted, first, second)


def multiply_rows(bags: csr_array, first: Ints, second: Ints) -> Floats:
    """Return the product of two rows for each pair: (P,)."""
    product: Floats = np.asarray(bags[first].multiply(bags[second]).sum(axis=1), np.float32).reshape(-1)
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


def bag_words(texts: pa.Array) -> TermBags:
    """Return the words of each text."""
    row, words = _split(texts, _BREAKS)
    return TermBags(row, _number(words), len(texts))


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
    return TermBags(row[:-2][inside], grams[inside], len(texts))


class ComparedColumn:
    """One column of all tables, ready to be compared cell by cell."""

    def __init__(self, alignment: Alignment, texts: pa.Array, table_R: Ints) -> None:
        self.alignment = alignment
        self.texts = texts
        plain = clean_texts(texts)
        self.filled = np.asarray(pc.greater(pc.binary_length(plain), 0))
        """(R,) whether the row has a cell."""
        self.value = _number(plain)
        """(R,) number of the cell's text."""
        self.grams, self.words, self.codes = bag_grams(plain), bag_words(plain), bag_codes(plain)
        kind, number = parse_quantities(plain)
        self.is_number = self.filled & (kind != NOT_A_QUANTITY) & np.isfinite(number)
        self.number = np.where(self.is_number, number, 0.0)
        own = self.number[self.is_number]
        self.spread = max(float(np.std(own)), 1e-9) if len(own) else 1.0
        self.is_date = np.asarray(kind) == KINDS.index("date")
        filled = self.value[self.filled]
        self.distinct = len(np.unique(filled)) / max(len(filled), 1)
        self.length = float(np.mean(np.asarray(pc.utf8_length(plain))[self.filled])) if len(filled) else 0.0
        shares = [self.filled[table_R == table].mean() for table in np.unique(table_R)]
        self.fill = float(min(shares)) if shares else 0.0
        self.agreement = (0.0, 0.0)
        """Mean agreement of the likeliest pairs and of random ones."""

    def compare(self, first: Ints, second: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (P, E) the features of pairs of cells, zeros where either is empty, and (P,) where both are there."""
        both = self.filled[first] & self.filled[second]
        features = np.zeros((len(first), len(CELL_FEATURES)), np.float32)
        first, second = first[both], second[both]
        found = compare_texts(self.grams, self.words, self.codes, first, second)
        found["equal"] = self.value[first] == self.value[second]
        found |= self._compare_numbers(first, second)
        constant = {
            "top_agreement": self.agreement[0],
            "random_agreement": self.agreement[1],
            "distinct": self.distinct,
            "filled": self.fill,
            "length": np.log1p(self.length) / 6,
            "alignment": self.alignment.probability,
        }
        for place, name in enumerate(CELL_FEATURES):
            features[both, place] = found[name] if name in found else constant[name]
        return features, both

    def _compare_numbers(self, first: Ints, second: Ints) -> dict[str, Floats]:
        both = self.is_number[first] & self.is_number[second]
        one, other = self.number[first], self.number[second]
        apart = np.abs(one - other)
        scaled = apart / self.spread
        same = apart <= 1e-6 * np.maximum(np.abs(one), np.abs(other))
        found = {
            "numbers": both,
            "same_number": same,
            "same_whole": np.floor(one) == np.floor(other),
            "hair": np.exp(-100 * scaled),
            "near": np.exp(-10 * scaled),
            "far": np.exp(-scaled),
        }
        return {name: (feature * both).astype(np.float32) for name, feature in found.items()}

    def agree(self, first: Ints, second: Ints) -> float:
        """Return how alike pairs of cells are on average, from 0 to 1."""
        features, both = self.compare(first, second)
        if not both.any():
            return 0.0
        names = ("grams", "equal", "hair")
        return float(features[both][:, [CELL_FEATURES.index(name) for name in names]].max(axis=1).mean())


def compare_texts(grams: TermBags, words: TermBags, codes: TermBags, first: Ints, second: Ints) -> dict[str, Floats]:
    """Return what pairs of texts have in common, each feature (P,)."""
    shared, ours, theirs = words.share(first, second), words.total[first], words.total[second]
    common, codes_first, codes_second = codes.share(first, second), codes.total[first], codes.total[second]
    fewer = np.minimum(codes_first, codes_second)
    return {
        "grams": multiply_rows(grams.unit, first, second),
        "words": shared / np.maximum(ours + theirs - shared, 1e-6),
        "contained": shared / np.maximum(np.minimum(ours, theirs), 1e-6),
        "rare": np.minimum(shared, MAX_RARITY) / MAX_RARITY,
        "codes": np.minimum(common, MAX_RARITY) / MAX_RARITY,
        "clash": np.where(fewer > 0, 1 - common / np.maximum(fewer, 1e-6), 0).astype(np.float32),
    }


@dataclass(frozen=True, kw_only=True)
class ComparedRows:
    """The rows of all tables, ready to be compared."""

    tables: tuple[str, ...]
    table: Ints
    """(R,) table of each row."""
    number: Ints
    """(R,) number of each row in its table, from 1."""
    columns: tuple[ComparedColumn, ...]
    """(C,) the columns that are compared."""
    grams: TermBags
    words: TermBags
    codes: TermBags
    """Of the whole rows."""
    within: bool
    """Whether rows of one table may be about the same thing."""

    @classmethod
    def read(cls, tables: Mapping[str, Table], alignments: Sequence[Alignment], *, within: bool) -> Self:
        """Return the rows of some tables, given which of their columns mean the same."""
        lengths = [table.num_rows for table in tables.values()]
        table_R = np.repeat(np.arange(len(tables)), lengths)
        whole = [join_cells(each.text, each.text.column_names) for each in tables.values()]
        texts, columns = clean_texts(pa.concat_arrays(whole)), []
        for alignment in alignments:
            parts = [join_cells(each.text, alignment.headers.get(name, ())) for name, each in tables.items()]
            columns.append(ComparedColumn(alignment, pa.concat_arrays(parts), table_R))
        return cls(
            tables=tuple(tables),
            table=table_R,
            number=np.concatenate([each.row_number for each in tables.values()]),
            columns=tuple(columns),
            grams=bag_grams(texts),
            words=bag_words(texts),
            codes=bag_codes(texts),
            within=within,
        )

    @property
    def num_rows(self) -> int:
        """Rows of all tables."""
        return len(self.table)

    @cached_property
    def aligned(self) -> csr_array:
        """(R, T) trigrams of all compared cells, of length 1."""
        if not self.columns:
            return self.grams.unit
        both = hstack([column.grams.weighted.power(2) for column in self.columns], format="csr").astype(np.float32)
        length = np.sqrt(np.asarray(both.power(2).sum(axis=1)).reshape(-1))
        both.data /= np.repeat(np.maximum(length, 1e-9), np.diff(both.indptr)).astype(np.float32)
        return csr_array(both)

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

    def weigh_columns(self, pairs_P2: Ints, whole_PG: Floats, seed: int = 0) -> None:
        """Find how alike each column is in the likeliest pairs, and in random ones."""
        score = whole_PG[:, ROW_FEATURES.index("grams")] + whole_PG[:, ROW_FEATURES.index("aligned")]
        likely = pairs_P2[(measure_leads(self.group(pairs_P2), score) > 0).all(axis=0)]
        random = np.random.default_rng(seed)
        likely = likely[random.permutation(len(likely))[:SAMPLE]]
        shuffled = random.permutation(likely[:, 1]) if len(likely) else likely[:, 1]
        for column in self.columns:
            column.agreement = (column.agree(*likely.T), column.agree(likely[:, 0], shuffled))

    def compare(self, column: int, pairs_P2: Ints) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        """Yield the features of a column's cells in pairs, and where both are there, in blocks."""
        for start in range(0, len(pairs_P2), PAIRS_AT_ONCE):
            yield self.columns[column].compare(*pairs_P2[start : start + PAIRS_AT_ONCE].T)

    def group(self, pairs_P2: Ints) -> Ints:
        """Return (2, P) the groups of rivals of each pair: those of its first row with the second's table, and v. v."""
        first, second = pairs_P2.T
        count = len(self.tables)
        return np.stack([first * count + self.table[second], second * count + self.table[first]])

    def compare_rows(self, pairs_P2: Ints) -> Floats:
        """Return (P, G) the features of pairs as wholes; all candidates at once, as they are rivals."""
        parts = []
        for start in range(0, len(pairs_P2), PAIRS_AT_ONCE):
            first, second = pairs_P2[start : start + PAIRS_AT_ONCE].T
            found = compare_texts(self.grams, self.words, self.codes, first, second)
            found["aligned"] = multiply_rows(self.aligned, first, second)
            found["compared"] = np.zeros(len(first), np.float32)
            for column in self.columns:
                found["compared"] += (column.filled[first] & column.filled[second]) / np.float32(len(self.columns))
            parts.append(found)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for name, prefix in (("grams", "lead"), ("aligned", "aligned")):
            left, right = measure_leads(self.group(pairs_P2), joined[name])
            best = (left > 0) & (right > 0)
            joined |= {f"{prefix}_left": left, f"{prefix}_right": right}
            for kind, chosen in (("top", best), ("usual", ~best)):
                level = joined[name][chosen].mean() if chosen.any() else 0.0
                joined[f"{kind}_{name}"] = np.full(len(pairs_P2), level, np.float32)
        return np.stack([joined[name] for name in ROW_FEATURES], axis=1).astype(np.float32)


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
