"""Random numbers as a pure function of what they are for: no state, so any batch can be made again alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def make_key(*parts: int) -> np.uint64:
    """Return one key for a few integers, such as (seed, epoch)."""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        key = fold(key, np.array([part & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
    return np.uint64(key[0])


def fold(keys: Keys | np.uint64, data: NDArray[np.integer] | int) -> Keys:
    """Return new keys that depend on `keys` and on `data`, element by element.

    >>> row_keys = fold(make_key(0, 1), np.arange(3))
    >>> bool(np.array_equal(row_keys[1:2], fold(make_key(0, 1), np.array([1]))))
    True
    """
    mixed = np.atleast_1d(np.asarray(keys, dtype=np.uint64)) * _GOLDEN + np.asarray(data).astype(np.uint64) + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def uniform(keys: Keys) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each key."""
    return (keys >> np.uint64(11)).astype(np.float64) * _UNIT


def permute(key: np.uint64, count: int) -> NDArray[np.int64]:
    """Return the numbers 0 … count - 1 in an order that depends on the key alone."""
    return np.argsort(fold(key, np.arange(count)), kind="stable")
