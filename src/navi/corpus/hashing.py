"""Hashes of texts, cells and rows in 64 bits, the same on every machine and in any order of work; weights of terms."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import release
from navi.errors import CorpusError
from navi.randomness import scramble

Hashes = NDArray[np.uint64]
Run = tuple[Hashes, NDArray[np.int32]]
"""Sorted hashes, and the number of each."""
MAX_IDS = np.iinfo(np.int32).max
"""Distinct values or segments that a corpus can number."""
MEMORY_HASHES = 1 << 17
"""Hashes of a run that are in memory at a time, where an index has a folder."""
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

    They lie in sorted runs that merge when alike in length: n log n steps for n hashes overall. With a folder, runs of
    more than `MEMORY_HASHES` are files in it, memory-mapped, of which so many are in memory at a time.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._runs: list[Run] = []
        self._size = 0

    def add(self, hashes: Hashes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of each hash, and the places of those met for the first time; no hash may come twice."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        ids = np.full(len(hashes), -1, np.int32)
        for run, run_ids in self._runs:
            for part in _divide(run):
                known = run[part]
                wanted = slice(np.searchsorted(ordered, known[0]), np.searchsorted(ordered, known[-1], "right"))
                places = np.searchsorted(known, ordered[wanted])
                found = known[places] == ordered[wanted]
                ids[order[wanted][found]] = run_ids[part][places[found]]
                release(run, run_ids)
        new = np.flatnonzero(ids < 0)
        ids[new] = np.arange(self._size, self._size + len(new), dtype=np.int32)
        is_new = ids[order] >= self._size
        self._size += len(new)
        if self._size > MAX_IDS:
            raise CorpusError(f"More than {MAX_IDS} distinct values or segments; set total_rows or largest_tables.")
        merged = (ordered[is_new], ids[order[is_new]])
        while self._runs and len(self._runs[-1][0]) < 2 * len(merged[0]):
            merged = self._merge(self._runs.pop(), merged)
        if len(new):
            self._runs.append(merged)
        return ids, new

    def _merge(self, one: Run, other: Run) -> Run:
        """Return two runs as one, in files where it is too long for the memory."""
        if self._folder is None or len(one[0]) + len(other[0]) <= MEMORY_HASHES:
            return _insert(one, other)
        paths = [self._folder / f"{id(self)}-{self._size}-{len(one[0])}-{name}" for name in ("hashes", "ids")]
        with paths[0].open("wb") as hash_file, paths[1].open("wb") as id_file:
            begin = 0
            for part in _divide(one[0]):
                is_last = part.stop >= len(one[0])
                end = len(other[0]) if is_last else int(np.searchsorted(other[0], one[0][part][-1]))
                hashes, ids = _insert((one[0][part], one[1][part]), (other[0][begin:end], other[1][begin:end]))
                hashes.tofile(hash_file)
                ids.tofile(id_file)
                release(*one, *other)
                begin = end
        for array in (*one, *other):
            if isinstance(array, np.memmap):
                Path(str(array.filename)).unlink()
        return np.memmap(paths[0], np.uint64, "r"), np.memmap(paths[1], np.int32, "r")


def _divide(run: Hashes) -> list[slice]:
    return [slice(begin, begin + MEMORY_HASHES) for begin in range(0, len(run), MEMORY_HASHES)]


def _insert(one: Run, other: Run) -> Run:
    """Return two runs as one."""
    places = np.searchsorted(one[0], other[0])
    return np.insert(one[0], places, other[0]), np.insert(one[1], places, other[1])
