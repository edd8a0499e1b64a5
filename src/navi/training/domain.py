"""What a model directory knows of the domain it was trained on: its headers, and the values of its closed columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.errors import ModelError

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns, S distinct segments, C cells.

HEADERS_FILE, VALUES_FILE = "headers.arrow", "values.arrow"
MAX_DISTINCT = 2000
"""Attributes with more distinct training values than this are open: their values are not listed."""
ROWS_AT_ONCE = 100_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The headers and values of the training rows; validation, test and unseen rows have no part in it."""

    headers: pa.Table
    """One line a header and attribute: `header`, `attribute`, `rows` that have it, `tables` with it; most first."""
    values: pa.Table
    """One line a value of an attribute with few distinct ones: `attribute`, `value`, `count`; most frequent first."""

    def save(self, folder: Path) -> None:
        """Write both lists as Arrow files."""
        for name, table in ((HEADERS_FILE, self.headers), (VALUES_FILE, self.values)):
            with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the domain of a model directory; the lists stay on disk, memory-mapped."""
        return cls(headers=_read(Path(folder) / HEADERS_FILE), values=_read(Path(folder) / VALUES_FILE))


def survey_domain(corpus: Corpus) -> Domain:
    """Return the headers and values of a corpus's training rows."""
    rows_K, count_S = count_cells(corpus.arrays, corpus.rows_of("train"))
    return Domain(headers=_list_headers(corpus, rows_K), values=_list_values(corpus, count_S))


def count_cells(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return in how many of the rows each column, and each segment, has a cell: (K,) and (S,)."""
    rows_K = np.zeros(arrays.num_columns, dtype=np.int64)
    count_S = np.zeros(arrays.num_segments, dtype=np.int64)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[first : first + ROWS_AT_ONCE]
        lengths, cells = gather_ranges(arrays.row_offsets, part)
        segment_C = arrays.row_segments[cells]
        column_C = arrays.find_columns(np.repeat(arrays.row_table[part], lengths), arrays.segment_header[segment_C])
        rows_K += np.bincount(column_C, minlength=len(rows_K))
        count_S += np.bincount(segment_C, minlength=len(count_S))
    return rows_K, count_S


def _list_headers(corpus: Corpus, rows_K: Ints) -> pa.Table:
    arrays = corpus.arrays
    used = np.flatnonzero(rows_K)
    pairs = np.stack([arrays.column_header[used], arrays.column_attribute[used]])
    (header, attribute), group = np.unique(pairs, axis=1, return_inverse=True)
    group = group.reshape(-1)
    rows = np.bincount(group, weights=rows_K[used], minlength=len(header)).astype(np.int64)
    order = np.lexsort((header, -rows))
    by_group = used[np.argsort(group, kind="stable")]
    lists = np.split(arrays.column_table[by_group], np.cumsum(np.bincount(group, minlength=len(header)))[:-1])
    return pa.table(
        {
            "header": corpus.headers.take(pa.array(header[order])),
            "attribute": corpus.attributes.take(pa.array(attribute[order])),
            "rows": rows[order],
            "tables": pa.array([[corpus.tables[t] for t in lists[i]] for i in order], pa.list_(pa.string())),
        }
    )


def _list_values(corpus: Corpus, count_S: Ints) -> pa.Table:
    arrays = corpus.arrays
    used = np.flatnonzero(count_S)
    pairs = np.stack([arrays.segment_attribute[used], arrays.segment_value[used]])
    (attribute, value), group = np.unique(pairs, axis=1, return_inverse=True)
    count = np.bincount(group.reshape(-1), weights=count_S[used], minlength=len(attribute)).astype(np.int64)
    distinct = np.bincount(attribute, minlength=len(corpus.attributes))
    closed = np.flatnonzero(distinct[attribute] <= MAX_DISTINCT)
    order = closed[np.lexsort((value[closed], -count[closed], attribute[closed]))]
    return pa.table(
        {
            "attribute": corpus.attributes.take(pa.array(attribute[order])),
            "value": corpus.values.take(pa.array(value[order])),
            "count": count[order],
        }
    )


def _read(file: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise ModelError(f"Cannot read {file}: {error}. Expected a model directory made by pretraining.") from error
