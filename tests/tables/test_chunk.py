"""Tests of chunks of cells."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from navi.tables.chunk import Chunk

CHUNK = Chunk(
    headers=("title", "year"),
    cell_row=np.array([0, 0, 1, 3], np.int32),
    cell_header=np.array([0, 1, 0, 1], np.int32),
    cell_value=pa.array(["alien", "1979", "heat", "1995"]),
    row_number=np.array([1, 2, 4, 7]),
)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 4, 9])
def test_both_parts_of_a_cut_chunk_are_the_chunk(num_rows):
    first, others = CHUNK.cut(num_rows)
    assert first.num_rows == min(num_rows, 4)
    assert others.num_rows == 4 - first.num_rows
    assert first.headers == others.headers == CHUNK.headers
    rows = np.concatenate([first.cell_row, others.cell_row + first.num_rows])
    assert rows.tolist() == CHUNK.cell_row.tolist()
    assert [*first.cell_header, *others.cell_header] == CHUNK.cell_header.tolist()
    assert first.cell_value.to_pylist() + others.cell_value.to_pylist() == CHUNK.cell_value.to_pylist()
    assert [*first.row_number, *others.row_number] == CHUNK.row_number.tolist()
