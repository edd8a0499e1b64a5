"""One table in memory, and the one way there for every verb, from files and frames alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.errors import TableError
from navi.tables.chunk import Chunk
from navi.tables.config import DEFAULT, ReadConfig
from navi.tables.frames import collect_frame, frame_to_arrow, read_frame
from navi.tables.reading import read_chunks
from navi.tables.readreport import ReadReport
from navi.tables.source import Source, find_sources
from navi.tables.wide import to_arrow

TABLE = "table"
"""Name of a frame that was given none."""
Ints = NDArray[np.int64]

# Shape suffixes: R rows, those without any cell among them.


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table, whatever it came from: its cells as flat text in chunks, and what reading it lost."""

    name: str
    """Name of the file or of the frame."""
    chunks: tuple[Chunk, ...]
    """The cells; rows without any have no place here."""
    row_number: Ints
    """(R,) place of each row in its source, from 1, increasing: the line of a text file, else the record."""
    report: ReadReport
    """What reading lost or changed."""
    origin: Any = None
    """The frame that it was read from, whose cells have types of their own; None for files of text."""

    @property
    def num_rows(self) -> int:
        """Number of rows; in a frame, those without any cell among them."""
        return len(self.row_number)

    @cached_property
    def headers(self) -> tuple[str, ...]:
        """The flat headers, in the order of the source; those without any cell have their place, too."""
        found = dict.fromkeys(header for chunk in self.chunks for header in chunk.headers)
        ordered: dict[str, None] = {}
        for declared in self.report.headers:
            own = [header for header in found if header == declared or header.startswith(f"{declared}.")]
            ordered.update(dict.fromkeys(own or [declared]))
        return tuple(ordered | found)

    @cached_property
    def text(self) -> pa.Table:
        """The cells as flat text, a column for each header and a line for each row; absent cells are null."""
        filled = np.concatenate([np.zeros(0, np.int64), *(chunk.row_number for chunk in self.chunks)])
        wide = to_arrow(self.chunks)
        if len(filled) < self.num_rows:
            place = np.searchsorted(filled, self.row_number)
            absent = ~np.isin(self.row_number, filled)
            wide = wide.take(pa.array(place, mask=absent)) if wide.num_columns else wide
        columns = [
            wide[header] if header in wide.column_names else pa.nulls(self.num_rows, pa.string())
            for header in self.headers
        ]
        return pa.table(columns, names=list(self.headers))

    @property
    def frame(self) -> Any:
        """The frame that the table was read from, as it was given, or its flat text."""
        return self.text if self.origin is None else self.origin

    def to_arrow(self) -> pa.Table:
        """Return the cells in the types of the frame or file, where it has any and Arrow knows them, else as text."""
        arrow = None if self.origin is None else frame_to_arrow(self.origin)
        return self.text if arrow is None else arrow

    def find_rows(self, row_number: Ints) -> Ints:
        """Return where rows stand in the table, from 0, given their places in the source."""
        return np.searchsorted(self.row_number, row_number)

    def find_headers(self, columns: Iterable[str]) -> frozenset[str]:
        """Return the headers that columns stand for, `cast` also for `cast.0.name`; a column not there is an error."""
        return find_headers(self.headers, columns, self.name)

    def select(self, columns: Iterable[str]) -> Table:
        """Return the table with the cells of these columns alone, and all rows."""
        wanted = self.find_headers(columns)
        report = replace(self.report, headers=[header for header in self.headers if header in wanted])
        return replace(self, chunks=tuple(_keep(chunk, wanted) for chunk in self.chunks), report=report, origin=None)


def read_table(source: Any, config: ReadConfig = DEFAULT, *, name: str | None = None, whole: bool = False) -> Table:
    """Return the one table of a file, or of a frame: pandas, Polars, Arrow, a list of dictionaries or one dictionary.

    With `whole` all members of lists are read where the table has no types of its own, so that nothing is lost when its
    text is written back. A table without rows is an error.

    >>> read_table([{"title": "Alien"}, {}]).num_rows
    2
    """
    tables = list(read_tables(source, config, whole=whole).values())
    if len(tables) > 1:
        shown = source if _are_paths(source) else "The frame given"
        raise TableError(
            f"{shown} holds {len(tables)} tables, {', '.join(table.name for table in tables)}. Give one file."
        )
    return tables[0] if name is None else replace(tables[0], name=name)


def read_tables(
    sources: Any,
    config: ReadConfig = DEFAULT,
    *,
    columns: Sequence[str] | None = None,
    whole: bool = False,
    keep_empty: bool = False,
) -> dict[str, Table]:
    """Return the tables, by name, of files (a path, a folder, a pattern, several) or of frames (see `name_frames`).

    Tables that are read already stay as they are. With `columns`, each has these alone. Without `keep_empty` a frame
    without rows is an error; a file without rows is left out, and an error if all are. `whole`: see `read_table`.
    """
    if _are_paths(sources):
        paths = [sources] if isinstance(sources, str | Path) else list(sources)
        found = {source.name: _read_source(source, config, whole) for source in find_sources(paths).sources}
        tables = {name: table for name, table in found.items() if table.num_rows or keep_empty}
        if not tables:
            raise TableError(f"No table in {', '.join(map(str, paths))} has any row.")
    else:
        tables = {name: _read_frame(frame, config, name) for name, frame in name_frames(sources).items()}
        for name, table in tables.items():
            _check_rows(name, table.num_rows or keep_empty)
    return tables if columns is None else {name: table.select(columns) for name, table in tables.items()}


def _are_paths(sources: Any) -> bool:
    if isinstance(sources, list | tuple) and sources:
        return all(isinstance(each, str | Path) for each in sources)
    return isinstance(sources, str | Path)


def name_frames(frames: Any) -> dict[str, Any]:
    """Return {name: frame} for one frame, several in a list, or a mapping of them.

    A mapping whose members are all frames, or lists of dictionaries, holds tables; any other mapping is one row.

    >>> list(name_frames([{"title": "Alien"}]))
    ['table']
    """
    if isinstance(frames, Table):
        return {frames.name: frames}
    if isinstance(frames, Mapping) and frames and all(map(_is_frame, frames.values())):
        return {str(name): frame for name, frame in frames.items()}
    if isinstance(frames, list | tuple) and frames and all(map(_is_frame, frames)):
        return {
            frame.name if isinstance(frame, Table) else f"{TABLE} {number}": frame
            for number, frame in enumerate(frames, 1)
        }
    return {TABLE: frames}


def _is_frame(frame: Any) -> bool:
    if isinstance(frame, list | tuple):
        return bool(frame) and all(isinstance(row, Mapping) for row in frame)
    return isinstance(frame, Table | pa.RecordBatchReader) or hasattr(frame, "columns")


def stream_tables(
    frames: Any, config: ReadConfig = DEFAULT, columns: Sequence[str] | None = None
) -> tuple[dict[str, Ints], Iterator[tuple[str, Chunk]]]:
    """Return what `read_tables` reads: the row numbers of each table, and all chunks, read as they are taken.

    Files, frames that do not tell their length and those of which some columns alone are wanted are read at once.
    """
    named = {} if _are_paths(frames) else name_frames(frames)
    num_rows = {name: number for name, frame in named.items() if (number := _count_rows(frame)) is not None}
    if columns is not None or not named or len(num_rows) < len(named):
        tables = read_tables(frames, config, columns=columns)
        chunks = ((name, chunk) for name, table in tables.items() for chunk in table.chunks)
        return {name: table.row_number for name, table in tables.items()}, chunks
    for name, number in num_rows.items():
        _check_rows(name, number)
    row_number = {name: np.arange(1, number + 1) for name, number in num_rows.items()}
    return row_number, ((name, chunk) for name, frame in named.items() for chunk in read_frame(frame, config=config))


def _count_rows(frame: Any) -> int | None:
    """Return how many rows a frame says it has, None where it does not know."""
    shape = getattr(frame, "shape", None) if hasattr(frame, "columns") else None
    return shape[0] if isinstance(shape, tuple) and isinstance(shape[0], int) else None


def _check_rows(name: str, number: int) -> None:
    if not number:
        raise TableError(f"The table '{name}' has no rows. Give one with at least one row.")


def _read_frame(frame: Any, config: ReadConfig, name: str) -> Table:
    if isinstance(frame, Table):
        return frame if frame.name == name else replace(frame, name=name)
    report = ReadReport()
    frame = collect_frame(frame)
    chunks = tuple(read_frame(frame, report, config))
    return Table(name=name, chunks=chunks, row_number=np.arange(1, report.read + 1), report=report, origin=frame)


def _read_source(source: Source, config: ReadConfig, whole: bool) -> Table:
    report = ReadReport()
    if whole and source.format not in TYPED:
        config = replace(config, max_family=None)
    chunks = tuple(read_chunks(source, report, config))
    if source.format in TYPED and source.compression is None:
        origin = _read_typed(source)
        row_number = np.arange(1, origin.num_rows + 1)
        return Table(name=source.name, chunks=chunks, row_number=row_number, report=report, origin=origin)
    row_number = np.concatenate([np.zeros(0, np.int64), *(chunk.row_number for chunk in chunks)])
    return Table(name=source.name, chunks=chunks, row_number=row_number, report=report)


TYPED = ("parquet", "arrow")
"""Formats whose cells have types of their own."""


def _read_typed(source: Source) -> pa.Table:
    import pyarrow.parquet as pq
    from pyarrow import feather

    try:
        if source.format == "parquet":
            return pq.ParquetFile(source.path).read()
        return feather.read_table(str(source.path))
    except pa.ArrowException as error:
        raise TableError(f"Cannot read {source.path}: {error}.") from error


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
