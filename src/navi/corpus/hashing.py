"""Hashes of texts, cells and rows in 64 bits, the same on every machine and in any order of work; weights of terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import CorpusError
from navi.randomness import scramble

Hashes = NDArray[np.uint64]
Run = tuple[Hashes, NDArray[np.int32]]
"""Sorted hashes, and the number of each."""
MAX_IDS = np.iinfo(np.int32).max
"""Distinct values or segments that a corpus can number."""
MEMORY_HASHES, BUCKETS = 1 << 17, 1 << 12
"""Hashes of an index that are in memory, where it has a folder; equal parts of the range of hashes in a file."""
_ENTRY = np.dtype([("hash", np.uint64), ("id", np.int32)])
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

    They lie in sorted runs that merge when alike in length, in memory or, with a folder, `MEMORY_HASHES` of them there
    and the others in files: n log n steps for n hashes overall.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._runs: list[Run] = []
        self._files: list[_RunFile] = []
        self._known: Run = (np.zeros(0, np.uint64), np.zeros(0, np.int32))
        """What the files have of the hashes that come next."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def expect(self, hashes: Hashes) -> None:
        """Fetch the numbers of hashes that come next; with a folder, no other may come before the next call."""
        if self._folder is None:
            return
        if sum(len(run) for run, _ in self._runs) > MEMORY_HASHES:
            self._write(self._folder)
        hashes = np.unique(hashes)
        found = np.concatenate([np.zeros(0, _ENTRY), *(file.find(hashes) for file in self._files)])
        order = np.argsort(found["hash"])
        self._known = (found["hash"][order], found["id"][order])

    def add(self, hashes: Hashes) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of each hash, and the places of those met for the first time; no hash may come twice."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        ids = np.full(len(hashes), -1, np.int32)
        for run, run_ids in [*self._runs, *([self._known] if len(self._known[0]) else [])]:
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

    def _write(self, folder: Path) -> None:
        """Move all runs that are in memory to a file, with those that lie in files of at most twice their length."""
        entries = np.empty(sum(len(run) for run, _ in self._runs), _ENTRY)
        entries["hash"], entries["id"] = (np.concatenate(column) for column in zip(*self._runs, strict=True))
        parts: list[NDArray[Any] | _RunFile] = [entries[np.argsort(entries["hash"])]]
        while self._files and len(self._files[-1]) < 2 * sum(map(len, parts)):
            parts.append(self._files.pop())
        self._files.append(_RunFile.write(folder / f"{id(self)}-{self._size}", parts))
        for part in parts[1:]:
            part.path.unlink()  # type: ignore[union-attr]
        self._runs = []


@dataclass(frozen=True)
class _RunFile:
    """A sorted run in a file, read a part of the range of hashes at a time."""

    path: Path
    ends: NDArray[np.int64]
    """(BUCKETS + 1,) where the hashes of each bucket, an equal part of the range, begin."""

    def __len__(self) -> int:
        return int(self.ends[-1])

    @classmethod
    def write(cls, path: Path, parts: Sequence[NDArray[Any] | _RunFile]) -> _RunFile:
        """Write several runs as one."""
        counts = np.zeros(BUCKETS, np.int64)
        with path.open("wb") as file:
            for buckets in _divide(sum(map(len, parts))):
                entries = np.concatenate([_read_part(part, buckets) for part in parts])
                entries = entries[np.argsort(entries["hash"])]
                counts += np.bincount(_find_buckets(entries["hash"]), minlength=BUCKETS)
                entries.tofile(file)
        return cls(path, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))

    def find(self, hashes: Hashes) -> NDArray[Any]:
        """Return the entries of those of some sorted hashes that are in the file."""
        found = []
        for buckets in _divide(len(self)):
            wanted = hashes[slice(*np.searchsorted(_find_buckets(hashes), [buckets.start, buckets.stop]))]
            if len(wanted):
                entries = _read_part(self, buckets)
                known = np.ascontiguousarray(entries["hash"])
                places = np.searchsorted(known, wanted)
                found.append(entries[places[known.take(places, mode="clip") == wanted]] if len(known) else entries)
        return np.concatenate([np.zeros(0, _ENTRY), *found])


def _find_buckets(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> np.uint64(64 - BUCKETS.bit_length() + 1)).astype(np.int64)


def _divide(num_entries: int) -> list[range]:
    """Return ranges of buckets that have about `MEMORY_HASHES` of so many entries each, or fewer."""
    step = max(1, BUCKETS * MEMORY_HASHES // max(num_entries, MEMORY_HASHES))
    return [range(begin, min(begin + step, BUCKETS)) for begin in range(0, BUCKETS, step)]


def _read_part(part: NDArray[Any] | _RunFile, buckets: range) -> NDArray[Any]:
    if isinstance(part, _RunFile):
        begin, end = part.ends[buckets.start], part.ends[buckets.stop]
        return np.fromfile(part.path, _ENTRY, int(end - begin), offset=int(begin) * _ENTRY.itemsize)
    return part[slice(*np.searchsorted(_find_buckets(part["hash"]), [buckets.start, buckets.stop]))]
