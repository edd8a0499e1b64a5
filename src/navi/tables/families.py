"""Nested Arrow columns laid flat under dotted headers, members of lists beyond the limit counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.readreport import FAMILY_LIMIT, ReadReport
from navi.tables.text import write_text

# Shape suffixes: R rows, M members of all lists together.


@dataclass(frozen=True)
class _Loss:
    row: int
    header: str
    num_members: int
    num_cells: int


class Flattener:
    """Lays the columns of one batch flat, and remembers what the limit on lists leaves out."""

    def __init__(self, limit: int | None, *, count: bool = True) -> None:
        self._limit = limit
        self._count = count
        self._losses: list[_Loss] = []

    def report(self, number_R: NDArray[np.int64], report: ReadReport) -> None:
        """Enter what was left out, given the numbers of the rows."""
        for loss in self._losses:
            detail = f"{loss.header} has {loss.num_members} members, {self._limit} stay"
            report.change(FAMILY_LIMIT, int(number_R[loss.row]), detail, loss.num_cells)

    def flatten(self, header: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        """Yield the flat columns of a nested one, with scalars alone and as many rows."""
        array = decode(array)
        kind = array.type
        if pa.types.is_struct(kind):
            for field, member in zip(kind, array.flatten(), strict=True):
                yield from self.flatten(f"{header}.{field.name}", member)
        elif pa.types.is_map(kind):
            yield from self._flatten_map(header, array)
        elif is_list(kind):
            yield from self._flatten_list(header, array)
        else:
            yield header, array

    def _flatten_list(self, header: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        start_R, length_R, member_M = split_lists(array)
        longest = int(length_R.max(initial=0))
        limit = longest if self._limit is None else min(self._limit, longest)
        for index in range(limit):
            place_R = np.where(length_R > index, start_R + index, 0)
            yield from self.flatten(f"{header}.{index}", member_M.take(pa.array(place_R, mask=length_R <= index)))
        if longest > limit and self._count:
            self._remember(header, start_R, length_R, member_M)

    def _remember(
        self, header: str, start_R: NDArray[np.int64], length_R: NDArray[np.int64], member_M: pa.Array
    ) -> None:
        assert self._limit is not None
        running = np.concatenate([[0], np.cumsum(count_cells(member_M))])
        long_R = np.flatnonzero(length_R > self._limit)
        lost = running[start_R[long_R] + length_R[long_R]] - running[start_R[long_R] + self._limit]
        for row, num_cells in zip(long_R.tolist(), lost.tolist(), strict=True):
            if num_cells:
                self._losses.append(_Loss(row, header, int(length_R[row]), num_cells))

    def _flatten_map(self, header: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        start_R, length_R, entry_M = split_lists(array)
        row_M = np.repeat(np.arange(len(array)), length_R)
        place_M = (
            np.repeat(start_R, length_R) + np.arange(len(row_M)) - np.repeat(np.cumsum(length_R) - length_R, length_R)
        )
        key_M, value_M = entry_M.take(pa.array(place_M)).flatten()
        keys = _write(key_M).dictionary_encode()
        code_M = np.asarray(keys.indices)
        for code, key in enumerate(keys.dictionary.to_pylist()):
            places = np.flatnonzero(code_M == code)
            while len(places):
                # A key that a map holds twice gives a second column, which is told apart later.
                _, first = np.unique(row_M[places], return_index=True)
                place_R = np.full(len(array), -1, dtype=np.int64)
                place_R[row_M[places[first]]] = places[first]
                yield from self.flatten(f"{header}.{key}", value_M.take(pa.array(place_R, mask=place_R < 0)))
                places = np.delete(places, first)


def decode(array: pa.Array) -> pa.Array:
    """Return an array without the wrapping of extensions, dictionaries and runs."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        else:
            return array


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's kinds of list."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def split_lists(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Return where each row's members begin, how many they are, and the members of all rows; null lists are empty."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.large_list(kind.value_type))
    offsets = np.asarray(array.offsets).astype(np.int64)
    valid_R = np.asarray(array.is_valid())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return offsets, np.where(valid_R, np.asarray(array.sizes).astype(np.int64), 0), array.values
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return offsets[:-1] - first, np.where(valid_R, np.diff(offsets), 0), array.values.slice(first, last - first)


def count_cells(array: pa.Array) -> NDArray[np.int64]:
    """Count the cells within each element of a nested array, the absent left out."""
    array = decode(array)
    kind = array.type
    if pa.types.is_struct(kind):
        members = [count_cells(member) for member in array.flatten()]
        return np.sum(members, axis=0, dtype=np.int64) if members else np.zeros(len(array), dtype=np.int64)
    if is_list(kind) or pa.types.is_map(kind):
        start_R, length_R, member_M = split_lists(array)
        if pa.types.is_map(kind):
            member_M = member_M.flatten()[1]
        running = np.concatenate([[0], np.cumsum(count_cells(member_M))])
        counts_R: NDArray[np.int64] = running[start_R + length_R] - running[start_R]
        return counts_R
    lengths = pc.binary_length(pc.utf8_trim_whitespace(_write(array)))
    return (np.asarray(pc.fill_null(lengths, 0)) > 0).astype(np.int64)


def _write(array: pa.Array) -> pa.Array:
    silent = ReadReport()
    return write_text(array, False, "", np.zeros(len(array), dtype=np.int64), silent)
