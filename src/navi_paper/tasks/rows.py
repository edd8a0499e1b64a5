"""Vectors of rows with a class, kept for classifiers: label and whatever gives it away are hidden from the encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus import SPLITS
from navi.randomness import fold, make_key
from navi_paper.data import ROWS_AT_ONCE, EvaluationData, Task, TaskResult, draw_members
from navi_paper.encoder import IMPUTES, IN_VARIANTS, Bools, Floats, Ints, TableEncoder
from navi_paper.gold import (
    LabelledRows,
    find_headers,
    find_revealing_columns,
    keep_classes,
    read_labels,
    read_single_table,
)
from navi_paper.views import hide_columns

# Shape suffixes: N labelled rows, C cells, K columns, D hidden size.

_PURPOSE = 6
"""Sets the draws apart from other tasks'."""
MAX_ROWS = 250
"""Rows of a class that are taken, at most."""
FEW_ROWS = 100
"""A class with fewer test rows than this takes every held-out row."""


def keep_row_vectors(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Keep the row vectors of the gold's classes, of their two variants, and of each single table's classes.

    Arrays: `vectors_rows` and `vectors_means` (N, D), `labels`, `row` and `table` (N,); the same behind `text_only/`,
    `partial_text/` and `NAME/` of each single table. Measures: `rows`, `classes`, and `few_test_rows`, the number of
    classes that take every held-out row because fewer than 100 of theirs are in the test split; behind names likewise.
    """
    measures: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, pool, hidden_K in _list_pools(encoder, data):
        if len(pool.rows):
            kept = _embed_pool(encoder, data, pool, hidden_K)
            measures |= {f"{name}{key}": value for key, value in kept.measures.items()}
            arrays |= {f"{name}{key}": array for key, array in kept.arrays.items()}
    return TaskResult(measures, arrays)


def _list_pools(encoder: TableEncoder, data: EvaluationData) -> Iterator[tuple[str, LabelledRows, Bools]]:
    """Yield what stands before the names of a pool, its rows, and the columns hidden from the encoder."""
    variants = list_variants(data)
    pool = find_pool(data)
    for name, hidden_K in variants.items():
        if not name or IN_VARIANTS in encoder.abilities:
            yield name, pool, hidden_K
    for single in data.gold.single_tables:
        pool = draw_pool(data, read_single_table(data.corpus, single))
        pool = keep_classes(pool, single.min_rows, single.max_classes)
        hidden_K = find_headers(data.corpus, {single.table: (single.label, *single.hide)})
        yield f"{single.name}/", pool[find_filled(data, pool, hidden_K)], hidden_K


def list_variants(data: EvaluationData) -> dict[str, Bools]:
    """Return the columns hidden in each variant: (K,) by what stands before the names of its measures."""
    hidden_K, numeric_K = find_revealing_columns(data.corpus, data.gold.labels), data.numeric_columns
    return {
        "": hidden_K,
        "text_only/": hidden_K | numeric_K,
        "partial_text/": hidden_K | draw_half(data, ~numeric_K & ~hidden_K),
    }


def find_pool(data: EvaluationData) -> LabelledRows:
    """Return the rows of the gold's classes that have a cell left in each variant."""
    pool = draw_pool(data, read_labels(data.corpus, data.gold.labels))
    for hidden_K in list_variants(data).values():
        pool = pool[find_filled(data, pool, hidden_K)]
    return pool


def draw_pool(data: EvaluationData, labelled: LabelledRows) -> LabelledRows:
    """Return at most MAX_ROWS test rows of each class; a class with few of them takes from all rows held out.

    Rows that were trained on, or that some encoder cannot see whole, are never drawn.
    """
    split = data.corpus.row_split[labelled.rows]
    usable = (split != SPLITS.index("train")) & (data.row_tokens[labelled.rows] <= data.config.max_tokens)
    labelled, in_test = labelled[usable], split[usable] == SPLITS.index("test")
    _, group = np.unique(labelled.labels, return_inverse=True)
    few = np.bincount(group, weights=in_test) < FEW_ROWS
    eligible = np.flatnonzero(in_test | few[group])
    keys = fold(make_key(data.config.seed, _PURPOSE), labelled.rows[eligible])
    return labelled[np.sort(eligible[draw_members(group[eligible], keys, MAX_ROWS)])]


def draw_half(data: EvaluationData, eligible_K: Bools) -> Bools:
    """Choose half of each table's eligible columns, rounded down: (K,)."""
    columns = np.flatnonzero(eligible_K)
    table = data.corpus.arrays.column_table[columns].astype(np.int64)
    keys, half = fold(make_key(data.config.seed, _PURPOSE), columns), np.bincount(table)[table] // 2
    return np.isin(np.arange(len(eligible_K)), columns[draw_members(table, keys, half)])


def find_filled(data: EvaluationData, pool: LabelledRows, hidden_K: Bools) -> Bools:
    """Return which rows have a cell in a column that is not hidden: (N,)."""
    view = hide_columns(data.corpus.arrays.take_rows(pool.rows), hidden_K)
    filled: Bools = np.diff(view.row_offsets) > 0
    return filled


def _embed_pool(encoder: TableEncoder, data: EvaluationData, pool: LabelledRows, hidden_K: Bools) -> TaskResult:
    """Return the vectors of rows without their hidden columns, and how many there are."""
    view = hide_columns(data.corpus.arrays.take_rows(pool.rows), hidden_K)
    found = encoder.embed(view, np.arange(len(pool.rows)), parts=("rows", "means"))
    classes, group = np.unique(pool.labels, return_inverse=True)
    tested = np.bincount(group, weights=np.isin(pool.rows, data.corpus.rows_of("test")))
    measures = {"rows": len(pool.rows), "classes": len(classes), "few_test_rows": (tested < FEW_ROWS).sum()}
    return TaskResult(
        {name: float(count) for name, count in measures.items()},
        {
            "vectors_rows": found["rows"].astype(np.float16),
            "vectors_means": found["means"].astype(np.float16),
            "labels": pool.labels,
            "row": pool.rows,
            "table": np.array(data.corpus.tables, dtype=np.str_)[data.corpus.arrays.row_table[pool.rows]],
        },
    )


def keep_text_vectors(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Keep the mean embedding of each row's text cells, the whole row being seen: `vectors` (N, D).

    Numbers stay beside them as they are (NAVI_FE). Rows and hidden columns are those of `row_vectors`; `labels` and
    `row` (N,) are kept beside. Measure: `rows`.
    """
    pool = find_pool(data)
    starts = range(0, len(pool.rows), ROWS_AT_ONCE)
    vectors = [_embed_texts(encoder, data, pool.rows[start : start + ROWS_AT_ONCE]) for start in starts]
    if not vectors:
        return TaskResult({"rows": 0.0})
    arrays = {"vectors": np.concatenate(vectors).astype(np.float16), "labels": pool.labels, "row": pool.rows}
    return TaskResult({"rows": float(len(pool.rows))}, arrays)


def _embed_texts(encoder: TableEncoder, data: EvaluationData, rows: Ints) -> Floats:
    hidden_K = find_revealing_columns(data.corpus, data.gold.labels)
    view = hide_columns(data.corpus.arrays.take_rows(rows), hidden_K)
    headers_CD, values_CD = encoder.embed_states(view, np.arange(len(rows)))
    text_C = ~data.numeric_columns[~hidden_K][view.cell_column]
    row_C = view.cell_row[text_C]
    sums_ND = np.zeros((len(rows), headers_CD.shape[1]))
    np.add.at(sums_ND, row_C, (headers_CD[text_C] + values_CD[text_C]) / 2)
    means: Floats = (sums_ND / np.maximum(np.bincount(row_C, minlength=len(rows)), 1)[:, None]).astype(np.float32)
    return means


ROW_VECTORS = Task(name="row_vectors", run=keep_row_vectors, needs=("labels",))
TEXT_VECTORS = Task(name="text_vectors", run=keep_text_vectors, needs=("labels",), requires=frozenset({IMPUTES}))
