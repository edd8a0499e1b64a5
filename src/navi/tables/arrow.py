"""Columns of Arrow as flat cells of text: those of Parquet, Feather and Arrow files, up to where these are damaged.

`{"actors": [{"name": "Ann"}], "year": 1994}` has the cells `actors.0.name` and `year`. Of a list the first `max_family`
members stay, at each level; the cells of the others are counted. A scalar is written by itself, whatever stands in the
other rows: floats as the shortest text that reads back the same, without a point where they are whole; timestamps in
ISO form, as dates where they are at midnight; booleans as `true` and `false`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from navi.errors import TableError
from navi.tables.chunk import MAX_CHARACTERS, Chunk, deduplicate_headers, make_chunks, name_columns
from navi.tables.readreport import DEFAULT, MAX_COLUMNS, Loss, ReadConfig, ReadReport
from navi.tables.textreader import ByteStream

Batches = list[tuple[int, pa.RecordBatch]]
"""Batches of columns that have types of their own, each with the number of its first row."""
Lost = tuple[int, str]
"""How many rows could not be read, and why."""

NOT_COLUMNAR = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)
"""What comes of Python's values that make no Arrow column."""
_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What comes of a damaged file."""
_ARROW_MAGIC = b"ARROW1"
_ZEROS = r"(\.[0-9]*[1-9])0+$|\.0+$"
_MAX_WHOLE = 2.0**53  # beyond it, floats are no longer exact
_WRITTEN_BY_ARROW = (bool, np.bool_, float, np.floating, dt.datetime, bytes, bytearray)

# Shape suffixes: C cells, R rows, K flat columns.


def read_parquet(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Parquet file; of a row group that is damaged, what comes after the damage is dropped."""
    with _open(stream, report) as binary:
        try:
            file = pq.ParquetFile(binary)
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Parquet: {_first_line(error)}.") from error
        report.check_rows(file.metadata.num_rows)

        def read() -> Iterator[pa.RecordBatch | Lost]:
            for group in range(file.num_row_groups):
                left = file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(config.chunk_rows, row_groups=[group]):
                        left -= batch.num_rows
                        yield batch
                except _ERRORS as error:
                    yield max(0, left), f"row group {group + 1}: {_first_line(error)}"

        yield from read_columns(read(), file.schema_arrow, config, report, kept)


def read_arrow(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Feather file, or an Arrow file or stream, up to where it is damaged."""
    with _open(stream, report) as binary:
        is_file, file = binary.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC, None
        with suppress(*_ERRORS):
            file = pa.ipc.open_file(binary) if is_file else None
        try:
            if file is None:
                # The file format is the stream format between two marks, so that a file without its end is a stream.
                binary.seek(8 if is_file else 0)
            opened = file or pa.ipc.open_stream(binary)
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Arrow: {_first_line(error)}.") from error

        def read() -> Iterator[pa.RecordBatch | Lost]:
            batches = map(file.get_batch, range(file.num_record_batches)) if file else opened
            try:
                for number, batch in enumerate(batches, 1):
                    # A column of nulls takes no bytes, however long it says it is; unsound ones crash what counts them.
                    sound = all(map(_is_sound, batch.columns)) and batch.num_rows <= max(
                        DEFAULT.chunk_rows, 64 * batch.nbytes
                    )
                    yield batch if sound else (batch.num_rows, f"batch {number} contradicts itself")
                if is_file and not file:
                    yield 0, "the file ends too early"
                elif not file and binary.tell() < binary.size():
                    yield 0, f"the stream ends {binary.size() - binary.tell():,} bytes before the file does"
            except _ERRORS as error:
                yield 0, _first_line(error)

        yield from read_columns(read(), opened.schema, config, report, kept)


def _is_sound(column: pa.Array) -> bool:
    """Return whether the buffers of a column fit together; Arrow trusts a file, and reads where they point."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        # Text that is not UTF-8 can be mended, so it is judged as bytes.
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type)
        return as_bytes is not None and _is_sound(column.view(as_bytes))
    return True


@contextmanager
def _open(stream: ByteStream, report: ReadReport) -> Iterator[pa.NativeFile]:
    """Open a file that is not read in order, without its compression."""
    if stream.compression is None:
        with pa.memory_map(str(stream.path)) as mapped:
            yield mapped
        return
    with stream.open() as file:
        if stream.damage is not None:
            report.trouble(Loss.DAMAGED, stream.damage)
        yield pa.PythonFile(file, "r")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def read_columns(
    batches: Iterable[pa.RecordBatch | Lost],
    schema: pa.Schema,
    config: ReadConfig,
    report: ReadReport,
    kept: Batches | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of batches of columns; each batch is put into `kept`."""
    headers = report.headers = name_columns(schema.names, report)
    first = 1
    for part in batches:
        if isinstance(part, tuple):
            num_rows, detail = part
            report.trouble(Loss.DAMAGED, detail, first)
            if num_rows:
                report.drop(Loss.CUT_OFF, first, f"{num_rows} rows: {detail}", num_rows)
            first += num_rows
            continue
        if kept is not None:
            kept.append((first, part))
        rows = max(1, min(config.chunk_rows, MAX_CHARACTERS * part.num_rows // max(1, part.nbytes)))
        for start in range(0, part.num_rows, rows):
            yield from _read_slice(headers, part.slice(start, rows), first + start, config, report)
        first += part.num_rows


def _read_slice(
    headers: list[str], part: pa.RecordBatch, first: int, config: ReadConfig, report: ReadReport
) -> Iterator[Chunk]:
    number_R = np.arange(first, first + part.num_rows, dtype=np.int64)
    flat = [
        named
        for header, column in zip(headers, part.columns, strict=True)
        for named in flatten_column(header, column, config.max_family, number_R, report)
    ]
    columns_K = [format_column(array, name, number_R, report) for name, array in flat]
    columns_K = columns_K or [pa.nulls(part.num_rows, pa.string())]
    filled_KR = np.stack([np.asarray(pc.fill_null(pc.binary_length(column), 0)) > 0 for column in columns_K])
    by_column = pa.concat_arrays(
        [column.filter(pa.array(filled_R)) for column, filled_R in zip(columns_K, filled_KR, strict=True)]
    )
    # From column after column to row after row.
    row_C, column_C = (each.astype(np.int32) for each in np.nonzero(filled_KR.T))
    place_KR = (np.cumsum(filled_KR) - 1).reshape(filled_KR.shape)
    value_C = by_column.take(pa.array(place_KR.T[filled_KR.T]))
    names, header_C = deduplicate_headers([name for name, _ in flat], row_C, column_C, report)
    yield from make_chunks(names, row_C, header_C, value_C, number_R, report)


def flatten_column(
    header: str, array: pa.Array, limit: int | None, number_R: NDArray[np.int64], report: ReadReport
) -> Iterator[tuple[str, pa.Array]]:
    """Yield the flat columns of a nested one, with scalars alone and as many rows; the report gets what is left out."""
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
        if limit is not None:
            lost_R, length_R = _count_cells(pc.list_slice(array, limit)), np.asarray(pc.list_value_length(array))
            for row in np.flatnonzero(lost_R).tolist():
                report.drop_members(int(number_R[row]), header, int(length_R[row]), limit, int(lost_R[row]))
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
    nowhere = (np.zeros(len(members), np.int64), ReadReport())
    for _, column in flatten_column("", members, None, *nowhere) if len(members) else ():
        text = format_column(column, "", *nowhere)
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


def to_arrow_array(values: list[Any]) -> pa.Array:
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


def format_scalar(value: Any) -> str | None:
    """Write one scalar by itself; what is no value, such as NaN, is None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value).lower()
    text: str | None = format_column(to_arrow_array([value]), "", np.zeros(1, np.int64), ReadReport())[0].as_py()
    return text


def format_column(array: pa.Array, header: str, row_number: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    """Write the scalars of a column as strings, those that are no text as null."""
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_floating(kind):
        return _format_floats(array)
    if pa.types.is_timestamp(kind):
        return _format_timestamps(array)
    if "string" in str(kind) or "binary" in str(kind):
        return _format_strings(array, header, row_number, report)
    if pa.types.is_duration(kind):
        # Nanoseconds have no type in Python.
        array = array.cast(pa.duration("us"), safe=False)
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())


def _format_floats(array: pa.Array) -> pa.StringArray:
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    # In their own precision, null as NaN.
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    missing, size = np.isnan(values), np.abs(values)
    is_whole = (size <= _MAX_WHOLE) & (values == np.trunc(values))
    whole = pa.array(np.where(is_whole, values, 0).astype(np.int64), mask=missing).cast(pa.string())
    text = pc.if_else(pa.array(is_whole), whole, pa.array(values, mask=missing).cast(pa.string()))
    # Arrow turns to exponents at other sizes than Python does.
    unlike = np.flatnonzero(~is_whole & ((size >= 1e10) | ((size > 0) & (size < 1e-4))))
    if len(unlike):
        texts = text.to_pylist()
        for index in unlike:
            texts[index] = str(values[index])
        text = pa.array(texts, pa.string())
    return text


def _format_timestamps(array: pa.Array) -> pa.StringArray:
    zone = array.type.tz
    # Arrow keeps UTC and the name of a zone; the instant is written without a database of zones.
    array = array.view(pa.timestamp(array.type.unit))
    text = pc.replace_substring_regex(pc.strftime(array, format="%Y-%m-%dT%H:%M:%S"), _ZEROS, r"\1")
    if zone is not None:
        return pc.binary_join_element_wise(text, "Z", "")
    return pc.replace_substring_regex(text, "T00:00:00$", "")


def _format_strings(array: pa.Array, header: str, row_number: NDArray[np.int64], report: ReadReport) -> pa.StringArray:
    """Return text as it is, and bytes decoded: what is not UTF-8 is replaced in a text, and no cell in bytes."""
    is_text = "string" in str(array.type)
    if is_text:
        with suppress(pa.ArrowInvalid):
            array.validate(full=True)
            return array.cast(pa.string())
    texts: list[str | None] = []
    for value, number in zip(array.cast(pa.large_binary()).to_pylist(), row_number.tolist(), strict=True):
        try:
            texts.append(value and value.decode())
        except UnicodeDecodeError:
            texts.append(value.decode("utf-8", "replace") if is_text else None)
            if is_text:
                report.change(Loss.WRONG_ENCODING, number, f"{header} is not utf-8, replaced")
            else:
                report.change(Loss.BINARY_CELL, number, f"{header} holds {len(value)} bytes")
    return pa.array(texts, pa.string())
