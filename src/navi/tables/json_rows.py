"""Rows as flat cells of text: those of dictionaries, and of JSON, line by line, in an array or one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from navi.tables.arrow import format_column, format_scalar, to_arrow_array
from navi.tables.chunk import MAX_CHARACTERS, Chunk, deduplicate_headers, make_chunks, to_strings
from navi.tables.readreport import MAX_COLUMNS, MAX_HEADER, MAX_LINE, Loss, ReadConfig, ReadReport
from navi.tables.textreader import TextReader

_NESTED = (dict, list, tuple, np.ndarray)
NumberedRow = tuple[int, Iterable[tuple[str, Any]], int]
"""Place of a row in its source, its keys and values, and its length in characters."""
NumberedValue = tuple[int, object, int]
"""The same of a value of JSON that may be no row."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its keys and values in order, repeated keys among them."""


class FlatRows:
    """Rows laid flat, cell after cell, with the values as they came."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.values: list[Any] = []
        self.ends: list[int] = []
        """How many cells there are up to the end of each row."""
        self.numbers: list[int] = []
        """Place of each row in its source."""

    def add(self, row: Iterable[tuple[str, Any]], number: int, limit: int | None, report: ReadReport) -> None:
        """Add a row, unless it is too deep; `limit` is the members of a list that stay."""
        keys, values = self.keys, self.values
        start = len(keys)
        try:
            for key, value in row:
                if type(value) is str or value is None:
                    keys.append(key)
                    values.append(value)
                else:
                    self._flatten(key, value, number, limit, report)
        except RecursionError:
            del keys[start:], values[start:]
            report.drop(Loss.TOO_DEEP, number)
        else:
            if len(keys) - start > MAX_COLUMNS:
                raise report.refuse(f"a row has more than {MAX_COLUMNS:,} cells", number)
            self.ends.append(len(keys))
            self.numbers.append(number)

    def _flatten(self, key: str, value: Any, number: int, limit: int | None, report: ReadReport) -> None:
        if type(value) is str or not isinstance(value, _NESTED):
            self.keys.append(key)
            self.values.append(value)
        elif len(key) > MAX_HEADER:
            raise RecursionError
        elif isinstance(value, (dict, Pairs)):
            for name, member in value.items() if isinstance(value, dict) else value:
                self._flatten(f"{key}.{name}", member, number, limit, report)
        else:
            for index, member in enumerate(value[:limit]):
                self._flatten(f"{key}.{index}", member, number, limit, report)
            if limit is not None and len(value) > limit:
                start = len(self.keys)
                for member in value[limit:]:
                    self._flatten(key, member, number, None, report)
                lost = sum(bool((format_scalar(member) or "").strip()) for member in self.values[start:])
                del self.keys[start:], self.values[start:]
                report.drop_members(number, key, len(value), limit, lost)

    def to_chunks(self, report: ReadReport) -> Iterator[Chunk]:
        """Yield the rows as a chunk, if any has a cell."""
        number_R = np.array(self.numbers, dtype=np.int64)
        row_C = np.repeat(np.arange(len(number_R), dtype=np.int32), np.diff(self.ends, prepend=0))
        number_C = number_R[row_C]
        scalars: dict[tuple[str, type], list[int]] = {}
        for cell, value in enumerate(self.values):
            if type(value) is not str and value is not None:
                scalars.setdefault((self.keys[cell], type(value)), []).append(cell)
        for (key, _), cells in scalars.items():
            array = to_arrow_array([self.values[cell] for cell in cells])
            texts = format_column(array, key, number_C[cells], report).to_pylist()
            for cell, text in zip(cells, texts, strict=True):
                self.values[cell] = text
        index = {key: place for place, key in enumerate(dict.fromkeys(self.keys))}
        key_C = np.fromiter(map(index.__getitem__, self.keys), dtype=np.int32, count=len(self.keys))
        value_C = to_strings(self.values, number_C, report)
        headers, header_C = deduplicate_headers(list(index), row_C, key_C, report)
        yield from make_chunks(headers, row_C, header_C, value_C, number_R, report)


def read_rows(rows: Iterable[NumberedRow], config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Yield the chunks of rows, nested or not."""
    flat, size = FlatRows(), 0
    for number, row, length in rows:
        flat.add(row, number, config.max_family, report)
        size += length
        if len(flat.ends) >= config.chunk_rows or size > MAX_CHARACTERS:
            yield from flat.to_chunks(report)
            flat, size = FlatRows(), 0
    if flat.ends:
        yield from flat.to_chunks(report)


# Files of JSON

_CRAWL_KEYS = frozenset({"row_id", "page_url"})
_CONSTANTS = {"NaN": None, "Infinity": "Infinity", "-Infinity": "-Infinity"}
# Numbers keep the text they are written in; control characters within strings do no harm.
_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=str, parse_float=str, parse_constant=_CONSTANTS.__getitem__, strict=False
)
# What may stand at the end of a text that was cut: nothing, or a piece of a word, of an escape, of a number.
_CUT_TOKEN = re.compile(r"\s*(?:-?[A-Za-z]{0,8}|\\?u?[0-9a-fA-F]{0,4}|\.)")
_SPACE = re.compile(r"[\s,]*")
_OBJECT = re.compile(r":\s*+\{|\{")
"""Where an object begins; behind a colon it is part of another."""
_OPENED = re.compile(r"\{[^\S\n]*\n(?!\{)")
"""Where one begins that goes over several lines: its bracket stands alone, and the next line begins no other."""


def read_json(reader: TextReader, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read objects, on lines of their own, one after the other or in an array; what is no object is dropped.

    A row's number is its place in the array, or else its line; no two rows have the same.
    """
    head = reader.head().strip()
    is_stream = head.startswith("[") or _spans_lines(head) or _OPENED.match(head) is not None
    values = _read_stream(reader, report) if is_stream else _read_lines(reader, report)
    yield from read_rows(_take_objects(values, report), config, report)


def _take_objects(values: Iterator[NumberedValue], report: ReadReport) -> Iterator[NumberedRow]:
    """Yield the values that are objects.

    A table whose first object has both `row_id` and `page_url` is one of the Web Data Commons', and loses these two:
    they say where a row was found, and nothing of what it describes.
    """
    is_crawled: bool | None = None
    for number, value, size in values:
        if type(value) is not Pairs:
            report.drop(Loss.NOT_AN_OBJECT, number, "expected { … }")
            continue
        if is_crawled is None:
            is_crawled = {key for key, _ in value} >= _CRAWL_KEYS
            if is_crawled:
                report.note("a Web Data Commons table: row_id and page_url are left out")
        yield number, [pair for pair in value if pair[0] not in _CRAWL_KEYS] if is_crawled else value, size


def is_json(head: str) -> bool:
    """Return whether a text begins with an object or with an array of objects."""
    text = head.strip()
    return text.startswith(("{", "[")) and (_decodes(text.split("\n")[0]) or _spans_lines(text))


def _decodes(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        _DECODER.decode(line)
        return True
    return False


def _spans_lines(head: str) -> bool:
    """Return whether the first value of a text goes over several lines."""
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


def _read_lines(reader: TextReader, report: ReadReport) -> Iterator[NumberedValue]:
    """Yield the values of lines, usually one each; of a line that is broken, what comes behind that is dropped."""
    number = 0
    for first, text in reader.read_lines():
        for line_number, line in enumerate(text.split("\n"), first):
            place = _skip(line, 0)
            while place < len(line):
                try:
                    value, end = _DECODER.raw_decode(line, place)
                except json.JSONDecodeError as error:
                    report.drop(Loss.BROKEN_ROW, line_number, f"{error.msg} at column {error.colno}")
                    break
                except RecursionError:
                    report.drop(Loss.TOO_DEEP, line_number)
                    break
                number = max(number + 1, line_number)
                yield number, value, end - place
                place = _skip(line, end)


def _skip(text: str, place: int) -> int:
    """Return the next place where neither a space nor a comma stands."""
    matched = _SPACE.match(text, place)
    assert matched is not None
    return matched.end()


def _read_stream(reader: TextReader, report: ReadReport) -> Iterator[NumberedValue]:
    """Yield the values of an array, or those that go over several lines, one after the other.

    Where one is broken nobody can tell where it ends, so that what follows is dropped with it.
    """
    window = _Window(reader, report)
    is_array = is_open = window.peek() == "["
    window.position += is_array
    number, num_ends = 0, 0
    while character := window.peek():
        if is_array and character == "]":
            window.position, is_open, num_ends = window.position + 1, False, num_ends + 1
            continue
        if is_array and not is_open:
            report.trouble(Loss.DAMAGED, "text after the end of the array", window.line)
            is_open = True
            if character == "[":
                window.position += 1
                continue
        line = window.line
        try:
            value, size = window.decode()
        except (RecursionError, json.JSONDecodeError) as error:
            reason, detail = Loss.TOO_DEEP, f"value {number + 1}" if is_array else "the value"
            if isinstance(error, json.JSONDecodeError):
                if reader.stream.damage is not None and _is_incomplete(error):
                    report.drop(Loss.CUT_OFF, line, detail)
                    return
                reason, detail = Loss.BROKEN_ROW, f"{detail}: {error.msg}"
            report.drop(reason, line, f"{detail}; nothing behind it is read", window.count_rest())
            return
        number = number + 1 if is_array else max(number + 1, line)
        yield number, value, size
    if is_array and not num_ends and reader.stream.damage is None:
        report.trouble(Loss.DAMAGED, "the array is never closed", window.line)


class _Window:
    """A part of the text, with the place that is read next; it grows until a whole value is in it."""

    def __init__(self, reader: TextReader, report: ReadReport) -> None:
        self._report = report
        self._pieces = reader.read_pieces()
        self.text = ""
        self.position = 0
        self.line = 1
        """Line of the value that is read next."""
        self._counted = 0

    def peek(self) -> str:
        """Move to the next character that is no space or comma, and return it; nothing at the end of the text."""
        while True:
            self.position = _skip(self.text, self.position)
            if self.position < len(self.text) or not self._grow():
                break
        self._count_lines()
        return self.text[self.position : self.position + 1]

    def decode(self) -> tuple[object, int]:
        """Return the next value and its length, and move behind it."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.position)
            except json.JSONDecodeError as error:
                if not (_is_incomplete(error) and self._grow()):
                    raise
                continue
            # What no bracket or quote closes may go on.
            if end == len(self.text) and self.text[end - 1] not in '}]"' and self._grow():
                continue
            size, self.position = end - self.position, end
            return value, size

    def count_rest(self) -> int:
        """Read to the end, and return how many objects begin from here on, and at least one."""
        count = 0
        for text in chain([self.text[self.position :]], self._pieces):
            count += sum(found == "{" for found in _OBJECT.findall(text))
        return max(count, 1)

    def _grow(self) -> bool:
        """Drop the text that was read and double what is left; say whether there was more."""
        self._count_lines()
        parts = [self.text[self.position :]]
        size = total = len(parts[0])
        if size > MAX_LINE:
            raise self._report.refuse(f"a value has more than {MAX_LINE:,} characters", self.line)
        while total <= 2 * size and (piece := next(self._pieces, "")):
            parts.append(piece)
            total += len(piece)
        self.text, self.position, self._counted = "".join(parts), 0, 0
        return total > size

    def _count_lines(self) -> None:
        self.line += self.text.count("\n", self._counted, self.position)
        self._counted = self.position
