"""The frame side of imputation: which cells are empty, and how a value is put there without touching the original."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.errors import TableError
from navi.tables import ReadReport, Table
from navi.tables.chunk import clean_header, name_columns

# Shape suffixes: R rows.

Parse = Callable[[str], Any]
_TRUTH = {"true": True, "false": False}
_MISSING = ("NAType", "NaTType")
"""Types of what pandas puts where nothing is."""


@dataclass(frozen=True, kw_only=True)
class Fill:
    """The values put into one column."""

    rows: NDArray[np.int64]
    """Places of the rows, from 0."""
    values: Sequence[Any]
    """What is put there, of the column's own type."""


class RowsFrame:
    """A list of dictionaries; a key that some row has is a column."""

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self.native: Any = rows
        self.num_rows = len(rows)
        self._keys = list(dict.fromkeys(key for row in rows for key in row))
        self.headers = tuple(clean_header(str(key)) for key in self._keys)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into the type of a column's cells; None for nested cells and unknown types."""
        key = self._keys[column]
        return _parse_like(row.get(key) for row in self.native)

    def fill(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return copies of the rows with these cells filled."""
        filled = [dict(row) for row in self.native]
        for column, fill in fills.items():
            for row, value in zip(fill.rows.tolist(), fill.values, strict=True):
                filled[row][self._keys[column]] = value
        return filled

    def tabulate(self, fills: Mapping[int, Fill]) -> list[dict[Any, Any]]:
        """Return rows that hold these cells alone."""
        made: list[dict[Any, Any]] = [{} for _ in self.native]
        for column, fill in fills.items():
            for row, value in zip(fill.rows.tolist(), fill.values, strict=True):
                made[row][self._keys[column]] = value
        return made


class NativeFrame:
    """A pandas, Polars or Arrow frame."""

    def __init__(self, frame: Any) -> None:
        self._names = _list_names(frame)
        headers = name_columns([_join(name) for name in self._names], ReadReport())
        self.native = frame
        self._frame = nw.from_native(_rename(frame, headers), eager_only=True)
        self.headers = tuple(headers)
        self.num_rows = len(self._frame)

    def make_parser(self, column: int) -> Parse | None:
        """Return what turns text into a column's type; None for nested cells and types that cannot be filled."""
        series = self._frame[self.headers[column]]
        kind = series.dtype
        if kind == nw.Object:
            return _parse_like(series.to_list())
        if kind in (nw.Categorical, nw.Enum) and series.implementation.is_pandas_like():
            allowed = {str(category): category for category in series.to_native().cat.categories}
            return lambda text: allowed[text] if text in allowed else _refuse(text)
        return _parse_type(kind)

    def fill(self, fills: Mapping[int, Fill]) -> Any:
        """Return a copy of the frame with these cells filled."""
        columns = [_scatter(self._frame[self.headers[column]], fill) for column, fill in fills.items()]
        filled = self._frame.with_columns(*columns) if columns else self._frame.clone()
        return _rename(filled.to_native(), self._names)

    def tabulate(self, fills: Mapping[int, Fill]) -> Any:
        """Return a frame of the same kind and shape that holds these numbers alone, null everywhere else."""
        numbers = {header: np.full(self.num_rows, np.nan) for header in self.headers}
        for column, fill in fills.items():
            numbers[self.headers[column]][fill.rows] = fill.values
        cells = {header: [None if x != x else x for x in column.tolist()] for header, column in numbers.items()}
        made = nw.from_dict(cells, dict.fromkeys(self.headers, nw.Float64), backend=self._frame.implementation)
        named = _rename(made.to_native(), self._names)
        return named.set_axis(self.native.index, axis=0) if nw.dependencies.is_pandas_dataframe(named) else named


Frame = RowsFrame | NativeFrame


def open_frame(frame: Any) -> Frame:
    """Return a frame ready to be filled; streams and lazy frames are read whole."""
    if isinstance(frame, Mapping):
        frame = [frame]
    if isinstance(frame, list | tuple):
        wrong = [type(row).__name__ for row in frame if not isinstance(row, Mapping)]
        if wrong:
            raise TableError(f"Cannot read the list as a table: expected dictionaries, found {wrong[0]}.")
        return RowsFrame(frame)
    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if nw.dependencies.is_polars_lazyframe(frame):
        frame = frame.collect()
    try:
        return NativeFrame(frame)
    except TypeError as error:
        raise TableError(
            f"Cannot read a {type(frame).__name__} as a table: expected a pandas, Polars or Arrow frame, a list of "
            "dictionaries or one dictionary."
        ) from error


def find_present(table: Table, headers: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which cells hold something: (columns, rows). A nested cell counts if any of its parts does."""
    place = {header: number for number, header in enumerate(headers)}
    present = np.zeros((len(headers), table.num_rows), dtype=bool)
    for chunk in table.chunks:
        columns = [_find_column(header, place) for header in chunk.headers]
        column_C = np.array(columns, dtype=np.int64)[chunk.cell_header]
        row_C = table.find_rows(chunk.row_number)[chunk.cell_row]
        known = column_C >= 0
        present[column_C[known], row_C[known]] = True
    return present


def _find_column(header: str, place: Mapping[str, int]) -> int:
    """Return the column that a flat header belongs to: `cast.0.name` to `cast`, if there is none of its own name."""
    while header not in place and "." in header:
        header = header.rpartition(".")[0]
    return place.get(header, -1)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _parse_type(kind: Any) -> Parse | None:
    if kind.is_integer():
        limits = np.iinfo(str(kind).lower())
        return lambda text: int(text) if limits.min <= int(text) <= limits.max else _refuse(text)
    parsers: dict[Any, Parse] = {
        nw.Boolean: lambda text: _TRUTH[text] if text in _TRUTH else _refuse(text),
        nw.Date: datetime.date.fromisoformat,
        nw.Datetime: datetime.datetime.fromisoformat,
        nw.Decimal: decimal.Decimal,
    }
    parsers |= dict.fromkeys((nw.Float32, nw.Float64), float)
    parsers |= dict.fromkeys((nw.String, nw.Categorical), str)
    if kind == nw.Enum:
        allowed = frozenset(kind.categories)
        return lambda text: text if text in allowed else _refuse(text)
    return next((parse for known, parse in parsers.items() if kind == known), None)


def _parse_like(cells: Iterable[Any]) -> Parse | None:
    """Return what turns text into the type that all cells share; texts and no cells at all stay text."""
    kinds = {type(cell.item() if isinstance(cell, np.generic) else cell) for cell in cells if not _is_missing(cell)}
    parsers: dict[type, Parse] = {
        bool: lambda text: _TRUTH[text] if text in _TRUTH else _refuse(text),
        int: int,
        float: float,
        str: str,
        datetime.date: datetime.date.fromisoformat,
        datetime.datetime: datetime.datetime.fromisoformat,
        decimal.Decimal: decimal.Decimal,
    }
    if not kinds <= set(parsers):
        return None
    if len(kinds) == 1:
        return parsers[kinds.pop()]
    return float if kinds == {int, float} else str


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in _MISSING or (isinstance(cell, float) and cell != cell)


def _scatter(series: Any, fill: Fill) -> Any:
    """Put values into a copy of a column; dictionaries of Polars and Arrow are taken apart and made anew."""
    kind = series.dtype
    coded = kind in (nw.Categorical, nw.Enum) and not series.implementation.is_pandas_like()
    plain = series.cast(nw.String) if coded else series
    written = plain.scatter(fill.rows.tolist(), list(fill.values))
    return written.cast(kind) if coded else written


def _list_names(frame: Any) -> Any:
    if isinstance(frame, pa.Table):
        return frame.column_names
    if not hasattr(frame, "columns"):
        raise TypeError(type(frame).__name__)
    return frame.columns


def _rename(frame: Any, names: Any) -> Any:
    """Give a frame's columns other names, in order; not only texts, and repeated ones, where the kind allows them."""
    if isinstance(frame, pa.Table):
        return frame.rename_columns(list(names))
    if nw.dependencies.is_pandas_dataframe(frame):
        return frame.set_axis(names, axis=1)
    return nw.from_native(frame, eager_only=True).rename(dict(zip(frame.columns, names, strict=True))).to_native()


def _join(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)
