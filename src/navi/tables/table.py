"""One table in memory, the one way there for every verb, from files and frames alike, and the way back to a file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import feather

from navi.errors import ConfigError, TableError
from navi.files import write_file
from navi.storage import is_remote
from navi.tables.arrow import NOT_COLUMNAR, Batches, read_columns
from navi.tables.chunk import Chunk, clean_header, name_columns, to_arrow
from navi.tables.json_rows import read_rows
from navi.tables.readreport import DEFAULT, ReadConfig, ReadReport, join_reasons
from navi.tables.sources import Source, find_sources, list_paths, read_chunks, show_path

TABLE = "table"
"""Name of a frame that was given none."""
HEADERS_SHOWN = 8
"""Headers of a table that an error names."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SIGNED_NUMBER = re.compile(r"[+-]?[\d.,]+(?:[eE][+-]?\d+)?%?")
_MEMBER = re.compile(r"\.(\d+)(?=\.|$)")
Ints = NDArray[np.int64]
Row = list[tuple[str, Any]]

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
    """The frame that it was read from, as it was given; None for a file."""
    typed: pa.Table | None = None
    """The cells in types of their own, where the frame or the file has any."""

    @property
    def num_rows(self) -> int:
        """Number of rows; in a frame, those without any cell among them."""
        return len(self.row_number)

    @cached_property
    def headers(self) -> tuple[str, ...]:
        """The flat headers, in the order of the source; those without any cell have their place, too."""
        return tuple(order_headers(self.report.headers, (header for chunk in self.chunks for header in chunk.headers)))

    @cached_property
    def text(self) -> pa.Table:
        """The cells as flat text, a column for each header and a line for each row; absent cells are null."""
        filled = np.concatenate([np.zeros(0, np.int64), *(chunk.row_number for chunk in self.chunks)])
        wide = to_arrow(self.chunks)
        if wide.num_rows < self.num_rows and wide.num_columns:
            absent = ~np.isin(self.row_number, filled)
            wide = wide.take(pa.array(np.searchsorted(filled, self.row_number), mask=absent))
        empty = pa.nulls(self.num_rows, pa.string())
        columns = [wide[header] if header in wide.column_names else empty for header in self.headers]
        return pa.table(columns, names=list(self.headers))

    def to_arrow(self) -> pa.Table:
        """Return the cells in the types of the frame or file, where it has any and Arrow knows them, else as text."""
        return self.text if self.typed is None else self.typed

    @property
    def frame(self) -> Any:
        """The frame that the table was read from, as it was given, or what `to_arrow` returns."""
        return self.to_arrow() if self.origin is None else self.origin

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
        chunks = tuple(chunk.select(wanted) for chunk in self.chunks)
        return Table(name=self.name, chunks=chunks, row_number=self.row_number, report=report)


def order_headers(declared: Iterable[str], found: Iterable[str]) -> list[str]:
    """Return headers in the order that a source declares, each column's members in its place, then all others found.

    >>> order_headers(["title", "cast", "year"], ["year", "cast.0.name"])
    ['title', 'cast.0.name', 'year']
    """
    found = dict.fromkeys(found)
    members: dict[str, list[str]] = {}
    for header in found:
        parts = header.split(".")
        for end in range(1, len(parts) + 1):
            members.setdefault(".".join(parts[:end]), []).append(header)
    in_order = (header for each in declared for header in members.get(each, [each]))
    return list(dict.fromkeys([*in_order, *found]))


def find_members(headers: Iterable[str]) -> dict[str, int]:
    """Return the headers that are members of lists, each with its number, the highest where lists are nested.

    >>> find_members(["title", "cast.0.name", "cast.1.name", "sales.2015"])
    {'cast.0.name': 0, 'cast.1.name': 1}
    """
    parts = {
        header: [(header[: each.start()], int(each[1])) for each in _MEMBER.finditer(header)] for header in headers
    }
    lists = {prefix for each in parts.values() for prefix, number in each if number == 0}
    numbers = {header: [number for prefix, number in each if prefix in lists] for header, each in parts.items()}
    return {header: max(each) for header, each in numbers.items() if each}


def find_headers(known: Sequence[str], columns: Iterable[str], table: str) -> frozenset[str]:
    """Return the headers that the asked-for columns stand for; one that is not there is a TableError."""
    found: set[str] = set()
    for column in columns:
        here = {header for header in known if header == column or header.startswith(f"{column}.")}
        if not here:
            near = get_close_matches(column, known, n=1)
            shown = [*known[:HEADERS_SHOWN], f"… ({len(known)} in all)"] if len(known) > HEADERS_SHOWN else known
            hint = f"Did you mean '{near[0]}'?" if near else f"It has {', '.join(shown) or 'no cells at all'}."
            raise TableError(f"The table '{table}' has no column '{column}'. {hint}")
        found |= here
    return frozenset(found)


def read_table(source: Any, config: ReadConfig = DEFAULT, *, whole: bool = False, keep_empty: bool = False) -> Table:
    """Return the one table of a file, or of a frame: pandas, Polars, Arrow, a list of dictionaries or one dictionary.

    With `whole` all members of lists are read where the table has no types of its own, so that nothing is lost when its
    text is written back. A table without rows is an error, unless `keep_empty` says otherwise.

    >>> read_table([{"title": "Alien"}, {}]).num_rows
    2
    """
    tables = list(read_tables(source, config, whole=whole, keep_empty=keep_empty).values())
    if len(tables) > 1:
        shown = source if _are_paths(source) else "The frame given"
        names = ", ".join(table.name for table in tables)
        raise TableError(f"{shown} holds {len(tables)} tables, {names}. Give one file, or a sheet with --sheet.")
    return tables[0]


def read_tables(
    sources: Any,
    config: ReadConfig = DEFAULT,
    *,
    columns: Sequence[str] | None = None,
    whole: bool = False,
    keep_empty: bool = False,
    unreadable: list[str] | None = None,
) -> dict[str, Table]:
    """Return the tables, by name, of files (a path, a folder, a pattern, several) or of frames (see `name_frames`).

    Tables that are read already stay as they are. With `columns`, each has these alone. Without `keep_empty` a frame
    without rows is an error; a file without rows is left out, and an error if all are. `whole`: see `read_table`. Where
    a list is given for `unreadable`, a file that cannot be read is left out, and an error if all are; the list then
    says which files are left out, those that are no tables or have no rows among them.
    """
    if _are_paths(sources):
        paths = list_paths(sources)
        found, listed = {}, find_sources(paths)
        for source in listed.sources:
            try:
                found[source.name] = _read_source(source, config, whole)
            except TableError as error:
                if unreadable is None:
                    raise
                unreadable.append(str(error))
        if unreadable and not found:
            raise TableError(join_reasons(unreadable))
        tables = {name: table for name, table in found.items() if table.num_rows or keep_empty}
        if not tables:
            reasons = join_reasons([*(unreadable or ()), *(table.report.explanation for table in found.values())])
            raise TableError(f"No table in {', '.join(map(str, paths))} has any row. {reasons}")
        if unreadable is not None:
            unreadable += [f"{name} ({each.report.explanation})" for name, each in found.items() if name not in tables]
            unreadable += [f"{show_path(path)}: {reason}" for path, reason in listed.skipped]
    else:
        tables = {name: _read_frame(frame, config, name) for name, frame in name_frames(sources).items()}
        for name, table in tables.items():
            _check_rows(name, table.num_rows or keep_empty)
    return tables if columns is None else {name: table.select(columns) for name, table in tables.items()}


def stream_tables(
    frames: Any, config: ReadConfig = DEFAULT, columns: Sequence[str] | None = None
) -> tuple[dict[str, Ints], Iterator[tuple[str, Chunk]]]:
    """Return what `read_tables` reads: the row numbers of each table, and all chunks, read as they are taken.

    Read at once are files, and frames that do not say how long they are or whether they have the columns wanted.
    """
    row_number: dict[str, Ints] = {}
    chunks: dict[str, Iterable[Chunk]] = {}
    for name, frame in (read_tables(frames, config) if _are_paths(frames) else name_frames(frames)).items():
        part = _narrow(frame, columns)
        if part is not None:
            row_number[name], chunks[name] = np.arange(1, part[1] + 1), read_frame(part[0], config=config)
        else:
            table = _read_frame(frame, config, name)
            table = table if columns is None else table.select(columns)
            row_number[name], chunks[name] = table.row_number, table.chunks
        _check_rows(name, len(row_number[name]))
    return row_number, ((name, chunk) for name, each in chunks.items() for chunk in each)


def _narrow(frame: Any, columns: Sequence[str] | None) -> tuple[Any, int] | None:
    """Return a frame with some columns alone, and how many rows it has; None where only reading it shows these."""
    with suppress(TableError, nw.exceptions.NarwhalsError):  # a name within a column, or one that is there twice
        opened = nw.from_native(frame, pass_through=True)
        if isinstance(opened, nw.DataFrame | nw.LazyFrame):
            num_rows = int(opened.lazy().select(nw.len()).collect().item())
            if columns is None:
                return frame, num_rows
            names = opened.collect_schema().names()
            wanted = find_headers([str(name) for name in names], columns, TABLE)
            return opened.select([name for name in names if str(name) in wanted]).to_native(), num_rows
    return None


def _check_rows(name: str, number: int) -> None:
    if not number:
        raise TableError(f"The table '{name}' has no rows. Give one with at least one row.")


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
    if isinstance(frames, Mapping) and any(hasattr(frame, "columns") for frame in frames.values()):
        wrong = next(name for name, frame in frames.items() if not _is_frame(frame))
        raise TableError(
            f"Cannot read '{wrong}' as a table beside the others: expected a frame or rows that are there."
        )
    if isinstance(frames, list | tuple) and frames and all(map(_is_frame, frames)):
        named: dict[str, Any] = {}
        for number, frame in enumerate(frames, 1):
            name = frame.name if isinstance(frame, Table) else f"{TABLE} {number}"
            named[name if name not in named else f"{name} ({number})"] = frame
        return named
    return {TABLE: frames}


def _is_frame(frame: Any) -> bool:
    if isinstance(frame, list | tuple):
        return bool(frame) and all(isinstance(row, Mapping) for row in frame)
    return isinstance(frame, Table | pa.RecordBatchReader) or hasattr(frame, "columns")


def _read_source(source: Source, config: ReadConfig, whole: bool) -> Table:
    report, batches = ReadReport(), Batches()
    if whole and source.format not in ("parquet", "arrow"):
        config = replace(config, max_family=None)
    chunks = tuple(read_chunks(source, report, config, batches=batches))
    numbers = [np.arange(first, first + batch.num_rows) for first, batch in batches]
    row_number = np.concatenate([np.zeros(0, np.int64), *(numbers or (chunk.row_number for chunk in chunks))])
    typed = pa.Table.from_batches([batch for _, batch in batches]).rename_columns(report.headers) if batches else None
    return Table(name=source.name, chunks=chunks, row_number=row_number, report=report, typed=typed)


def _read_frame(frame: Any, config: ReadConfig, name: str) -> Table:
    if isinstance(frame, Table):
        return frame if frame.name == name else replace(frame, name=name)
    report = ReadReport(strict=config.strict)
    frame = _collect(frame)
    cells = _open_frame(frame, config, report)
    typed = None
    if isinstance(cells, pa.RecordBatchReader):
        typed = cells.read_all()
        cells = typed.to_reader()
    chunks = tuple(_read_cells(cells, config, report))
    row_number = np.arange(1, report.read + 1)
    typed = typed and typed.rename_columns(report.headers)
    return Table(name=name, chunks=chunks, row_number=row_number, report=report, origin=frame, typed=typed)


def read_frame(frame: Any, report: ReadReport | None = None, config: ReadConfig = DEFAULT) -> Iterator[Chunk]:
    """Read a pandas, Polars or Arrow frame, a list of dictionaries, nested or not, or one dictionary as one row.

    Rows are numbered from 1. The index of a pandas frame is not read.
    """
    report = ReadReport() if report is None else report
    report.source, report.strict = "frame", config.strict
    return _read_cells(_open_frame(frame, config, report), config, report)


def _collect(frame: Any) -> Any:
    """Return a frame whole: one row as a list of one, a stream, batch or lazy frame collected, others as they are."""
    if isinstance(frame, Mapping):
        return [frame]
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if nw.dependencies.is_duckdb_relation(frame) or nw.dependencies.is_polars_lazyframe(frame):
        return nw.from_native(frame).collect().to_native()
    return frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame


def _open_frame(frame: Any, config: ReadConfig, report: ReadReport) -> pa.RecordBatchReader | list[Row]:
    """Return a frame as a stream of columns, or as rows where a column mixes types, or has one Arrow does not know."""
    if isinstance(frame, Mapping | pa.RecordBatch):
        frame = _collect(frame)
    if isinstance(frame, list | tuple):
        wrong = next((number for number, row in enumerate(frame, 1) if not isinstance(row, Mapping)), None)
        if wrong is not None:
            kind = type(frame[wrong - 1]).__name__
            raise TableError(f"Cannot read row {wrong} of the list: expected a dictionary, found {kind}.")
        report.headers = list(dict.fromkeys(clean_header(str(key)) for row in frame for key in row))
        return [[(str(key), value) for key, value in row.items()] for row in frame]
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if nw.dependencies.is_duckdb_relation(frame):
        return frame.to_arrow_reader(config.chunk_rows)
    if isinstance(frame, pa.Table):
        return frame.combine_chunks().to_reader()
    if nw.dependencies.is_pandas_dataframe(frame):
        indexes = [str(name) for name in frame.index.names if name is not None]
        if indexes:
            report.note(f"the index {', '.join(indexes)} is not read; reset_index() makes it a column")
        names = [".".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns]
        frame = frame.set_axis(name_columns(names, report), axis=1)
    try:
        opened = nw.from_native(frame)
    except TypeError as error:
        raise TableError(
            f"Cannot read a {type(frame).__name__} as a table: expected a pandas, Polars or Arrow frame, a list of "
            "dictionaries or one dictionary."
        ) from error
    if isinstance(opened, nw.LazyFrame):
        if opened.implementation.is_polars() and nw.Object not in opened.collect_schema().dtypes():
            parts = frame.collect_batches(chunk_size=config.chunk_rows, maintain_order=True)
            batches = (batch for part in parts for batch in part.to_arrow().combine_chunks().to_batches())
            return pa.RecordBatchReader.from_batches(frame.head(0).collect().to_arrow().schema, batches)
        opened = opened.collect()
    headers = report.headers = name_columns(opened.columns, report)
    # Polars' own objects make no Arrow column, and bring the process down.
    if not (opened.implementation.is_polars() and nw.Object in opened.schema.dtypes()):
        with suppress(*NOT_COLUMNAR):
            columns = [series.to_arrow() for series in opened.iter_columns()]
            if not any(getattr(column.type, "extension_name", "").startswith("pandas.") for column in columns):
                return pa.table(columns, names=headers).combine_chunks().to_reader()
    cells = zip(*(series.to_list() for series in opened.iter_columns()), strict=True)
    return [list(zip(headers, row, strict=True)) for row in cells]


def _read_cells(cells: pa.RecordBatchReader | list[Row], config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    if not isinstance(cells, list):
        return read_columns(cells, cells.schema, config, report)
    lengths = (sum(len(value) for _, value in row if isinstance(value, str)) for row in cells)
    return read_rows(zip(count(1), cells, lengths, strict=False), config, report)


def check_output(out: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if out.suffix.lower() not in WRITERS:
        raise ConfigError(f"Cannot write {out}: its suffix must be one of {', '.join(WRITERS)}.")
    if not is_remote(out) and not out.parent.is_dir():
        raise ConfigError(f"Cannot write {out}: there is no folder {out.parent}. Make it first.")


def write_table(table: pa.Table, out: Path, *, safe_csv: bool = False) -> None:
    """Write a table in the format of the file's suffix; the file appears when it is whole.

    With `safe_csv`, cells of text formats that a spreadsheet would run as a formula get a quote in front.
    """
    check_output(out)
    if safe_csv and out.suffix.lower() in (".csv", ".tsv"):
        table = pa.table(
            [_quote_formulas(column) for column in table.columns], [quote_formula(n) for n in table.column_names]
        )
    with write_file(out) as unfinished:
        WRITERS[out.suffix.lower()](table, unfinished)


def _write_csv(table: pa.Table, out: Path, delimiter: str = ",") -> None:
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(zip(*(map(_write_cell, column.to_pylist()) for column in batch.columns), strict=True))


def quote_formula(text: str) -> str:
    """Return a text with a quote in front where a spreadsheet would take it for a formula; numbers are none.

    >>> quote_formula("=1+1"), quote_formula("-1.5"), quote_formula("-1+cmd")
    ("'=1+1", '-1.5', "'-1+cmd")
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _SIGNED_NUMBER.fullmatch(text) else text


def _quote_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pa.chunked_array([[text and quote_formula(text) for text in column.to_pylist()]], pa.string())


def _write_cell(cell: Any) -> Any:
    """Return a cell that fits into a table of text: nested ones as JSON."""
    return json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, list | dict) else cell


def _write_json_lines(table: pa.Table, out: Path) -> None:
    with out.open("w", encoding="utf-8") as file:
        for batch in table.to_batches():
            for row in batch.to_pylist():
                cells = {header: value for header, value in row.items() if value is not None}
                file.write(json.dumps(cells, ensure_ascii=False, default=str) + "\n")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": lambda table, out: pq.write_table(table, out, compression="zstd"),
    ".csv": _write_csv,
    ".tsv": lambda table, out: _write_csv(table, out, "\t"),
    ".jsonl": _write_json_lines,
    ".feather": lambda table, out: feather.write_feather(table, str(out)),
    ".arrow": lambda table, out: feather.write_feather(table, str(out)),
}
"""What writes a file of each suffix."""
