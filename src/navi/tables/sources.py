"""The files that hold tables: found among files, folders and patterns, and read as the format their content shows."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from navi.errors import TableError
from navi.tables.binary import read_arrow, read_excel, read_parquet
from navi.tables.chunk import Chunk
from navi.tables.delimited import is_delimited, read_delimited
from navi.tables.flattening import Batches
from navi.tables.jsontext import is_json, read_json
from navi.tables.readreport import DEFAULT, EMPTY_FILE, MISLABELLED, ReadConfig, ReadReport
from navi.tables.textreader import HEAD_SIZE, ByteStream, TextReader, detect_compression

_SUFFIXES = {
    "csv": ".csv",
    "tsv": ".tsv .tab",
    "jsonl": ".jsonl .ndjson",
    "json": ".json",
    "parquet": ".parquet .pq",
    "arrow": ".feather .arrow .arrows .ipc",
    "excel": ".xlsx .xlsm",
}
FORMATS = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
"""Format of each known suffix."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
"""Compression of each known second suffix."""
_BINARY = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"PK\x03\x04", "excel"))
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


@dataclass(frozen=True)
class Source:
    """A file that should hold one table."""

    name: str
    """Name of the table, unique among the sources found together."""
    path: Path
    format: str
    """What the suffix promises: csv, tsv, jsonl, json, parquet, arrow or excel."""
    compression: str | None = None
    """What the second suffix promises: gzip, zstd or None."""


@dataclass(frozen=True)
class Sources:
    """The sources found, and the files left aside."""

    sources: tuple[Source, ...]
    skipped: tuple[tuple[Path, str], ...]
    """Files that are no tables, each with the reason."""


def find_sources(paths: Sequence[str | Path]) -> Sources:
    """Find the tables among files, folders (with all below them) and glob patterns; sorted, each file once.

    A file named outright must have a known suffix. In folders and patterns other files are skipped, and listed.
    """
    known = ", ".join(FORMATS) + ", each also with .gz or .zst"
    found: dict[Path, Source] = {}
    skipped: dict[Path, str] = {}
    for path in paths:
        files = list(_expand(Path(path)))
        if Path(path).is_file() and files[0][1] is not None:
            raise TableError(f"Cannot read {path}: {files[0][1]}. Expected one of {known}.")
        tables = [file for file, reason in files if reason is None]
        if not tables:
            raise TableError(f"No tables in {path}: expected files with one of the suffixes {known}.")
        for file in tables:
            stem, suffix, compression = _split_name(file)
            found.setdefault(file.resolve(), Source(stem, file, FORMATS[suffix], COMPRESSIONS.get(compression)))
        skipped |= {file: reason for file, reason in files if reason is not None}
    return Sources(tuple(_name_apart(found)), tuple(sorted(skipped.items())))


def _expand(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the files a path stands for, each with the reason to skip it or None."""
    if path.is_dir():
        yield from _walk(path)
    elif path.exists():
        yield path, None if _split_name(path)[1] in FORMATS else f"unknown suffix {path.suffix!r}"
    elif glob.has_magic(str(path)):
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise TableError(f"Cannot read {path}: the pattern matches no file.")
        for match in matches:
            yield from _walk(match) if match.is_dir() else [(match, _reason_to_skip(match))]
    else:
        raise TableError(f"Cannot read {path}: no such file or folder.")


def _walk(folder: Path) -> Iterator[tuple[Path, str | None]]:
    def refuse(error: OSError) -> None:
        raise TableError(f"Cannot read the folder {error.filename}: {error.strerror}.") from error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        for name in sorted(folders):
            child = Path(parent, name)
            if name.startswith(".") or child.is_symlink():
                yield child, "hidden folder" if name.startswith(".") else "link to a folder"
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            yield Path(parent, name), _reason_to_skip(Path(parent, name))


def _reason_to_skip(file: Path) -> str | None:
    if file.name.startswith("."):
        return "hidden file"
    if not file.is_file():
        return "not a regular file"
    return None if _split_name(file)[1] in FORMATS else f"unknown suffix {file.suffix!r}"


def _split_name(file: Path) -> tuple[str, str, str]:
    """Split `movies.CSV.gz` into `movies`, `.csv` and `.gz`."""
    compression = file.suffix.lower() if file.suffix.lower() in COMPRESSIONS else ""
    stem = Path(file.name[: len(file.name) - len(compression)])
    return stem.name[: len(stem.name) - len(stem.suffix)], stem.suffix.lower(), compression


def _name_apart(found: dict[Path, Source]) -> Iterator[Source]:
    """Yield sources by path, those that share a name with suffixes, if they share a folder, or else with folders."""
    stems = Counter((path.parent, source.name) for path, source in found.items())
    names = {path: path.name if stems[path.parent, source.name] > 1 else source.name for path, source in found.items()}
    for depth in range(1, max((len(path.parts) for path in found), default=0)):
        counts = Counter(names.values())
        for path, name in names.items():
            if counts[name] > 1 and depth < len(path.parts) - 1:
                names[path] = f"{path.parts[-1 - depth]}/{name}"
    for path in sorted(found):
        yield replace(found[path], name=names[path])


def read_chunks(
    source: Source, report: ReadReport, config: ReadConfig = DEFAULT, *, batches: Batches | None = None
) -> Iterator[Chunk]:
    """Read a table chunk by chunk, entering into `report` what is lost on the way.

    A file that is not what its suffix says is read as what it is, and that is said. A file from which nothing can be
    read is a TableError, and with `config.strict` the first loss is one. The batches of Parquet and Arrow files, whose
    cells have types of their own, are put into `batches`.
    """
    report.source, report.strict = str(source.path), config.strict
    with ByteStream(source.path) as stream:
        if not stream.head and stream.damage:
            raise TableError(f"Cannot read {source.path}: {stream.damage}, and nothing good comes before that.")
        if stream.compression != source.compression:
            found = f"{stream.compression}-compressed" if stream.compression else "not compressed"
            report.trouble(MISLABELLED, f"the file is {found}, and read so")
        reader = TextReader(stream, config.encoding, report)
        if len(stream.head) < HEAD_SIZE and not reader.head().strip():
            report.trouble(EMPTY_FILE, "there is nothing in it")
            return
        promised = "json" if source.format == "jsonl" else source.format
        format = _detect_binary(stream.head, source.path) or _detect_text(reader.head(), promised, source.path)
        if format != promised:
            report.trouble(MISLABELLED, f"the content is {format}, and read so")
        if format in ("csv", "tsv"):
            yield from read_delimited(reader, "," if format == "csv" else "\t", config, report)
        elif format == "json":
            yield from read_json(reader, config, report)
        else:
            read_binary = {"parquet": read_parquet, "arrow": read_arrow, "excel": read_excel}[format]
            yield from read_binary(stream, config, report, batches)


def _detect_binary(head: bytes, path: Path) -> str | None:
    """Return the format of a binary file, or None for what may be text."""
    foreign = next((name for magic, name in _FOREIGN if head.startswith(magic)), None)
    if detect_compression(head) is not None:
        foreign = "compressed twice; decompress it once"
    if foreign is not None:
        raise TableError(f"Cannot read {path}: the file is {foreign}.")
    return next((name for magic, name in _BINARY if head.startswith(magic)), None)


def _detect_text(head: str, promised: str, path: Path) -> str:
    """Return json, csv or tsv for text; the promised format, if the text can be that."""
    if re.match(r"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise TableError(f"Cannot read {path}: the file is a page of HTML or XML, not a table.")
    controls = len(head) - len(head.translate(_CONTROLS))
    # Zeros get into text by accidents of storage; other control characters hardly do.
    if controls > 0.05 * len(head) or head.count("\0") > 0.3 * len(head):
        raise TableError(f"Cannot read {path}: the file is binary, and of no format known here.")
    begins = any(line.lstrip()[:1] in ("{", "[") for line in head.split("\n") if line.strip())
    if is_json(head) or (promised == "json" and begins):
        return "json"
    if promised in ("csv", "tsv") or is_delimited(head):
        return promised if promised in ("csv", "tsv") else "csv"
    raise TableError(f"Cannot read {path}: its content is not {promised}, nor any other format known here.")
