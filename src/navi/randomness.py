"""Random numbers as a pure function of what they are for: no state, so any part of a run can be made again alone.

Keys are signed integers of 64 bits, in numpy arrays or in tensors: torch has no unsigned arithmetic, so shifts, order
and remainders are made up for here, and both libraries give the same bits on every device.

>>> import numpy as np
>>> row_keys = fold(make_key(0, 1), np.arange(3))
>>> bool(row_keys[1] == fold(make_key(0, 1), np.array([1]))[0])
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    Keys = TypeVar("Keys", NDArray[np.int64], Tensor)

_UNIT = 2.0**-53


def _sign(number: int) -> int:
    """Return the signed number that has the same 64 bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >= 1 << 63 else number


_GOLDEN = _sign(0x9E3779B97F4A7C15)
_FIRST = _sign(0xBF58476D1CE4E5B9)
_SECOND = _sign(0x94D049BB133111EB)
_LOWEST = _sign(1 << 63)


def make_key(*parts: int) -> int:
    """Return one key for a few integers, such as (seed, epoch)."""
    key = np.zeros(1, dtype=np.int64)
    for part in parts:
        key = fold(key, np.array([_sign(part)]))
    return int(key[0])


def fold(keys: Keys | int, data: Keys | int) -> Keys:
    """Return new keys that depend on `keys` and on `data`, element by element."""
    scaled = _sign(keys * _GOLDEN) if isinstance(keys, int) else keys * _GOLDEN
    state: Any = data + scaled
    folded: Keys = scramble(state)
    return folded


def scramble(state: Keys) -> Keys:
    """Return splitmix64's output for each state: a bijection whose every bit depends on every bit of the state."""
    state = state + _GOLDEN
    state = (state ^ _shift(state, 30)) * _FIRST
    state = (state ^ _shift(state, 27)) * _SECOND
    return state ^ _shift(state, 31)


@overload
def uniform(keys: NDArray[np.int64]) -> NDArray[np.float64]: ...
@overload
def uniform(keys: Tensor) -> Tensor: ...
def uniform(keys: Any) -> Any:
    """Return one number in [0, 1) for each key, in double precision."""
    bits = _shift(keys, 11)
    return (bits.double() if hasattr(bits, "double") else bits) * _UNIT


def choose_below(keys: Keys, count: int) -> Keys:
    """Return the remainder of each key, taken as unsigned, by `count`."""
    return (_shift(keys, 1) % count * 2 + (keys & 1)) % count


def order_keys(keys: Keys) -> Keys:
    """Return keys whose signed order is the unsigned order of the given ones."""
    return keys ^ _LOWEST


def permute(key: int, count: int) -> NDArray[np.int64]:
    """Return the numbers 0 … count - 1 in an order that depends on the key alone."""
    return np.argsort(order_keys(fold(key, np.arange(count))), kind="stable")


def _shift(keys: Keys, bits: int) -> Keys:
    """Shift right without the sign."""
    return (keys >> bits) & ((1 << (64 - bits)) - 1)
