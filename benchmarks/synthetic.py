"""Rows of a set length for speed measurements: no files, no words, only token numbers."""

from __future__ import annotations

import numpy as np

from navi.batches import SpecialTokens
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID, SegmentArrays

# needs: nothing; other benchmarks import it.
VOCABULARY = 30522
SPECIAL = SpecialTokens(cls=101, sep=102, colon=1024, comma=1010, mask=103, regular=np.arange(1000, VOCABULARY))


def make_arrays(
    num_rows: int,
    *,
    tokens_per_row: int = 96,
    num_tables: int = 32,
    num_columns: int = 10,
    num_values: int | None = None,
    seed: int = 0,
) -> SegmentArrays:
    """Return a corpus whose rows have about `tokens_per_row` tokens in `num_columns` segments."""
    generator = np.random.default_rng(seed)
    num_headers, num_values = num_tables * num_columns, num_values or 20 * num_rows
    header_lengths = generator.integers(1, 4, num_headers)
    room = (tokens_per_row - 1) / num_columns - 2 - header_lengths.mean()
    value_lengths = np.maximum(1, generator.poisson(room - 1, num_values) + 1)
    table = np.sort(generator.integers(0, num_tables, num_rows)).astype(np.int32)
    header = (table[:, None] * num_columns + np.arange(num_columns)).reshape(-1)
    value = generator.integers(0, num_values, len(header))
    headers = np.arange(num_headers, dtype=np.int32)
    roles = np.full(num_columns, ROLE_MID)
    roles[0], roles[-1] = ROLE_LOW, ROLE_HIGH
    return SegmentArrays(
        row_offsets=np.arange(num_rows + 1, dtype=np.int64) * num_columns,
        row_segments=np.arange(len(header), dtype=np.int32),
        row_table=table,
        segment_attribute=header.astype(np.int32),
        segment_header=header.astype(np.int32),
        segment_value=value.astype(np.int32),
        header_offsets=_offsets(header_lengths),
        header_tokens=generator.integers(1000, VOCABULARY, header_lengths.sum()).astype(np.int32),
        value_offsets=_offsets(value_lengths),
        value_tokens=generator.integers(1000, VOCABULARY, value_lengths.sum()).astype(np.int32),
        attribute_offsets=_offsets(header_lengths),
        attribute_tokens=generator.integers(1000, VOCABULARY, header_lengths.sum()).astype(np.int32),
        column_table=np.repeat(np.arange(num_tables), num_columns).astype(np.int32),
        column_header=headers,
        column_attribute=headers,
        column_role=np.tile(roles, num_tables).astype(np.int8),
    )


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
