"""The files that hold tables, found among files, folders and patterns."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from navi.errors import TableError

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
"""Format of each known suffix."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
"""Compression of each known second suffix."""


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
    found: dict[Path, Source] = {}
    skipped: dict[Path, str] = {}
    for path in paths:
        sources = 0
        for file, reason in _expand(Path(path)):
            if reason is None:
                sources += 1
                found.setdefault(file.resolve(), _describe(file))
            else:
                skipped.setdefault(file, reason)
        if not sources:
            raise TableError(f"No tables in {path}: expected files with one of the suffixes {_known_suffixes()}.")
    ordered = [found[path] for path in sorted(found)]
    return Sources(tuple(_name_apart(ordered)), tuple(sorted(skipped.items())))


def _expand(path: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the files a path stands for, each with the reason to skip it or None."""
    if path.is_dir():
        yield from _walk(path)
    elif path.exists():
        if _split_name(path)[1] not in FORMATS:
            raise TableError(
                f"Cannot read {path}: unknown suffix {path.suffix!r}. Expected one of {_known_suffixes()}."
            )
        yield path, None
    elif glob.has_magic(str(path)):
        yield from _match(path)
    else:
        raise TableError(f"Cannot read {path}: no such file or folder.")


def _match(pattern: Path) -> Iterator[tuple[Path, str | None]]:
    root = Path(pattern.anchor)
    matches = sorted(root.glob(str(pattern.relative_to(root))))
    if not matches:
        raise TableError(f"Cannot read {pattern}: the pattern matches no file.")
    for match in matches:
        if match.is_dir():
            yield from _walk(match)
        else:
            yield match, _reason_to_skip(match)


def _walk(folder: Path) -> Iterator[tuple[Path, str | None]]:
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        for name in sorted(folders):
            child = Path(parent, name)
            if name.startswith("."):
                yield child, "hidden folder"
            elif child.is_symlink():
                yield child, "link to a folder"
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(parent, name)
            yield file, _reason_to_skip(file)


def _refuse(error: OSError) -> None:
    raise TableError(f"Cannot read the folder {error.filename}: {error.strerror}.") from error


def _reason_to_skip(file: Path) -> str | None:
    if file.name.startswith("."):
        return "hidden file"
    if not file.is_file():
        return "not a regular file"
    _, suffix, _ = _split_name(file)
    return None if suffix in FORMATS else f"unknown suffix {file.suffix!r}"


def _split_name(file: Path) -> tuple[str, str, str]:
    """Split `movies.CSV.gz` into `movies`, `.csv` and `.gz`."""
    stem, compression = file.name, ""
    if file.suffix.lower() in COMPRESSIONS:
        compression = file.suffix.lower()
        stem = stem[: -len(compression)]
    suffix = Path(stem).suffix
    return stem[: len(stem) - len(suffix)], suffix.lower(), compression


def _describe(file: Path) -> Source:
    stem, suffix, compression = _split_name(file)
    return Source(stem, file, FORMATS[suffix], COMPRESSIONS.get(compression))


def _name_apart(sources: list[Source]) -> list[Source]:
    """Give sources that share a name their suffixes, if they share a folder, or else their parent folders."""
    paths = [source.path.resolve() for source in sources]
    names = [source.name for source in sources]
    stems = Counter((path.parent, name) for path, name in zip(paths, names, strict=True))
    names = [path.name if stems[path.parent, name] > 1 else name for path, name in zip(paths, names, strict=True)]
    for depth in range(1, max((len(path.parts) for path in paths), default=0)):
        counts = Counter(names)
        if len(counts) == len(names):
            break
        names = [
            f"{path.parts[-1 - depth]}/{name}" if counts[name] > 1 and depth < len(path.parts) - 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    return [replace(source, name=name) for source, name in zip(sources, names, strict=True)]


def _known_suffixes() -> str:
    return ", ".join(FORMATS) + ", each also with .gz or .zst"
