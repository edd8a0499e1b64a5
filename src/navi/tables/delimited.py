"""CSV and TSV files, with the delimiter told by the content."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator

import numpy as np

from navi.tables.cells import assemble, clean_header, name_apart, to_strings
from navi.tables.chunk import Chunk
from navi.tables.compression import HEAD_SIZE
from navi.tables.config import ReadConfig
from navi.tables.encoding import TextReader
from navi.tables.flatten import MAX_CHARACTERS
from navi.tables.readreport import BEYOND_HEADER, CUT_OFF, MISSING_CELL, UNCLOSED_QUOTE, ReadReport

DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that are told apart."""
_END = "\0end of the text\0"


def read_delimited(reader: TextReader, usual: str, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read cells between delimiters, the first row being the header; `usual` is the delimiter the suffix promises.

    Cells beyond the header are lost and counted, cells missing at the end are absent and counted.
    """
    delimiter = config.delimiter or detect_delimiter(reader.head(), usual)
    if delimiter != usual:
        report.note(f"delimiter {delimiter!r}")
    source = _Records(reader, delimiter, report)
    records = source.read()
    _, header = next(records, (0, []))
    if header == ["sep=", ""]:
        # A line by which spreadsheets tell the delimiter.
        _, header = next(records, (0, []))
    report.headers = name_columns(header, report)
    rows = _Rows(report.headers, report)
    for line, cells in records:
        rows.add(line, cells)
        if len(rows.lines) >= config.chunk_rows or source.size > MAX_CHARACTERS:
            source.size = 0
            yield from rows.flush()
    yield from rows.flush()


def detect_delimiter(head: str, usual: str) -> str:
    """Tell the delimiter under which the first rows agree best with the header; `usual` where that decides nothing."""
    if head[:4].lower() == "sep=" and head[4:5] in DELIMITERS:
        return head[4]
    scores = {delimiter: _score(head, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: (scores[delimiter][0], delimiter == usual, scores[delimiter][1]))
    return best if scores[best][0] > 0 else usual


def is_delimited(head: str) -> bool:
    """Tell whether a text looks like a table with several columns and at least one row."""
    return any(_score(head, delimiter)[0] > 0.7 for delimiter in DELIMITERS)


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


def name_columns(cells: list[str], report: ReadReport) -> list[str]:
    """Make headers of the first row: stripped, `column_3` where a name is missing, `title (2)` where it is repeated."""
    names = [clean_header(cell, f"column_{number}") for number, cell in enumerate(cells, 1)]
    taken = set(names)
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            names[index] = name_apart(name, taken)
            report.note(f"header {name!r} appears more than once: told apart as {names[index]!r}")
        seen.add(name)
    return names


class _Rows:
    """Rows of cells on their way into a chunk."""

    def __init__(self, headers: list[str], report: ReadReport) -> None:
        self._headers = headers
        self._report = report
        self.lines: list[int] = []
        self._cells: list[str | None] = []

    def add(self, line: int, cells: list[str]) -> None:
        """Add a row, brought to the width of the header."""
        width = len(self._headers)
        if len(cells) != width:
            cells = self._fit(line, cells, width)
        self.lines.append(line)
        self._cells.extend(cells)

    def _fit(self, line: int, cells: list[str], width: int) -> list[str]:
        if len(cells) < width:
            missing = width - len(cells)
            self._report.change(MISSING_CELL, line, f"{len(cells)} cells, the header has {width}", missing)
            return cells + [""] * missing
        lost = sum(bool(cell.strip()) for cell in cells[width:])
        if lost:
            self._report.change(BEYOND_HEADER, line, f"{len(cells)} cells, the header has {width}", lost)
        return cells[:width]

    def flush(self) -> Iterator[Chunk]:
        """Yield the rows so far as a chunk, if any has a cell, and begin anew."""
        line_R = np.array(self.lines, dtype=np.int64)
        width = len(self._headers)
        row_C = np.repeat(np.arange(len(line_R), dtype=np.int32), width)
        header_C = np.tile(np.arange(width, dtype=np.int32), len(line_R))
        value_C = to_strings(self._cells, line_R[row_C], self._report)
        self.lines, self._cells = [], []
        chunk = assemble(self._headers, row_C, header_C, value_C, line_R, self._report)
        if chunk is not None:
            yield chunk


class _Records:
    """The rows of a file as lists of cells, each with the line it begins in.

    A quote that nothing closes would swallow the rows after it; where that shows, its line alone is given up and
    reading goes on behind it.
    """

    def __init__(self, reader: TextReader, delimiter: str, report: ReadReport) -> None:
        self._reader = reader
        self._delimiter = delimiter
        self._report = report
        self._lines = self._read_lines()
        self._again: deque[str] = deque()
        self._held: list[str] = []
        self._line = 1
        self._cut = False
        self.size = 0
        """Characters read since this was last set to 0."""

    def read(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row, blank lines left out."""
        while True:
            try:
                for cells in csv.reader(self._feed(), delimiter=self._delimiter, strict=True):
                    if len(cells) > 1 or not self._held[0].isspace():
                        yield self._line, cells
                    self._line += len(self._held)
                    self._held.clear()
            except csv.Error as error:
                mended = self._recover(str(error))
                if mended is not None:
                    yield self._line - 1, mended
            else:
                break
        if self._cut:
            self._report.drop(CUT_OFF, self._line)

    def _read_lines(self) -> Iterator[str]:
        for block in self._reader.read_lines(carriage_returns=True):
            if block.cut:
                self._cut = True
            else:
                yield from io.StringIO(block.text, newline="")

    def _feed(self) -> Iterator[str]:
        """Yield the lines not yet read, holding those of the present row."""
        again, held, lines = self._again, self._held, self._lines
        while True:
            line = again.popleft() if again else next(lines, "")
            if not line:
                return
            held.append(line)
            self.size += len(line)
            yield line

    def _recover(self, error: str) -> list[str] | None:
        """Go on behind the first line of a row that cannot be parsed; return its cells if it can be read alone."""
        first, *others = self._held
        self._held.clear()
        cells = None if others else self._parse_alone(first)
        if cells is None and self._at_damage():
            # The damage to the file explains the open quote: there is nothing behind it to go on with.
            self._cut = True
            return None
        self._again.extendleft(reversed(others))
        if cells is None:
            self._report.drop(UNCLOSED_QUOTE, self._line, error)
        self._line += 1
        return cells

    def _at_damage(self) -> bool:
        if self._again or self._reader.stream.damage is None:
            return False
        line = next(self._lines, "")
        if line:
            self._again.append(line)
        return not line

    def _parse_alone(self, line: str) -> list[str] | None:
        """Return the cells of a line with text behind a closing quote, as in `"Heat" 1995`; None if one stays open."""
        try:
            rows = list(csv.reader([line, _END], delimiter=self._delimiter))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 2 else None
