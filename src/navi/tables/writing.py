"""Tables written to files, in the format that the file's suffix asks for."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from navi.errors import ConfigError
from navi.files import write_file


def check_output(out: Path) -> None:
    """Refuse, before any work, a file that could not be written."""
    if out.suffix.lower() not in WRITERS:
        raise ConfigError(f"Cannot write {out}: its suffix must be one of {', '.join(WRITERS)}.")
    if not out.parent.is_dir():
        raise ConfigError(f"Cannot write {out}: there is no folder {out.parent}. Make it first.")


def write_table(table: pa.Table, out: Path) -> None:
    """Write a table in the format of the file's suffix; the file appears when it is whole."""
    check_output(out)
    with write_file(out) as unfinished:
        WRITERS[out.suffix.lower()](table, unfinished)


def _write_parquet(table: pa.Table, out: Path) -> None:
    pq.write_table(table, out, compression="zstd")


def _write_feather(table: pa.Table, out: Path) -> None:
    feather.write_feather(table, str(out))


def _write_csv(table: pa.Table, out: Path, delimiter: str = ",") -> None:
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches():
            writer.writerows(zip(*(map(_write_cell, column.to_pylist()) for column in batch.columns), strict=True))


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
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".tsv": lambda table, out: _write_csv(table, out, "\t"),
    ".jsonl": _write_json_lines,
    ".feather": _write_feather,
    ".arrow": _write_feather,
}
"""What writes a file of each suffix."""
