"""The Arrow files of a corpus: one record batch each, so that every column maps to one array."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays
from navi.corpus.encoded import Encoded
from navi.corpus.summary import NUM_EXAMPLES, ColumnSummary
from navi.errors import CorpusError

_BLOCK = 1 << 22


def make_batches(encoded: Encoded) -> dict[str, pa.RecordBatch]:
    """Return the content of each file of a corpus, nothing copied."""
    arrays, columns = encoded.arrays, encoded.columns
    return {
        "rows.arrow": _make_batch(
            table=arrays.row_table,
            split=encoded.row_split,
            number=encoded.row_number,
            hash=encoded.row_hash,
            segments=_make_lists(arrays.row_offsets, arrays.row_segments),
        ),
        "segments.arrow": _make_batch(
            attribute=arrays.segment_attribute, header=arrays.segment_header, value=arrays.segment_value
        ),
        "values.arrow": _make_batch(text=encoded.values, tokens=_make_lists(arrays.value_offsets, arrays.value_tokens)),
        "headers.arrow": _make_batch(
            text=encoded.headers, tokens=_make_lists(arrays.header_offsets, arrays.header_tokens)
        ),
        "attributes.arrow": _make_batch(
            text=encoded.attributes, tokens=_make_lists(arrays.attribute_offsets, arrays.attribute_tokens)
        ),
        "columns.arrow": _make_batch(
            **{name: array for name, array in vars(columns).items() if name != "examples"},
            examples=pa.FixedSizeListArray.from_arrays(pa.array(columns.examples.ravel()), NUM_EXAMPLES),
        ),
    }


def _make_batch(**columns: NDArray[Any] | pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {name: _make_array(each) if isinstance(each, np.ndarray) else each for name, each in columns.items()}
    )


def _make_array(array: NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)], null_count=0
    )


def _make_lists(offsets: NDArray[np.int64], flat: NDArray[np.int32]) -> pa.LargeListArray:
    return pa.Array.from_buffers(
        pa.large_list(pa.int32()),
        len(offsets) - 1,
        [None, pa.py_buffer(offsets)],
        null_count=0,
        children=[_make_array(flat)],
    )


def write_batch(path: Path, batch: pa.RecordBatch, files: Mapping[int, Path]) -> str:
    """Write the batch as an Arrow file that is safely on disk, and return its SHA-256.

    Arrays that are also in one of `files` (by address) are copied from there block by block: writing them out of a
    memory map would count all of it as this process's memory.
    """
    with path.open("wb", buffering=0) as file:
        sink = _Sink(file, files)
        with pa.PythonFile(sink, "w") as stream, pa.ipc.new_file(stream, batch.schema) as writer:
            writer.write_batch(batch)
        os.fsync(file.fileno())
    return sink.digest.hexdigest()


class _Sink(io.RawIOBase):
    """Passes on what Arrow writes, and hashes it."""

    def __init__(self, file: io.FileIO, files: Mapping[int, Path]) -> None:
        self.digest = hashlib.sha256()
        self._file, self._files = file, files

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: Any) -> int:
        source = self._files.get(data.address) if isinstance(data, pa.Buffer) else None
        if source is None:
            return self._pass_on(data)
        with source.open("rb", buffering=0) as content:
            while block := content.read(_BLOCK):
                self._pass_on(block)
        return len(data)

    def _pass_on(self, block: Any) -> int:
        self.digest.update(block)
        return self._file.write(block) or 0


def read_batch(path: Path) -> pa.RecordBatch:
    """Return the content of an Arrow file, memory-mapped."""
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise CorpusError(
            f"Cannot read {path}: the file is missing or damaged ({error}). Prepare the corpus again."
        ) from error


def read_encoded(batches: Mapping[str, pa.RecordBatch], tables: Sequence[str]) -> Encoded:
    """Return the content of a corpus's files as arrays; the inverse of `make_batches`, nothing copied."""
    rows, segments = batches["rows.arrow"], batches["segments.arrow"]
    columns = batches["columns.arrow"]
    facts = {name: _read_array(columns, name) for name in columns.schema.names if name != "examples"}
    lists = {"row": (rows, "segments")} | {
        name: (batches[f"{name}s.arrow"], "tokens") for name in ("header", "value", "attribute")
    }
    arrays = SegmentArrays(
        row_table=_read_array(rows, "table"),
        **{f"segment_{name}": _read_array(segments, name) for name in segments.schema.names},
        **{f"{owner}_offsets": _view(batch.column(name).offsets) for owner, (batch, name) in lists.items()},
        **{f"{owner}_{name}": _view(batch.column(name).values) for owner, (batch, name) in lists.items()},
        **{f"column_{name}": facts[name] for name in ("table", "header", "attribute", "role")},
    )
    return Encoded(
        arrays=arrays,
        tables=tuple(tables),
        headers=batches["headers.arrow"].column("text"),
        values=batches["values.arrow"].column("text"),
        attributes=batches["attributes.arrow"].column("text"),
        row_number=_read_array(rows, "number"),
        row_hash=_read_array(rows, "hash"),
        row_split=_read_array(rows, "split"),
        columns=ColumnSummary(**facts, examples=_view(columns.column("examples").values).reshape(-1, NUM_EXAMPLES)),
    )


def _read_array(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return _view(batch.column(name))


def _view(array: pa.Array) -> NDArray[Any]:
    """Return an array of numbers as numpy, nothing copied; pyarrow's own way would import pandas."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    content = array.buffers()[1]
    if content is None:
        return np.zeros(0, dtype)
    return np.frombuffer(content, dtype, count=len(array), offset=array.offset * dtype.itemsize)
