"""Which tables that a model was trained on overlap with tables of a benchmark, by their values and headers.

    python benchmarks/overlap.py --training open/ movie/ --benchmark gdc/ wdc_product_sites/dataset [--without LIST]

A value counts the more the fewer tables hold it, short numbers not at all. A column is *covered* if one column of the
other table has half of its values. Two tables have the *same rows* if half of the columns of one of them are covered,
three at least, or two and nearly all values: two lists of films share titles, but not what stands beside them. They are
*sisters* if half of their headers are the same and some of their values. One line a pair; the exit code is 1 if there
is any. `--without` is a file that names training tables to leave out, `folder/name` at the beginning of a line.
"""

# needs: two folders of tables; other benchmarks import it.
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array

from navi.corpus.hashing import hash_texts, inverse_document_frequency
from navi.tables import Chunk, ReadReport, find_sources, name_frames, read_chunks, read_frame

TELLING = r"\p{L}.*\p{L}..|(\d\D?){5}"
"""What a value must have to count: letters, or five digits."""
MAX_TABLES = 40
"""Tables that may hold a value; one that more have does not count."""
HALF = 0.5
"""Share of a column's values that covers it, of columns that makes rows the same, of headers that makes sisters."""
NEARLY_ALL = 0.9
"""Share of the smaller table's values with which two covered columns are enough."""
SOME = 0.05
"""Share of the smaller table's values that sisters have in common, at least."""
MIN_VALUES = 5
"""Values that count below which nothing follows from a column; sisters have twice as many in common."""

# Shape suffixes: T tables, C columns, V distinct values; of two, those of the training come first.


@dataclass(frozen=True, kw_only=True, order=True)
class Overlap:
    """A table that was trained on and one that is measured on, too much alike."""

    training: str
    benchmark: str
    kind: str
    columns: int
    """Columns of one table that the other covers."""
    values: float
    """Share of the smaller table's values, by weight, that the other has."""
    headers: float
    """Jaccard index of the headers."""

    def __str__(self) -> str:
        figures = f"columns={self.columns} values={self.values:.2f} headers={self.headers:.2f}"
        return f"{self.training}  {self.benchmark}  {self.kind}  {figures}"


def _stream(tables: Any) -> Iterator[tuple[str, Iterable[Chunk]]]:
    if isinstance(tables, dict):
        yield from ((name, read_frame(frame)) for name, frame in name_frames(tables).items())
    else:
        for source in find_sources([tables] if isinstance(tables, str | Path) else tables).sources:
            yield f"{source.path.parent.name}/{source.name.rsplit('/', 1)[-1]}", read_chunks(source, ReadReport())


def _hash_cells(chunks: Iterable[Chunk]) -> tuple[list[str], NDArray[np.uint64]]:
    """Return a table's headers, and the column and the hash of each cell that counts."""
    place: dict[str, int] = {}
    cells = [np.zeros((2, 0), np.uint64)]
    for chunk in chunks:
        plain = (" ".join(header.lower().replace("_", " ").split()) for header in chunk.headers)
        column = np.array([place.setdefault(header, len(place)) for header in plain], np.uint64)
        encoded = pc.utf8_lower(chunk.cell_value).dictionary_encode()
        counts = np.asarray(pc.match_substring_regex(encoded.dictionary, TELLING))[encoded.indices]
        value = hash_texts(encoded.dictionary.to_pylist())[encoded.indices]
        cells.append(np.stack([column[chunk.cell_header], value])[:, counts])
    return list(place), np.concatenate(cells, axis=1)


def _mark(row: NDArray[Any], column: NDArray[Any], shape: tuple[int, int]) -> csr_array:
    return csr_array((np.ones(len(row)), (row.astype(np.int64), column.astype(np.int64))), shape=shape).sign()


def find_overlaps(training: Any, benchmark: Any, *, without: Path | None = None) -> list[Overlap]:
    """Return the pairs of tables that overlap; tables are files and folders, or a mapping of frames."""
    left_out = {line.split(" ")[0] for line in without.read_text("utf-8").splitlines()} if without else set()
    first = [(name, *_hash_cells(chunks)) for name, chunks in _stream(training) if name not in left_out]
    second = [(name, *_hash_cells(chunks)) for name, chunks in _stream(benchmark)]
    names, headers, cells = zip(*first, *second, strict=True)
    widths = [len(each) for each in headers]
    num_columns, before = sum(widths), np.cumsum(widths) - widths
    has_TC = _mark(np.repeat(np.arange(len(names)), widths), np.arange(num_columns), (len(names), num_columns))
    column = np.concatenate([start + each[0].astype(np.int64) for start, each in zip(before, cells, strict=True)])
    values, place = np.unique(np.concatenate([each[1] for each in cells]), return_inverse=True)
    holds_CV = _mark(column, place, (num_columns, len(values)))
    held_V = (has_TC @ holds_CV).sign().sum(axis=0)
    is_rare_V = held_V <= MAX_TABLES
    weight_V = inverse_document_frequency(1 + len(names), held_V)[is_rare_V]
    holds_CV = holds_CV[:, is_rare_V]
    holds_TV = (has_TC @ holds_CV).sign()

    number, others = len(first), before[len(first)]
    shared_TT = (holds_TV[:number] @ holds_TV[number:].T).toarray()
    total_T = holds_TV @ weight_V
    values_TT = (holds_TV[:number] @ (holds_TV[number:] * weight_V).T).toarray()
    values_TT /= np.maximum(np.minimum.outer(total_T[:number], total_T[number:]), 1e-9)
    sides = (has_TC[:number, :others], holds_CV[:others]), (has_TC[number:, others:], holds_CV[others:])
    ours_TT, asked_T = _count_covered(*sides[0], *sides[1], weight_V)
    theirs_TT, asked_of_T = _count_covered(*sides[1], *sides[0], weight_V)
    columns_TT = np.maximum(ours_TT, theirs_TT.T)
    same_TT = (columns_TT >= 3) | ((columns_TT >= 2) & (values_TT >= NEARLY_ALL))
    same_TT &= (ours_TT / np.maximum(asked_T, 1)[:, None] >= HALF) | (theirs_TT.T / np.maximum(asked_of_T, 1) >= HALF)

    found = []
    for a, b in np.argwhere(same_TT | ((values_TT >= SOME) & (shared_TT >= 2 * MIN_VALUES))):
        ours, theirs = set(headers[a]), set(headers[number + b])
        jaccard = len(ours & theirs) / len(ours | theirs)
        if same_TT[a, b] or jaccard >= HALF:
            kind = "same rows" if same_TT[a, b] else "sisters"
            figures = {"columns": int(columns_TT[a, b]), "values": float(values_TT[a, b]), "headers": jaccard}
            found.append(Overlap(training=names[a], benchmark=names[number + b], kind=kind, **figures))
    return sorted(found)


def _count_covered(
    has_TC: csr_array, holds_CV: csr_array, other_TC: csr_array, other_CV: csr_array, weight_V: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how many columns of each table each other one covers, and how many columns there are to cover."""
    number_CC, shared_CC = ((holds_CV @ (other_CV * each).T).tocoo() for each in (np.ones_like(weight_V), weight_V))
    i, j = shared_CC.coords
    covered = (number_CC.data >= MIN_VALUES) & (shared_CC.data >= HALF * (holds_CV @ weight_V)[i])
    covered_CC = _mark(i[covered], j[covered], shared_CC.shape)
    # One column of numbers may cover several: no more count than there are columns that cover.
    covered_TT = (has_TC @ (covered_CC @ other_TC.T).sign()).toarray()
    covering_TT = ((has_TC @ covered_CC).sign() @ other_TC.T).toarray()
    return np.minimum(covered_TT, covering_TT), has_TC @ (holds_CV.sum(axis=1) >= MIN_VALUES)


def check_no_overlap(training: Any, tables: Any, *, without: Path | None = None) -> None:
    """Refuse to go on if a table that was trained on overlaps with one that is measured on."""
    names = sorted({overlap.training for overlap in find_overlaps(training, tables, without=without)})
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise SystemExit(f"{len(names)} training tables overlap with this benchmark: {shown}. Train without them.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, nargs="+", required=True)
    parser.add_argument("--benchmark", type=Path, nargs="+", required=True)
    parser.add_argument("--without", type=Path)
    arguments = parser.parse_args()
    overlaps = find_overlaps(arguments.training, arguments.benchmark, without=arguments.without)
    for overlap in overlaps:
        print(overlap)
    sys.exit(bool(overlaps))
