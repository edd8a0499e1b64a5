"""JSON arrays, and objects one after the other, read without holding the whole text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.encoding import MAX_LINE, TextReader
from navi.tables.jsonlines import DECODER, JsonRows, is_incomplete
from navi.tables.readreport import BROKEN_ROW, CUT_OFF, DAMAGED, TOO_DEEP, ReadReport

_SPACE = re.compile(r"[\s,]*")
_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}
_NEXT = re.compile(r"[,{\[\]]")


class _Window:
    """A part of the text, with the place that is read next; it grows as needed."""

    def __init__(self, reader: TextReader) -> None:
        self._blocks = reader.read_pieces()
        self._line = 1
        self._indent = ""
        self.text = ""
        self.position = 0
        self.too_long = False
        """Whether a value was met that is longer than any row should be."""

    @property
    def line(self) -> int:
        """Line of the place that is read next."""
        return self._line + self.text.count("\n", 0, self.position)

    def grow(self) -> bool:
        """Drop the text that was read and double what is left; say whether there was more."""
        self._line = self.line
        pieces = [self.text[self.position :]]
        left = size = len(pieces[0])
        self.position = 0
        self.too_long = left > MAX_LINE
        if not self.too_long:
            for block in self._blocks:
                pieces.append(block.text)
                size += len(block.text)
                if size > 2 * left:
                    break
        self.text = "".join(pieces)
        return size > left

    def peek(self) -> str:
        """Move to the next character that is no space or comma, and return it; nothing at the end of the text."""
        while True:
            matched = _SPACE.match(self.text, self.position)
            assert matched is not None
            self.position = matched.end()
            self._indent = matched.group().rpartition("\n")[2]
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.grow():
                return ""

    def decode(self) -> tuple[object, int]:
        """Return the next value and its length, and move behind it."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.position)
            except json.JSONDecodeError as error:
                if not (is_incomplete(error) and self.grow()):
                    raise
            else:
                size = end - self.position
                self.position = end
                return value, size

    def skip(self) -> None:
        """Move behind a value that cannot be decoded: where its brackets close, or a line begins as its line did."""
        self.too_long = False
        if self.text[self.position] not in "{[":
            after = _NEXT.search(self.text, self.position + 1)
            self.position = after.start() if after else len(self.text)
            return
        line_start = "\n" + self._indent + "{"
        while True:
            sibling = self.text.find(line_start, self.position)
            ends = [self._find_close(), sibling + len(line_start) - 1 if sibling >= 0 else -1]
            found = [end for end in ends if end >= 0]
            if found:
                self.position = min(found)
                return
            if not self.grow():
                self.position = len(self.text)
                return

    def _find_close(self) -> int:
        """Return the place behind the bracket that closes the one at the present place, or -1."""
        depth = 0
        for token in _BRACKET.finditer(self.text, self.position):
            depth += _DEPTH.get(token.group(), 0)
            if depth == 0:
                return token.end()
        return -1


def read_json_values(reader: TextReader, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read the objects of one array, or objects that follow each other without one; rows are numbered from 1."""
    rows = JsonRows(config, report)
    window = _Window(reader)
    array = window.peek() == "["
    window.position += array
    number = 0
    while (character := window.peek()) and not (array and character == "]"):
        number += 1
        try:
            value, size = window.decode()
        except (json.JSONDecodeError, RecursionError) as error:
            _drop(window, error, number, reader, report)
            line = window.line
            window.skip()
            if window.too_long:
                detail = f"value {number} does not end within {MAX_LINE:,} characters, what follows is not read"
                report.trouble(DAMAGED, detail, line)
                break
            continue
        chunk = rows.add(value, number, size)
        if chunk is not None:
            yield chunk
    if array and not window.too_long:
        _check_end(window, reader, report)
    chunk = rows.finish()
    if chunk is not None:
        yield chunk


def _drop(
    window: _Window, error: json.JSONDecodeError | RecursionError, number: int, reader: TextReader, report: ReadReport
) -> None:
    line = window.line
    if isinstance(error, RecursionError):
        report.drop(TOO_DEEP, line, f"value {number}")
    elif reader.stream.damage is not None and is_incomplete(error):
        report.drop(CUT_OFF, line, f"value {number}")
    else:
        report.drop(BROKEN_ROW, line, f"value {number}: {error.msg}")


def _check_end(window: _Window, reader: TextReader, report: ReadReport) -> None:
    if not window.peek():
        if reader.stream.damage is None:
            report.trouble(DAMAGED, "the array is never closed", window.line)
        return
    window.position += 1
    if window.peek():
        report.drop(BROKEN_ROW, window.line, "text after the end of the array")
