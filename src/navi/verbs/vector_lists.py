"""Compressed lists of vectors: made in blocks, added to, and read from the disk.

faiss sorts vectors into lists and keeps a code of at most 48 bytes of each, and 8 for its number (IVF-PQ). A query goes
through the codes of a few lists; the best are compared again by their vectors, which stay on disk in half precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import MissingExtraError
from navi.model.runner import Floats, Ints

# Shape suffixes: N vectors, D hidden size, Q queries.

MAX_CODES = 48
"""Bytes of a vector's code, at most."""
MAX_LISTS = 8192
SAMPLE_PER_LIST = 40
"""Vectors for each list that the lists are found by."""
BLOCK = 65_536
"""Vectors that are in memory at a time."""
CANDIDATES = 200
"""Vectors that are compared exactly for each query, at least."""
RECALL, ASKED_ROWS = 0.97, 100
"""Share of the ten nearest that must be found, and the number of rows it is measured on when an index is made."""


def import_faiss() -> Any:
    """Return faiss, or say which extra brings it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("An index for large tables", "index") from error
    return faiss


def build_lists(vectors_ND: NDArray[Any]) -> Any:
    """Return a faiss index of unit vectors, by inner product, made block by block.

    As many lists are asked for each query as it takes to find `RECALL` of the nearest of some of these rows.
    """
    faiss = import_faiss()
    num, size = vectors_ND.shape
    num_lists = max(1, min(MAX_LISTS, num // SAMPLE_PER_LIST, int(2 * num**0.5)))
    sample = np.sort(np.random.default_rng(0).permutation(num)[: max(SAMPLE_PER_LIST * num_lists, 10_000)])
    codes = max(divisor for divisor in range(1, MAX_CODES + 1) if size % divisor == 0)
    # A code byte stands for 256 pieces, which need as many vectors to be learned from.
    bits = 8 if len(sample) >= 256 else max(1, int(np.log2(len(sample))))
    index = faiss.index_factory(size, f"IVF{num_lists},PQ{codes}x{bits}", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
    index.cp.niter = 10
    index.do_polysemous_training = False  # would order codes for filters that nothing uses: nine tenths of the time
    index.train(np.ascontiguousarray(vectors_ND[sample], np.float32))
    add_vectors(index, vectors_ND)
    index.nprobe = _choose_lists(index, vectors_ND)
    return index


def add_vectors(index: Any, vectors_ND: NDArray[Any]) -> None:
    """Add vectors to an index, block by block."""
    for start in range(0, len(vectors_ND), BLOCK):
        index.add(np.ascontiguousarray(vectors_ND[start : start + BLOCK], np.float32))


def find_nearest(vectors_ND: NDArray[Any], queries_QD: Floats, k: int) -> Ints:
    """Return the k nearest of all vectors to each query, nearest first, by comparing with each: (Q, k)."""
    nearest, apart = np.zeros((len(queries_QD), 0), np.int64), np.zeros((len(queries_QD), 0), np.float32)
    for start in range(0, len(vectors_ND), BLOCK):
        block = -(queries_QD @ vectors_ND[start : start + BLOCK].astype(np.float32).T)
        near = np.argpartition(block, min(k, block.shape[1]) - 1)[:, :k]
        apart = np.concatenate([apart, np.take_along_axis(block, near, 1)], axis=1)
        nearest = np.concatenate([nearest, near + start], axis=1)
        order = np.argsort(apart, axis=1, kind="stable")[:, :k]
        nearest, apart = np.take_along_axis(nearest, order, 1), np.take_along_axis(apart, order, 1)
    return nearest


def _choose_lists(index: Any, vectors_ND: NDArray[Any]) -> int:
    """Return how many lists to ask: the fewest, doubling from 8, that find enough of the nearest of some rows."""
    asked = np.random.default_rng(1).permutation(len(vectors_ND))[:ASKED_ROWS]
    nearest = find_nearest(vectors_ND, vectors_ND[asked].astype(np.float32), 11).tolist()
    exact = [set(near) - {row} for near, row in zip(nearest, asked.tolist(), strict=True)]
    index.nprobe = 8
    while index.nprobe < index.nlist:
        found = [rerank(index, vectors_ND, vectors_ND[row].astype(np.float32), 11)[0] for row in asked]
        hits = sum(len(near & set(ids)) for near, ids in zip(exact, found, strict=True))
        if hits >= RECALL * sum(map(len, exact)):
            break
        index.nprobe *= 2
    return int(min(index.nprobe, index.nlist))


def propose(index: Any, query_D: Floats, count: int) -> Ints:
    """Return about so many vectors that may be the nearest, in their order."""
    proposed = np.sort(index.search(query_D[None], count)[1][0])
    found: Ints = proposed[proposed >= 0]
    return found


def rerank(index: Any, vectors_ND: NDArray[Any], query_D: Floats, k: int) -> tuple[Ints, Floats]:
    """Return the k nearest vectors that the index proposes, nearest first, and their inner products."""
    proposed = propose(index, query_D, min(max(CANDIDATES, 10 * k), len(vectors_ND)))
    scores = vectors_ND[proposed].astype(np.float32) @ query_D
    best = np.argsort(-scores, kind="stable")[:k]
    return proposed[best], scores[best]


def read_lists(file: Path) -> Any:
    """Open a faiss index whose codes stay on disk, memory-mapped."""
    faiss = import_faiss()
    return faiss.read_index(str(file), faiss.IO_FLAG_MMAP)
