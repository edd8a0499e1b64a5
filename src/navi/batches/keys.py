"""The counter's random numbers as tensors: the same bits as `navi.batches.counter` has, on any device.

Tensors have no unsigned arithmetic of 64 bits, so keys are signed: sums and products wrap alike, and what differs —
shifts, order and remainders — is made up for here.
"""

from __future__ import annotations

from torch import Tensor

_BITS = 64
_UNIT = 2.0**-53


def _sign(number: int) -> int:
    """Return the signed number that has the same 64 bits."""
    return number - (1 << _BITS) if number >= 1 << (_BITS - 1) else number


_GOLDEN = _sign(0x9E3779B97F4A7C15)
_FIRST = _sign(0xBF58476D1CE4E5B9)
_SECOND = _sign(0x94D049BB133111EB)
_LOWEST = _sign(1 << (_BITS - 1))


def sign_key(key: int) -> int:
    """Return a key of the counter as the tensors here have it."""
    return _sign(int(key))


def fold_keys(keys: Tensor, data: Tensor | int) -> Tensor:
    """Return new keys that depend on `keys` and on `data`, element by element."""
    mixed = keys * _GOLDEN + data + _GOLDEN
    mixed = (mixed ^ _shift(mixed, 30)) * _FIRST
    mixed = (mixed ^ _shift(mixed, 27)) * _SECOND
    return mixed ^ _shift(mixed, 31)


def draw_uniform(keys: Tensor) -> Tensor:
    """Return one number in [0, 1) for each key, in double precision."""
    return _shift(keys, 11).double() * _UNIT


def choose_below(keys: Tensor, count: int) -> Tensor:
    """Return the remainder of each key, taken as unsigned, by `count`."""
    return (_shift(keys, 1) % count * 2 + (keys & 1)) % count


def order_keys(keys: Tensor) -> Tensor:
    """Return keys whose signed order is the unsigned order of the given ones."""
    return keys ^ _LOWEST


def _shift(keys: Tensor, bits: int) -> Tensor:
    """Shift right without the sign."""
    return (keys >> bits) & ((1 << (_BITS - bits)) - 1)
