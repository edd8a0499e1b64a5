"""Parquet, Feather and Arrow files, read batch by batch up to where they are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.parquet as pq

from navi.errors import TableError
from navi.tables.chunk import Chunk
from navi.tables.flattening import Batches, Lost, read_columns
from navi.tables.readreport import DAMAGED, ReadConfig, ReadReport
from navi.tables.textreader import ByteStream

_BATCH_ROWS = 8192
_ARROW_MAGIC = b"ARROW1"
_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


def read_parquet(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Parquet file; of a row group that is damaged, what comes after the damage is dropped."""
    with _open(stream, report) as binary:
        try:
            file = pq.ParquetFile(binary)
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Parquet: {_first_line(error)}.") from error
        report.check_rows(file.metadata.num_rows)

        def read(names: list[str] | None) -> Iterator[pa.RecordBatch | Lost]:
            for group in range(file.num_row_groups):
                left = file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
                        left -= batch.num_rows
                        yield batch
                except _ERRORS as error:
                    yield max(0, left), f"row group {group + 1}: {_first_line(error)}"

        yield from read_columns(read, file.schema_arrow, config, report, kept)


def read_arrow(stream: ByteStream, config: ReadConfig, report: ReadReport, kept: Batches | None) -> Iterator[Chunk]:
    """Read a Feather file, or an Arrow file or stream, up to where it is damaged."""
    with _open(stream, report) as binary:
        is_file, file = binary.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC, None
        with suppress(*_ERRORS):
            file = pa.ipc.open_file(binary) if is_file else None

        def open_stream() -> pa.RecordBatchStreamReader:
            # The file format is the stream format between two marks, so that a file without its end is a stream.
            binary.seek(8 if is_file else 0)
            return pa.ipc.open_stream(binary)

        def read(_: list[str] | None) -> Iterator[pa.RecordBatch | Lost]:
            batches = map(file.get_batch, range(file.num_record_batches)) if file else open_stream()
            try:
                for number, batch in enumerate(batches, 1):
                    # A column of nulls takes no bytes, however long it says it is; unsound ones crash what counts them.
                    sound = all(map(_is_sound, batch.columns)) and batch.num_rows <= max(_BATCH_ROWS, 64 * batch.nbytes)
                    yield batch if sound else (batch.num_rows, f"batch {number} contradicts itself")
                if is_file and not file:
                    yield 0, "the file ends too early"
                elif not file and binary.tell() < binary.size():
                    yield 0, f"the stream ends {binary.size() - binary.tell():,} bytes before the file does"
            except _ERRORS as error:
                yield 0, _first_line(error)

        try:
            schema = file.schema if file else open_stream().schema
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Arrow: {_first_line(error)}.") from error
        yield from read_columns(read, schema, config, report, kept)


def _is_sound(column: pa.Array) -> bool:
    """Return whether the buffers of a column fit together; Arrow trusts a file, and reads where they point."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        # Text that is not UTF-8 can be mended, so it is judged as bytes.
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type)
        return as_bytes is not None and _is_sound(column.view(as_bytes))
    return True


@contextmanager
def _open(stream: ByteStream, report: ReadReport) -> Iterator[pa.NativeFile]:
    """Open a file that is not read in order, without its compression."""
    if stream.compression is None:
        with pa.memory_map(str(stream.path)) as mapped:
            yield mapped
        return
    with stream.open() as file:
        if stream.damage is not None:
            report.trouble(DAMAGED, stream.damage)
        yield pa.PythonFile(file, "r")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
