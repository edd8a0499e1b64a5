"""Nested values laid flat under dotted headers, row by row (JSON, dictionaries) or column by column (Arrow).

`{"actors": [{"name": "Ann"}], "year": 1994}` has the cells `actors.0.name` and `year`. Of a list the first `max_family`
members stay, at each level; the cells of the others are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.celltext import decode_bytes, has_whole_form, is_whole, is_whole_scalar, write_scalar, write_text
from navi.tables.chunk import (
    MAX_CHARACTERS,
    Chunk,
    clean_header,
    make_chunk,
    name_columns,
    tell_apart,
    to_strings,
)
from navi.tables.readreport import CUT_OFF, DAMAGED, TOO_DEEP, ReadConfig, ReadReport

_LISTS = (list, tuple, np.ndarray)
Batches = list[tuple[int, pa.RecordBatch]]
"""Batches of columns that have types of their own, each with the number of its first row."""
Lost = tuple[int, str]
"""How many rows could not be read, and why."""

# Shape suffixes: C cells, R rows, K flat columns.


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its keys and values in order, repeated keys among them."""


class RowBuilder:
    """Takes nested rows one by one and gives chunks of flat ones."""

    def __init__(self, config: ReadConfig, report: ReadReport, whole: frozenset[str] = frozenset()) -> None:
        self._config = config
        self.report = report
        self._whole = whole
        self._clear()

    def _clear(self) -> None:
        self._keys: list[str] = []
        self._values: list[str | None] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []
        self._size = 0

    def add(self, row: Iterable[tuple[str, Any]], number: int, size: int = 0) -> Sequence[Chunk]:
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
            self.report.drop(TOO_DEEP, number)
            return ()
        self._ends.append(len(keys))
        self._numbers.append(number)
        self._size += size
        return self.flush() if len(self._ends) >= self._config.chunk_rows or self._size > MAX_CHARACTERS else ()

    def _flatten(self, key: str, value: Any, number: int) -> None:
        if type(value) is str or value is None:
            self._keys.append(key)
            self._values.append(value)
        elif type(value) is Pairs:
            for name, member in value:
                self._flatten(f"{key}.{name}", member, number)
        elif isinstance(value, dict):
            for name, member in value.items():
                self._flatten(f"{key}.{name}", member, number)
        elif isinstance(value, _LISTS):
            limit = self._config.max_family
            for index, member in enumerate(value[:limit]):
                self._flatten(f"{key}.{index}", member, number)
            if limit is not None and len(value) > limit:
                lost = sum(1 for _, scalar in _walk("", value[limit:]) if (write_scalar(scalar) or "").strip())
                self.report.lose_members(number, key, len(value), limit, lost)
        else:
            self._keys.append(key)
            if isinstance(value, (bytes, bytearray)):
                self._values.append(decode_bytes(value, key, number, self.report))
            else:
                self._values.append(write_scalar(value, key in self._whole))

    def flush(self) -> Sequence[Chunk]:
        """Return the rows so far as a chunk, if any has a cell, and begin again."""
        if not self._numbers:
            return ()
        number_R = np.array(self._numbers, dtype=np.int64)
        row_C = np.repeat(np.arange(len(number_R), dtype=np.int32), np.diff(self._ends, prepend=0))
        index: dict[str, int] = {}
        code = {key: index.setdefault(clean_header(key), len(index)) for key in dict.fromkeys(self._keys)}
        headers = list(index)
        header_C = np.fromiter(map(code.__getitem__, self._keys), dtype=np.int32, count=len(self._keys))
        header_C = tell_apart(headers, row_C, header_C, self.report)
        value_C = to_strings(self._values, number_R[row_C], self.report)
        self._clear()
        chunk = make_chunk(headers, row_C, header_C, value_C, number_R, self.report)
        return () if chunk is None else (chunk,)


def _walk(key: str, value: Any, limit: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the flat header of each scalar within a value."""
    if isinstance(value, _LISTS) and type(value) is not Pairs:
        for index, member in enumerate(value[:limit]):
            yield from _walk(f"{key}.{index}", member, limit)
    elif isinstance(value, (Pairs, dict)):
        for name, member in value.items() if isinstance(value, dict) else value:
            yield from _walk(f"{key}.{name}", member, limit)
    else:
        yield key, value


def find_whole_cells(rows: Iterable[Iterable[tuple[str, Any]]], config: ReadConfig) -> frozenset[str]:
    """Return the flat headers under which all floats are whole and all timestamps are dates."""
    whole: dict[str, bool] = {}
    for row in rows:
        try:
            scalars = [pair for key, value in row for pair in _walk(key, value, config.max_family)]
        except RecursionError:
            # The row is dropped when it is read.
            continue
        for header, scalar in scalars:
            answer = is_whole_scalar(scalar)
            if answer is not None:
                whole[header] = whole.get(header, True) and answer
    return frozenset(header for header, all_whole in whole.items() if all_whole)


def read_columns(
    read: Callable[[list[str] | None], Iterable[pa.RecordBatch | Lost]],
    schema: pa.Schema,
    config: ReadConfig,
    report: ReadReport,
    kept: Batches | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of batches, which `read` gives, of some columns or all; each is put into `kept`.

    Columns that may be whole are read twice, to know that before any text of them is written.
    """
    headers = report.headers = name_columns(schema.names, report)
    header_of = dict(zip(schema.names, headers, strict=True))
    names = [field.name for field in schema if _may_be_whole(field.type)]
    whole: dict[str, bool] = {}
    # Columns that share a name cannot be picked by it, and are written as they are.
    for part in read(names) if names and len(header_of) == len(headers) else ():
        for name, column in zip(part.schema.names, part.columns, strict=True) if _is_batch(part) else ():
            for flat, array in flatten_column(header_of[name], column, config.max_family) if name in names else ():
                if has_whole_form(array.type):
                    whole[flat] = whole.get(flat, True) and is_whole(array)
    first = 1
    for part in read(None):
        if _is_batch(part):
            if kept is not None:
                kept.append((first, part))
            rows = max(1, min(config.chunk_rows, MAX_CHARACTERS * part.num_rows // max(1, part.nbytes)))
            for start in range(0, part.num_rows, rows):
                yield from _read_slice(headers, part.slice(start, rows), first + start, whole, config, report)
            first += part.num_rows
        else:
            num_rows, detail = part
            report.trouble(DAMAGED, detail, first)
            if num_rows:
                report.drop(CUT_OFF, first, f"{num_rows} rows: {detail}", num_rows)
            first += num_rows


def _is_batch(part: pa.RecordBatch | Lost) -> TypeGuard[pa.RecordBatch]:
    return isinstance(part, pa.RecordBatch)


def _may_be_whole(kind: pa.DataType) -> bool:
    """Tell whether a type may have floats or timestamps within: as Arrow writes it, it names its members."""
    return any(name in str(kind) for name in ("float", "double", "timestamp", "extension"))


def _read_slice(
    headers: list[str],
    part: pa.RecordBatch,
    first: int,
    whole: Mapping[str, bool],
    config: ReadConfig,
    report: ReadReport,
) -> Iterator[Chunk]:
    number_R = np.arange(first, first + part.num_rows, dtype=np.int64)
    flat = [
        named
        for header, column in zip(headers, part.columns, strict=True)
        for named in flatten_column(header, column, config.max_family, number_R, report)
    ]
    columns_K = [write_text(array, whole.get(name, False), name, number_R, report) for name, array in flat]
    row_C, column_C, value_C = _interleave(columns_K or [pa.nulls(part.num_rows, pa.string())])
    index: dict[str, int] = {}
    codes = [index.setdefault(clean_header(name), len(index)) for name, _ in flat]
    names, header_C = list(index), column_C
    if len(index) < len(codes):
        header_C = tell_apart(names, row_C, np.array(codes, dtype=np.int32)[column_C], report)
    chunk = make_chunk(names, row_C, header_C, value_C, number_R, report)
    if chunk is not None:
        yield chunk


def _interleave(columns_K: list[pa.Array]) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.StringArray]:
    """Return row, column and value of the cells that are not empty, row after row."""
    filled_KR = np.stack([np.asarray(pc.fill_null(pc.binary_length(column), 0)) > 0 for column in columns_K])
    by_column = pa.concat_arrays(
        [column.filter(pa.array(filled_R)) for column, filled_R in zip(columns_K, filled_KR, strict=True)]
    )
    place_KR = (np.cumsum(filled_KR) - 1).reshape(filled_KR.shape)
    row_C, header_C = np.nonzero(filled_KR.T)
    value_C = by_column.take(pa.array(place_KR.T[filled_KR.T]))
    return row_C.astype(np.int32), header_C.astype(np.int32), value_C


def flatten_column(
    header: str,
    array: pa.Array,
    limit: int | None,
    number_R: NDArray[np.int64] | None = None,
    report: ReadReport | None = None,
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the flat columns of a nested one, with scalars alone and as many rows; a report gets what is left out."""
    array = _decode(array)
    kind = array.type
    if pa.types.is_struct(kind):
        for field, member in zip(kind, array.flatten(), strict=True):
            yield from flatten_column(f"{header}.{field.name}", member, limit, number_R, report)
    elif pa.types.is_map(kind):
        for key in pc.unique(array.keys) if array.null_count < len(array) else ():
            # A key that a map has twice gives two columns of one header, which are told apart later.
            for member in _take_members(*_split_lists(pc.map_lookup(array, key, "all")), None):
                yield from flatten_column(f"{header}.{key.as_py()}", member, limit, number_R, report)
    elif "list" in str(kind).split("<")[0]:
        start_R, length_R, values = _split_lists(array)
        for index, member in enumerate(_take_members(start_R, length_R, values, limit)):
            yield from flatten_column(f"{header}.{index}", member, limit, number_R, report)
        if limit is not None and number_R is not None and report is not None:
            for row, lost in _count_lost(start_R + limit, np.maximum(length_R - limit, 0), values):
                report.lose_members(int(number_R[row]), header, int(length_R[row]), limit, lost)
    else:
        yield header, array


def _split_lists(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Return where each row's members begin, how many they are, and the members of all rows; null lists are empty."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.large_list(array.type.value_type))
    length_R = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    return np.asarray(array.offsets)[: len(array)].astype(np.int64), length_R, array.values


def _take_members(
    start_R: NDArray[np.int64], length_R: NDArray[np.int64], values: pa.Array, limit: int | None
) -> Iterator[pa.Array]:
    """Yield the first member of each row's list, the second, and so on; null where a list has none."""
    for index in range(length_R.max(initial=0))[:limit]:
        yield values.take(pa.array(start_R + index, mask=length_R <= index))


def _count_lost(start_R: NDArray[np.int64], length_R: NDArray[np.int64], values: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield row and number of cells of the members from `start_R` on, where they have any."""
    row_M = np.repeat(np.arange(len(length_R)), length_R)
    place_M = np.arange(len(row_M)) + np.repeat(start_R - np.cumsum(length_R) + length_R, length_R)
    num_M = np.zeros(len(row_M), np.int64)
    for _, column in flatten_column("", values.take(pa.array(place_M)), None) if len(row_M) else ():
        text = write_text(column, False, "", np.zeros(len(column), np.int64), ReadReport())
        num_M += np.asarray(pc.fill_null(pc.binary_length(pc.utf8_trim_whitespace(text)), 0)) > 0
    num_R = np.bincount(row_M, num_M, len(length_R)).astype(np.int64)
    yield from ((row, int(num_R[row])) for row in np.flatnonzero(num_R).tolist())


def _decode(array: pa.Array) -> pa.Array:
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
