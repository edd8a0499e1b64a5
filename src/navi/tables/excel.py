"""Excel workbooks, read part by part as XML: what stands in the sheets, whatever the file says of its own size."""

from __future__ import annotations

import datetime as dt
import lzma
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from navi.errors import TableError
from navi.tables.arrow import write_scalar
from navi.tables.chunk import Chunk, find_header, name_columns, note_preamble
from navi.tables.readreport import (
    BEYOND_HEADER,
    CUT_OFF,
    DAMAGED,
    EMPTY_FILE,
    HEADER_ROWS,
    MAX_CELL,
    NOT_READABLE,
    ReadConfig,
    ReadReport,
)
from navi.tables.rows import read_rows

_BLOCK_SIZE = 1 << 16
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
            self._check_sizes()
            self.sheets = self._list_sheets()
        except TableError:
            raise
        except _ERRORS as error:
            raise TableError(f"Cannot read {path} as an Excel workbook: {_describe(error)}.") from error

    def _check_sizes(self) -> None:
        """Refuse an archive that becomes far larger than it is; no more is read of a part than its declared size."""
        size = sum(part.file_size for part in self._archive.infolist())
        packed = sum(part.compress_size for part in self._archive.infolist())
        if size > max(MAX_CONTENT, MAX_RATIO * packed):
            raise TableError(
                f"Cannot read {self._path}: {packed:,} bytes that claim to hold {size:,} are no workbook to be trusted."
            )

    def _list_sheets(self) -> dict[str, str]:
        """Return the part of each worksheet, by name, those left out that have no cell at all."""
        self._is_1904, listed = False, []
        book = self._find("_rels/.rels", "officeDocument", "") or "xl/workbook.xml"

        def start(name: str, attributes: dict[str, str]) -> None:
            if name == "sheet":
                listed.append((attributes.get("name", ""), attributes.get("id", "")))
            elif name == "workbookPr":
                self._is_1904 = attributes.get("date1904") in ("1", "true")

        self._parse(book, start)
        folder, name = posixpath.split(book)
        relations = f"{folder}/_rels/{name}.rels"
        self._strings_part = self._find(relations, "sharedStrings", folder)
        self._styles_part = self._find(relations, "styles", folder)
        targets = self._relate(relations, "worksheet", folder)
        sheets: dict[str, str] = {}
        for title, key in listed:
            if key in targets and self._has_cells(targets[key]):
                sheets[title if title not in sheets else f"{title} ({key})"] = targets[key]
        return sheets

    def _relate(self, part: str, kind: str, folder: str) -> dict[str, str]:
        """Return the parts of one kind that a part of relations names, by their identifiers."""
        targets: dict[str, str] = {}

        def start(name: str, attributes: dict[str, str]) -> None:
            if name == "Relationship" and attributes.get("Type", "").endswith(f"/{kind}"):
                target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))
                targets[attributes.get("Id", "")] = target.lstrip("/")

        if part in self._archive.NameToInfo:
            self._parse(part, start)
        return targets

    def _find(self, part: str, kind: str, folder: str) -> str | None:
        return next(iter(self._relate(part, kind, folder).values()), None)

    def _has_cells(self, part: str) -> bool:
        """Return whether a sheet may have cells; a damaged one is found out when it is read."""
        try:
            with self._archive.open(part) as content:
                head = content.read(_BLOCK_SIZE)
        except _ERRORS:
            return True
        return len(head) == _BLOCK_SIZE or re.search(rb"<(?:\w+:)?c[\s>]", head) is not None

    def _parse(self, part: str, start: Callable[..., None], end: Any = None, text: Any = None) -> None:
        for _ in self._parse_blocks(part, start, end, text):
            pass

    def _parse_blocks(self, part: str, start: Any, end: Any = None, text: Any = None) -> Iterator[None]:
        """Hand the elements of a part, under their plain names, to functions; yield after each block of it."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = lambda name, attributes: start(
            name.rpartition(":")[2], {key.rpartition(":")[2]: value for key, value in attributes.items()}
        )
        parser.EndElementHandler = end and (lambda name: end(name.rpartition(":")[2]))
        parser.CharacterDataHandler = text
        parser.StartDoctypeDeclHandler = _refuse_doctype
        with self._archive.open(part) as content:
            while block := content.read(_BLOCK_SIZE):
                parser.Parse(block)
                yield
            parser.Parse(b"", True)
            yield

    def read_strings(self) -> list[str]:
        """Return the texts that cells refer to by number; those of the last workbook are kept for its other sheets."""
        strings: list[str] = []
        if self._strings_part in self._archive.NameToInfo:
            part = self._archive.NameToInfo[self._strings_part]
            key = (self._path, self._path.stat().st_mtime_ns, part.header_offset, part.file_size, part.CRC)
            if key in _last_strings:
                return _last_strings[key]
            parser = _TextParser(self._path)

            def end(name: str) -> None:
                parser.end(name)
                if name == "si":
                    strings.append(parser.take())

            self._parse(self._strings_part, parser.start, end, parser.add)
            _last_strings.clear()
            _last_strings[key] = strings
        return strings

    def read_date_styles(self) -> dict[str, str]:
        """Return the format of each style of cells that shows dates, times or durations."""
        formats: dict[str, str] = {}
        styles: list[str] = []
        inside: list[str] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            inside.append(name)
            if name == "numFmt":
                formats[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
            elif name == "xf" and "cellXfs" in inside:
                styles.append(attributes.get("numFmtId", ""))

        if self._styles_part in self._archive.NameToInfo:
            self._parse(self._styles_part, start, lambda _: inside.pop())
        known = {str(number): "[h]:mm" if number == 46 else "d" for number in _DATE_FORMATS}
        plain = {key: _NO_DATE.sub("", code.split(";")[0]) for key, code in (known | formats).items()}
        dates = {key for key, code in plain.items() if re.search("[dmhys]", code, re.IGNORECASE)}
        return {str(place): plain[key] for place, key in enumerate(styles) if key in dates}

    def read_sheet(self, part: str, report: ReadReport) -> Iterator[tuple[int, Cells]]:
        """Yield number and cells of the rows that hold anything, up to where the sheet is damaged."""
        parser = _SheetParser(self, report)
        try:
            parser.strings, parser.date_styles = self.read_strings(), self.read_date_styles()
            for _ in self._parse_blocks(part, parser.start, parser.end, parser.text.add):
                yield from parser.rows
                parser.rows.clear()
        except TableError:
            raise
        except _ERRORS as error:
            yield from parser.rows
            report.trouble(DAMAGED, f"{_describe(error)}; what follows is not read", parser.number + 1)
            if parser.cells:
                report.drop(CUT_OFF, parser.number)

    def make_date(self, number: float, style: str) -> dt.datetime | dt.time | dt.timedelta:
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


class _TextParser:
    """Gathers the text of an element, that of its runs joined, what is only a help to pronounce it left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: list[str] = []
        self._size = 0
        self._taken = self._is_aside = False

    def start(self, name: str, _: dict[str, str]) -> None:
        if name == "rPh":
            self._is_aside = True
        self._taken = name in ("t", "v") and not self._is_aside

    def end(self, name: str) -> None:
        self._taken = False
        if name == "rPh":
            self._is_aside = False

    def add(self, text: str) -> None:
        if self._taken:
            self._parts.append(text)
            self._size += len(text)
            if self._size > MAX_CELL:
                raise TableError(f"Cannot read {self._path}: it has a cell of more than {MAX_CELL:,} characters.")

    def take(self) -> str:
        """Return the text, and begin another."""
        text = "".join(self._parts)
        self._parts, self._size = [], 0
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


class _SheetParser:
    """Makes rows of the elements of a sheet."""

    def __init__(self, workbook: Workbook, report: ReadReport) -> None:
        self.rows: list[tuple[int, Cells]] = []
        self.cells: Cells = {}
        self.number = 0
        self.text = _TextParser(workbook._path)
        self.strings: list[str] = []
        self.date_styles: dict[str, str] = {}
        self._workbook, self._report = workbook, report
        self._column = -1
        self._cell: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.start(name, attributes)
        if name == "c":
            self._cell = attributes
            found = _REFERENCE.fullmatch(attributes.get("r", ""))
            column = _number_column(found[1]) if found else -1
            # Places that are missing, repeated or impossible follow the one before, so that nothing is lost.
            self._column = column if self._column < column < _MAX_COLUMNS else self._column + 1
            self.text.take()
        elif name == "row":
            self._column = -1
            number = int(attributes["r"]) if attributes.get("r", "").isdecimal() else 0
            self.number = number if self.number < number <= _MAX_ROWS else self.number + 1

    def end(self, name: str) -> None:
        self.text.end(name)
        if name == "c" and (text := self.text.take()):
            value = self._read_value(text)
            if value is not None:
                self.cells[self._column] = value
        elif name == "row" and self.cells:
            self.rows.append((self.number, self.cells))
            self.cells = {}

    def _read_value(self, text: str) -> Any:
        """Return the value of a cell; a text that is not what its type says stays, and is entered."""
        kind, style = self._cell.get("t", "n"), self.date_styles.get(self._cell.get("s", ""))
        if kind == "s":
            if text.isdecimal() and len(text) < 10 and int(text) < len(self.strings):
                return self.strings[int(text)] or None
            self._report.change(NOT_READABLE, self.number, f"there is no shared text number {text!r}")
        elif kind == "b" and text in ("0", "1"):
            return text == "1"
        elif kind == "n" and _NUMBER.fullmatch(text):
            if style is None and text.lstrip("+-").isdecimal() and len(text) < 1000:
                return int(text)
            try:
                return float(text) if style is None else self._workbook.make_date(float(text), style)
            except (OverflowError, ValueError):
                self._report.change(NOT_READABLE, self.number, f"{text} is no date")
        elif kind == "d":
            try:
                return dt.datetime.fromisoformat(text)
            except ValueError:
                self._report.change(NOT_READABLE, self.number, f"{text!r} is no date")
        elif kind in ("b", "n"):
            expected = "number" if kind == "n" else "truth value"
            self._report.change(NOT_READABLE, self.number, f"{text!r} is no {expected}, read as text")
        return None if kind == "s" else text


def _refuse_doctype(*_: object) -> None:
    raise ValueError("its XML declares entities, which no workbook does")


def _describe(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _number_column(letters: str) -> int:
    """Return the column that letters name, from 0.

    >>> _number_column("A"), _number_column("AB")
    (0, 27)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def read_excel(workbook: Workbook, sheet: str | None, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read one sheet, the first if none is named; its header is the first row, or the one behind titles and remarks.

    Rows without any value are no rows, like the blank lines of a text.
    """
    titles = [sheet] if sheet is not None else list(workbook.sheets)[:1]
    if not titles:
        report.trouble(EMPTY_FILE, "no sheet has anything in it")
        return
    if not sheet and len(workbook.sheets) > 1:
        report.note(f"sheet {titles[0]!r} is read, not read: {', '.join(map(repr, list(workbook.sheets)[1:]))}")
    rows = workbook.read_sheet(workbook.sheets[titles[0]], report)
    first = list(islice(rows, HEADER_ROWS))
    if not first:
        report.trouble(EMPTY_FILE, f"sheet {titles[0]!r} has nothing in it")
        return
    texts = [_lay_out(cells) for _, cells in first]
    place = find_header(texts, [number for number, _ in first], config.header_row)
    note_preamble(zip((number for number, _ in first[:place]), texts, strict=False), first[place][0], report)
    headers = name_columns(texts[place], report)
    used = {column for _, cells in first for column in cells}
    # Columns that stand empty beside the table, and have no name, are none.
    report.headers = [header for column, header in enumerate(headers) if texts[place][column] or column in used]
    yield from read_rows(_fit_rows(chain(first[place + 1 :], rows), headers, report), config, report)


def _lay_out(cells: Cells) -> list[str]:
    """Return the cells of a row as texts, those between them empty."""
    return [write_scalar(cells.get(column)) or "" for column in range(max(cells) + 1)]


def _fit_rows(
    rows: Iterator[tuple[int, Cells]], headers: list[str], report: ReadReport
) -> Iterator[tuple[int, list[tuple[str, Any]], int]]:
    """Yield number, headers with cells, and length of each row; cells beyond the header are entered as lost."""
    width = len(headers)
    for number, cells in rows:
        last = max(cells)
        if last >= width:
            lost = sum(column >= width for column in cells)
            report.change(BEYOND_HEADER, number, f"{last + 1} cells, the header has {width}", lost)
        row = [(headers[column], value) for column, value in cells.items() if column < width]
        yield number, row, sum(len(value) for _, value in row if isinstance(value, str))
