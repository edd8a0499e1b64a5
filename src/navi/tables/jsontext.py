"""JSON files: one object a line, one array of objects, or objects one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from navi.tables.chunk import Chunk
from navi.tables.flattening import NumberedRow, Pairs, lay_flat
from navi.tables.readreport import BROKEN_ROW, CUT_OFF, DAMAGED, NOT_AN_OBJECT, TOO_DEEP, ReadConfig, ReadReport
from navi.tables.textreader import TextReader

_CRAWL_KEYS = frozenset({"row_id", "page_url"})
_CONSTANTS = {"NaN": None, "Infinity": "Infinity", "-Infinity": "-Infinity"}
# Numbers keep the text they are written in; control characters within strings do no harm.
_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=str, parse_float=str, parse_constant=_CONSTANTS.__getitem__, strict=False
)
# What may stand at the end of a text that was cut: nothing, or a piece of a word, of an escape, of a number.
_CUT_TOKEN = re.compile(r"\s*(?:-?[A-Za-z]{0,8}|\\?u?[0-9a-fA-F]{0,4}|\.)")
_SPACE = re.compile(r"[\s,]*")
_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}
_NEXT = re.compile(r"[,{\[\]]")


def read_json(reader: TextReader, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read objects, one a line or one after the other; what is no object is dropped, or broken."""
    read = _read_lines if _is_json_lines(reader.head()) else _read_values
    for flat in lay_flat(_take_objects(read(reader, report), report), config, report):
        yield from flat.to_chunks(report)


def _take_objects(values: Iterator[tuple[int, object, int]], report: ReadReport) -> Iterator[NumberedRow]:
    """Yield the values that are objects.

    A table whose first object has both `row_id` and `page_url` is one of the Web Data Commons', and loses these two:
    they say where a row was found, and nothing of what it describes.
    """
    is_crawled: bool | None = None
    for number, value, size in values:
        if type(value) is not Pairs:
            report.drop(NOT_AN_OBJECT, number, "expected { … }")
            continue
        if is_crawled is None:
            is_crawled = {key for key, _ in value} >= _CRAWL_KEYS
            if is_crawled:
                report.note("a Web Data Commons table: row_id and page_url are left out")
        yield number, [pair for pair in value if pair[0] not in _CRAWL_KEYS] if is_crawled else value, size


def _read_lines(reader: TextReader, report: ReadReport) -> Iterator[tuple[int, object, int]]:
    """Yield number, value and length of each line; broken ones are dropped, blank ones are no rows."""
    decode = _DECODER.raw_decode
    for first, text in reader.read_lines():
        for number, indented in enumerate(text.split("\n"), first):
            if not (line := indented.strip()):
                continue
            try:
                value, end = decode(line)
            except json.JSONDecodeError as error:
                report.drop(BROKEN_ROW, number, f"{error.msg} at column {error.colno}")
            except RecursionError:
                report.drop(TOO_DEEP, number)
            else:
                if end == len(line):
                    yield number, value, end
                else:
                    report.drop(BROKEN_ROW, number, f"text after the value, at column {end + 1}")


def is_json(head: str) -> bool:
    """Return whether a text begins with an object or with an array of objects."""
    text = head.strip()
    return text.startswith(("{", "[")) and (_decodes(text.split("\n")[0]) or _spans_lines(text))


def _is_json_lines(head: str) -> bool:
    """Return whether the rows of a JSON file are lines, as its beginning shows, rather than values over several."""
    lines = [line for line in head.split("\n") if line.strip()]
    if head.lstrip().startswith("["):
        return len(lines) > 1 and lines[1].startswith("[") and _decodes(lines[0])
    if any(line.startswith("{") and _decodes(line) for line in lines):
        return True
    return lines[0].strip() != "{" and not _spans_lines(head.strip())


def _decodes(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        _DECODER.decode(line)
        return True
    return False


def _spans_lines(head: str) -> bool:
    try:
        _, end = _DECODER.raw_decode(head)
    except json.JSONDecodeError as error:
        # An object that reaches beyond the head; a broken line is wrong before its end.
        return "\n" in head and _is_incomplete(error)
    except RecursionError:
        return False
    return "\n" in head[:end]


def _is_incomplete(error: json.JSONDecodeError) -> bool:
    """Return whether a value cannot be decoded because its text ends too early."""
    return error.msg.startswith("Unterminated string") or _CUT_TOKEN.fullmatch(error.doc, error.pos) is not None


def _read_values(reader: TextReader, report: ReadReport) -> Iterator[tuple[int, object, int]]:
    """Yield number, value and length of the values of one array, or of values that follow each other without one."""
    window = _Window(reader)
    array = window.peek() == "["
    window.position += array
    number = 0
    while (character := window.peek()) and not (array and character == "]"):
        number += 1
        try:
            value, size = window.decode()
        except RecursionError:
            report.drop(TOO_DEEP, window.line, f"value {number}")
            window.skip()
        except json.JSONDecodeError as error:
            is_cut = reader.stream.damage is not None and _is_incomplete(error)
            detail = f"value {number}" if is_cut else f"value {number}: {error.msg}"
            report.drop(CUT_OFF if is_cut else BROKEN_ROW, window.line, detail)
            window.skip()
        else:
            yield number, value, size
    if array and not window.peek() and reader.stream.damage is None:
        report.trouble(DAMAGED, "the array is never closed", window.line)
    window.position += 1
    if array and window.peek():
        report.drop(BROKEN_ROW, window.line, "text after the end of the array")


class _Window:
    """A part of the text, with the place that is read next; it grows as needed."""

    def __init__(self, reader: TextReader) -> None:
        self._pieces = reader.read_pieces()
        self._line = 1
        self._indent = ""
        self.text = ""
        self.position = 0

    @property
    def line(self) -> int:
        """Line of the place that is read next."""
        return self._line + self.text.count("\n", 0, self.position)

    def grow(self) -> bool:
        """Drop the text that was read and double what is left; say whether there was more."""
        self._line, self.text, self.position = self.line, self.text[self.position :], 0
        size = len(self.text)
        while len(self.text) <= 2 * size and (piece := next(self._pieces, "")):
            self.text += piece
        return len(self.text) > size

    def peek(self) -> str:
        """Move to the next character that is no space or comma, and return it; nothing at the end of the text."""
        while matched := _SPACE.match(self.text, self.position):
            self.position = matched.end()
            self._indent = matched.group().rpartition("\n")[2]
            if self.position < len(self.text):
                return self.text[self.position]
            if not self.grow():
                break
        return ""

    def decode(self) -> tuple[object, int]:
        """Return the next value and its length, and move behind it."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.position)
            except json.JSONDecodeError as error:
                if not (_is_incomplete(error) and self.grow()):
                    raise
            else:
                size, self.position = end - self.position, end
                return value, size

    def skip(self) -> None:
        """Move behind a value that cannot be decoded: where its brackets close, or a line begins as its line did."""
        if self.text[self.position] not in "{[":
            after = _NEXT.search(self.text, self.position + 1)
            self.position = after.start() if after else len(self.text)
            return
        sibling = f"\n{self._indent}{{"
        while True:
            begin = self.text.find(sibling, self.position)
            end, depth = begin + len(sibling) - 1 if begin >= 0 else -1, 0
            for token in _BRACKET.finditer(self.text, self.position, end if begin >= 0 else len(self.text)):
                depth += _DEPTH.get(token.group(), 0)
                if depth == 0:
                    end = token.end()
                    break
            if end >= 0 or not self.grow():
                self.position = end if end >= 0 else len(self.text)
                return
