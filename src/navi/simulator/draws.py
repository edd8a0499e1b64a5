"""Random numbers that are a pure function of seed, name and index, so that any film can be made at any time."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@lru_cache(maxsize=4096)
def _key(seed: int, name: str) -> np.uint64:
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


class Draws:
    """Draws numbered by an index: the same seed, name and index give the same number, whatever was drawn before.

    >>> draws = Draws(7)
    >>> bool(draws.uniform("year", np.array([5, 6]))[1] == draws.uniform("year", np.array([6]))[0])
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def bits(self, name: str, index: ArrayLike) -> NDArray[np.uint64]:
        """64 random bits for each index (the SplitMix64 mixer over a counter)."""
        counter = np.atleast_1d(np.asarray(index, dtype=np.int64)).astype(np.uint64)
        x = counter * _STEP + _key(self.seed, name)
        x = (x ^ (x >> np.uint64(30))) * _FIRST
        x = (x ^ (x >> np.uint64(27))) * _SECOND
        mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
        return mixed

    def uniform(self, name: str, index: ArrayLike) -> NDArray[np.float64]:
        """A number in [0, 1) for each index."""
        return (self.bits(name, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, name: str, index: ArrayLike, bound: ArrayLike) -> NDArray[np.int64]:
        """A whole number in [0, bound) for each index; `bound` is one number or one for each index."""
        return (self.uniform(name, index) * np.asarray(bound)).astype(np.int64)

    def normal(self, name: str, index: ArrayLike) -> NDArray[np.float64]:
        """A number of mean 0 and deviation 1, bell-shaped and never beyond 3.5, for each index."""
        bits = self.bits(name, index)
        parts = [(bits >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
        total: NDArray[np.float64] = np.sum(parts, axis=0, dtype=np.float64)
        return (total / 65536.0 - 2.0) * 3.0**0.5

    def choice(self, name: str, index: ArrayLike, weights: ArrayLike) -> NDArray[np.int64]:
        """A place in `weights` for each index, as likely as its weight."""
        edges = np.cumsum(np.asarray(weights, dtype=np.float64))
        places = np.searchsorted(edges, self.uniform(name, index) * edges[-1], side="right")
        return np.minimum(places, len(edges) - 1).astype(np.int64)

    def one(self, name: str, bound: int) -> int:
        """A single whole number in [0, bound)."""
        return int(self.below(name, 0, bound)[0])

    def chance(self, name: str) -> float:
        """A single number in [0, 1)."""
        return float(self.uniform(name, 0)[0])

    def order(self, name: str, size: int) -> list[int]:
        """The numbers 0 to size - 1 in random order."""
        return [int(place) for place in np.argsort(self.uniform(name, np.arange(size)), kind="stable")]
