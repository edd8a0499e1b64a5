import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.tables.readreport import BINARY_CELL, WRONG_ENCODING, ReadReport
from navi.tables.text import is_whole, is_whole_scalar, write_scalar, write_text


def write(array: pa.Array, *, whole: bool = False) -> tuple[list[str | None], ReadReport]:
    losses = ReadReport(source="f")
    number = np.arange(1, len(array) + 1)
    return write_text(array, whole, "a", number, losses).to_pylist(), losses


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([1, None, -3]), ["1", None, "-3"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([dt.date(2020, 1, 2), None]), ["2020-01-02", None]),
        (pa.array([dt.time(12, 30)], pa.time32("s")), ["12:30:00"]),
        (pa.array([dt.timedelta(days=1, seconds=5), None], pa.duration("ns")), ["1 day, 0:00:05", None]),
        (pa.array(["x", None], pa.large_string()), ["x", None]),
        (pa.array(["x", None], pa.string_view()), ["x", None]),
        (pa.array([b"x", None]), ["x", None]),
        (pa.nulls(2), [None, None]),
        (pa.array([0.5, 2.0], pa.float16()), ["0.5", "2.0"]),
        (pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216.0"]),
    ],
)
def test_scalars_are_written_plainly(array, texts):
    assert write(array) == (texts, ReadReport())


@given(st.lists(st.floats() | st.none(), min_size=1))
def test_floats_are_written_as_python_writes_them(values):
    expected = [None if value is None or value != value else repr(value) for value in values]
    assert write(pa.array(values, pa.float64()))[0] == expected
    assert [write_scalar(value) for value in values] == expected


@given(st.lists(st.integers(-(2**53), 2**53) | st.none(), min_size=1))
def test_whole_floats_are_written_as_integers(values):
    array = pa.array([None if value is None else float(value) for value in values], pa.float64())
    assert is_whole(array)
    assert write(array, whole=True)[0] == [None if value is None else str(value) for value in values]


@pytest.mark.parametrize("value", [0.5, float("inf"), 1e300])
def test_a_float_that_is_no_moderate_whole_number_makes_its_column_no_whole_one(value):
    assert not is_whole(pa.array([1.0, value]))
    assert is_whole_scalar(value) is False


@given(st.lists(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)) | st.none(), min_size=1))
def test_timestamps_are_written_in_iso_form_without_idle_zeros(values):
    texts, _ = write(pa.array(values, pa.timestamp("us")))
    for text, value in zip(texts, values, strict=True):
        assert (text is None) == (value is None)
        assert text is None or dt.datetime.fromisoformat(text) == value
    assert texts == [write_scalar(value) for value in values]


def test_timestamps_of_a_zone_are_told_in_utc():
    value = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    array = pc.cast(pa.array([value]), pa.timestamp("ms", "Europe/Paris"))
    assert not is_whole(array)
    assert write(array)[0] == ["2020-01-01T12:00:00Z"]
    assert write_scalar(value) == "2020-01-01T12:00:00Z"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_that_are_all_dates_are_written_as_dates(unit):
    array = pa.array([dt.datetime(2020, 1, 2), None], pa.timestamp(unit))
    assert is_whole(array)
    assert write(array, whole=True)[0] == ["2020-01-02", None]
    assert is_whole_scalar(dt.datetime(2020, 1, 2)) is True


def test_a_column_of_nulls_is_whole():
    assert is_whole(pa.array([None], pa.timestamp("s")))
    assert is_whole(pa.array([None], pa.float64()))


def test_bytes_that_are_no_text_are_counted():
    texts, losses = write(pa.array([b"ok", b"\xff\xfe", None]))
    assert texts == ["ok", None, None]
    assert losses.places == {BINARY_CELL: ["f:2: a holds 2 bytes"]}
    assert losses.cells == {BINARY_CELL: 1}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_that_are_not_unicode_are_mended_and_counted(kind):
    binary = pa.array([b"ok", b"caf\xe9", None], pa.binary() if kind == pa.string() else pa.large_binary())
    array = type(pa.array([], kind)).from_buffers(3, *binary.buffers()[1:], binary.buffers()[0])
    texts, losses = write(array)
    assert texts == ["ok", "caf\ufffd", None]
    assert losses.places == {WRONG_ENCODING: ["f:2: a is not utf-8, replaced"]}
