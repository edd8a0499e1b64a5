"""CSV and TSV files, with the delimiter detected by the content."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np

from navi.tables.chunk import MAX_CHARACTERS, Chunk, make_chunks, name_columns, to_strings
from navi.tables.readreport import BEYOND_HEADER, CUT_OFF, MISSING_CELL, UNCLOSED_QUOTE, ReadConfig, ReadReport
from navi.tables.textreader import HEAD_SIZE, TextReader

_DELIMITERS = (",", ";", "\t", "|")


def read_delimited(reader: TextReader, usual: str, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read cells between delimiters, the first row being the header; `usual` is the delimiter the suffix promises.

    Cells beyond the header are lost and counted, cells missing at the end are absent and counted.
    """
    delimiter = config.delimiter or detect_delimiter(reader.head(), usual)
    if delimiter != usual:
        report.note(f"delimiter {delimiter!r}")
    rows = _read_records(reader, delimiter, report)
    _, header, _ = next(rows, (0, [], 0))
    if header == ["sep=", ""]:
        # A line by which spreadsheets name the delimiter.
        _, header, _ = next(rows, (0, [], 0))
    headers = report.headers = name_columns(header, report)
    lines: list[int] = []
    cells: list[str | None] = []
    size = 0
    for line, row, length in rows:
        lines.append(line)
        cells += row if len(row) == len(headers) else _fit(row, len(headers), line, report)
        size += length
        if len(lines) >= config.chunk_rows or size > MAX_CHARACTERS:
            yield from _make_chunks(headers, lines, cells, report)
            lines, cells, size = [], [], 0
    yield from _make_chunks(headers, lines, cells, report)


def _fit(row: list[str], width: int, line: int, report: ReadReport) -> list[str]:
    """Bring a row to the width of the header."""
    detail = f"{len(row)} cells, the header has {width}"
    if len(row) < width:
        report.change(MISSING_CELL, line, detail, width - len(row))
        return row + [""] * (width - len(row))
    lost = sum(bool(cell.strip()) for cell in row[width:])
    if lost:
        report.change(BEYOND_HEADER, line, detail, lost)
    return row[:width]


def _make_chunks(headers: list[str], lines: list[int], cells: list[str | None], report: ReadReport) -> Iterator[Chunk]:
    line_R = np.array(lines, dtype=np.int64)
    row_C = np.repeat(np.arange(len(lines), dtype=np.int32), len(headers))
    header_C = np.tile(np.arange(len(headers), dtype=np.int32), len(lines))
    yield from make_chunks(headers, row_C, header_C, to_strings(cells, line_R[row_C], report), line_R, report)


def detect_delimiter(head: str, usual: str) -> str:
    """Return the delimiter under which the first rows agree best with the header; `usual` if that decides nothing."""
    if head[:4].lower() == "sep=" and head[4:5] in _DELIMITERS:
        return head[4]
    scores = {delimiter: _score(head, delimiter) for delimiter in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda delimiter: (scores[delimiter][0], delimiter == usual, scores[delimiter][1]))
    return best if scores[best][0] > 0 else usual


def is_delimited(head: str) -> bool:
    """Return whether a text looks like a table with several columns and at least one row."""
    return any(_score(head, delimiter)[0] > 0.7 for delimiter in _DELIMITERS)


def _score(head: str, delimiter: str) -> tuple[float, int]:
    """Return the share of the first rows that are as wide as the header, in tenths, and that width.

    The share is 0 where the header has one cell alone, and 0.1 where nothing follows it.
    """
    lines = list(io.StringIO(head, newline=""))
    if len(head) >= HEAD_SIZE // 4 and len(lines) > 1:
        # The head may end within a line.
        lines.pop()
    try:
        widths = [len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells]
    except csv.Error:
        return 0.0, 0
    if not widths or widths[0] < 2:
        return 0.0, 1
    if len(widths) == 1:
        return 0.1, widths[0]
    return round(sum(width == widths[0] for width in widths[1:]) / (len(widths) - 1), 1), widths[0]


def _read_records(reader: TextReader, delimiter: str, report: ReadReport) -> Iterator[tuple[int, list[str], int]]:
    """Yield the line that each row begins in, its cells and its length, blank lines left out.

    A quote that nothing closes would swallow the rows after it; where that shows, its line alone is given up and
    reading goes on behind it.
    """
    lines = (line for _, text in reader.read_lines() for line in io.StringIO(text, newline=""))
    number = 1
    held: list[str] = []
    again: list[str] = []

    def feed() -> Iterator[str]:
        """Yield the lines not yet read, holding those of the present row."""
        while line := again.pop() if again else next(lines, ""):
            held.append(line)
            yield line

    while True:
        try:
            for cells in csv.reader(feed(), delimiter=delimiter, strict=True):
                if len(cells) > 1 or not held[0].isspace():
                    yield number, cells, len(held[0]) if len(held) == 1 else sum(map(len, held))
                number += len(held)
                held.clear()
            return
        except csv.Error as error:
            alone = _parse_alone(held, delimiter)
            if alone is not None:
                yield number, alone, len(held[0])
            elif reader.stream.damage is not None and "end of data" in str(error):
                # The damage to the file explains the open quote: there is nothing behind it to go on with.
                if not report.dropped[CUT_OFF]:
                    report.drop(CUT_OFF, number)
                return
            else:
                report.drop(UNCLOSED_QUOTE, number, str(error))
            again += held[:0:-1]
            held.clear()
            number += 1


def _parse_alone(held: list[str], delimiter: str) -> list[str] | None:
    """Return the cells of a line with text behind a closing quote, as in `"Heat" 1995`; None if one stays open."""
    try:
        rows = list(csv.reader([held[0], "\0end of the text\0"], delimiter=delimiter))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 2 and len(held) == 1 else None
