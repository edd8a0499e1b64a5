"""Segments of a few tables with their roles, kept for maps of how they lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLES, SegmentArrays
from navi.randomness import fold, make_key, order_keys, permute
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder
from navi_paper.metrics import measure_silhouette
from navi_paper.task import Outcome, Task

# Shape suffixes: C cells, K columns.

PURPOSE = 7
"""Sets the draws apart from other tasks'."""
TABLES = 5
"""Tables on a map."""
SEGMENTS = 150
"""Segments of each role of each table, at most: 1,500 in all."""
ROWS = 150
"""Rows of a table that they are drawn from, at most."""
MAX_TEXT = 80
"""Letters of a value that are kept."""
Ints = NDArray[np.int64]


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Keep low and high segments of five known tables: `segments`, and `role`, `table`, `header`, `value` of each.

    Measures: `segments`, `tables`, and `role_silhouette`, how well the roles lie apart (by cosine).
    """
    tables = choose_tables(bench)
    rows = bench.draw_rows("test", None)
    rows = rows[np.isin(bench.corpus.arrays.row_table[rows], tables)]
    rows = _draw_rows(bench, rows)
    if not len(rows):
        return Outcome({})
    taken = bench.corpus.arrays.take_rows(rows)
    cells = _draw_cells(bench, taken)
    embedded = encoder.embed(taken, np.arange(len(rows)), parts=("segments",))["segments"][cells]
    segments = taken.row_segments[cells]
    corpus = bench.corpus
    values = corpus.values.take(np.asarray(taken.segment_value[segments])).to_pylist()
    role = np.array(ROLES)[taken.column_role[taken.cell_column[cells]]]
    silhouette = measure_silhouette(embedded, role)
    measures = {"segments": float(len(cells)), "tables": float(len(np.unique(taken.row_table)))}
    return Outcome(
        measures if silhouette is None else {**measures, "role_silhouette": silhouette},
        {
            "segments": embedded.astype(np.float16),
            "role": role,
            "table": np.array(corpus.tables)[taken.row_table[taken.cell_row[cells]]],
            "header": np.array(corpus.headers.take(np.asarray(taken.segment_header[segments])).to_pylist()),
            "value": np.array([value[:MAX_TEXT] for value in values]),
        },
    )


def choose_tables(bench: Bench) -> Ints:
    """Draw five tables among the ten with most low or high columns, of those that have both and test rows."""
    arrays = bench.corpus.arrays
    num_tables = len(bench.corpus.tables)
    low, high = (
        np.bincount(arrays.column_table[arrays.column_role == role], minlength=num_tables)
        for role in (ROLE_LOW, ROLE_HIGH)
    )
    rows = bench.draw_rows("test", None)
    tested = np.bincount(arrays.row_table[rows], minlength=num_tables) > 0
    fit = np.flatnonzero((low > 0) & (high > 0) & tested)
    richest = fit[np.argsort(-(low + high)[fit], kind="stable")[: 2 * TABLES]]
    drawn = permute(make_key(bench.config.seed, PURPOSE), len(richest))[:TABLES]
    return np.sort(richest[drawn])


def _draw_rows(bench: Bench, rows: Ints) -> Ints:
    """Return at most ROWS rows of each table, ascending."""
    table = bench.corpus.arrays.row_table[rows].astype(np.int64)
    keys = fold(make_key(bench.config.seed, PURPOSE), rows)
    return np.sort(rows[_draw_members(table, keys, min(ROWS, bench.config.rows))])


def _draw_cells(bench: Bench, taken: SegmentArrays) -> Ints:
    """Return at most SEGMENTS low and as many high cells of each table, ascending."""
    column_C = taken.cell_column
    role_C = taken.column_role[column_C]
    cells = np.flatnonzero((role_C == ROLE_LOW) | (role_C == ROLE_HIGH))
    group = taken.column_table[column_C[cells]].astype(np.int64) * len(ROLES) + role_C[cells]
    keys = fold(make_key(bench.config.seed, PURPOSE, 1), cells)
    return np.sort(cells[_draw_members(group, keys, SEGMENTS)])


def _draw_members(group: Ints, keys: Ints, limit: int) -> Ints:
    """Return the places of at most `limit` members of each group, those with the least keys."""
    order = np.lexsort((order_keys(keys), group))
    ranked = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return order[rank < limit]


GEOMETRY = Task(name="geometry", run=run)
"""Segments of five tables."""
