"""JSON files: one object a line, one array of objects, or objects one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.encoding import TextReader
from navi.tables.flatten import Pairs, RowBuilder
from navi.tables.readreport import BROKEN_ROW, CUT_OFF, NOT_AN_OBJECT, TOO_DEEP, ReadReport

CRAWL_KEYS = frozenset({"row_id", "page_url"})
"""Keys of the Web Data Commons' tables that tell where a row was found, and nothing of what it describes."""
# What may stand at the end of a text that was cut: nothing, a piece of a word such as `true`, or of an escape.
_CUT_TOKEN = re.compile(r"\s*(?:-?[A-Za-z]{0,8}|\\u?.{0,5})")
_CONSTANTS = {"NaN": None, "Infinity": "Infinity", "-Infinity": "-Infinity"}

# Numbers keep the text they are written in; control characters within strings do no harm.
DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=str, parse_float=str, parse_constant=_CONSTANTS.__getitem__, strict=False
)
"""Reads objects as `Pairs` and numbers as text."""


class JsonRows:
    """Takes decoded JSON values and gives chunks; what is no object is dropped.

    A table whose first object has both `row_id` and `page_url` is one of the Web Data Commons', and loses these two.
    """

    def __init__(self, config: ReadConfig, report: ReadReport) -> None:
        self._builder = RowBuilder(config, report)
        self._report = report
        self._crawled: bool | None = None

    def add(self, value: object, number: int, size: int) -> Chunk | None:
        """Add a value as a row; return a chunk when one is full."""
        if type(value) is not Pairs:
            self._report.drop(NOT_AN_OBJECT, number, "expected { … }")
            return None
        if self._crawled is None:
            self._crawled = self._recognise(value)
        if self._crawled:
            value = Pairs(pair for pair in value if pair[0] not in CRAWL_KEYS)
        return self._builder.add(value, number, size)

    def finish(self) -> Chunk | None:
        """Return the last chunk, if any."""
        return self._builder.flush()

    def _recognise(self, first: Pairs) -> bool:
        crawled = {key for key, _ in first} >= CRAWL_KEYS
        if crawled:
            self._report.note("a Web Data Commons table: row_id and page_url are left out")
        return crawled


def read_json_lines(reader: TextReader, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read one object a line; lines that are broken are dropped, blank lines are no rows."""
    rows = JsonRows(config, report)
    decode, add = DECODER.raw_decode, rows.add
    for block in reader.read_lines():
        if block.cut:
            report.drop(CUT_OFF, block.line)
            continue
        for number, line in enumerate(block.text.split("\n"), block.line):
            try:
                value, end = decode(line)
            except (ValueError, RecursionError):
                chunk = _retry(line, number, rows, report)
            else:
                if end == len(line) or line[end:].isspace():
                    chunk = add(value, number, end)
                else:
                    report.drop(BROKEN_ROW, number, f"text after the value, at column {end + 1}")
                    continue
            if chunk is not None:
                yield chunk
    chunk = rows.finish()
    if chunk is not None:
        yield chunk


def _retry(line: str, number: int, rows: JsonRows, report: ReadReport) -> Chunk | None:
    """Read a line that does not begin with a value: blank, indented or broken."""
    text = line.strip()
    if not text:
        return None
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        report.drop(BROKEN_ROW, number, f"{error.msg} at column {error.colno}")
    except RecursionError:
        report.drop(TOO_DEEP, number)
    else:
        return rows.add(value, number, len(text))
    return None


def is_json(head: str) -> bool:
    """Tell whether a text begins with an object or with an array of objects."""
    text = head.strip()
    return text.startswith(("{", "[")) and (_decodes(text.split("\n")[0]) or _spans_lines(text))


def is_json_lines(head: str) -> bool:
    """Tell by the beginning of a JSON file whether its rows are lines, rather than values over any number of lines."""
    lines = [line for line in head.split("\n") if line.strip()]
    if head.lstrip().startswith("["):
        return len(lines) > 1 and lines[1].startswith("[") and _decodes(lines[0])
    if any(line.startswith("{") and _decodes(line) for line in lines):
        return True
    return not any(line.strip() == "{" for line in lines[:1]) and not _spans_lines(head.strip())


def _decodes(line: str) -> bool:
    try:
        DECODER.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _spans_lines(head: str) -> bool:
    try:
        _, end = DECODER.raw_decode(head)
    except json.JSONDecodeError as error:
        # An object that reaches beyond the head; a broken line is wrong before its end.
        return "\n" in head and is_incomplete(error)
    except RecursionError:
        return False
    return "\n" in head[:end]


def is_incomplete(error: json.JSONDecodeError) -> bool:
    """Tell whether a value cannot be decoded because its text ends too early."""
    return error.msg.startswith("Unterminated string") or _CUT_TOKEN.fullmatch(error.doc, error.pos) is not None
