"""Excel workbooks, of which the first sheet with anything in it is the table."""

from __future__ import annotations

import importlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any
from xml.etree.ElementTree import ParseError

from navi.errors import MissingExtraError, TableError
from navi.tables.chunk import Chunk
from navi.tables.compression import ByteStream
from navi.tables.config import ReadConfig
from navi.tables.delimited import name_columns
from navi.tables.flatten import RowBuilder, find_whole_cells
from navi.tables.readreport import BEYOND_HEADER, DAMAGED, EMPTY_FILE, ReadReport
from navi.tables.text import write_scalar

_DAMAGE = (zipfile.BadZipFile, zlib.error, ParseError, EOFError)


def read_excel(stream: ByteStream, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read the first sheet that is not empty, its first row being the header; other sheets are named in a note.

    Rows without any value are no rows, like the blank lines of a text.
    """
    with stream.spool() as file:
        workbook = _open(file, stream)
        try:
            sheet = _choose_sheet(workbook, report)
            if sheet is not None:
                yield from _read_sheet(sheet, config, report)
        finally:
            workbook.close()


def _open(file: IO[bytes], stream: ByteStream) -> Any:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError as error:
        raise MissingExtraError(f"Reading the Excel file {stream.path}", "excel") from error
    try:
        return openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (*_DAMAGE, KeyError, ValueError, OSError) as error:
        raise TableError(f"Cannot read {stream.path} as an Excel workbook: {error}.") from error


def _choose_sheet(workbook: Any, report: ReadReport) -> Any | None:
    sheets = workbook.worksheets
    for sheet in sheets:
        if next(_read_rows(sheet, None), None) is not None:
            others = ", ".join(repr(other.title) for other in sheets if other is not sheet)
            if others:
                report.note(f"sheet {sheet.title!r} is read, not read: {others}")
            return sheet
    report.trouble(EMPTY_FILE, "no sheet has anything in it")
    return None


def _read_sheet(sheet: Any, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    rows = _read_rows(sheet, report)
    _, first = next(rows)
    headers = report.headers = name_columns([write_scalar(cell) or "" for cell in first], report)
    cells = (zip(headers, row, strict=False) for number, row in _read_rows(sheet, None) if number > 1)
    builder = RowBuilder(config, report, find_whole_cells(cells, config))
    for number, row in rows:
        lost = sum(cell is not None for cell in row[len(headers) :])
        if lost:
            report.change(BEYOND_HEADER, number, f"{len(row)} cells, the header has {len(headers)}", lost)
        chunk = builder.add(zip(headers, row, strict=False), number)
        if chunk is not None:
            yield chunk
    chunk = builder.flush()
    if chunk is not None:
        yield chunk


def _read_rows(sheet: Any, report: ReadReport | None) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield number and cells of the rows that hold anything, up to where the sheet is damaged."""
    number = 0
    try:
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if any(cell is not None for cell in row):
                yield number, row
    except _DAMAGE as error:
        if report is not None:
            report.trouble(DAMAGED, str(error), number + 1)
