"""Excel workbooks, read part by part as XML: what stands in the sheets, whatever the file says of its own size."""

from __future__ import annotations

import datetime as dt
import lzma
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from navi.errors import TableError
from navi.tables.arrow import format_scalar
from navi.tables.chunk import Chunk, read_header
from navi.tables.json_rows import read_rows
from navi.tables.readreport import HEADER_ROWS, MAX_CELL, Loss, ReadConfig, ReadReport
from navi.tables.textreader import HEAD_SIZE

_MAX_COLUMNS, _MAX_ROWS = 1 << 14, 1 << 20  # Excel's own limits
MAX_CONTENT, MAX_RATIO = 1 << 26, 100  # lower than other files': XML takes long, and packs to a twentieth or so
_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, expat.ExpatError, OSError, EOFError),
    *(KeyError, ValueError, OverflowError, RuntimeError),
)
"""What comes of an archive or of XML that is damaged, locked, or of another kind; RuntimeError if it has a password."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_REFERENCE = re.compile(r"([A-Z]{1,3})\d+")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
# Formats of dates and times that every workbook has, and what is no letter of a date in those of its own.
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_NO_DATE = re.compile(r'"[^"]*"|\[(?!h+\]|m+\]|s+\])[^\]]*\]|\\.|_.|\*.', re.IGNORECASE)
_DAY = dt.timedelta(days=1)

_last_strings: dict[tuple[Any, ...], list[str]] = {}
Cells = dict[int, Any]
"""The cells of a row that hold anything, by column from 0."""


class Workbook:
    """The sheets of a workbook by name, its shared strings and formats."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(file)
            size = sum(part.file_size for part in self._archive.infolist())
            packed = sum(part.compress_size for part in self._archive.infolist())
            # No more is read of a part than its declared size.
            if size > max(MAX_CONTENT, MAX_RATIO * packed):
                raise TableError(
                    f"Cannot read {path}: {packed:,} bytes that claim to hold {size:,} are no workbook to be trusted."
                )
            self.sheets = self._list_sheets()
        except TableError:
            raise
        except _ERRORS as error:
            raise TableError(f"Cannot read {path} as an Excel workbook: {_describe(error)}.") from error

    def _list_sheets(self) -> dict[str, str]:
        """Return the part of each worksheet, by name, those left out that have no cell at all."""
        book = next((part for kind, _, part in self._relate("") if kind == "officeDocument"), "xl/workbook.xml")
        related = self._relate(book)
        self._strings_part, self._styles_part = (
            next((part for kind, _, part in related if kind == wanted), "") for wanted in ("sharedStrings", "styles")
        )
        targets = {key: part for kind, key, part in related if kind == "worksheet"}
        self._is_1904 = False
        sheets: dict[str, str] = {}
        for name, attributes, _ in self._parse(book, "sheet", "workbookPr"):
            title, key = attributes.get("name", ""), attributes.get("id", "")
            if name == "workbookPr":
                self._is_1904 = attributes.get("date1904") in ("1", "true")
            elif key in targets and self._has_cells(targets[key]):
                sheets[title if title not in sheets else f"{title} ({key})"] = targets[key]
        return sheets

    def _relate(self, part: str) -> list[tuple[str, str, str]]:
        """Return kind, identifier and part of all that a part refers to, or the archive for no part."""
        folder, name = posixpath.split(part)
        place = posixpath.join(folder, "_rels", f"{name}.rels")
        related = []
        for _, attributes, _ in self._parse(place, "Relationship") if place in self._archive.NameToInfo else ():
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", ""))).lstrip("/")
            related.append((attributes.get("Type", "").rpartition("/")[2], attributes.get("Id", ""), target))
        return related

    def _has_cells(self, part: str) -> bool:
        """Return whether a sheet has cells; a damaged one is found out when it is read."""
        try:
            return any(True for _ in self._parse(part, "c"))
        except _ERRORS:
            return True

    def _parse(self, part: str, *wanted: str) -> Iterator[tuple[str, dict[str, str], str]]:
        """Yield the elements that are wanted, as they begin or, with a slash before the name, as they end.

        With each come its attributes and, at its end, the text of the `t` and `v` in it, what is only a help to
        pronounce it left out. Names are plain, without a namespace.
        """
        events: list[tuple[str, dict[str, str], str]] = []
        begun: dict[str, dict[str, str]] = {}
        texts: list[str] = []
        size, is_text, is_aside = 0, False, False

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal size, is_text, is_aside
            name = name.rpartition(":")[2]
            is_aside = is_aside or name == "rPh"
            is_text = name in ("t", "v") and not is_aside
            if name in wanted:
                events.append((name, {key.rpartition(":")[2]: value for key, value in attributes.items()}, ""))
            elif not is_text and f"/{name}" in wanted:
                begun[name], size = attributes, 0
                texts.clear()

        def end(name: str) -> None:
            nonlocal is_text, is_aside
            name, is_text = name.rpartition(":")[2], False
            is_aside = is_aside and name != "rPh"
            if (mark := f"/{name}") in wanted:
                events.append((mark, begun.get(name, {}), "".join(texts)))

        def add(text: str) -> None:
            nonlocal size
            if is_text:
                texts.append(text)
                size += len(text)
                if size > MAX_CELL:
                    raise TableError(f"Cannot read {self._path}: it has a cell of more than {MAX_CELL:,} characters.")

        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, add
        parser.StartDoctypeDeclHandler = _refuse_doctype
        with self._archive.open(part) as content:
            is_end = False
            while not is_end:
                block = content.read(HEAD_SIZE)
                is_end = not block
                try:
                    parser.Parse(block, is_end)
                finally:
                    yield from events
                    events.clear()

    def _read_strings(self) -> list[str]:
        """Return the texts that cells refer to by number; those of the last workbook are kept for its other sheets."""
        if self._strings_part not in self._archive.NameToInfo:
            return []
        part = self._archive.NameToInfo[self._strings_part]
        key = (self._path, self._path.stat().st_mtime_ns, part.header_offset, part.file_size, part.CRC)
        if key not in _last_strings:
            strings = [_unescape(text) for _, _, text in self._parse(self._strings_part, "/si")]
            _last_strings.clear()
            _last_strings[key] = strings
        return _last_strings[key]

    def _read_date_styles(self) -> dict[str, str]:
        """Return the format of each style of cells that shows dates, times or durations."""
        formats: dict[str, str] = {}
        styles: list[str] = []
        is_cells = False
        part = self._styles_part
        wanted = ("numFmt", "xf", "cellXfs", "/cellXfs")
        for name, attributes, _ in self._parse(part, *wanted) if part in self._archive.NameToInfo else ():
            if name.endswith("cellXfs"):
                is_cells = name == "cellXfs"
            elif name == "numFmt":
                formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
            elif name == "xf" and is_cells:
                styles.append(attributes.get("numFmtId", ""))
        known = {str(number): "[h]:mm" if number == 46 else "d" for number in _DATE_FORMATS}
        plain = {key: _NO_DATE.sub("", code.split(";")[0]) for key, code in (known | formats).items()}
        dates = {key for key, code in plain.items() if re.search("[dmhys]", code, re.IGNORECASE)}
        return {str(place): plain[key] for place, key in enumerate(styles) if key in dates}

    def read_sheet(self, part: str, report: ReadReport) -> Iterator[tuple[int, Cells]]:
        """Yield number and cells of the rows that hold anything, up to where the sheet is damaged.

        Places that are missing, repeated or impossible follow the one before, so that nothing is lost.
        """
        cells: Cells = {}
        row, column = 0, -1
        try:
            strings, date_styles = self._read_strings(), self._read_date_styles()
            for name, attributes, text in self._parse(part, "row", "/c", "/row"):
                if name == "row":
                    number = int(attributes["r"]) if attributes.get("r", "").isdecimal() else 0
                    row, column = number if row < number <= _MAX_ROWS else row + 1, -1
                elif name == "/c":
                    found = _REFERENCE.fullmatch(attributes.get("r", ""))
                    letters = found[1] if found else ""
                    number = reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters, 0) - 1
                    column = number if column < number < _MAX_COLUMNS else column + 1
                    style = date_styles.get(attributes.get("s", ""))
                    value = self._read_value(text, attributes.get("t", "n"), style, strings, row, report)
                    if value is not None:
                        cells[column] = value
                elif name == "/row" and cells:
                    yield row, cells
                    cells = {}
        except TableError:
            raise
        except _ERRORS as error:
            report.trouble(Loss.DAMAGED, f"{_describe(error)}; what follows is not read", row + 1)
            if cells:
                report.drop(Loss.CUT_OFF, row)

    def _read_value(
        self, text: str, kind: str, style: str | None, strings: list[str], row: int, report: ReadReport
    ) -> Any:
        """Return the value of a cell; a text that is not what its type says stays, and is entered."""
        if not text:
            return None
        if kind == "s":
            if text.isdecimal() and len(text) < 10 and int(text) < len(strings):
                return strings[int(text)] or None
            report.change(Loss.NOT_READABLE, row, f"there is no shared text number {text!r}")
            return None
        if kind == "b" and text in ("0", "1"):
            return text == "1"
        if kind == "n" and style is None and text.lstrip("+-").isdecimal() and _NUMBER.fullmatch(text):
            return int(text) if len(text) < 1000 else float(text)
        with suppress(OverflowError, ValueError):
            if kind == "d":
                return dt.datetime.fromisoformat(text)
            if kind == "n" and _NUMBER.fullmatch(text):
                return float(text) if style is None else self._make_date(float(text), style)
        if kind == "d" or (kind == "n" and _NUMBER.fullmatch(text)):
            report.change(Loss.NOT_READABLE, row, f"{text if kind == 'n' else repr(text)} is no date")
        elif kind in ("b", "n"):
            expected = "number" if kind == "n" else "truth value"
            report.change(Loss.NOT_READABLE, row, f"{text!r} is no {expected}, read as text")
        return _unescape(text)

    def _make_date(self, number: float, style: str) -> dt.datetime | dt.time | dt.timedelta:
        """Return the date, time or duration that a number stands for; what is none is an OverflowError."""
        if "[" in style:
            return dt.timedelta(days=number)
        days, fraction = divmod(number, 1)
        since = dt.timedelta(milliseconds=round(fraction * 86_400_000))
        if days == 0 and since < _DAY:
            return (dt.datetime.min + since).time()
        # The calendar of Excel has a 29th of February 1900.
        days += 0 < number < 60 and not self._is_1904
        start = dt.datetime(1904, 1, 1) if self._is_1904 else dt.datetime(1899, 12, 30)
        return start + dt.timedelta(days=days) + since


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


def _refuse_doctype(*_: object) -> None:
    raise ValueError("its XML declares entities, which no workbook does")


def _describe(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def read_excel(workbook: Workbook, sheet: str | None, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read one sheet, the first if none is named; its header is the first row, or the one behind titles and remarks.

    Rows without any value are no rows, like the blank lines of a text.
    """
    titles = [sheet] if sheet is not None else list(workbook.sheets)[:1]
    if not titles:
        report.trouble(Loss.EMPTY_FILE, "no sheet has anything in it")
        return
    if not sheet and len(workbook.sheets) > 1:
        report.note(f"sheet {titles[0]!r} is read, not read: {', '.join(map(repr, list(workbook.sheets)[1:]))}")
    rows = workbook.read_sheet(workbook.sheets[titles[0]], report)
    first = list(islice(rows, HEADER_ROWS))
    if not first:
        report.trouble(Loss.EMPTY_FILE, f"sheet {titles[0]!r} has nothing in it")
        return
    texts = [
        (number, [format_scalar(cells.get(column)) or "" for column in range(max(cells) + 1)])
        for number, cells in first
    ]
    place, headers = read_header(texts, config.header_row, report)
    # Columns that stand empty beside the table, and have no name, are none.
    used = {column for _, cells in first for column in cells}
    report.headers = [header for column, header in enumerate(headers) if column in used]
    yield from read_rows(_trim_rows(chain(first[place + 1 :], rows), headers, report), config, report)


def _trim_rows(
    rows: Iterator[tuple[int, Cells]], headers: list[str], report: ReadReport
) -> Iterator[tuple[int, list[tuple[str, Any]], int]]:
    """Yield number, headers with cells, and length of each row; cells beyond the header are entered as lost."""
    width = len(headers)
    for number, cells in rows:
        last = max(cells)
        if last >= width:
            lost = sum(column >= width for column in cells)
            report.change(Loss.BEYOND_HEADER, number, f"{last + 1} cells, the header has {width}", lost)
        row = [(headers[column], value) for column, value in cells.items() if column < width]
        yield number, row, sum(len(value) for _, value in row if isinstance(value, str))
