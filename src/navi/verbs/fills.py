"""The frame side of imputation: values put into a copy of a frame of any kind, in the types of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from navi.tables import ReadReport
from navi.tables.chunk import clean_header, name_columns

Parse = Callable[[str], Any]
"""Turns text into a column's type; what the type cannot hold raises one of CANNOT."""
CANNOT = (ValueError, KeyError, pa.ArrowException)
Fill = tuple[Sequence[int], Sequence[Any]]
"""Rows of one column, from 0, and what is put there, of the column's own type."""


class RowsFrame:
    """A list of dictionaries; a key that some row has is a column."""

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self._rows = rows
        self._keys = list(dict.fromkeys(key for row in rows for key in row))
        self.headers = tuple(clean_header(str(key)) for key in self._keys)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into the type of a column's cells; None for nested and binary ones."""
        return _parse_like(row.get(self._keys[column]) for row in self._rows)

    def fill(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return copies of the rows with these cells filled."""
        return self._put([dict(row) for row in self._rows], fills)

    def tabulate(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return rows that hold these cells alone."""
        return self._put([{} for _ in self._rows], fills)

    def _put(self, rows: list[dict[Any, Any]], fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        for column, (places, values) in fills.items():
            for row, value in zip(places, values, strict=True):
                rows[row][self._keys[column]] = value
        return rows


class NativeFrame:
    """A pandas, Polars or Arrow frame."""

    def __init__(self, frame: Any) -> None:
        self._native = frame
        self._names = frame.column_names if isinstance(frame, pa.Table) else frame.columns
        texts = [".".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self._names]
        self.headers = tuple(name_columns(texts, ReadReport()))
        self._frame = nw.from_native(_rename(frame, self.headers), eager_only=True)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into a column's type; None for nested and binary cells."""
        series = self._frame[self.headers[column]]
        if series.dtype == nw.Object:
            return _parse_like(series.to_list())
        if series.dtype in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like():
            return {str(category): category for category in series.to_native().cat.categories}.__getitem__
        if isinstance(series.dtype, nw.Enum):
            return {category: category for category in series.dtype.categories}.__getitem__
        return _parse_type(series.to_arrow().type)

    def fill(self, fills: Mapping[int, Fill]) -> Any:
        """Return a copy of the frame with these cells filled."""
        columns = [_scatter(self._frame[self.headers[column]], fill) for column, fill in fills.items()]
        filled = self._frame.with_columns(*columns) if columns else self._frame.clone()
        return _rename(filled.to_native(), self._names)

    def tabulate(self, fills: Mapping[int, Fill]) -> Any:
        """Return a frame of the same kind and shape that holds these numbers alone, null everywhere else."""
        cells: dict[str, list[Any]] = {header: [None] * len(self._frame) for header in self.headers}
        for column, (rows, values) in fills.items():
            for row, value in zip(rows, values, strict=True):
                cells[self.headers[column]][row] = value
        made = nw.from_dict(cells, dict.fromkeys(self.headers, nw.Float64), backend=self._frame.implementation)
        named = _rename(made.to_native(), self._names)
        return named.set_axis(self._native.index, axis=0) if nw.dependencies.is_pandas_dataframe(named) else named


def _parse_like(cells: Iterable[Any]) -> Parse | None:
    """Return what turns text into the type that all cells share; cells of several types, and none at all, are text."""
    try:
        return _parse_type(pa.array(list(cells), from_pandas=True).type)
    except (pa.ArrowException, OverflowError):
        return str


def _parse_type(kind: pa.DataType) -> Parse | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind) or "binary" in str(kind):
        return None
    if pa.types.is_null(kind) or "string" in str(kind):
        return str
    if pa.types.is_decimal(kind):
        kind = pa.decimal128(38, kind.scale)
    return lambda text: pa.scalar(text).cast(kind).as_py()


def _scatter(series: nw.Series[Any], fill: Fill) -> nw.Series[Any]:
    """Put values into a copy of a column; dictionaries of Polars and Arrow are taken apart and made again."""
    kind = series.dtype
    coded = kind in (nw.Categorical, nw.Enum) and not series.implementation.is_pandas_like()
    plain = series.cast(nw.String) if coded else series
    written = plain.scatter(fill[0], list(fill[1]))
    return written.cast(kind) if coded else written


def _rename(frame: Any, names: Any) -> Any:
    """Give a frame's columns other names, in order; not only texts, and repeated ones, where the kind allows them."""
    if isinstance(frame, pa.Table):
        return frame.rename_columns(list(names))
    if nw.dependencies.is_pandas_dataframe(frame):
        return frame.set_axis(names, axis=1)
    return nw.from_native(frame, eager_only=True).rename(dict(zip(frame.columns, names, strict=True))).to_native()
