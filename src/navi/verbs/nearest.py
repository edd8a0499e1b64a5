"""The rows that may be nearest to a vector: all of a small set, those that an index proposes of a large one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from navi.errors import MissingExtraError, ModelError
from navi.verbs.pool import Floats, Ints

METHODS = ("auto", "exact", "hnsw", "ivf")
"""How rows are found: `exact` compares with all; `hnsw` (a graph) and `ivf` (cells of 8-bit vectors) approximate."""
EXACT_ROWS = 100_000
"""Rows up to which `auto` compares with all; beyond, it takes a graph."""
MIN_CANDIDATES = 200
"""Rows that an approximate index proposes for a query, at least."""
ROWS_AT_ONCE = 65_536


class Nearest(Protocol):
    """Proposes rows for a query."""

    def propose(self, vector: Floats, overlap: Floats, k: int) -> Ints | slice:
        """Return the places of the rows worth comparing, given the query's vector and what words each row shares."""


class AllRows:
    """Proposes every row."""

    def propose(self, vector: Floats, overlap: Floats, k: int) -> Ints | slice:
        """Return all rows."""
        return slice(None)


@dataclass(frozen=True)
class Approximate:
    """Proposes the rows that a faiss index finds, and those that share the most words."""

    index: Any
    """The faiss index, by inner product."""

    def propose(self, vector: Floats, overlap: Floats, k: int) -> Ints | slice:
        """Return the rows near in space, and those near in words."""
        count = min(max(MIN_CANDIDATES, 20 * k), len(overlap))
        near = self.index.search(vector[None], count)[1][0]
        shared = np.argpartition(-overlap, count - 1)[:count]
        proposed: Ints = np.union1d(near[near >= 0], shared[overlap[shared] > 0])
        return proposed


def choose_method(method: str, num_rows: int) -> str:
    """Return the method that `auto` stands for."""
    if method != "auto":
        return method
    return "exact" if num_rows <= EXACT_ROWS else "hnsw"


def build_nearest(vectors: Floats, method: str) -> Nearest:
    """Return what finds rows by a method, `auto` resolved."""
    if method == "exact":
        return AllRows()
    faiss, width = import_faiss(), vectors.shape[1]
    if method == "hnsw":
        index = faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 80, 2 * MIN_CANDIDATES
    else:
        cells = max(1, int(4 * np.sqrt(len(vectors))))
        eight_bits = faiss.ScalarQuantizer.QT_8bit
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(width), width, cells, eight_bits, faiss.METRIC_INNER_PRODUCT
        )
        index.nprobe = max(8, cells // 16)
        index.train(_sample(vectors, 50 * cells))
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        index.add(np.ascontiguousarray(vectors[start : start + ROWS_AT_ONCE]))
    return Approximate(index)


def save_nearest(nearest: Nearest, file: Path) -> None:
    """Write a faiss index; comparing with all rows needs none."""
    if isinstance(nearest, Approximate):
        import_faiss().write_index(nearest.index, str(file))


def load_nearest(method: str, file: Path) -> Nearest:
    """Return what `save_nearest` wrote."""
    if method == "exact":
        return AllRows()
    try:
        return Approximate(import_faiss().read_index(str(file)))
    except RuntimeError as error:
        raise ModelError(f"Cannot read the index {file}. Build it again.") from error


def import_faiss() -> Any:
    """Return faiss, or say which extra brings it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("An index for large tables (hnsw, ivf)", "index") from error
    return faiss


def _sample(vectors: Floats, count: int) -> Floats:
    if len(vectors) <= count:
        return np.ascontiguousarray(vectors)
    return np.ascontiguousarray(vectors[np.sort(np.random.default_rng(0).choice(len(vectors), count, replace=False))])
