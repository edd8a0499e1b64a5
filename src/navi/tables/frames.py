"""Frames and rows held in memory, read as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from navi.errors import TableError
from navi.tables.chunk import Chunk
from navi.tables.columns import ColumnReader, find_whole, may_be_whole
from navi.tables.config import DEFAULT, ReadConfig
from navi.tables.delimited import name_columns
from navi.tables.flatten import RowBuilder, find_whole_cells
from navi.tables.losses import Ledger, Losses

if TYPE_CHECKING:
    import narwhals as nw

_NOT_COLUMNAR = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError)


def read_frame(frame: Any, losses: Losses | None = None, config: ReadConfig = DEFAULT) -> Iterator[Chunk]:
    """Read a pandas, Polars or Arrow frame, a list of dictionaries, nested or not, or one dictionary as one row.

    Rows are numbered from 1. The index of a pandas frame is not read.
    """
    ledger = Ledger(losses=Losses() if losses is None else losses, file="frame", strict=config.strict)
    if isinstance(frame, Mapping):
        frame = [frame]
    if isinstance(frame, (list, tuple)):
        return _read_rows([_check_row(row, number) for number, row in enumerate(frame, 1)], config, ledger)
    frame = _name_apart(frame, ledger)
    if isinstance(frame, pa.Table) and not _has_foreign(frame.columns):
        return _read_arrow(frame.combine_chunks(), config, ledger)
    return _read_native(_open(frame), config, ledger)


def _check_row(row: Any, number: int) -> list[tuple[str, Any]]:
    if not isinstance(row, Mapping):
        raise TableError(f"Cannot read row {number} of the list: expected a dictionary, found {type(row).__name__}.")
    return [(str(key), value) for key, value in row.items()]


def _read_rows(rows: Sequence[Sequence[tuple[str, Any]]], config: ReadConfig, ledger: Ledger) -> Iterator[Chunk]:
    builder = RowBuilder(config, ledger, find_whole_cells(rows, config))
    for number, row in enumerate(rows, 1):
        chunk = builder.add(row, number, sum(len(value) for _, value in row if isinstance(value, str)))
        if chunk is not None:
            yield chunk
    chunk = builder.flush()
    if chunk is not None:
        yield chunk


def _name_apart(frame: Any, ledger: Ledger) -> Any:
    """Return a frame whose columns have distinct texts for names, of one that may have others."""
    import narwhals as nw

    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    if isinstance(frame, (pa.Table, pa.RecordBatch)):
        return pa.table(frame.columns, names=name_columns(frame.schema.names, ledger))
    if nw.dependencies.is_pandas_dataframe(frame):
        indexes = [str(name) for name in frame.index.names if name is not None]
        if indexes:
            ledger.note(f"the index {', '.join(indexes)} is not read; reset_index() makes it a column")
        return frame.set_axis(name_columns([_name_column(name) for name in frame.columns], ledger), axis=1)
    return frame


def _name_column(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _open(frame: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        opened = nw.from_native(frame)
    except TypeError as error:
        raise TableError(
            f"Cannot read a {type(frame).__name__} as a table: expected a pandas, Polars or Arrow frame, a list of "
            "dictionaries or one dictionary."
        ) from error
    return opened.collect() if isinstance(opened, nw.LazyFrame) else opened


def _read_native(frame: nw.DataFrame[Any], config: ReadConfig, ledger: Ledger) -> Iterator[Chunk]:
    headers = name_columns(frame.columns, ledger)
    table = _to_arrow(frame, headers)
    if table is None:
        columns = [series.to_list() for series in frame.iter_columns()]
        rows = [list(zip(headers, cells, strict=True)) for cells in zip(*columns, strict=True)]
        yield from _read_rows(rows, config, ledger)
        return
    yield from _read_arrow(table, config, ledger)


def _read_arrow(table: pa.Table, config: ReadConfig, ledger: Ledger) -> Iterator[Chunk]:
    whole: frozenset[str] = frozenset()
    if any(may_be_whole(field.type) for field in table.schema):
        whole = find_whole(table.to_batches(), config)
    reader = ColumnReader(table.column_names, whole, config, ledger)
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
