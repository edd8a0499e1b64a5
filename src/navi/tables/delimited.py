"""CSV and TSV files, with the delimiter detected by the content."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np

from navi.tables.chunk import MAX_CHARACTERS, Chunk, find_header, make_chunks, read_header, to_strings
from navi.tables.readreport import HEADER_ROWS, MAX_CELL, MAX_LINE, Loss, ReadConfig, ReadReport
from navi.tables.textreader import HEAD_SIZE, TextReader

_DELIMITERS = (",", ";", "\t", "|")
_LONG_ROW = 1 << 17
"""Characters after which a row that a quote keeps open is looked at: it may be several rows."""
_TOTALS = frozenset(("total", "sum", "summe", "gesamt"))
"""What the first cell of a row of sums says."""
# The limit is the whole process's; a cell of the standard 131,072 characters is nothing unusual.
csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))


def read_delimited(reader: TextReader, usual: str, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read cells between delimiters under a header; `usual` is the delimiter the suffix promises.

    The header is the first row, or the one behind titles and remarks. Cells beyond it are lost and counted, cells
    missing at the end are absent and counted. Rows that look like the header again, and a last one that looks like
    sums, are read like others and noted.
    """
    delimiter = config.delimiter or detect_delimiter(reader.head(), usual)
    if delimiter != usual:
        report.note(f"delimiter {delimiter!r}")
    records = _read_records(reader, delimiter, report)
    first = list(islice(records, HEADER_ROWS))
    if first and first[0][1] == ["sep=", ""]:
        # A line by which spreadsheets name the delimiter.
        del first[0]
    if not first:
        return
    place, headers = read_header([(line, row) for line, row, _ in first], config.header_row, report)
    report.headers, width = headers, len(headers)
    lines: list[int] = []
    widths: list[int] = []
    cells: list[str | None] = []
    size = 0
    title, row = first[place][1], list[str]()
    for line, row, length in chain(first[place + 1 :], records):
        if row == title:
            report.note(f"row {line} of {report.source} looks like a repeated header")
        if len(row) != width:
            row = _trim_row(row, width, line, report)
        lines.append(line)
        widths.append(len(row))
        cells += row
        size += length
        if len(lines) >= config.chunk_rows or size > MAX_CHARACTERS:
            yield from _make_chunks(headers, lines, widths, cells, report)
            lines, widths, cells, size = [], [], [], 0
    if row and row[0].strip().rstrip(":").lower() in _TOTALS and sum(map(bool, row[1:])) < (width - 1) / 2:
        report.note(f"row {line} of {report.source}, the last, looks like sums of the others")
    yield from _make_chunks(headers, lines, widths, cells, report)


def _trim_row(row: list[str], width: int, line: int, report: ReadReport) -> list[str]:
    """Return a row that is not as wide as the header without the cells beyond it."""
    detail = f"{len(row)} cells, the header has {width}"
    if len(row) < width:
        report.change(Loss.MISSING_CELL, line, detail, width - len(row))
        return row
    lost = sum(bool(cell.strip()) for cell in row[width:])
    if lost:
        report.change(Loss.BEYOND_HEADER, line, detail, lost)
    return row[:width]


def _make_chunks(
    headers: list[str], lines: list[int], widths: list[int], cells: list[str | None], report: ReadReport
) -> Iterator[Chunk]:
    """Yield the chunk of rows that have cells under so many of the first headers each."""
    line_R, width_R = np.array(lines, dtype=np.int64), np.array(widths, dtype=np.int32)
    row_C = np.repeat(np.arange(len(lines), dtype=np.int32), width_R)
    begin_R = np.cumsum(width_R, dtype=np.int32) - width_R
    header_C = np.arange(len(cells), dtype=np.int32) - begin_R[row_C]
    yield from make_chunks(headers, row_C, header_C, to_strings(cells, line_R[row_C], report), line_R, report)


def detect_delimiter(head: str, usual: str) -> str:
    """Return the delimiter under which the first rows agree best with the header, and least stands above it.

    It is `usual` if that decides nothing. Decimals with a comma agree, too, but not with the header of their file.
    """
    if head[:4].lower() == "sep=" and head[4:5] in _DELIMITERS:
        return head[4]
    scores = {delimiter: _score(head, delimiter) for delimiter in _DELIMITERS}

    def rank(delimiter: str) -> tuple[float, int, bool, int]:
        share, place, width = scores[delimiter]
        return share, -place, delimiter == usual, width

    best = max(_DELIMITERS, key=rank)
    return best if scores[best][0] > 0 else usual


def is_delimited(head: str) -> bool:
    """Return whether a text looks like a table with several columns and at least one row."""
    return any(_score(head, delimiter)[0] > 0.7 for delimiter in _DELIMITERS)


def _score(head: str, delimiter: str) -> tuple[float, int, int]:
    """Return the share of the first rows that are as wide as the header, in tenths, its place, and that width.

    The share is 0 where the header has one cell alone, and 0.1 where nothing follows it.
    """
    lines = list(io.StringIO(head, newline=""))
    if len(head) >= HEAD_SIZE // 4 and len(lines) > 1:
        # The head may end within a line.
        lines.pop()
    try:
        rows = [cells for cells in csv.reader(lines, delimiter=delimiter) if cells]
    except csv.Error:
        return 0.0, 0, 0
    place = find_header(rows[:HEADER_ROWS], range(HEADER_ROWS))
    widths = [len(cells) for cells in rows[place:]]
    if not widths or widths[0] < 2:
        return 0.0, place, 1
    if len(widths) == 1:
        return 0.1, place, widths[0]
    return round(sum(width == widths[0] for width in widths[1:]) / (len(widths) - 1), 1), place, widths[0]


def _read_records(reader: TextReader, delimiter: str, report: ReadReport) -> Iterator[tuple[int, list[str], int]]:
    """Yield the line that each row begins in, its cells and its length, blank lines left out.

    A quote that nothing closes would swallow the rows after it; where that shows, its line alone is given up and
    reading goes on behind it.
    """
    lines = (line for _, text in reader.read_lines() for line in io.StringIO(text, newline=""))
    number, width, size = 1, 0, 0
    row_lines: list[str] = []
    again: list[str] = []

    def feed() -> Iterator[str]:
        """Yield the lines not yet read, holding those of the present row."""
        nonlocal size
        while line := again.pop() if again else next(lines, ""):
            row_lines.append(line)
            if len(row_lines) > 1:
                before = size or len(row_lines[0])
                size = before + len(line)
                if before <= _LONG_ROW < size and _look_like_rows(row_lines, delimiter, width):
                    raise csv.Error(f"{len(row_lines) - 1} rows and more would be one cell")
                if size > MAX_LINE:
                    raise report.refuse(f"a row has more than {MAX_LINE:,} characters", number)
            yield line

    while True:
        try:
            for cells in csv.reader(feed(), delimiter=delimiter, strict=True):
                if len(cells) > 1 or not row_lines[0].isspace():
                    yield number, cells, size or len(row_lines[0])
                    width = len(cells)
                number += len(row_lines)
                row_lines.clear()
                size = 0
            return
        except csv.Error as error:
            if "field larger" in str(error):
                problem = f"a cell has more than {MAX_CELL:,} characters, or a quote is never closed"
                raise report.refuse(problem, number) from error
            alone = _parse_alone(row_lines, delimiter)
            if alone is not None:
                yield number, alone, len(row_lines[0])
            elif (
                reader.stream.damage is not None
                and "end of data" in str(error)
                and not _look_like_rows(row_lines, delimiter, width)
            ):
                # The damage to the file explains the open quote: there is nothing behind it to go on with.
                if not report.dropped[Loss.CUT_OFF]:
                    report.drop(Loss.CUT_OFF, number)
                return
            else:
                report.drop(Loss.UNCLOSED_QUOTE, number, str(error))
            again += row_lines[:0:-1]
            row_lines.clear()
            size = 0
            number += 1


def _look_like_rows(row_lines: list[str], delimiter: str, width: int) -> bool:
    """Return whether most lines that a quote keeps open have as many cells as the rows before it."""
    return width > 1 and sum(line.count(delimiter) == width - 1 for line in row_lines[1:]) > 0.9 * (len(row_lines) - 1)


def _parse_alone(row_lines: list[str], delimiter: str) -> list[str] | None:
    """Return the cells of a line with text behind a closing quote, as in `"Heat" 1995`; None if one stays open."""
    try:
        rows = list(csv.reader([row_lines[0], "\0end of the text\0"], delimiter=delimiter))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 2 and len(row_lines) == 1 else None
