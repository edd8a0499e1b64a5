"""Stable 64-bit hashes of texts, cells and rows: the same on every machine, in every version, in any order of work."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from navi.errors import CorpusError

_BUCKET_BEGINS = np.arange(16, dtype=np.uint64) << np.uint64(60)
_BUCKETS_FROM = 1 << 18
"""Hashes from which an index has buckets: for fewer, sixteen small steps take longer than one."""
_EMPTY = blake2b(digest_size=8)
_MOST_IDS = np.iinfo(np.int32).max
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def hash_texts(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return one 64-bit hash for each text.

    >>> hash_texts(["drama", "comedy", "drama"])[[0, 2]].tolist()
    [13222706444115469365, 13222706444115469365]
    """
    digests = []
    for text in texts:
        state = _EMPTY.copy()  # quicker than to make one anew
        state.update(text.encode())
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


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
    """Numbers 64-bit hashes in order of first use: 12 bytes a hash, and n log n steps for n hashes overall."""

    def __init__(self) -> None:
        self._buckets = [_Bucket()]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of each hash, and the places of those met for the first time; no hash may come twice."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        ids = np.full(len(hashes), -1, np.int32)
        slices = _cut(ordered) if len(self._buckets) > 1 else [slice(None)]
        for bucket, part in zip(self._buckets, slices, strict=True):
            ids[order[part]] = bucket.find(ordered[part])
        new = np.flatnonzero(ids < 0)
        ids[new] = np.arange(self._size, self._size + len(new), dtype=np.int32)
        for bucket, part in zip(self._buckets, slices, strict=True):
            is_new = ids[order[part]] >= self._size
            bucket.add(ordered[part][is_new], ids[order[part]][is_new])
        self._size += len(new)
        if self._size > _MOST_IDS:
            raise CorpusError(f"More than {_MOST_IDS} distinct values or segments; set total_rows or largest_tables.")
        if len(self._buckets) == 1 and self._size >= _BUCKETS_FROM:
            self._buckets = self._buckets[0].split()
        return ids, new


def _cut(ordered: NDArray[np.uint64]) -> list[slice]:
    """Return where the hashes of each bucket stand among sorted ones."""
    bounds = np.searchsorted(ordered, _BUCKET_BEGINS).tolist()
    return [slice(*each) for each in pairwise([*bounds, len(ordered)])]


class _Bucket:
    """The hashes of one range, as sorted runs that merge when alike in length.

    Merging needs twice the room of what it merges: in buckets that is little at a time.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []

    def split(self) -> list[_Bucket]:
        """Return buckets that hold the same hashes, each those of its range."""
        buckets = [_Bucket() for _ in _BUCKET_BEGINS]
        for hashes, ids in self._runs:
            for bucket, part in zip(buckets, _cut(hashes), strict=True):
                bucket.add(hashes[part], ids[part])
        return buckets

    def find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the number of each hash, -1 where it is not known."""
        ids = np.full(len(hashes), -1, np.int32)
        for run_hashes, run_ids in self._runs if len(hashes) else ():
            places = np.minimum(np.searchsorted(run_hashes, hashes), len(run_hashes) - 1)
            found = run_hashes[places] == hashes
            ids[found] = run_ids[places[found]]
        return ids

    def add(self, hashes: NDArray[np.uint64], ids: NDArray[np.int32]) -> None:
        """Take in sorted hashes that are new, and their numbers."""
        if not len(hashes):
            return
        self._runs.append((hashes, ids))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            runs = [self._runs.pop(), self._runs.pop()]
            merged = np.concatenate([run[0] for run in runs])
            # A stable sort finds the two sorted runs and merges them in linear time.
            order = np.argsort(merged, kind="stable")
            self._runs.append((merged[order], np.concatenate([run[1] for run in runs])[order]))
