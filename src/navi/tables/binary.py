"""Parquet, Feather, Arrow and Excel files, read batch by batch up to where they are damaged."""

from __future__ import annotations

import importlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO, Any
from xml.etree.ElementTree import ParseError

import pyarrow as pa
import pyarrow.parquet as pq

from navi.errors import MissingExtraError, TableError
from navi.tables.celltext import write_scalar
from navi.tables.chunk import Chunk, name_columns
from navi.tables.flattening import Batches, Lost, read_columns, read_rows
from navi.tables.readreport import BEYOND_HEADER, DAMAGED, EMPTY_FILE, ReadConfig, ReadReport
from navi.tables.textreader import ByteStream

_BATCH_ROWS = 8192
_ARROW_MAGIC = b"ARROW1"
_ERRORS = (pa.ArrowException, OSError)
_EXCEL_ERRORS = (zipfile.BadZipFile, zlib.error, ParseError, EOFError)


def read_parquet(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Parquet file; of a row group that is damaged, what comes after the damage is dropped."""
    with _open(stream, report) as binary:
        try:
            file = pq.ParquetFile(binary)
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Parquet: {_first_line(error)}.") from error

        def read(names: list[str] | None) -> Iterator[pa.RecordBatch | Lost]:
            for group in range(file.num_row_groups):
                left = file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
                        left -= batch.num_rows
                        yield batch
                except _ERRORS as error:
                    yield left, f"row group {group + 1}: {_first_line(error)}"

        yield from read_columns(read, file.schema_arrow, config, report, kept)


def read_arrow(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Feather file, or an Arrow file or stream, up to where it is damaged."""
    with _open(stream, report) as binary:
        is_file, file = binary.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC, None
        with suppress(*_ERRORS):
            file = pa.ipc.open_file(binary) if is_file else None

        def open_stream() -> pa.RecordBatchStreamReader:
            # The file format is the stream format between two marks, so that a file without its end is a stream.
            binary.seek(8 if is_file else 0)
            return pa.ipc.open_stream(binary)

        def read(_: list[str] | None) -> Iterator[pa.RecordBatch | Lost]:
            batches = map(file.get_batch, range(file.num_record_batches)) if file else open_stream()
            try:
                for number, batch in enumerate(batches, 1):
                    sound = all(map(_is_sound, batch.columns))
                    yield batch if sound else (batch.num_rows, f"batch {number} contradicts itself")
                if is_file and not file:
                    yield 0, "the file ends too early"
            except _ERRORS as error:
                yield 0, _first_line(error)

        try:
            schema = file.schema if file else open_stream().schema
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Arrow: {_first_line(error)}.") from error
        yield from read_columns(read, schema, config, report, kept)


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
    with stream.spool() as file:
        if stream.damage is not None:
            report.trouble(DAMAGED, stream.damage)
        yield pa.PythonFile(file, "r")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def read_excel(stream: ByteStream, config: ReadConfig, report: ReadReport, _: Batches | None) -> Iterator[Chunk]:
    """Read the first sheet that is not empty, its first row being the header; other sheets are named in a note.

    Rows without any value are no rows, like the blank lines of a text.
    """
    with stream.spool() as file, closing(_open_workbook(file, stream)) as workbook:
        for sheet in workbook.worksheets:
            rows = _read_sheet(sheet, report)
            first = next(rows, (0, None))[1]
            if first is not None:
                others = ", ".join(repr(other.title) for other in workbook.worksheets if other is not sheet)
                if others:
                    report.note(f"sheet {sheet.title!r} is read, not read: {others}")
                headers = report.headers = name_columns([write_scalar(cell) or "" for cell in first], report)
                pairs = ((number, zip(headers, row, strict=False), 0) for number, row in rows)
                yield from read_rows(pairs, config, report)
                return
        report.trouble(EMPTY_FILE, "no sheet has anything in it")


def _open_workbook(file: IO[bytes], stream: ByteStream) -> Any:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError as error:
        raise MissingExtraError(f"Reading the Excel file {stream.path}", "excel") from error
    try:
        return openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (*_EXCEL_ERRORS, KeyError, ValueError, OSError) as error:
        raise TableError(f"Cannot read {stream.path} as an Excel workbook: {error}.") from error


def _read_sheet(sheet: Any, report: ReadReport) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield number and cells of the rows that hold anything, up to where the sheet is damaged; the first is the header.

    Cells beyond the header are entered as lost.
    """
    number = width = 0
    try:
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if any(cell is not None for cell in row):
                width = width or len(row)
                if lost := sum(cell is not None for cell in row[width:]):
                    report.change(BEYOND_HEADER, number, f"{len(row)} cells, the header has {width}", lost)
                yield number, row
    except _EXCEL_ERRORS as error:
        report.trouble(DAMAGED, str(error), number + 1)
