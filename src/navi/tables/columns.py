"""Columns of Arrow batches turned into the cells of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.tables.cells import assemble, clean_header, name_apart
from navi.tables.chunk import Chunk
from navi.tables.config import ReadConfig
from navi.tables.families import Flattener
from navi.tables.readreport import ReadReport
from navi.tables.text import has_whole_form, is_whole, write_text

MAX_BYTES = 1 << 25
"""Bytes of columns after which a chunk is full, however few its rows."""
MAX_CELLS = 1 << 23
"""Cells of a chunk, absent ones included, beyond which it is halved."""

# Shape suffixes: C cells, R rows, K flat columns.


def find_whole(batches: Iterable[pa.RecordBatch], config: ReadConfig) -> frozenset[str]:
    """Return the flat headers of float columns that are whole and timestamp columns that are dates throughout."""
    whole: dict[str, bool] = {}
    for batch in batches:
        flattener = Flattener(config.max_family, count=False)
        for header, column in zip(batch.schema.names, batch.columns, strict=True):
            for name, array in flattener.flatten(header, column):
                if has_whole_form(array.type):
                    whole[name] = whole.get(name, True) and is_whole(array)
    return frozenset(name for name, all_whole in whole.items() if all_whole)


def may_be_whole(kind: pa.DataType) -> bool:
    """Tell whether a type has floats or timestamps within."""
    if has_whole_form(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return may_be_whole(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return may_be_whole(kind.value_type)
    return any(may_be_whole(kind.field(index).type) for index in range(kind.num_fields))


class ColumnReader:
    """Makes chunks of batches that share their columns."""

    def __init__(self, headers: list[str], whole: frozenset[str], config: ReadConfig, report: ReadReport) -> None:
        self._headers = headers
        self._whole = whole
        self._config = config
        self._report = report
        self._next_number = 1

    def skip(self, num_rows: int) -> int:
        """Count rows that could not be read, and return the number of the first."""
        first = self._next_number
        self._next_number += num_rows
        return first

    def read(self, batch: pa.RecordBatch) -> Iterator[Chunk]:
        """Yield the chunks of the next batch."""
        bytes_a_row = max(1, batch.nbytes // max(1, batch.num_rows))
        rows = max(1, min(self._config.chunk_rows, MAX_BYTES // bytes_a_row))
        for start in range(0, batch.num_rows, rows):
            yield from self._read_part(batch.slice(start, rows))

    def _read_part(self, part: pa.RecordBatch) -> Iterator[Chunk]:
        flattener = Flattener(self._config.max_family)
        flat = [
            named
            for header, column in zip(self._headers, part.columns, strict=True)
            for named in flattener.flatten(header, column)
        ]
        if len(flat) * part.num_rows > MAX_CELLS and part.num_rows > 1:
            half = part.num_rows // 2
            yield from self._read_part(part.slice(0, half))
            yield from self._read_part(part.slice(half))
            return
        number_R = np.arange(self._next_number, self._next_number + part.num_rows, dtype=np.int64)
        self._next_number += part.num_rows
        flattener.report(number_R, self._report)
        columns_K = [write_text(array, name in self._whole, name, number_R, self._report) for name, array in flat]
        if not columns_K:
            columns_K = [pa.nulls(part.num_rows, pa.string())]
        row_C, header_C, value_C = _interleave(columns_K)
        names = self._name_apart([name for name, _ in flat] or [""])
        chunk = assemble(names, row_C, header_C, value_C, number_R, self._report)
        if chunk is not None:
            yield chunk

    def _name_apart(self, names: list[str]) -> list[str]:
        """Tell flat headers apart that became the same, as the member `b` of `a` and a column called `a.b`."""
        taken = {clean_header(name) for name in names}
        seen: set[str] = set()
        told: list[str] = []
        for name in map(clean_header, names):
            told.append(name_apart(name, taken) if name in seen else name)
            if name in seen:
                self._report.note(f"header {name!r} appears more than once in a row: told apart as {told[-1]!r}")
            seen.add(name)
        return told


def _interleave(columns_K: list[pa.Array]) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.StringArray]:
    """Return row, column and value of the cells that are not empty, row after row."""
    filled_KR = np.stack([np.asarray(pc.fill_null(pc.binary_length(column), 0)) > 0 for column in columns_K])
    by_column = pa.concat_arrays(
        [column.filter(pa.array(filled_R)) for column, filled_R in zip(columns_K, filled_KR, strict=True)]
    )
    place_KR = (np.cumsum(filled_KR) - 1).reshape(filled_KR.shape)
    row_C, header_C = np.nonzero(filled_KR.T)
    value_C = by_column.take(pa.array(place_KR.T[filled_KR.T]))
    return row_C.astype(np.int32), header_C.astype(np.int32), value_C
