"""Stable 64-bit hashes of texts, cells and rows: the same on every machine, in every version, in any order of work."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from navi.errors import CorpusError

_MOST_IDS = np.iinfo(np.int32).max
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hash_texts(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return one 64-bit hash for each text.

    >>> hash_texts(["drama", "comedy", "drama"])[[0, 2]].tolist()
    [13222706444115469365, 13222706444115469365]
    """
    digests = b"".join([blake2b(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)


def hash_text(text: str) -> np.uint64:
    """Return the 64-bit hash of one text."""
    return np.uint64(hash_texts([text])[0])


def mix(first: NDArray[np.uint64], second: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """Return a hash of each pair; `mix(a, b)` and `mix(b, a)` differ."""
    return _scramble(_scramble(first) + second)


def hash_rows(cell_hash: NDArray[np.uint64], row_offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of each row from those of its cells, whatever their order."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cell_hash, dtype=np.uint64)])
    return _scramble(running[row_offsets[1:]] - running[row_offsets[:-1]])


def _scramble(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The output function of splitmix64: a bijection whose every output bit depends on every input bit.
    state = state + _STEP
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


class HashIndex:
    """Numbers 64-bit hashes in order of first use.

    Held as sorted runs that merge when alike in length: 12 bytes a hash, and adding n hashes costs n log n overall.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of each hash, and the places of those met for the first time; no hash may come twice."""
        order = np.argsort(hashes)
        ids_sorted = self._find(hashes[order])
        ids = np.empty(len(hashes), np.int32)
        ids[order] = ids_sorted
        new = np.flatnonzero(ids < 0)
        ids[new] = np.arange(self._size, self._size + len(new), dtype=np.int32)
        self._size += len(new)
        if self._size > _MOST_IDS:
            raise CorpusError(f"More than {_MOST_IDS} distinct values or segments; set total_rows or largest_tables.")
        is_new = ids_sorted < 0
        self._push(hashes[order[is_new]], ids[order[is_new]])
        return ids, new

    def _find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        ids = np.full(len(hashes), -1, np.int32)
        for run_hashes, run_ids in self._runs:
            places = np.minimum(np.searchsorted(run_hashes, hashes), len(run_hashes) - 1)
            found = run_hashes[places] == hashes
            ids[found] = run_ids[places[found]]
        return ids

    def _push(self, hashes: NDArray[np.uint64], ids: NDArray[np.int32]) -> None:
        if len(hashes):
            self._runs.append((hashes, ids))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            runs = [self._runs.pop(), self._runs.pop()]
            merged = np.concatenate([run[0] for run in runs])
            # A stable sort finds the two sorted runs and merges them in linear time.
            order = np.argsort(merged, kind="stable")
            self._runs.append((merged[order], np.concatenate([run[1] for run in runs])[order]))
