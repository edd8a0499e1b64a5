"""Parquet, Feather and Arrow files, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from navi.errors import TableError
from navi.tables.chunk import Chunk
from navi.tables.columns import ColumnReader, find_whole, may_be_whole
from navi.tables.compression import ByteStream
from navi.tables.config import ReadConfig
from navi.tables.delimited import name_columns
from navi.tables.readreport import CUT_OFF, DAMAGED, ReadReport

_BATCH_ROWS = 8192
_ARROW_MAGIC = b"ARROW1\0\0"
_ERRORS = (pa.ArrowException, OSError)


def read_parquet(stream: ByteStream, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read a Parquet file; of a row group that is damaged, what comes after the damage is dropped."""
    with _open(stream, report) as binary:
        try:
            file = pq.ParquetFile(binary)
        except _ERRORS as error:
            raise TableError(f"Cannot read {stream.path} as Parquet: {_first_line(error)}.") from error
        headers = report.headers = name_columns(file.schema_arrow.names, report)
        reader = ColumnReader(headers, _find_whole_parquet(file, headers, config), config, report)
        for group in range(file.num_row_groups):
            yield from _read_group(file, group, reader, report)


def _read_group(file: pq.ParquetFile, group: int, reader: ColumnReader, report: ReadReport) -> Iterator[Chunk]:
    left = file.metadata.row_group(group).num_rows
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group])
    while left:
        try:
            batch = next(batches)
        except _ERRORS as error:
            first = reader.skip(left)
            report.trouble(DAMAGED, f"row group {group + 1}: {_first_line(error)}", first)
            report.drop(CUT_OFF, first, f"{left} rows of row group {group + 1}", left)
            return
        left -= batch.num_rows
        yield from reader.read(batch)


def _find_whole_parquet(file: pq.ParquetFile, headers: list[str], config: ReadConfig) -> frozenset[str]:
    schema = file.schema_arrow
    header_of = dict(zip(schema.names, headers, strict=True))
    names = [field.name for field in schema if may_be_whole(field.type)]
    if not names:
        return frozenset()
    if len(header_of) == len(headers):
        return find_whole((_rename(batch, header_of) for batch in _read_good(file, names)), config)
    # Columns that share a name cannot be picked by it.
    return find_whole((batch.rename_columns(headers) for batch in _read_good(file, None)), config)


def _read_good(file: pq.ParquetFile, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file up to the damage of each row group."""
    for group in range(file.num_row_groups):
        try:
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names)
        except _ERRORS:
            # Entered when the rows themselves are read.
            continue


def _rename(batch: pa.RecordBatch, header_of: dict[str, str]) -> pa.RecordBatch:
    return batch.rename_columns([header_of[name] for name in batch.schema.names])


def read_arrow(stream: ByteStream, config: ReadConfig, report: ReadReport) -> Iterator[Chunk]:
    """Read a Feather file, or an Arrow file or stream, up to where it is damaged."""
    with _open(stream, report) as binary:
        batches = _ArrowBatches(binary, stream.path)
        headers = report.headers = name_columns(batches.schema.names, report)
        whole: frozenset[str] = frozenset()
        if any(may_be_whole(field.type) for field in batches.schema):
            sound = (batch.rename_columns(headers) for batch in batches.read() if is_sound(batch))
            whole = find_whole(sound, config)
        reader = ColumnReader(headers, whole, config, report)
        for number, batch in enumerate(batches.read(), 1):
            if is_sound(batch):
                yield from reader.read(batch)
            else:
                first = reader.skip(batch.num_rows)
                report.trouble(DAMAGED, f"batch {number} contradicts itself", first)
                report.drop(CUT_OFF, first, f"{batch.num_rows} rows of batch {number}", batch.num_rows)
        if batches.damage is not None:
            report.trouble(DAMAGED, batches.damage, reader.skip(0))


class _ArrowBatches:
    """The batches of an Arrow file or stream, up to where it is damaged; `damage` says how."""

    def __init__(self, binary: pa.NativeFile, path: Path) -> None:
        self._binary = binary
        self.damage: str | None = None
        self._file: pa.RecordBatchFileReader | None = None
        # The file format is the stream format between two marks, so a file without its end is still a stream.
        self._start = len(_ARROW_MAGIC) if binary.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC else 0
        try:
            self.schema: pa.Schema = self._open_stream().schema
        except _ERRORS as error:
            raise TableError(f"Cannot read {path} as Arrow: {_first_line(error)}.") from error
        if self._start:
            try:
                self._file = pa.ipc.open_file(binary)
            except _ERRORS as error:
                self.damage = _first_line(error)

    def _open_stream(self) -> pa.RecordBatchStreamReader:
        self._binary.seek(self._start)
        return pa.ipc.open_stream(self._binary)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches from the first."""
        batches = self._read_file(self._file) if self._file is not None else iter(self._open_stream())
        while True:
            try:
                batch = next(batches, None)
            except _ERRORS as error:
                self.damage = _first_line(error)
                return
            if batch is None:
                return
            yield batch

    @staticmethod
    def _read_file(file: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
        for index in range(file.num_record_batches):
            yield file.get_batch(index)


def is_sound(batch: pa.RecordBatch) -> bool:
    """Tell whether the buffers of a batch fit together; Arrow trusts a file, and reads where they point."""
    return all(map(_is_sound_column, batch.columns))


def _is_sound_column(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        # Text that is not UTF-8 can be mended, so it is judged as bytes.
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type)
        return as_bytes is not None and _is_sound_column(column.view(as_bytes))
    return True


@contextmanager
def _open(stream: ByteStream, report: ReadReport) -> Iterator[pa.NativeFile]:
    """Open a file that is not read in order, without its compression."""
    if stream.compression is None:
        with pa.memory_map(str(stream.path)) as mapped:
            yield mapped
        return
    with stream.spool() as file:
        if stream.damage is not None:
            report.trouble(DAMAGED, stream.damage)
        yield pa.PythonFile(file, "r")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
