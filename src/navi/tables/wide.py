"""Chunks put back together as one wide table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from navi.tables.chunk import Chunk


def to_arrow(chunks: Iterable[Chunk]) -> pa.Table:
    """Make a table of strings, a column for each header in order of first appearance, absent cells null."""
    tables = [_widen(chunk) for chunk in chunks]
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _widen(chunk: Chunk) -> pa.Table:
    columns = []
    for header in range(len(chunk.headers)):
        cells = np.flatnonzero(chunk.cell_header == header)
        place = np.full(chunk.num_rows, -1, dtype=np.int64)
        place[chunk.cell_row[cells]] = cells
        columns.append(chunk.cell_value.take(pa.array(place, mask=place < 0)))
    return pa.table(columns, names=list(chunk.headers))
