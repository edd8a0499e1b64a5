"""Gold concepts of columns, and the tables of a corpus's split as rows of text."""

# needs: nothing; other benchmarks import it.
from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from navi.columns.profiles import shuffle_rows
from navi.corpus import Corpus
from navi.corpus.arrays import gather_ranges
from navi.corpus.hashing import hash_texts


def read_concepts(file: Path) -> dict[tuple[str, str], str]:
    """Return {(table, header): concept} from a CSV file with these columns."""
    with file.open(encoding="utf-8", newline="") as lines:
        return {(line["table"], line["header"]): line["concept"] for line in csv.DictReader(lines)}


def list_frames(
    corpus: Corpus, split: str, num_rows: int, num_tables: int | None = None
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield (table, rows) for the tables that a split has rows of, each with at most so many of them."""
    arrays = corpus.arrays
    rows = shuffle_rows(corpus, corpus.rows_of(split), num_rows)
    present = np.unique(arrays.row_table[rows])
    if num_tables is not None:
        drawn = hash_texts([corpus.tables[table] for table in present])
        present = np.sort(present[np.argsort(drawn)[:num_tables]])
    for table in present.tolist():
        own = np.sort(rows[arrays.row_table[rows] == table])
        yield corpus.tables[table], write_rows(corpus, own)


def write_rows(corpus: Corpus, rows: np.ndarray) -> list[dict[str, str]]:
    """Return rows as dictionaries of text."""
    arrays = corpus.arrays
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segments = arrays.row_segments[cells]
    headers = corpus.headers.take(arrays.segment_header[segments]).to_pylist()
    values = corpus.values.take(arrays.segment_value[segments]).to_pylist()
    ends = np.cumsum(lengths)
    return [
        dict(zip(headers[end - length : end], values[end - length : end], strict=True))
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    ]
