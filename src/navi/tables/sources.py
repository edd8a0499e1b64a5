"""The files that hold tables: found among files, folders and patterns, and read as the format their content shows."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from navi.errors import TableError
from navi.files import expand_pattern, find_version, is_there, local_file
from navi.storage import is_remote, list_remote, show_address
from navi.tables.arrow import Batches, read_arrow, read_parquet
from navi.tables.chunk import Chunk
from navi.tables.delimited import is_delimited, read_delimited
from navi.tables.excel import Workbook, read_excel
from navi.tables.json_rows import is_json, read_json
from navi.tables.readreport import (
    DEFAULT,
    MAX_COLUMNS,
    MAX_CONTENT,
    MAX_RATIO,
    MAX_ROWS,
    MAX_ROWS_PER_BYTE,
    Loss,
    ReadConfig,
    ReadReport,
)
from navi.tables.textreader import COMPRESSION_MAGIC, HEAD_SIZE, ByteStream, TextReader

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
OWN_FOLDERS = {
    "part of a corpus": ("corpus.json", "tokenizer.json"),
    "part of an index": ("index.json", "vectors.f16"),
}
"""Why files of a folder that NAVI wrote are no tables, and the files by which it is known."""
OWN_SUBFOLDER = "arrays"
"""The folder that a corpus has in it."""
SHEET_SIGN = "#"
"""What stands between a path and the sheet of its workbooks that is wanted: `prices.xlsx#2024`."""
_BINARY = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"PK\x03\x04", "excel"))
_FOREIGN = (
    *((magic, "compressed twice; decompress it once") for magic in COMPRESSION_MAGIC),
    (b"FEA1", "Feather version 1, which nothing writes any more"),
    (b"PARE", "an encrypted Parquet file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook; save it as .xlsx, without a password"),
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
    """A file that should hold one table, or a sheet of a workbook."""

    name: str
    """Name of the table, unique among the sources found together."""
    path: Path
    format: str
    """What the suffix promises: csv, tsv, jsonl, json, parquet, arrow or excel."""
    compression: str | None = None
    """What the second suffix promises: gzip, zstd or None."""
    sheet: str | None = None
    """The sheet of a workbook; None is its first."""
    facts: tuple[int, str] | None = None
    """Size and version of a file in an object store, as they were listed."""

    def measure(self) -> tuple[int, str]:
        """Return the file's size, and what changes when it is written again."""
        return self.facts or find_version(self.path)


Paths = str | Path | Sequence[str | Path]
"""Files, folders and glob patterns: one, or several."""


@dataclass(frozen=True)
class Sources:
    """The sources found, and the files left aside."""

    sources: tuple[Source, ...]
    skipped: tuple[tuple[Path, str], ...]
    """Files that are no tables, each with the reason."""


def find_sources(paths: Paths) -> Sources:
    """Find the tables among files, folders (with all below them) and glob patterns; sorted, each file once.

    A file named outright must have a known suffix. In folders and patterns other files are skipped, and listed; so is,
    wherever it is named, what is part of a corpus or an index. Each sheet of a workbook is a table; `prices.xlsx#2024`
    is one sheet, `folder#2024` that sheet of all workbooks in it.
    """
    known = ", ".join(FORMATS) + ", each also with .gz or .zst"
    found: dict[tuple[Path, str | None], Source] = {}
    skipped: dict[Path, str] = {}
    find_owner = cache(_find_owner)
    for path in list_paths(paths):
        place, sheet = split_sheet(Path(path))
        listed = list_remote(place) if is_remote(place) else {}
        files = [(file, _reason_to_skip(file)) for file in listed] or list(_expand(place))
        owned = {file: reason for file, _ in files if (reason := find_owner(file.parent)) is not None}
        skipped |= owned
        files = [(file, reason) for file, reason in files if file not in owned]
        if owned and not files:
            continue
        is_file = place in listed or place.is_file()
        if is_file and files[0][1] is not None:
            raise TableError(f"Cannot read {show_address(place)}: {files[0][1]}. Expected one of {known}.")
        tables = [file for file, reason in files if reason is None]
        if not tables:
            raise TableError(f"No tables in {show_address(place)}: expected files with one of the suffixes {known}.")
        sources = [
            replace(source, facts=listed.get(file)) for file in tables for source in _list_sheets(file, sheet, is_file)
        ]
        if sheet is not None and all(source.sheet is None for source in sources):
            raise TableError(f"No workbook in {place} has a sheet {sheet!r}.")
        for source in sources:
            found.setdefault((source.path.resolve(), source.sheet), source)
        skipped |= {file: reason for file, reason in files if reason is not None}
    if skipped and not found:
        places = ", ".join(show_address(Path(path)) for path in list_paths(paths))
        raise TableError(f"No tables in {places}: all files are {' or '.join(sorted(set(skipped.values())))}.")
    return Sources(tuple(_name_apart(found)), tuple(sorted(skipped.items())))


def list_paths(paths: Paths) -> list[str | Path]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str | Path) else list(paths)


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """Split `prices.xlsx#2024` into the path and the sheet; a path that exists has no sheet behind it.

    >>> split_sheet(Path("prices.xlsx#2024"))
    (PosixPath('prices.xlsx'), '2024')
    """
    place, sign, sheet = str(path).rpartition(SHEET_SIGN)
    return (Path(place), sheet) if place and sign and not path.exists() else (path, None)


def _list_sheets(file: Path, wanted: str | None, is_named: bool) -> list[Source]:
    """Return the table of a file, or those of a workbook that are wanted; what cannot be read is found out later."""
    stem, suffix, compression = _split_name(file)
    source = Source(stem, file, FORMATS[suffix], COMPRESSIONS.get(compression))
    if source.format != "excel":
        return [source]
    try:
        with local_file(file) as copy, ByteStream(copy) as stream, stream.open() as content:
            sheets = list(Workbook(content, file).sheets)
    except TableError:
        return [source]
    if wanted is not None and wanted not in sheets and is_named:
        raise TableError(f"{file} has no sheet {wanted!r} with anything in it. Expected one of {', '.join(sheets)}.")
    if wanted is not None:
        return [replace(source, sheet=wanted)] if wanted in sheets else []
    if len(sheets) < 2:
        return [source]
    return [replace(source, name=f"{stem}/{sheet}", sheet=sheet) for sheet in sheets]


def _expand(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the files a path stands for, each with the reason to skip it or None."""
    if path.is_file():
        yield path, None if _split_name(path)[1] in FORMATS else f"unknown suffix {path.suffix!r}"
        return
    matches = expand_pattern(path)
    if not matches or not matches[0].exists():
        reason = "no such file or folder" if matches else "the pattern matches no file"
        raise TableError(f"Cannot read {show_address(path)}: {reason}.")
    for match in matches:
        yield from _walk(match) if match.is_dir() else [(match, _reason_to_skip(match))]


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


def _find_owner(folder: Path) -> str | None:
    """Return why the files of a folder are no tables, where NAVI wrote it."""
    folder = folder.parent if folder.name == OWN_SUBFOLDER else folder
    return next(
        (reason for reason, files in OWN_FOLDERS.items() if all(is_there(folder / each) for each in files)), None
    )


def _reason_to_skip(file: Path) -> str | None:
    if file.name.startswith("."):
        return "hidden file"
    if not is_remote(file) and not file.is_file():
        return "not a regular file"
    return None if _split_name(file)[1] in FORMATS else f"unknown suffix {file.suffix!r}"


def _split_name(file: Path) -> tuple[str, str, str]:
    """Split `movies.CSV.gz` into `movies`, `.csv` and `.gz`."""
    compression = file.suffix.lower() if file.suffix.lower() in COMPRESSIONS else ""
    stem = Path(file.name[: len(file.name) - len(compression)])
    return stem.name[: len(stem.name) - len(stem.suffix)], stem.suffix.lower(), compression


def _name_apart(found: dict[tuple[Path, str | None], Source]) -> Iterator[Source]:
    """Yield sources by path, those that share a name with suffixes, if they share a folder, or else with folders."""
    stems = Counter((path.parent, source.name) for (path, _), source in found.items())
    names = {key: source.name for key, source in found.items()}
    for (path, sheet), name in names.items():
        if stems[path.parent, name] > 1:
            names[path, sheet] = path.name + name.removeprefix(_split_name(path)[0])
    for depth in range(1, max((len(path.parts) for path, _ in found), default=0)):
        counts = Counter(names.values())
        for (path, sheet), name in names.items():
            if counts[name] > 1 and depth < len(path.parts) - 1:
                names[path, sheet] = f"{path.parts[-1 - depth]}/{name}"
    for key, source in sorted(found.items(), key=lambda item: item[0][0]):
        yield replace(source, name=show_path(names[key]))


def show_path(path: str | Path) -> str:
    """Return a path as text, an address as such; bytes of it that are not UTF-8 are spelled out."""
    return os.fsencode(show_address(path)).decode("utf-8", "backslashreplace")


def read_chunks(
    source: Source, report: ReadReport, config: ReadConfig = DEFAULT, *, batches: Batches | None = None
) -> Iterator[Chunk]:
    """Read a table chunk by chunk, entering into `report` what is lost on the way.

    A file that is not what its suffix says is read as what it is, and that is said. A file from which nothing can be
    read is a TableError, and with `config.strict` the first loss is one. The batches of Parquet and Arrow files, whose
    cells have types of their own, are put into `batches`.
    """
    report.source, report.strict = show_path(source.path), config.strict
    headers: set[str] = set()
    size = 0
    with local_file(source.path) as copy:
        source = replace(source, path=copy)
        file_size = copy.stat().st_size if copy.exists() else 0
        most, report.max_rows = max(MAX_CONTENT, MAX_RATIO * file_size), max(MAX_ROWS, MAX_ROWS_PER_BYTE * file_size)
        for chunk in _read_file(source, report, config, batches):
            size += chunk.cell_value.nbytes
            headers.update(chunk.headers)
            if size > most:
                raise report.refuse(f"its cells take more than {most:,} bytes, far more than the file")
            if len(headers) > MAX_COLUMNS:
                raise report.refuse(f"it has more than {MAX_COLUMNS:,} columns")
            yield chunk


def _read_file(source: Source, report: ReadReport, config: ReadConfig, batches: Batches | None) -> Iterator[Chunk]:
    with ByteStream(source.path) as stream:
        if not stream.head and stream.damage:
            raise report.refuse(f"{stream.damage}, and nothing good comes before that")
        if stream.compression != source.compression:
            found = f"{stream.compression}-compressed" if stream.compression else "not compressed"
            report.trouble(Loss.MISLABELLED, f"the file is {found}, and read so")
        reader = TextReader(stream, config.encoding, report)
        if len(stream.head) < HEAD_SIZE and not reader.head().strip():
            report.trouble(Loss.EMPTY_FILE, "there is nothing in it")
            return
        promised = "json" if source.format == "jsonl" else source.format
        foreign = next((name for magic, name in _FOREIGN if stream.head.startswith(magic)), None)
        if foreign is not None:
            raise report.refuse(f"the file is {foreign}")
        format = next((name for magic, name in _BINARY if stream.head.startswith(magic)), None)
        format = format or _detect_text(reader.head(), promised, report)
        if format != promised:
            report.trouble(Loss.MISLABELLED, f"the content is {format}, and read so")
        if format in ("csv", "tsv"):
            yield from read_delimited(reader, "," if format == "csv" else "\t", config, report)
        elif format == "json":
            yield from read_json(reader, config, report)
        elif format == "excel":
            with stream.open() as file:
                if stream.damage is not None:
                    report.trouble(Loss.DAMAGED, stream.damage)
                yield from read_excel(Workbook(file, source.path), source.sheet, config, report)
        else:
            read_binary = {"parquet": read_parquet, "arrow": read_arrow}[format]
            try:
                yield from read_binary(stream, config, report, batches)
            except UnicodeDecodeError as error:
                raise report.refuse(f"a column's name is not UTF-8 ({error.reason})") from error


def _detect_text(head: str, promised: str, report: ReadReport) -> str:
    """Return json, csv or tsv for text; the promised format, if the text can be that."""
    if re.match(r"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise report.refuse("the file is a page of HTML or XML, not a table")
    controls = len(head) - len(head.translate(_CONTROLS))
    # Zeros get into text by accidents of storage; other control characters hardly do.
    if controls > 0.05 * len(head) or head.count("\0") > 0.3 * len(head):
        raise report.refuse("the file is binary, and of no format known here")
    begins = any(line.lstrip()[:1] in ("{", "[") for line in head.split("\n") if line.strip())
    if is_json(head) or (promised == "json" and begins):
        return "json"
    if promised in ("csv", "tsv") or is_delimited(head):
        return promised if promised in ("csv", "tsv") else "csv"
    raise report.refuse(f"its content is not {promised}, nor any other format known here")
