"""What a file is, told by its content."""

from __future__ import annotations

import re
from pathlib import Path

from navi.errors import TableError
from navi.tables.compression import detect_compression
from navi.tables.delimited import is_delimited
from navi.tables.encoding import TextReader
from navi.tables.jsonlines import is_json

_BINARY = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"PK\x03\x04", "excel"),
)
_FOREIGN = (
    (b"FEA1", "Feather version 1, which nothing writes any more"),
    (b"PARE", "an encrypted Parquet file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook; save it as .xlsx"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3", "an SQLite database"),
    (b"BZh", "compressed by bzip2; use gzip or zstd"),
    (b"\xfd7zXZ", "compressed by xz; use gzip or zstd"),
)
_CONTROLS = dict.fromkeys(code for code in range(1, 32) if not chr(code).isspace())
_MARKUP = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)


def detect_format(reader: TextReader, promised: str, path: Path) -> str:
    """Return what a file is, as its content shows: csv, tsv, json, parquet, arrow or excel.

    Content that decides nothing is what the suffix promises, `promised`. What cannot hold a table is an error.
    """
    found = _detect_binary(reader.stream.head, path)
    if found is None:
        head = reader.head()
        _refuse_foreign(head, path)
        found = _detect_text(head, "json" if promised == "jsonl" else promised)
    if found is None:
        raise TableError(f"Cannot read {path}: its content is not {promised}, nor any other format known here.")
    return found


def _detect_binary(head: bytes, path: Path) -> str | None:
    """Return the format of a binary file, or None for what may be text."""
    found = next((name for magic, name in _FOREIGN if head.startswith(magic)), None)
    if detect_compression(head) is not None:
        found = "compressed twice; decompress it once"
    if found is not None:
        raise TableError(f"Cannot read {path}: the file is {found}.")
    return next((name for magic, name in _BINARY if head.startswith(magic)), None)


def _refuse_foreign(head: str, path: Path) -> None:
    if _MARKUP.match(head):
        raise TableError(f"Cannot read {path}: the file is a page of HTML or XML, not a table.")
    controls = len(head) - len(head.translate(_CONTROLS))
    # Zeros get into text by accidents of storage; other control characters hardly do.
    if controls > 0.05 * len(head) or head.count("\0") > 0.3 * len(head):
        raise TableError(f"Cannot read {path}: the file is binary, and of no format known here.")


def _detect_text(head: str, promised: str) -> str | None:
    """Return json, csv or tsv for text, the promised format if the text can be that, or None if it is no table."""
    if promised == "json" and any(line.lstrip()[:1] in ("{", "[") for line in head.split("\n") if line.strip()):
        return "json"
    if promised in ("csv", "tsv"):
        return "json" if is_json(head) else promised
    if is_json(head):
        return "json"
    return "csv" if is_delimited(head) else None
