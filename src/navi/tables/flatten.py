"""Nested rows laid flat under dotted headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.tables.cells import assemble, clean_header, tell_apart, to_strings
from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.readreport import BINARY_CELL, FAMILY_LIMIT, TOO_DEEP, ReadReport
from navi.tables.text import is_whole_scalar, write_scalar

MAX_CHARACTERS = 1 << 25
"""Characters after which a chunk is full, however few its rows."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its keys and values in order, repeated keys among them."""


class RowBuilder:
    """Takes nested rows one by one and gives chunks of flat ones.

    `{"actors": [{"name": "Ann"}], "year": 1994}` has the cells `actors.0.name` and `year`. Of a list the first
    `max_family` members stay, at each level; the cells of the others are counted.
    """

    def __init__(self, config: ReadConfig, report: ReadReport, whole: frozenset[str] = frozenset()) -> None:
        self._config = config
        self._report = report
        self._whole = whole
        self._clear()

    def _clear(self) -> None:
        self._keys: list[str] = []
        self._values: list[str | None] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []
        self._size = 0

    def add(self, row: Iterable[tuple[str, Any]], number: int, size: int = 0) -> Chunk | None:
        """Add a row of keys and values, its place in the source and its length in characters; return a full chunk."""
        keys, values = self._keys, self._values
        start = len(keys)
        try:
            for key, value in row:
                if type(value) is str or value is None:
                    keys.append(key)
                    values.append(value)
                else:
                    self._flatten(key, value, number)
        except RecursionError:
            del keys[start:], values[start:]
            self._report.drop(TOO_DEEP, number)
            return None
        self._ends.append(len(keys))
        self._numbers.append(number)
        self._size += size
        if len(self._ends) >= self._config.chunk_rows or self._size > MAX_CHARACTERS:
            return self.flush()
        return None

    def _flatten(self, key: str, value: Any, number: int) -> None:
        kind = type(value)
        if kind is str or value is None:
            self._keys.append(key)
            self._values.append(value)
        elif kind is Pairs:
            for name, member in value:
                self._flatten(f"{key}.{name}", member, number)
        elif isinstance(value, dict):
            for name, member in value.items():
                self._flatten(f"{key}.{name}", member, number)
        elif isinstance(value, (list, tuple, np.ndarray)):
            self._flatten_family(key, value, number)
        else:
            self._keys.append(key)
            self._values.append(self._to_text(key, value, number))

    def _flatten_family(self, key: str, family: Any, number: int) -> None:
        limit = self._config.max_family
        for index, member in enumerate(family[:limit]):
            self._flatten(f"{key}.{index}", member, number)
        if limit is not None and len(family) > limit:
            lost = sum(map(count_cells, family[limit:]))
            if lost:
                detail = f"{key} has {len(family)} members, {limit} stay"
                self._report.change(FAMILY_LIMIT, number, detail, lost)

    def _to_text(self, key: str, value: Any, number: int) -> str | None:
        if isinstance(value, (bytes, bytearray)):
            try:
                return value.decode()
            except UnicodeDecodeError:
                self._report.change(BINARY_CELL, number, f"{key} holds {len(value)} bytes")
                return None
        return write_scalar(value, key in self._whole)

    def flush(self) -> Chunk | None:
        """Make a chunk of the rows so far, or None if none of them has a cell, and begin anew."""
        if not self._numbers:
            return None
        number_R = np.array(self._numbers, dtype=np.int64)
        begin_R = np.array([0, *self._ends[:-1]], dtype=np.int64)
        row_C = np.repeat(np.arange(len(number_R), dtype=np.int32), np.array(self._ends, dtype=np.int64) - begin_R)
        headers, header_C = self._encode_headers()
        header_C = tell_apart(headers, row_C, header_C, self._report)
        value_C = to_strings(self._values, number_R[row_C], self._report)
        self._clear()
        return assemble(headers, row_C, header_C, value_C, number_R, self._report)

    def _encode_headers(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct headers, cleaned, and the index of each cell's."""
        index: dict[str, int] = {}
        cleaned: dict[str, int] = {}
        for key in dict.fromkeys(self._keys):
            cleaned[key] = index.setdefault(clean_header(key), len(index))
        codes = np.fromiter(map(cleaned.__getitem__, self._keys), dtype=np.int32, count=len(self._keys))
        return list(index), codes


def count_cells(value: Any) -> int:
    """Count the cells that a nested value would have, the absent left out."""
    if isinstance(value, Pairs):
        return sum(count_cells(member) for _, member in value)
    if isinstance(value, dict):
        return sum(map(count_cells, value.values()))
    if isinstance(value, (list, tuple, np.ndarray)):
        return sum(map(count_cells, value))
    text = write_scalar(value)
    return 1 if text and not text.isspace() else 0


def find_whole_cells(rows: Iterable[Iterable[tuple[str, Any]]], config: ReadConfig) -> frozenset[str]:
    """Return the flat headers under which all floats are whole and all timestamps are dates."""
    whole: dict[str, bool] = {}
    for row in rows:
        for key, value in row:
            try:
                scalars = list(_walk(key, value, config.max_family))
            except RecursionError:
                # The row is dropped when it is read.
                continue
            for header, scalar in scalars:
                answer = is_whole_scalar(scalar)
                if answer is not None:
                    whole[header] = whole.get(header, True) and answer
    return frozenset(header for header, all_whole in whole.items() if all_whole)


def _walk(key: str, value: Any, limit: int | None) -> Iterator[tuple[str, Any]]:
    """Yield the flat header of each scalar within a value."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _walk(f"{key}.{name}", member, limit)
    elif isinstance(value, (list, tuple, np.ndarray)):
        for index, member in enumerate(value[:limit]):
            yield from _walk(f"{key}.{index}", member, limit)
    else:
        yield key, value
