"""Column profiles: what the cells of each column look like, in a few kilobytes a column, kept as one Arrow file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from navi.columns.headers import split_header
from navi.columns.quantities import KINDS, parse_quantities
from navi.corpus import Encoded
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_text, hash_texts, mix
from navi.errors import ModelError
from navi.files import write_file

# Shape suffixes: C cells, U distinct values, T distinct terms, K columns, Q quantiles, F facts, D hidden size.

COLUMNS_FILE = "columns.arrow"
FORMAT = "3"
BAGS = {"items": 256, "frequent": 64, "words": 192, "grams": 192, "header_words": 64, "header_grams": 64}
"""Bags of terms kept of each column, and how many terms at most: a sample of the values and of the members of lists in
them, the same in every column; the most frequent of these, of the words and of the trigrams; the header's own."""
NUM_TERMS = 1 << 62
"""Width of a bag: terms are hashes, so bags are never made dense."""
MAX_ROWS, MAX_CELLS, MAX_READ = 50_000, 5000, 500
"""Rows of a table that cells are taken from, cells of a column whose values are hashed, and whose text is read."""
LEVELS = np.linspace(0.0, 1.0, 21)
"""The quantiles kept of a column's numbers."""
SHAPES = {"digits": "[0-9]", "letters": r"\p{L}", "capitals": r"\p{Lu}", "spaces": r"\s", "signs": "[[:punct:]]"}
"""Kinds of characters, and the pattern of one."""
FACTS = (*SHAPES, "characters", "words", "items", "distinct", "entropy", "quantities", *KINDS, "whole", "years")
"""What is measured of a column: shares of characters, logarithms of lengths, diversity, shares of quantities."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_SEPARATORS, _WORD_BREAKS, _SHORT_NUMBER = r"\s*[,;|/]\s*", r"[^\p{L}\p{N}]+", r"^[-+]?[0-9.,]{1,6}$"
_HEAD, _GRAM_HEAD, _LONGEST_ITEM = 240, 80, 40
"""Characters that are read of a value, for words and for trigrams, and of the longest member of a list."""
_FIRST_YEAR, _LAST_YEAR = 1850, 2100


@dataclass(frozen=True, kw_only=True)
class ColumnProfiles:
    """What is known of K columns."""

    tables: tuple[str, ...]
    """(K,) table of each column."""
    headers: tuple[str, ...]
    """(K,) header of each column."""
    attributes: tuple[str, ...]
    """(K,) attribute of each column."""
    cells: Ints
    """(K,) cells read; 0 where nothing is known of the values."""
    bags: dict[str, csr_array]
    """(K, NUM_TERMS) for each of `BAGS`: the share of a column's cells that hold each term."""
    quantiles: Floats
    """(K, Q) quantiles of the cells that are quantities; NaN where none is."""
    facts: NDArray[np.float32]
    """(K, F) what `FACTS` names."""
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """(K, D) what a model makes of each `header`, of its `value`s, and of the `column` with both; zeros for nothing."""

    def __len__(self) -> int:
        return len(self.headers)

    def take(self, columns: Ints) -> ColumnProfiles:
        """Return the profiles of some columns."""

        def pick(member: Any) -> Any:
            if isinstance(member, dict):
                return {name: pick(each) for name, each in member.items()}
            return tuple(member[k] for k in columns) if isinstance(member, tuple) else member[columns]

        return ColumnProfiles(**pick(vars(self)))

    def save(self, folder: str | Path) -> None:
        """Write the profiles into a model directory."""
        columns: dict[str, Any] = {
            "table": pa.array(self.tables, pa.string()),
            "header": pa.array(self.headers, pa.string()),
            "attribute": pa.array(self.attributes, pa.string()),
            "cells": pa.array(self.cells),
            "quantiles": _to_vectors(self.quantiles),
            "facts": _to_vectors(self.facts),
        }
        for name, bags in self.bags.items():
            columns[f"{name}_terms"] = pa.LargeListArray.from_arrays(bags.indptr, pa.array(bags.indices))
            columns[f"{name}_shares"] = pa.LargeListArray.from_arrays(bags.indptr, pa.array(bags.data))
        for name, vector in self.vectors.items():
            columns[f"vector_{name}"] = _to_vectors(vector.astype(np.float16))
        table = pa.table(columns).replace_schema_metadata({"format": FORMAT})
        with write_file(Path(folder) / COLUMNS_FILE) as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the profiles of a model directory."""
        file = Path(folder) / COLUMNS_FILE
        try:
            table = pa.ipc.open_file(pa.memory_map(str(file))).read_all().combine_chunks()
        except (OSError, pa.ArrowInvalid) as error:
            raise ModelError(f"Cannot read {file}: {error}. Expected a model directory made by pretraining.") from error
        found = (table.schema.metadata or {}).get(b"format", b"none").decode()
        if found != FORMAT:
            raise ModelError(f"{file} has format {found}, this version reads {FORMAT}. Pretrain again.")
        vectors = [name for name in table.column_names if name.startswith("vector_")]
        return cls(
            tables=tuple(table["table"].to_pylist()),
            headers=tuple(table["header"].to_pylist()),
            attributes=tuple(table["attribute"].to_pylist()),
            cells=table["cells"].to_numpy(),
            bags={name: _read_bags(table, name) for name in BAGS},
            quantiles=_read_vectors(table, "quantiles"),
            facts=_read_vectors(table, "facts"),
            vectors={name.removeprefix("vector_"): _read_vectors(table, name).astype(np.float32) for name in vectors},
        )


def join_profiles(parts: Sequence[ColumnProfiles]) -> ColumnProfiles:
    """Return the profiles of all parts, one part after another."""

    def join(members: Sequence[Any]) -> Any:
        if isinstance(members[0], dict):
            return {name: join([member[name] for member in members]) for name in members[0]}
        if isinstance(members[0], tuple):
            return sum(members, ())
        return np.concatenate(members) if isinstance(members[0], np.ndarray) else vstack(members, format="csr")

    return ColumnProfiles(**join([vars(part) for part in parts]))


def _to_vectors(matrix: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def _read_vectors(table: pa.Table, name: str) -> NDArray[Any]:
    column = table[name].combine_chunks()
    vectors: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
    return vectors


def _read_bags(table: pa.Table, name: str) -> csr_array:
    terms, shares = (table[f"{name}_{part}"].combine_chunks() for part in ("terms", "shares"))
    parts = (shares.flatten().to_numpy(), terms.flatten().to_numpy(), terms.offsets.to_numpy())
    return csr_array(parts, shape=(table.num_rows, NUM_TERMS))


def sketch_columns(encoded: Encoded, rows: Ints | None = None) -> ColumnProfiles:
    """Return the profile of each column of `encoded`, from the given rows alone or from all, without any model."""
    arrays = encoded.arrays
    sample = sample_cells(encoded, np.arange(arrays.num_rows) if rows is None else rows, MAX_CELLS)
    values, cells_KU = sample.count_values(arrays.num_columns, MAX_CELLS)
    items = _list_items(_read_head(encoded.values.take(pa.array(values))))
    read, read_KU = sample.count_values(arrays.num_columns, MAX_READ)
    whole = encoded.values.take(pa.array(read))
    texts = _read_head(whole)
    kind_U, number_U = parse_quantities(texts)
    headers, attributes = encoded.headers.to_pylist(), encoded.attributes.to_pylist()
    column_headers = tuple(headers[number] for number in arrays.column_header)
    return ColumnProfiles(
        tables=tuple(encoded.tables[number] for number in arrays.column_table),
        headers=column_headers,
        attributes=tuple(attributes[number] for number in arrays.column_attribute),
        cells=cells_KU.sum(axis=1).astype(np.int64),
        bags={
            "items": make_bags(cells_KU, *items, limit=BAGS["items"], sampled=True),
            "frequent": make_bags(cells_KU, *items, limit=BAGS["frequent"]),
            "words": make_bags(read_KU, *_list_words(texts), limit=BAGS["words"]),
            "grams": make_bags(read_KU, *_list_grams(texts), limit=BAGS["grams"]),
            **bag_headers(column_headers),
        },
        quantiles=_measure_quantiles(read_KU, number_U),
        facts=_measure_facts(read_KU, whole, texts, kind_U, number_U),
    )


@dataclass(frozen=True, kw_only=True)
class CellSample:
    """Some cells, by column, those of a column in random order."""

    column: Ints
    """(C,) column of each cell, ascending."""
    value: Ints
    """(C,) value of each cell."""
    row: Ints
    """(C,) row of each cell."""
    rank: Ints
    """(C,) place of the cell among its column's."""

    def count_values(self, num_columns: int, limit: int) -> tuple[Ints, csr_array]:
        """Return the values of at most `limit` cells a column, (U,), and how many of these hold each, (K, U)."""
        kept = self.rank < limit
        values, place = np.unique(self.value[kept], return_inverse=True)
        counts = csr_array((np.ones(len(place)), (self.column[kept], place)), shape=(num_columns, len(values)))
        return values, counts


def sample_cells(encoded: Encoded, rows: Ints, limit: int) -> CellSample:
    """Return at most `limit` cells of each column; which of the given rows' depends on their content alone."""
    arrays = encoded.arrays
    rows = shuffle_rows(encoded, rows)
    lengths, places = gather_ranges(arrays.row_offsets, rows)
    segment, row = arrays.row_segments[places], np.repeat(rows, lengths)
    column = arrays.find_columns(arrays.row_table[row], arrays.segment_header[segment])
    order = np.argsort(column, kind="stable")
    begins = np.searchsorted(column[order], np.arange(arrays.num_columns))
    rank = np.arange(len(order)) - begins[column[order]]
    order, rank = order[rank < limit], rank[rank < limit]
    value = arrays.segment_value[segment[order]].astype(np.int64)
    return CellSample(column=column[order], value=value, row=row[order], rank=rank)


def shuffle_rows(encoded: Encoded, rows: Ints, limit: int = MAX_ROWS) -> Ints:
    """Return at most `limit` rows a table, table after table, in an order that their content gives."""
    drawn = mix(encoded.row_hash[rows], hash_text("profiles"))
    table = encoded.arrays.row_table[rows]
    order = np.lexsort((drawn, table))
    begins = np.searchsorted(table[order], table[order])
    shuffled: Ints = rows[order[np.arange(len(order)) - begins < limit]]
    return shuffled


def make_bags(cells_KU: csr_array, value: Ints, term: Ints, *, limit: int, sampled: bool = False) -> csr_array:
    """Return (K, NUM_TERMS): the share of each column's cells that hold each term, for at most `limit` terms a column.

    `cells_KU` counts the cells that hold each value; `value` and `term` list the terms of the values. The terms kept
    are the most frequent or, with `sampled`, the smallest: the same sample of the terms in every column, so that the
    overlap of two columns can be estimated from it.
    """
    terms, place = np.unique(term, return_inverse=True)
    held_UT = csr_array((np.ones(len(place)), (value, place)), shape=(cells_KU.shape[1], len(terms)))
    held_UT.data[:] = 1  # however often a value repeats a term
    counts_KT = cells_KU @ held_UT
    counts_KT.sort_indices()
    column = np.repeat(np.arange(counts_KT.shape[0]), np.diff(counts_KT.indptr))
    rank = np.arange(counts_KT.nnz) - counts_KT.indptr[column]
    ranked = np.arange(counts_KT.nnz) if sampled else np.lexsort((counts_KT.indices, -counts_KT.data, column))
    kept = np.sort(ranked[rank < limit])
    shares = counts_KT.data[kept] / cells_KU.sum(axis=1)[column[kept]]
    entries = (column[kept], terms[counts_KT.indices[kept]])
    return csr_array((shares.astype(np.float32), entries), shape=(counts_KT.shape[0], NUM_TERMS))


def bag_headers(headers: Sequence[str]) -> dict[str, csr_array]:
    """Return the words and trigrams of each header, as if each were a cell of its own."""
    words = [split_header(header) for header in headers]
    texts = [" ".join(each) for each in words]
    grams = [[f" {text} "[place : place + 3] for place in range(len(text))] for text in texts]
    bags = {}
    for name, lists in (("header_words", words), ("header_grams", grams)):
        ends = np.cumsum([0, *(len(terms) for terms in lists)])
        every = np.arange(ends[-1])
        cells = csr_array((np.ones(len(every)), every, ends), shape=(len(lists), len(every)))
        bags[name] = make_bags(cells, every, hash_terms([term for each in lists for term in each]), limit=BAGS[name])
    return bags


def hash_terms(texts: Sequence[str]) -> Ints:
    """Return the term of each text, a number below NUM_TERMS."""
    return (hash_texts(texts) >> np.uint64(2)).astype(np.int64)


def _read_head(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, _HEAD))


def _split(texts: pa.Array, pattern: str) -> tuple[Ints, pa.Array]:
    """Return the parts of each text, and the text of each part."""
    parts = pc.split_pattern_regex(texts, pattern)
    return pc.list_parent_indices(parts).to_numpy(), pc.list_flatten(parts)


def _hash_distinct(texts: pa.Array) -> Ints:
    encoded = texts.dictionary_encode()
    terms: Ints = hash_terms(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return terms


def _list_items(texts: pa.Array) -> tuple[Ints, Ints]:
    """Return (value, term) of each value and of each member of a list in it; short numbers are none."""
    value, members = _split(texts, _SEPARATORS)
    several = np.bincount(value, minlength=len(texts))[value] > 1
    value = np.r_[np.arange(len(texts)), value[several]]
    items = pc.utf8_trim_whitespace(pa.concat_arrays([texts, members.filter(pa.array(several)).cast(texts.type)]))
    length = _to_floats(pc.utf8_length(items))
    short = _to_floats(pc.match_substring_regex(items, _SHORT_NUMBER)) > 0
    whole = np.arange(len(items)) < len(texts)
    kept = np.flatnonzero(~short & (length > 0) & (whole | (length <= _LONGEST_ITEM)))
    return value[kept], _hash_distinct(items.take(pa.array(kept)))


def _list_words(texts: pa.Array) -> tuple[Ints, Ints]:
    """Return (value, term) of each word; short numbers are none."""
    value, words = _split(texts, _WORD_BREAKS)
    useless = pc.or_(pc.equal(words, ""), pc.match_substring_regex(words, _SHORT_NUMBER))
    kept = np.flatnonzero(_to_floats(useless) == 0)
    return value[kept], _hash_distinct(words.take(pa.array(kept)))


def _list_grams(texts: pa.Array) -> tuple[Ints, Ints]:
    """Return (value, term) of each trigram of bytes, every digit read as 0."""
    heads = pc.replace_substring_regex(pc.utf8_slice_codeunits(texts, 0, _GRAM_HEAD), "[0-9]", "0")
    padded = [f" {head} ".encode() for head in heads.to_pylist()]
    text = np.frombuffer(b"".join(padded), np.uint8).astype(np.int64)
    value = np.repeat(np.arange(len(padded)), np.array([len(each) for each in padded], np.int64))
    inside = value[:-2] == value[2:]
    grams = text[:-2] << 16 | text[1:-1] << 8 | text[2:]
    return value[:-2][inside], grams[inside]


def _measure_quantiles(cells_KU: csr_array, number_U: Floats) -> Floats:
    """Return the quantiles of each column's quantities: (K, Q)."""
    quantiles = np.full((cells_KU.shape[0], len(LEVELS)), np.nan)
    for column, (start, end) in enumerate(zip(cells_KU.indptr[:-1], cells_KU.indptr[1:], strict=True)):
        numbers = np.repeat(number_U[cells_KU.indices[start:end]], cells_KU.data[start:end].astype(np.int64))
        numbers = numbers[~np.isnan(numbers)]
        if len(numbers):
            quantiles[column] = np.quantile(numbers, LEVELS)
    return quantiles


def _measure_facts(
    cells_KU: csr_array, whole: pa.Array, texts: pa.Array, kind_U: NDArray[np.int8], number_U: Floats
) -> NDArray[np.float32]:
    """Return what `FACTS` names of each column: (K, F)."""
    length = np.maximum(_to_floats(pc.utf8_length(texts)), 1)
    is_whole = number_U == np.round(number_U)
    facts_U: dict[str, NDArray[Any]] = {
        **{name: _to_floats(pc.count_substring_regex(whole, SHAPES[name])) / length for name in SHAPES},
        "characters": np.log1p(length),
        "words": np.log1p(_to_floats(pc.count_substring_regex(texts, r"\s+"))),
        "items": np.log1p(_to_floats(pc.count_substring_regex(texts, r"[,;|/]"))),
        "quantities": kind_U >= 0,
        "whole": is_whole,
        "years": is_whole & (number_U >= _FIRST_YEAR) & (number_U <= _LAST_YEAR),
        **{name: kind_U == kind for kind, name in enumerate(KINDS)},
    }
    num_cells = np.maximum(cells_KU.sum(axis=1), 1)
    facts = {name: cells_KU @ fact.astype(np.float64) / num_cells for name, fact in facts_U.items()}
    column = np.repeat(np.arange(len(num_cells)), np.diff(cells_KU.indptr))
    share = cells_KU.data / num_cells[column]
    entropy = np.bincount(column, weights=-share * np.log(share), minlength=len(num_cells))
    facts |= {"distinct": np.diff(cells_KU.indptr) / num_cells, "entropy": entropy / np.log(np.maximum(num_cells, 2))}
    return np.stack([facts[name] for name in FACTS], axis=1).astype(np.float32)


def _to_floats(array: pa.Array) -> Floats:
    floats: Floats = array.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats
