"""Frames and rows held in memory, read as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from navi.errors import TableError
from navi.tables.cells import clean_header
from navi.tables.chunk import Chunk
from navi.tables.columns import ColumnReader, find_whole, may_be_whole
from navi.tables.config import DEFAULT, ReadConfig
from navi.tables.delimited import name_columns
from navi.tables.flatten import RowBuilder, find_whole_cells
from navi.tables.readreport import ReadReport

if TYPE_CHECKING:
    import narwhals as nw

_NOT_COLUMNAR = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)


def read_frame(frame: Any, report: ReadReport | None = None, config: ReadConfig = DEFAULT) -> Iterator[Chunk]:
    """Read a pandas, Polars or Arrow frame, a list of dictionaries, nested or not, or one dictionary as one row.

    Rows are numbered from 1. The index of a pandas frame is not read.
    """
    report = ReadReport() if report is None else report
    report.source, report.strict = "frame", config.strict
    frame = collect_frame(frame)
    if isinstance(frame, list):
        report.headers = list(dict.fromkeys(clean_header(str(key)) for row in frame for key in _list_keys(row)))
        return _read_rows([_check_row(row, number) for number, row in enumerate(frame, 1)], config, report)
    frame = _name_apart(frame, report)
    report.headers = list(frame.column_names if isinstance(frame, pa.Table) else _open(frame).columns)
    if isinstance(frame, pa.Table) and not _has_foreign(frame.columns):
        return _read_arrow(frame.combine_chunks(), config, report)
    return _read_native(_open(frame), config, report)


def collect_frame(frame: Any) -> Any:
    """Return a frame whole: one row as a list of one, a stream or a lazy frame collected, others as they are."""
    import narwhals as nw

    if isinstance(frame, Mapping):
        return [frame]
    if isinstance(frame, tuple):
        return list(frame)
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    return frame.collect() if nw.dependencies.is_polars_lazyframe(frame) else frame


def frame_to_arrow(frame: Any) -> pa.Table | None:
    """Return a frame as Arrow columns in their own types; None for rows, and for columns that mix types."""
    if isinstance(frame, list):
        return None
    report = ReadReport()
    frame = _name_apart(frame, report)
    if isinstance(frame, pa.Table):
        return frame
    opened = _open(frame)
    return _to_arrow(opened, name_columns(opened.columns, report))


def _list_keys(row: Any) -> Iterable[Any]:
    return row if isinstance(row, Mapping) else ()


def _check_row(row: Any, number: int) -> list[tuple[str, Any]]:
    if not isinstance(row, Mapping):
        raise TableError(f"Cannot read row {number} of the list: expected a dictionary, found {type(row).__name__}.")
    return [(str(key), value) for key, value in row.items()]


def _read_rows(rows: Sequence[Sequence[tuple[str, Any]]], config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    builder = RowBuilder(config, report, find_whole_cells(rows, config))
    for number, row in enumerate(rows, 1):
        chunk = builder.add(row, number, sum(len(value) for _, value in row if isinstance(value, str)))
        if chunk is not None:
            yield chunk
    chunk = builder.flush()
    if chunk is not None:
        yield chunk


def _name_apart(frame: Any, report: ReadReport) -> Any:
    """Return a frame whose columns have distinct texts for names, of one that may have others."""
    import narwhals as nw

    if isinstance(frame, pa.Table):
        return pa.table(frame.columns, names=name_columns(frame.schema.names, report))
    if nw.dependencies.is_pandas_dataframe(frame):
        indexes = [str(name) for name in frame.index.names if name is not None]
        if indexes:
            report.note(f"the index {', '.join(indexes)} is not read; reset_index() makes it a column")
        return frame.set_axis(name_columns([_name_column(name) for name in frame.columns], report), axis=1)
    return frame


def _name_column(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _open(frame: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise TableError(
            f"Cannot read a {type(frame).__name__} as a table: expected a pandas, Polars or Arrow frame, a list of "
            "dictionaries or one dictionary."
        ) from error


def _read_native(frame: nw.DataFrame[Any], config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    headers = name_columns(frame.columns, report)
    table = _to_arrow(frame, headers)
    if table is None:
        columns = [series.to_list() for series in frame.iter_columns()]
        rows = [list(zip(headers, cells, strict=True)) for cells in zip(*columns, strict=True)]
        yield from _read_rows(rows, config, report)
        return
    yield from _read_arrow(table, config, report)


def _read_arrow(table: pa.Table, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    whole: frozenset[str] = frozenset()
    if any(may_be_whole(field.type) for field in table.schema):
        whole = find_whole(table.to_batches(), config)
    reader = ColumnReader(table.column_names, whole, config, report)
    for batch in table.to_batches():
        yield from reader.read(batch)


def _to_arrow(frame: nw.DataFrame[Any], headers: list[str]) -> pa.Table | None:
    """Return a frame as Arrow columns, or None where a column mixes types, or has one that Arrow does not know."""
    import narwhals as nw

    if frame.implementation.is_polars() and nw.Object in frame.schema.dtypes():
        return None
    try:
        columns = [series.to_arrow() for series in frame.iter_columns()]
    except _NOT_COLUMNAR:
        return None
    return None if _has_foreign(columns) else pa.table(columns, names=headers)


def _has_foreign(columns: Iterable[pa.Array]) -> bool:
    """Tell whether a column has a type of pandas' own, as its periods have."""
    return any(getattr(column.type, "extension_name", "").startswith("pandas.") for column in columns)
