"""Vectors of rows with a class, kept for classifiers: label and whatever gives it away are hidden from the encoder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.randomness import fold, make_key, order_keys
from navi_paper.bench import Bench
from navi_paper.columns import find_numeric_columns
from navi_paper.encoder import TableEncoder
from navi_paper.labels import (
    FEW_ROWS,
    SINGLE_TABLES,
    Labelled,
    draw_pool,
    find_revealing_columns,
    keep_classes,
    list_hidden,
    make_single_table,
    read_labels,
    read_single_table,
)
from navi_paper.task import Outcome, Task
from navi_paper.views import hide_columns

# Shape suffixes: N labelled rows, K columns, D hidden size.

PURPOSE = 6
"""Sets the draws of rows apart from other tasks'."""
VARIANTS_OF = ("bert", "navi-paper", "navi")
"""The encoders whose rows are embedded in every variant too: each takes as much room as the whole."""
Bools = NDArray[np.bool_]


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Keep the row vectors of the gold's classes, of their two variants, and of each single table's classes.

    Arrays: `vectors_rows` and `vectors_means` (N, D), `labels`, `row` and `table` (N,); the same behind `text_only/`,
    `partial_text/` and `NAME/` of each single table. Measures: `rows`, `classes`, and `few_test_rows`, the number of
    classes that take every held-out row because fewer than 100 of theirs are in the test split; behind names likewise.
    """
    gold = bench.gold.labels
    kept: dict[str, Outcome] = {}
    pool = draw_pool(bench, read_labels(bench.corpus, gold), PURPOSE)
    if len(pool.rows):
        kept = _embed_variants(encoder, bench, pool, find_revealing_columns(bench.corpus, list_hidden(gold)))
    for name, entry in gold.get(SINGLE_TABLES, {}).items():
        single = make_single_table(name, entry)
        pool = draw_pool(bench, read_single_table(bench.corpus, single), PURPOSE)
        pool = keep_classes(pool, single.min_rows, single.max_classes)
        hidden_K = find_revealing_columns(bench.corpus, {single.table: (single.label, *single.hide)})
        pool = pool.keep(find_filled(bench, pool, hidden_K))
        if len(pool.rows):
            kept[f"{name}/"] = _embed_pool(encoder, bench, pool, hidden_K)
    measures = {f"{name}{key}": value for name, each in kept.items() for key, value in each.measures.items()}
    arrays = {f"{name}{key}": array for name, each in kept.items() for key, array in each.arrays.items()}
    return Outcome(measures, arrays)


def _embed_variants(encoder: TableEncoder, bench: Bench, pool: Labelled, hidden_K: Bools) -> dict[str, Outcome]:
    """Embed the same rows in every variant that is asked of the encoder: those that have a cell left in each."""
    numeric_K = find_numeric_columns(bench)
    variants = {
        "": hidden_K,
        "text_only/": hidden_K | numeric_K,
        "partial_text/": hidden_K | draw_half(bench, ~numeric_K & ~hidden_K),
    }
    for each in variants.values():
        pool = pool.keep(find_filled(bench, pool, each))
    asked = variants if encoder.name in VARIANTS_OF else {"": hidden_K}
    return {name: _embed_pool(encoder, bench, pool, each) for name, each in asked.items() if len(pool.rows)}


def draw_half(bench: Bench, eligible_K: Bools) -> Bools:
    """Choose half of each table's eligible columns, rounded down: (K,)."""
    columns = np.flatnonzero(eligible_K)
    table = bench.corpus.arrays.column_table[columns]
    keys = order_keys(fold(make_key(bench.config.seed, PURPOSE), columns))
    order = np.lexsort((keys, table))
    rank = np.arange(len(order)) - np.searchsorted(table, table)
    count = np.searchsorted(table, table, side="right") - np.searchsorted(table, table)
    chosen = np.zeros(len(eligible_K), dtype=np.bool_)
    chosen[columns[order[rank < count // 2]]] = True
    return chosen


def find_filled(bench: Bench, pool: Labelled, hidden_K: Bools) -> Bools:
    """Tell which rows have a cell in a column that is not hidden: (N,)."""
    taken = bench.corpus.arrays.take_rows(pool.rows)
    shown = ~hidden_K[taken.cell_column]
    running = np.concatenate([[0], np.cumsum(shown)])
    filled: Bools = running[taken.row_offsets[1:]] > running[taken.row_offsets[:-1]]
    return filled


def _embed_pool(encoder: TableEncoder, bench: Bench, pool: Labelled, hidden_K: Bools) -> Outcome:
    """Return the vectors of rows without their hidden columns, and how many there are."""
    view = hide_columns(bench.corpus.arrays.take_rows(pool.rows), hidden_K)
    found = encoder.embed(view, np.arange(len(pool.rows)), parts=("rows", "means"))
    tested = np.isin(pool.rows, bench.corpus.rows_of("test"))
    classes = np.unique(pool.labels)
    few = sum(int((tested & (pool.labels == label)).sum() < FEW_ROWS) for label in classes)
    return Outcome(
        {"rows": float(len(pool.rows)), "classes": float(len(classes)), "few_test_rows": float(few)},
        {
            "vectors_rows": found["rows"].astype(np.float16),
            "vectors_means": found["means"].astype(np.float16),
            "labels": pool.labels,
            "row": pool.rows,
            "table": np.array(bench.corpus.tables, dtype=np.str_)[bench.corpus.arrays.row_table[pool.rows]],
        },
    )


ROW_VECTORS = Task(name="row_vectors", run=run, needs=("labels",))
"""Row vectors for classifiers."""
