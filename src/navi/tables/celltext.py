"""Scalars of any type written as text, Arrow's and Python's alike, a column at a time.

Floats as the shortest text that reads back the same, or as integers where all of a column are whole; timestamps in ISO
form, or as dates where all of a column are at midnight; booleans as `true` and `false`.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.readreport import BINARY_CELL, WRONG_ENCODING, ReadReport

NOT_COLUMNAR = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)
"""What comes of Python's values that make no Arrow column."""
_ZEROS = r"(\.[0-9]*[1-9])0+$|\.0+$"
_MAX_WHOLE = 2.0**53  # beyond it, floats are no longer exact
_WRITTEN_BY_ARROW = (bool, np.bool_, float, np.floating, dt.datetime, bytes, bytearray)


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
