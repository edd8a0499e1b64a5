"""Hashes of texts, cells and rows in 64 bits, the same on every machine and in any order of work; weights of terms."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from navi.errors import CorpusError
from navi.randomness import scramble

Hashes = NDArray[np.uint64]
MAX_IDS = np.iinfo(np.int32).max
"""Distinct values or segments that a corpus can number."""
_EMPTY = blake2b(digest_size=8)


def hash_texts(texts: Iterable[str]) -> Hashes:
    """Return one 64-bit hash for each text.

    >>> hash_texts(["drama", "comedy", "drama"])[[0, 2]].tolist()
    [13222706444115469365, 13222706444115469365]
    """
    digests = []
    for text in texts:
        state = _EMPTY.copy()  # quicker than to make a new one
        state.update(text.encode())
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def hash_text(text: str) -> np.uint64:
    """Return the 64-bit hash of one text."""
    return np.uint64(hash_texts([text])[0])


def mix(first: Hashes, second: Hashes | np.uint64) -> Hashes:
    """Return a hash of each pair; `mix(a, b)` and `mix(b, a)` differ."""
    return scramble(scramble(first.view(np.int64)) + second.view(np.int64)).view(np.uint64)


def hash_rows(cell_hash: Hashes, row_offsets: NDArray[np.int64]) -> Hashes:
    """Return the hash of each row from those of its cells, whatever their order."""
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(cell_hash.view(np.int64))])
    sums: NDArray[np.int64] = running[row_offsets[1:]] - running[row_offsets[:-1]]
    return scramble(sums).view(np.uint64)


def inverse_document_frequency(num_documents: int, frequency: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how much terms say that so many of the documents hold: 0 if all do, the more the rarer they are."""
    weights: NDArray[np.float64] = np.log((1 + num_documents) / (1 + frequency))
    return weights


class HashIndex:
    """Numbers 64-bit hashes in order of first use.

    They lie in sorted runs that merge when alike in length: 12 bytes a hash, twice that while the longest run merges,
    and n log n steps for n hashes overall.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, NDArray[np.int32]]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, hashes: Hashes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of each hash, and the places of those met for the first time; no hash may come twice."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        ids = np.full(len(hashes), -1, np.int32)
        for run, run_ids in self._runs:
            places = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            found = run[places] == ordered
            ids[order[found]] = run_ids[places[found]]
        new = np.flatnonzero(ids < 0)
        ids[new] = np.arange(self._size, self._size + len(new), dtype=np.int32)
        is_new = ids[order] >= self._size
        self._insert(ordered[is_new], ids[order[is_new]])
        self._size += len(new)
        if self._size > MAX_IDS:
            raise CorpusError(f"More than {MAX_IDS} distinct values or segments; set total_rows or largest_tables.")
        return ids, new

    def _insert(self, hashes: Hashes, ids: NDArray[np.int32]) -> None:
        """Take in sorted hashes that are new, and their numbers."""
        while self._runs and len(self._runs[-1][0]) < 2 * len(hashes):
            run, run_ids = self._runs.pop()
            places = np.searchsorted(run, hashes)
            hashes, ids = np.insert(run, places, hashes), np.insert(run_ids, places, ids)
        if len(hashes):
            self._runs.append((hashes, ids))
