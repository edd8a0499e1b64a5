"""Scalars of any type written as text: Arrow columns without a Python loop where there is a way, Python's one by one.

Both write alike: floats as the shortest text that reads back the same, or as integers where all of a column are whole;
timestamps in ISO form, or as dates where all of a column are at midnight; booleans as `true` and `false`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.readreport import BINARY_CELL, WRONG_ENCODING, ReadReport

MAX_WHOLE = 2.0**53
"""Size up to which a float that is whole is written as an integer: beyond it, floats are no longer exact."""
_ZEROS = r"(\.[0-9]*[1-9])0+$|\.0+$"


def has_whole_form(kind: pa.DataType) -> bool:
    """Tell whether a type is written shorter where a column's values are all whole."""
    return bool(pa.types.is_floating(kind) or pa.types.is_timestamp(kind))


def is_whole(array: pa.Array) -> bool:
    """Tell whether floats are all whole, or timestamps all at midnight."""
    array = array.drop_null()
    if pa.types.is_floating(array.type):
        values = _to_floats(array)
        values = values[~np.isnan(values)]
        return bool(((np.abs(values) <= MAX_WHOLE) & (values == np.trunc(values))).all())
    if array.type.tz is not None:
        return False
    return bool(pc.all(pc.equal(array, pc.floor_temporal(array, unit="day")), min_count=0).as_py())


def is_whole_scalar(value: Any) -> bool | None:
    """Tell of a float or a timestamp whether it is whole, as `is_whole` does; None of anything else."""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return np.isnan(number) or (abs(number) <= MAX_WHOLE and number.is_integer())
    if isinstance(value, dt.datetime):
        return value != value or (value.tzinfo is None and value == dt.datetime.combine(value.date(), dt.time()))
    return None


def write_scalar(value: Any, whole: bool = False) -> str | None:
    """Write one scalar as `write_text` writes a column of them; what is no value, such as NaN, is None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return None if np.isnan(value) else str(int(value)) if whole else str(np.asarray(value)[()])
    if isinstance(value, dt.datetime):
        return _write_datetime(value, whole) if value == value else None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    # Other libraries' marks for a missing value are known by name, for want of an import.
    text = str(value)
    return None if type(value).__name__ in ("NAType", "NaTType") or text == "NaT" else text


def _write_datetime(value: dt.datetime, whole: bool) -> str:
    if whole:
        return value.date().isoformat()
    zone = "" if value.tzinfo is None else "Z"
    text = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() if zone else value.isoformat()
    return (text.rstrip("0") if "." in text else text) + zone


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
    values = array.cast(pa.large_binary()).to_pylist()
    texts = [
        None if value is None else decode_bytes(value, header, number, report)
        for value, number in zip(values, row_number.tolist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def decode_bytes(value: bytes | bytearray, header: str, row_number: int, report: ReadReport) -> str | None:
    """Return the text that bytes are, or None, entered, if they are none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        report.change(BINARY_CELL, row_number, f"{header} holds {len(value)} bytes")
        return None
