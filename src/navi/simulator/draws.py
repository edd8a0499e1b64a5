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
        x = np.atleast_1d(np.asarray(index, dtype=np.int64)).astype(np.uint64)
        x *= _STEP
        x += _key(self.seed, name)
        x ^= x >> np.uint64(30)
        x *= _FIRST
        x ^= x >> np.uint64(27)
        x *= _SECOND
        x ^= x >> np.uint64(31)
        return x

    def uniform(self, name: str, index: ArrayLike) -> NDArray[np.float64]:
        """A number in [0, 1) for each index."""
        return (self.bits(name, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, name: str, index: ArrayLike, bound: ArrayLike) -> NDArray[np.int64]:
        """A whole number in [0, bound) for each index; `bound` is one number or one for each index."""
        places: NDArray[np.int64] = (self.uniform(name, index) * np.asarray(bound)).astype(np.int64)
        return places

    def normal(self, name: str, index: ArrayLike) -> NDArray[np.float64]:
        """A number of mean 0 and deviation 1, bell-shaped and never beyond 3.5, for each index."""
        bits = self.bits(name, index)
        parts = [(bits >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
        total = sum(part.astype(np.float64) for part in parts)
        centred: NDArray[np.float64] = (total / 65536.0 - 2.0) * 3.0**0.5
        return centred

    def choice(self, name: str, index: ArrayLike, weights: ArrayLike) -> NDArray[np.int64]:
        """A place in `weights` for each index, as likely as its weight."""
        edges = np.cumsum(np.asarray(weights, dtype=np.float64))
        places: NDArray[np.int64] = np.searchsorted(edges, self.uniform(name, index) * edges[-1], side="right")
        return np.minimum(places, len(edges) - 1)

    def one(self, name: str, bound: int) -> int:
        """A single whole number in [0, bound)."""
        return int(self.below(name, 0, bound)[0])

    def chance(self, name: str) -> float:
        """A single number in [0, 1)."""
        return float(self.uniform(name, 0)[0])

    def order(self, name: str, size: int) -> list[int]:
        """The numbers 0 to size - 1 in random order."""
        return [int(place) for place in np.argsort(self.uniform(name, np.arange(size)), kind="stable")]

    def shuffle(self, name: str, index: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """The number at each index of a random order of 0 to size - 1, without making that order.

        A bijection of the next power of two, walked on until it falls below `size`.
        """
        bits = max(4, (size - 1).bit_length())
        places = index.astype(np.uint64)
        outside = np.ones(len(places), dtype=bool)
        while outside.any():
            places[outside] = self._permute(name, places[outside], bits)
            outside = places >= np.uint64(size)
        return places.astype(np.int64)

    def _permute(self, name: str, places: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
        mask = np.uint64(2**bits - 1)
        for turn in range(3):
            key = _key(self.seed, f"{name} turn {turn}")
            places = (places * (key | np.uint64(1)) + (key >> np.uint64(7))) & mask
            places = places ^ (places >> np.uint64(bits // 2 - turn % 2))
        return places
