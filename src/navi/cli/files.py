"""Tables read from files for a model, and written back in the format that the file's name asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.errors import ConfigError, TableError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from navi.tables import ReadReport, Source


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """One table, whole, in memory."""

    name: str
    """The table's name."""
    frame: pa.Table
    """Its cells: of Parquet and Arrow files as they are, of others as text, flat, one column a header."""
    row_number: NDArray[np.int64]
    """(R,) where each row stands in the file."""
    losses: ReadReport
    """What reading lost."""


def read_tables(paths: Sequence[Path], *, max_family: int | None = 3) -> dict[str, TableFile]:
    """Return the tables of files, folders and patterns by name; those without rows are left out.

    Of a list of cells the first `max_family` are read, as `navi prepare` does; None reads all.
    """
    from navi.tables import find_sources

    tables = {source.name: _read(source, max_family) for source in find_sources(paths).sources}
    filled = {name: table for name, table in tables.items() if table.frame.num_rows}
    if not filled:
        raise TableError(f"No table in {', '.join(map(str, paths))} has any row.")
    return filled


def read_table(path: Path) -> TableFile:
    """Return the one table that a path stands for, whole: what a verb writes back must not have fewer columns."""
    tables = read_tables([path], max_family=None)
    if len(tables) > 1:
        raise TableError(f"{path} holds {len(tables)} tables, {', '.join(tables)}. Give one file.")
    return next(iter(tables.values()))


def check_columns(table: TableFile, columns: Sequence[str] | None) -> None:
    """Refuse, before any work, a column that the table does not have; what is nested the library looks into."""
    import pyarrow as pa

    from navi.verbs.frames import find_headers

    if columns is not None and not any(pa.types.is_nested(field.type) for field in table.frame.schema):
        find_headers(table.frame.column_names, columns, table.name)


def _read(source: Source, max_family: int | None) -> TableFile:
    import numpy as np

    from navi.tables import ReadConfig, ReadReport, read_chunks, to_arrow

    losses = ReadReport()
    if source.format in READERS and source.compression is None:
        frame = READERS[source.format](source.path)
        losses.read = frame.num_rows
        return TableFile(name=source.name, frame=frame, row_number=np.arange(1, frame.num_rows + 1), losses=losses)
    chunks = list(read_chunks(source, losses, ReadConfig(max_family=max_family)))
    numbers = np.concatenate([chunk.row_number for chunk in chunks]) if chunks else np.zeros(0, np.int64)
    return TableFile(name=source.name, frame=to_arrow(chunks), row_number=numbers, losses=losses)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise TableError(f"Cannot read {path}: {error}.") from error


def _read_arrow(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import feather

    try:
        return feather.read_table(str(path))
    except pa.ArrowException as error:
        raise TableError(f"Cannot read {path}: {error}.") from error


READERS: dict[str, Callable[[Path], pa.Table]] = {"parquet": _read_parquet, "arrow": _read_arrow}
"""What reads the formats whose cells have types of their own."""


def check_output(out: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if out.suffix.lower() not in WRITERS:
        raise ConfigError(f"Cannot write {out}: its suffix must be one of {', '.join(WRITERS)}.")
    if not out.parent.is_dir():
        raise ConfigError(f"Cannot write {out}: there is no folder {out.parent}. Make it first.")


def write_table(table: pa.Table, out: Path) -> None:
    """Write a table in the format of the file's suffix; the file appears when it is whole."""
    check_output(out)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        WRITERS[out.suffix.lower()](table, unfinished)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_parquet(table: pa.Table, out: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, out, compression="zstd")


def _write_feather(table: pa.Table, out: Path) -> None:
    from pyarrow import feather

    feather.write_feather(table, str(out))


def _write_csv(table: pa.Table, out: Path, delimiter: str = ",") -> None:
    import csv

    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(zip(*(map(_flatten, column.to_pylist()) for column in batch.columns), strict=True))


def _flatten(cell: Any) -> Any:
    """Return a cell that fits into a text table: nested ones as JSON."""
    import json

    return json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, list | dict) else cell


def _write_json_lines(table: pa.Table, out: Path) -> None:
    import json

    with out.open("w", encoding="utf-8") as file:
        for batch in table.to_batches():
            for row in batch.to_pylist():
                cells: dict[str, Any] = {header: value for header, value in row.items() if value is not None}
                file.write(json.dumps(cells, ensure_ascii=False, default=str) + "\n")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".tsv": lambda table, out: _write_csv(table, out, "\t"),
    ".jsonl": _write_json_lines,
    ".feather": _write_feather,
    ".arrow": _write_feather,
}
"""What writes a file of each suffix."""
