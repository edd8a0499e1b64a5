"""Values of any type as flat cells of text, row by row (JSON, dictionaries) or column by column (Arrow).

`{"actors": [{"name": "Ann"}], "year": 1994}` has the cells `actors.0.name` and `year`. Of a list the first `max_family`
members stay, at each level; the cells of the others are counted. Floats are written as the shortest text that reads
back the same, or as integers where all of a column are whole; timestamps in ISO form, or as dates where all of a column
are at midnight; booleans as `true` and `false`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.errors import TableError
from navi.tables.chunk import MAX_CHARACTERS, Chunk, make_chunks, make_distinct, name_columns, to_strings
from navi.tables.readreport import (
    BINARY_CELL,
    CUT_OFF,
    DAMAGED,
    MAX_COLUMNS,
    MAX_HEADER,
    TOO_DEEP,
    WRONG_ENCODING,
    ReadConfig,
    ReadReport,
)

_NESTED = (dict, list, tuple, np.ndarray)
Batches = list[tuple[int, pa.RecordBatch]]
"""Batches of columns that have types of their own, each with the number of its first row."""
Lost = tuple[int, str]
"""How many rows could not be read, and why."""
NumberedRow = tuple[int, Iterable[tuple[str, Any]], int]
"""Place of a row in its source, its keys and values, and its length in characters."""

NOT_COLUMNAR = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)
"""What comes of Python's values that make no Arrow column."""
_ZEROS = r"(\.[0-9]*[1-9])0+$|\.0+$"
_MAX_WHOLE = 2.0**53  # beyond it, floats are no longer exact
_WRITTEN_BY_ARROW = (bool, np.bool_, float, np.floating, dt.datetime, bytes, bytearray)

# Shape suffixes: C cells, R rows, K flat columns.


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its keys and values in order, repeated keys among them."""


class FlatRows:
    """Rows laid flat, cell after cell, with the values as they came."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.values: list[Any] = []
        self.ends: list[int] = []
        """How many cells there are up to the end of each row."""
        self.numbers: list[int] = []
        """Place of each row in its source."""

    def add(self, row: Iterable[tuple[str, Any]], number: int, limit: int | None, report: ReadReport) -> None:
        """Add a row, unless it is too deep; `limit` is the members of a list that stay."""
        keys, values = self.keys, self.values
        start = len(keys)
        try:
            for key, value in row:
                if type(value) is str or value is None:
                    keys.append(key)
                    values.append(value)
                else:
                    self._flatten(key, value, number, limit, report)
        except RecursionError:
            del keys[start:], values[start:]
            report.drop(TOO_DEEP, number)
        else:
            if len(keys) - start > MAX_COLUMNS:
                raise TableError(f"Cannot read {report.source}:{number}: a row has more than {MAX_COLUMNS:,} cells.")
            self.ends.append(len(keys))
            self.numbers.append(number)

    def _flatten(self, key: str, value: Any, number: int, limit: int | None, report: ReadReport) -> None:
        if type(value) is str or not isinstance(value, _NESTED):
            self.keys.append(key)
            self.values.append(value)
        elif len(key) > MAX_HEADER:
            raise RecursionError
        elif isinstance(value, (dict, Pairs)):
            for name, member in value.items() if isinstance(value, dict) else value:
                self._flatten(f"{key}.{name}", member, number, limit, report)
        else:
            for index, member in enumerate(value[:limit]):
                self._flatten(f"{key}.{index}", member, number, limit, report)
            if limit is not None and len(value) > limit:
                start = len(self.keys)
                for member in value[limit:]:
                    self._flatten(key, member, number, None, report)
                lost = sum(map(_is_cell, self.values[start:]))
                del self.keys[start:], self.values[start:]
                report.lose_members(number, key, len(value), limit, lost)

    @cached_property
    def columns(self) -> list[tuple[str, list[int], pa.Array]]:
        """The values that are no text yet: those of one key and one type, with their places."""
        places: dict[tuple[str, type], list[int]] = {}
        for cell, value in enumerate(self.values):
            if type(value) is not str and value is not None:
                places.setdefault((self.keys[cell], type(value)), []).append(cell)
        return [(key, cells, to_array([self.values[cell] for cell in cells])) for (key, _), cells in places.items()]

    def to_chunks(self, report: ReadReport, whole: Collection[str] = ()) -> Iterator[Chunk]:
        """Yield the rows as a chunk, if any has a cell; under the keys in `whole`, floats are written as integers."""
        number_R = np.array(self.numbers, dtype=np.int64)
        row_C = np.repeat(np.arange(len(number_R), dtype=np.int32), np.diff(self.ends, prepend=0))
        number_C = number_R[row_C]
        for key, cells, array in self.columns:
            texts = write_text(array, key in whole, key, number_C[cells], report).to_pylist()
            for cell, text in zip(cells, texts, strict=True):
                self.values[cell] = text
        index = {key: place for place, key in enumerate(dict.fromkeys(self.keys))}
        key_C = np.fromiter(map(index.__getitem__, self.keys), dtype=np.int32, count=len(self.keys))
        value_C = to_strings(self.values, number_C, report)
        headers, header_C = make_distinct(list(index), row_C, key_C, report)
        yield from make_chunks(headers, row_C, header_C, value_C, number_R, report)


def _is_cell(scalar: Any) -> bool:
    """Return whether a scalar is written as any text."""
    if isinstance(scalar, str):
        return bool(scalar.strip())
    return isinstance(scalar, bool | int) or bool((write_scalar(scalar) or "").strip())


def flatten_rows(rows: Iterable[NumberedRow], config: ReadConfig, report: ReadReport) -> Iterator[FlatRows]:
    """Yield nested rows flat, those of a chunk at a time."""
    flat, size = FlatRows(), 0
    for number, row, length in rows:
        flat.add(row, number, config.max_family, report)
        size += length
        if len(flat.ends) >= config.chunk_rows or size > MAX_CHARACTERS:
            yield flat
            flat, size = FlatRows(), 0
    if flat.ends:
        yield flat


def read_rows(rows: Iterable[NumberedRow], config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Yield the chunks of rows that fit into memory.

    All are laid flat before any text is written: a column is whole if all its floats and timestamps are.
    """
    parts = list(flatten_rows(rows, config, report))
    whole: dict[str, bool] = {}
    for part in parts:
        for key, _, array in part.columns:
            if (answer := is_whole(array)) is not None:
                whole[key] = whole.get(key, True) and answer
    keys = {key for key, all_whole in whole.items() if all_whole}
    for part in parts:
        yield from part.to_chunks(report, keys)


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
    # As Arrow writes a type, it names its members.
    may_be_whole = re.compile("float|double|timestamp|extension")
    names = [each.name for each in schema if may_be_whole.search(str(each.type))]
    whole: dict[str, bool] = {}
    # Columns that share a name cannot be picked by it, and are written as they are.
    for part in read(names) if names and len(header_of) == len(headers) else ():
        for name in () if isinstance(part, tuple) else names:
            for flat, array in flatten_column(header_of[name], part[name], config.max_family):
                if (answer := is_whole(array)) is not None:
                    whole[flat] = whole.get(flat, True) and answer
    first = 1
    for part in read(None):
        if isinstance(part, tuple):
            num_rows, detail = part
            report.trouble(DAMAGED, detail, first)
            if num_rows:
                report.drop(CUT_OFF, first, f"{num_rows} rows: {detail}", num_rows)
            first += num_rows
            continue
        if kept is not None:
            kept.append((first, part))
        rows = max(1, min(config.chunk_rows, MAX_CHARACTERS * part.num_rows // max(1, part.nbytes)))
        for start in range(0, part.num_rows, rows):
            yield from _read_slice(headers, part.slice(start, rows), first + start, whole, config, report)
        first += part.num_rows


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
    columns_K = columns_K or [pa.nulls(part.num_rows, pa.string())]
    filled_KR = np.stack([np.asarray(pc.fill_null(pc.binary_length(column), 0)) > 0 for column in columns_K])
    by_column = pa.concat_arrays(
        [column.filter(pa.array(filled_R)) for column, filled_R in zip(columns_K, filled_KR, strict=True)]
    )
    # From column after column to row after row.
    row_C, column_C = (each.astype(np.int32) for each in np.nonzero(filled_KR.T))
    place_KR = (np.cumsum(filled_KR) - 1).reshape(filled_KR.shape)
    value_C = by_column.take(pa.array(place_KR.T[filled_KR.T]))
    names, header_C = make_distinct([name for name, _ in flat], row_C, column_C, report)
    yield from make_chunks(names, row_C, header_C, value_C, number_R, report)


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
        for member_field, member in zip(kind, array.flatten(), strict=True):
            yield from flatten_column(f"{header}.{member_field.name}", member, limit, number_R, report)
    elif pa.types.is_map(kind):
        keys = pc.unique(array.keys) if array.null_count < len(array) else ()
        _check_width(len(keys), header)
        for key in keys:
            # A key that a map has twice gives two columns of one header, which are told apart later.
            for member in _list_members(pc.map_lookup(array, key, "all"), None):
                yield from flatten_column(f"{header}.{key.as_py()}", member, limit, number_R, report)
    elif "list" in str(kind).split("<")[0]:
        for index, member in enumerate(_list_members(array, limit)):
            yield from flatten_column(f"{header}.{index}", member, limit, number_R, report)
        if limit is not None and number_R is not None and report is not None:
            lost_R, length_R = _count_cells(pc.list_slice(array, limit)), np.asarray(pc.list_value_length(array))
            for row in np.flatnonzero(lost_R).tolist():
                report.lose_members(int(number_R[row]), header, int(length_R[row]), limit, int(lost_R[row]))
    else:
        yield header, array


def _list_members(lists: pa.Array, limit: int | None) -> Iterator[pa.Array]:
    """Yield the first member of each row's list, the second, and so on; null where a list has none."""
    indexes = range(pc.max(pc.list_value_length(lists)).as_py() or 0)[:limit]
    _check_width(len(indexes), "a list")
    for index in indexes:
        yield pc.list_slice(lists, index, index + 1, return_fixed_size_list=True).values


def _check_width(num_columns: int, header: str) -> None:
    if num_columns > MAX_COLUMNS:
        raise TableError(
            f"Cannot read {header}: it would become {num_columns:,} columns, the most are {MAX_COLUMNS:,}."
        )


def _count_cells(lists: pa.Array) -> NDArray[np.int64]:
    """Return how many cells the members of each row's list have."""
    row_M, members = np.asarray(pc.list_parent_indices(lists)), pc.list_flatten(lists)
    num_M = np.zeros(len(members), np.int64)
    for _, column in flatten_column("", members, None) if len(members) else ():
        text = write_text(column, False, "", np.zeros(len(column), np.int64), ReadReport())
        num_M += np.asarray(pc.fill_null(pc.binary_length(pc.utf8_trim_whitespace(text)), 0)) > 0
    return np.bincount(row_M, num_M, len(lists)).astype(np.int64)


def _decode(array: pa.Array) -> pa.Array:
    """Return an array without the wrapping of extensions, dictionaries and runs."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _decode(array.storage)
    if pa.types.is_dictionary(array.type):
        return _decode(array.dictionary_decode())
    return _decode(pc.run_end_decode(array)) if pa.types.is_run_end_encoded(array.type) else array


# Scalars as text, Arrow's and Python's alike, a column at a time


def to_array(values: list[Any]) -> pa.Array:
    """Return scalars of one Python type as an Arrow array: as text, where `str` writes them as a reader expects."""
    # Other libraries' marks for a missing value are known by name, for want of an import.
    if type(values[0]).__name__ in ("NAType", "NaTType"):
        return pa.nulls(len(values))
    if isinstance(values[0], _WRITTEN_BY_ARROW):
        # Arrow looks for nanoseconds, which pandas alone has, only if told to.
        is_fine = any(getattr(value, "nanosecond", 0) for value in values)
        with suppress(*NOT_COLUMNAR):
            zone = getattr(values[0], "tzinfo", None) and "UTC"
            return pa.array(values, pa.timestamp("ns", zone) if is_fine else None)
    return pa.array([None if (text := str(value)) == "NaT" else text for value in values], pa.string())


def is_whole(array: pa.Array) -> bool | None:
    """Return whether floats are all whole, or timestamps all at midnight; None of types that have no such form."""
    array = array.drop_null()
    if pa.types.is_floating(array.type):
        values = _to_floats(array)
        values = values[~np.isnan(values)]
        return bool(((np.abs(values) <= _MAX_WHOLE) & (values == np.trunc(values))).all())
    if not pa.types.is_timestamp(array.type):
        return None
    is_day = pc.equal(array, pc.floor_temporal(array, unit="day")) if array.type.tz is None else [False]
    return bool(pc.all(is_day, min_count=0).as_py())


def write_scalar(value: Any) -> str | None:
    """Write one scalar by itself; what is no value, such as NaN, is None."""
    if value is None or isinstance(value, str):
        return value
    text: str | None = write_text(to_array([value]), False, "", np.zeros(1, np.int64), ReadReport())[0].as_py()
    return text


def write_text(
    array: pa.Array, whole: bool, header: str, row_number: NDArray[np.int64], report: ReadReport
) -> pa.StringArray:
    """Write the scalars of a column as strings, those that are no text as null; `whole`: as `is_whole` says."""
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_floating(kind):
        return _write_floats(array, whole)
    if pa.types.is_timestamp(kind):
        return _write_timestamps(array, whole)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _write_strings(array, header, row_number, report)
    if "binary" in str(kind):
        return _write_bytes(array, header, row_number, report)
    if pa.types.is_duration(kind):
        # Nanoseconds have no type in Python.
        array = array.cast(pa.duration("us"), safe=False)
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())


def _to_floats(array: pa.Array) -> NDArray[Any]:
    """Return floats in their own precision, null as NaN."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _write_floats(array: pa.Array, whole: bool) -> pa.StringArray:
    values = _to_floats(array)
    missing = np.isnan(values)
    if whole:
        return pa.array(np.where(missing, 0, values).astype(np.int64), mask=missing).cast(pa.string())
    text = pa.array(values, mask=missing).cast(pa.string())
    text = pc.if_else(pc.match_substring_regex(text, "^-?[0-9]+$"), pc.binary_join_element_wise(text, ".0", ""), text)
    # Arrow turns to exponents at other sizes than Python does.
    size = np.abs(values)
    unlike = np.flatnonzero((size >= 1e10) | ((size > 0) & (size < 1e-4)))
    if len(unlike):
        texts = text.to_pylist()
        for index in unlike:
            texts[index] = str(values[index])
        text = pa.array(texts, pa.string())
    return text


def _write_timestamps(array: pa.Array, whole: bool) -> pa.StringArray:
    zone = array.type.tz
    # Arrow keeps UTC and the name of a zone; the instant is written without a database of zones.
    array = array.view(pa.timestamp(array.type.unit))
    if whole:
        return pc.strftime(array, format="%Y-%m-%d")
    text = pc.replace_substring_regex(pc.strftime(array, format="%Y-%m-%dT%H:%M:%S"), _ZEROS, r"\1")
    return text if zone is None else pc.binary_join_element_wise(text, "Z", "")


def _write_strings(array: pa.Array, header: str, row_number: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for value, number in zip(array.cast(pa.large_binary()).to_pylist(), row_number.tolist(), strict=True):
            texts.append(value and value.decode("utf-8", "replace"))
            if texts[-1] and "\ufffd" in texts[-1]:
                report.change(WRONG_ENCODING, number, f"{header} is not utf-8, replaced")
        return pa.array(texts, pa.string())
    return array.cast(pa.string())


def _write_bytes(array: pa.Array, header: str, row_number: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    texts: list[str | None] = []
    for value, number in zip(array.cast(pa.large_binary()).to_pylist(), row_number.tolist(), strict=True):
        try:
            texts.append(value and value.decode())
        except UnicodeDecodeError:
            report.change(BINARY_CELL, number, f"{header} holds {len(value)} bytes")
            texts.append(None)
    return pa.array(texts, pa.string())
