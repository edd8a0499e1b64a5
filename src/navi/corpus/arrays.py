"""Rows, segments and tokens as flat arrays, in memory or in the files of a folder: one shape for every row.

Each array has one name: as a field, and as a file.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.errors import CorpusError

ROLES = ("mid", "low", "high")
"""Names of the role codes in `SegmentArrays.column_role`."""
ROLE_MID, ROLE_LOW, ROLE_HIGH = 0, 1, 2
SPLITS = ("train", "validation", "test", "unseen", "validation_tables")
"""Names of the split codes in `Encoded.row_split`; the last two are tables kept out of training whole."""
TRAIN, VALIDATION, TEST, UNSEEN, VALIDATION_TABLES = range(5)


@dataclass(frozen=True, kw_only=True)
class SegmentArrays:
    """A corpus, or a frame on its way through a model, as integers alone.

    Lists of lists are kept as one flat array and offsets: the segments of row r are
    `row_segments[row_offsets[r]:row_offsets[r + 1]]`, and likewise for tokens. On disk the arrays are memory-mapped.

    **Shape**: R rows, C cells, S distinct segments, H headers, V values, A attributes, K columns (table, header).
    """

    row_offsets: NDArray[np.int64]
    """(R + 1,) where each row begins in `row_segments`."""
    row_segments: NDArray[np.int32]
    """(C,) segment of each cell, row after row."""
    row_table: NDArray[np.int32]
    """(R,) table of each row."""
    segment_attribute: NDArray[np.int32]
    """(S,) attribute of each segment."""
    segment_header: NDArray[np.int32]
    """(S,) header of each segment."""
    segment_value: NDArray[np.int32]
    """(S,) value of each segment."""
    header_offsets: NDArray[np.int64]
    """(H + 1,) where each header's tokens begin."""
    header_tokens: NDArray[np.int32]
    """Tokens of all headers, at least one each."""
    value_offsets: NDArray[np.int64]
    """(V + 1,) where each value's tokens begin."""
    value_tokens: NDArray[np.int32]
    """Tokens of all values, at least one each, cut at the setting `max_value_tokens`."""
    attribute_offsets: NDArray[np.int64]
    """(A + 1,) where each attribute's tokens begin."""
    attribute_tokens: NDArray[np.int32]
    """Tokens of all attributes, at least one each."""
    column_table: NDArray[np.int32]
    """(K,) table of each column; columns are sorted by (table, header)."""
    column_header: NDArray[np.int32]
    """(K,) header of each column."""
    column_attribute: NDArray[np.int32]
    """(K,) attribute of each column."""
    column_role: NDArray[np.int8]
    """(K,) role of each column: ROLE_MID, ROLE_LOW or ROLE_HIGH."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_table)

    @property
    def num_segments(self) -> int:
        """Number of distinct segments."""
        return len(self.segment_value)

    @property
    def num_headers(self) -> int:
        """Number of distinct headers."""
        return len(self.header_offsets) - 1

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.column_table)

    @cached_property
    def cell_row(self) -> NDArray[np.int64]:
        """(C,) row of each cell."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.row_offsets))

    @cached_property
    def cell_column(self) -> NDArray[np.int64]:
        """(C,) column of each cell."""
        table_C = np.repeat(self.row_table, np.diff(self.row_offsets))
        return self.find_columns(table_C, self.segment_header[self.row_segments])

    def find_columns(self, table: NDArray[np.integer], header: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the column of each (table, header)."""
        key = np.asarray(table, np.int64) * self.num_headers + header
        known_K = self.column_table.astype(np.int64) * self.num_headers + self.column_header
        column: NDArray[np.int64] = np.searchsorted(known_K, key)
        assert np.array_equal(known_K.take(column, mode="clip"), key), "a cell without a column"
        return column

    def take_rows(self, rows: NDArray[np.int64]) -> SegmentArrays:
        """Return some rows alone, numbered from 0; segments, headers, values and columns keep their numbers."""
        lengths, places = gather_ranges(self.row_offsets, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return replace(
            self, row_offsets=offsets, row_segments=self.row_segments[places], row_table=self.row_table[rows]
        )

    def count_row_tokens(self) -> NDArray[np.int64]:
        """Tokens of each row as the encoder sees it: [CLS], then header, colon, value and [SEP] of each segment."""
        running = self._sum_tokens()
        tokens: NDArray[np.int64] = 1 + running[self.row_offsets[1:]] - running[self.row_offsets[:-1]]
        return tokens

    def cut_rows(self, max_tokens: int) -> SegmentArrays:
        """Return the rows with those of more than `max_tokens` in parts, each a row of about that length or less."""
        running = self._sum_tokens()
        cell_part = (running[1:] - running[self.row_offsets[self.cell_row]]) // max_tokens
        is_first = np.append(True, (np.diff(self.cell_row) > 0) | (np.diff(cell_part) > 0))[: len(cell_part)]
        return replace(
            self,
            row_offsets=np.append(np.flatnonzero(is_first), len(cell_part)),
            row_table=self.row_table[self.cell_row[is_first]],
        )

    def _sum_tokens(self) -> NDArray[np.int64]:
        """Return the tokens of all cells before each, and behind the last of all: (C + 1,)."""
        lengths_S = (
            np.diff(self.header_offsets)[self.segment_header] + np.diff(self.value_offsets)[self.segment_value] + 2
        )
        return np.concatenate([[0], np.cumsum(lengths_S[self.row_segments], dtype=np.int64)])


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """What is known of K columns, over all rows of their tables; entropy over the rows that train.

    An unseen table has no rows that train: the entropy of its columns comes from all rows, and goes into nothing that
    is learnt.
    """

    entropy: NDArray[np.float64]
    """(K,) normalised entropy; NaN where no row that counts has a cell."""
    entropy_cells: NDArray[np.int64]
    """(K,) number of cells that the entropy is of."""
    fill: NDArray[np.float64]
    """(K,) share of the table's rows that have a cell."""
    distinct: NDArray[np.int64]
    """(K,) number of distinct values."""
    mean_tokens: NDArray[np.float64]
    """(K,) tokens of a cell's value, on average."""
    unknown: NDArray[np.float64]
    """(K,) share of [UNK] among these tokens."""
    cut: NDArray[np.float64]
    """(K,) share of cells whose value was cut."""
    examples: NDArray[np.int32]
    """(K, 3) most frequent values, the first met among equals; -1 where there are fewer."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Rows as lists of segments, with the text behind every number.

    **Shape**: R rows, H headers, V values, A attributes.
    """

    arrays: SegmentArrays
    """Rows, segments and tokens as integers."""
    tables: tuple[str, ...]
    """Name of each table."""
    headers: pa.LargeStringArray
    """(H,) text of each header."""
    values: pa.LargeStringArray
    """(V,) text of each value, whole even where its tokens were cut."""
    attributes: pa.LargeStringArray
    """(A,) text of each attribute."""
    row_number: NDArray[np.int64]
    """(R,) place of each row in its source, from 1."""
    row_hash: NDArray[np.uint64]
    """(R,) hash of each row's content: the same cells in any order give the same hash."""
    row_split: NDArray[np.int8]
    """(R,) split of each row, a place in `SPLITS`; all `train` where tables were not split."""
    columns: ColumnSummary
    """What is known of each column."""

    @classmethod
    def from_arrays(cls, tables: Sequence[str], named: Mapping[str, NDArray[Any]]) -> Encoded:
        """Return the tables that these arrays hold; nothing is copied."""
        return Encoded(
            arrays=SegmentArrays(**{field.name: named[field.name] for field in fields(SegmentArrays)}),
            tables=tuple(tables),
            **{f"{part}s": read_texts(named, f"{part}_text") for part in ("header", "value", "attribute")},
            **{name: named[name] for name in ("row_number", "row_hash", "row_split")},
            columns=ColumnSummary(**{field.name: named[f"column_{field.name}"] for field in fields(ColumnSummary)}),
        )


def read_texts(named: Mapping[str, NDArray[Any]], name: str) -> pa.LargeStringArray:
    """Return the texts that `ArrayStore.append_texts` put under a name."""
    offsets, content = named[f"{name}_offsets"], named[name]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(content))


class ArrayStore:
    """Arrays that grow part by part, each under a name: in memory, or in `.npy` files of a new folder.

    Those of a folder are read memory-mapped; leaving a `with` block completes the files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._parts: dict[str, list[NDArray[Any]]] = {}
        """All parts of each array in memory, or an empty one that shows the type and shape of one in a file."""
        self._lengths: Counter[str] = Counter()
        if folder is not None:
            folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._flush()
        for file in self._files.values():
            file.close()

    def append(self, name: str, part: NDArray[Any]) -> None:
        """Add a part to the end of an array; all parts of one have one type."""
        parts = self._parts.setdefault(name, [])
        assert not parts or parts[0].dtype == part.dtype, f"{name} has parts of different types"
        if self._folder is None:
            parts.append(part)
        else:
            if not parts:
                parts.append(part[:0].copy())
                self._files[name] = (self._folder / f"{name}.npy").open("wb")
                self._write_header(name)
            self._files[name].write(np.ascontiguousarray(part).data)
        self._lengths[name] += len(part)

    def append_lists(self, name: str, offsets_name: str, lengths: NDArray[np.integer], flat: NDArray[Any]) -> None:
        """Add lists of these lengths, laid out flat, to one array and where each ends to another."""
        if not self._lengths[offsets_name]:
            self.append(offsets_name, np.zeros(1, np.int64))
        self.append(offsets_name, self._lengths[name] + np.cumsum(lengths, dtype=np.int64))
        self.append(name, flat)

    def append_texts(self, name: str, texts: pa.StringArray) -> None:
        """Add texts as lists of bytes."""
        _, offsets, content = texts.buffers()
        places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else [0]
        flat = np.frombuffer(content or b"", np.uint8)[places[0] : places[-1]]
        self.append_lists(name, f"{name}_offsets", np.diff(places), flat)

    def read(self) -> dict[str, NDArray[Any]]:
        """Return the arrays as they are now."""
        if self._folder is not None:
            self._flush()
            return read_arrays(self._folder)
        for parts in self._parts.values():
            parts[:] = [np.concatenate(parts)] if len(parts) > 1 else parts
        return {name: part for name, (part,) in self._parts.items()}

    def _flush(self) -> None:
        for name, file in self._files.items():
            file.seek(0)
            self._write_header(name)
            file.seek(0, os.SEEK_END)
            file.flush()

    def _write_header(self, name: str) -> None:
        # numpy leaves room in a header for the first number of the shape to grow.
        header = np.lib.format.header_data_from_array_1_0(self._parts[name][0])
        shape = (self._lengths[name], *header["shape"][1:])
        np.lib.format.write_array_header_1_0(self._files[name], header | {"shape": shape})


def read_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in a folder's `.npy` files by name, memory-mapped."""
    arrays: dict[str, NDArray[Any]] = {}
    for path in sorted(folder.glob("*.npy")):
        try:
            arrays[path.stem] = np.asarray(np.load(path, mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise CorpusError(f"Cannot read {path}: the file is damaged. Prepare the corpus again.") from error
    return arrays


def release(*arrays: NDArray[Any]) -> None:
    """Let go of the memory that holds what was read of memory-mapped arrays; they stay as they are."""
    for base in arrays:
        while isinstance(base, np.ndarray):
            base = base.base  # type: ignore[assignment]
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def gather_ranges(offsets: NDArray[np.int64], ids: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the length of each id's list, and the places of all their members in the flat array, list after list."""
    starts = offsets[ids]
    lengths = offsets[np.asarray(ids, dtype=np.int64) + 1] - starts
    return lengths, np.repeat(starts, lengths) + count_up(lengths)


def count_up(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, … length - 1 for each length, one after the other.

    >>> count_up(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
