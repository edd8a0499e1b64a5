"""Pieces on disk, between the process that encodes them and the one that merges them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.pieces import Piece
from navi.corpus.tokens import TokenLists
from navi.corpus.vocabulary import FieldCount

_SEGMENT_ARRAYS = ("value_hash", "segment_header", "segment_value")
_ROW_ARRAYS = ("row_offsets", "row_segments", "row_number", "row_hash", "row_tokens")
_ARRAYS = _SEGMENT_ARRAYS + _ROW_ARRAYS
_TOKEN_ARRAYS = ("offsets", "tokens", "unknown", "cut")


class PieceWriter:
    """Writes the pieces of one source to a file, one record batch each."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "wb")
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None

    def write(self, piece: Piece) -> None:
        """Append a piece."""
        batch = _to_batch(piece)
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._file, batch.schema)
        self._stream.write_batch(batch)

    def close(self) -> None:
        """Complete the file."""
        if self._stream is not None:
            self._stream.close()
        self._file.close()


def read_pieces(path: Path) -> Iterator[Piece]:
    """Yield the pieces of a file, holding one at a time in memory."""
    with pa.OSFile(str(path)) as file:
        if not file.size():
            return
        for batch in pa.ipc.open_stream(file):
            yield _from_batch(batch)


def _to_batch(piece: Piece) -> pa.RecordBatch:
    """Return a batch of one row in which each array of the piece is one list."""
    arrays: dict[str, Any] = {name: getattr(piece, name) for name in _ARRAYS}
    arrays |= {f"value_tokens.{name}": getattr(piece.value_tokens, name) for name in _TOKEN_ARRAYS}
    arrays["value_tokens.cut"] = piece.value_tokens.cut.view(np.uint8)
    arrays["counts"] = np.array([*piece.fields, piece.num_beyond], np.int64)
    columns = {name: pa.array(array) for name, array in arrays.items()}
    columns |= {"headers": pa.array(piece.headers, pa.string()), "values": piece.values}
    lists = {name: pa.LargeListArray.from_arrays([0, len(column)], column) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(lists)


def _from_batch(batch: pa.RecordBatch) -> Piece:
    def read(name: str) -> NDArray[Any]:
        array: NDArray[Any] = batch.column(name).values.to_numpy()
        return array

    text, bad, beyond = read("counts").tolist()
    tokens = {name: read(f"value_tokens.{name}") for name in _TOKEN_ARRAYS}
    return Piece(
        **{name: read(name) for name in _ARRAYS},
        headers=tuple(batch.column("headers").values.to_pylist()),
        values=batch.column("values").values,
        value_tokens=TokenLists(**tokens | {"cut": tokens["cut"].view(np.bool_)}),
        fields=FieldCount(text, bad),
        num_beyond=beyond,
    )
