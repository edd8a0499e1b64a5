"""Frames and files on their way into a model: told apart, read into chunks, their rows counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from navi.errors import TableError
from navi.tables import Chunk, ReadConfig, ReadReport, find_sources, read_chunks, read_frame

TABLE = "table"
"""Name of a frame that was given none."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Some tables, read: rows without any cell are counted but have no place in the chunks."""

    chunks: dict[str, list[Chunk]]
    """The rows of each table."""
    num_rows: dict[str, int]
    """How many rows each table has, those without any cell among them."""
    losses: dict[str, ReadReport]
    """What reading lost of each table."""


def name_frames(frames: Any) -> dict[str, Any]:
    """Return {name: frame} for one frame, several in a list, or a mapping of them.

    A mapping whose members are all frames, or lists of dictionaries, holds tables; any other mapping is one row.

    >>> list(name_frames([{"title": "Alien"}]))
    ['table']
    """
    if isinstance(frames, Mapping) and frames and all(map(_is_frame, frames.values())):
        return {str(name): frame for name, frame in frames.items()}
    if isinstance(frames, list | tuple) and frames and all(map(_is_frame, frames)):
        return {f"{TABLE} {number}": frame for number, frame in enumerate(frames, 1)}
    return {TABLE: frames}


def _is_frame(frame: Any) -> bool:
    if isinstance(frame, list | tuple):
        return bool(frame) and all(isinstance(row, Mapping) for row in frame)
    return hasattr(frame, "columns") or isinstance(frame, pa.RecordBatchReader)


def read_tables(frames: Any, config: ReadConfig, columns: Sequence[str] | None = None) -> Tables:
    """Read one frame or several; with `columns` of each only these. A table without rows is an error."""
    chunks: dict[str, list[Chunk]] = {}
    losses: dict[str, ReadReport] = {}
    for name, frame in name_frames(frames).items():
        losses[name] = ReadReport()
        chunks[name] = list(read_frame(frame, losses[name], config))
        _check_rows(name, losses[name].read)
        if columns is not None:
            chunks[name] = keep_columns(chunks[name], columns, name)
    return Tables(chunks=chunks, num_rows={name: each.read for name, each in losses.items()}, losses=losses)


def stream_tables(
    frames: Any, config: ReadConfig, columns: Sequence[str] | None = None
) -> tuple[dict[str, int], Iterator[tuple[str, Chunk]]]:
    """Return what `read_tables` reads: how many rows each table has, and its chunks, read as they are taken.

    Frames that do not tell their length are read at once, and so are those of which some columns alone are wanted.
    """
    named = name_frames(frames)
    num_rows = {name: number for name, frame in named.items() if (number := _count_rows(frame)) is not None}
    if columns is not None or len(num_rows) < len(named):
        tables = read_tables(frames, config, columns)
        return tables.num_rows, ((name, chunk) for name, chunks in tables.chunks.items() for chunk in chunks)
    for name, number in num_rows.items():
        _check_rows(name, number)
    return num_rows, ((name, chunk) for name, frame in named.items() for chunk in read_frame(frame, config=config))


def _count_rows(frame: Any) -> int | None:
    """Return how many rows a frame says it has, None where it does not know."""
    shape = getattr(frame, "shape", None) if hasattr(frame, "columns") else None
    return shape[0] if isinstance(shape, tuple) and isinstance(shape[0], int) else None


def _check_rows(name: str, number: int) -> None:
    if not number:
        raise TableError(f"The table '{name}' has no rows. Give one with at least one row.")


def read_files(paths: Sequence[str | Path], config: ReadConfig) -> Tables:
    """Read the tables of files, folders and patterns whole into memory; at least one must have a row."""
    losses: dict[str, ReadReport] = {}
    chunks: dict[str, list[Chunk]] = {}
    for source in find_sources(paths).sources:
        losses[source.name] = ReadReport()
        chunks[source.name] = list(read_chunks(source, losses[source.name], config))
    if not any(chunks.values()):
        raise TableError(f"No table in {', '.join(map(str, paths))} has any row.")
    return Tables(chunks=chunks, num_rows={name: each.read for name, each in losses.items()}, losses=losses)


def keep_columns(chunks: Sequence[Chunk], columns: Sequence[str], table: str) -> list[Chunk]:
    """Return the chunks with these headers alone; `cast` stands for `cast.0.name` and its like, too."""
    known = list(dict.fromkeys(header for chunk in chunks for header in chunk.headers))
    wanted = find_headers(known, columns, table)
    return [_keep(chunk, wanted) for chunk in chunks]


def find_headers(known: Sequence[str], columns: Iterable[str], table: str) -> frozenset[str]:
    """Return the headers that the asked-for columns stand for; one that is not there is a TableError."""
    found: set[str] = set()
    for column in columns:
        here = {header for header in known if header == column or header.startswith(f"{column}.")}
        if not here:
            near = get_close_matches(column, known, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"It has {', '.join(known) or 'no cells at all'}."
            raise TableError(f"The table '{table}' has no column '{column}'. {hint}")
        found |= here
    return frozenset(found)


def _keep(chunk: Chunk, wanted: frozenset[str]) -> Chunk:
    kept = [place for place, header in enumerate(chunk.headers) if header in wanted]
    new_place = np.full(len(chunk.headers), -1, dtype=np.int32)
    new_place[kept] = np.arange(len(kept), dtype=np.int32)
    cells = np.flatnonzero(new_place[chunk.cell_header] >= 0)
    rows, cell_row = np.unique(chunk.cell_row[cells], return_inverse=True)
    return Chunk(
        headers=tuple(chunk.headers[place] for place in kept),
        cell_row=cell_row.astype(np.int32),
        cell_header=new_place[chunk.cell_header[cells]],
        cell_value=chunk.cell_value.take(pa.array(cells)),
        row_number=chunk.row_number[rows],
    )
