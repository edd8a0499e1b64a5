"""Vectors of the texts of rows with a class, kept for NAVI_FE: numbers stay beside them as they are."""

from __future__ import annotations

import numpy as np

from navi_paper.bench import Bench
from navi_paper.columns import find_numeric_columns
from navi_paper.encoder import Floats, TableEncoder
from navi_paper.labels import Labelled, draw_pool, find_revealing_columns, list_hidden, read_labels
from navi_paper.task import Outcome, Task
from navi_paper.tasks.row_vectors import PURPOSE, Bools, draw_half, find_filled
from navi_paper.views import hide_columns

# Shape suffixes: N labelled rows, C cells, K columns, D hidden size.

ROWS_AT_ONCE = 2048
"""Rows whose cells' embeddings are held at a time."""


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Keep the mean embedding of each row's text cells, the whole row being seen: `vectors` (N, D).

    Rows and hidden columns are those of `row_vectors`; `labels` and `row` (N,) are kept beside. Measure: `rows`.
    """
    hidden_K, numeric_K = (
        find_revealing_columns(bench.corpus, list_hidden(bench.gold.labels)),
        find_numeric_columns(bench),
    )
    pool = find_pool(bench, hidden_K, numeric_K)
    vectors = [
        _embed_texts(encoder, bench, pool.rows[start : start + ROWS_AT_ONCE], hidden_K, numeric_K)
        for start in range(0, len(pool.rows), ROWS_AT_ONCE)
    ]
    if not vectors:
        return Outcome({"rows": 0.0})
    arrays = {"vectors": np.concatenate(vectors).astype(np.float16), "labels": pool.labels, "row": pool.rows}
    return Outcome({"rows": float(len(pool.rows))}, arrays)


def find_pool(bench: Bench, hidden_K: Bools, numeric_K: Bools) -> Labelled:
    """Return the rows that `row_vectors` keeps: those with a cell left in each of its variants."""
    pool = draw_pool(bench, read_labels(bench.corpus, bench.gold.labels), PURPOSE)
    for each in (hidden_K, hidden_K | numeric_K, hidden_K | draw_half(bench, ~numeric_K & ~hidden_K)):
        pool = pool.keep(find_filled(bench, pool, each))
    return pool


def _embed_texts(
    encoder: TableEncoder,
    bench: Bench,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    hidden_K: Bools,
    numeric_K: Bools,
) -> Floats:
    view = hide_columns(bench.corpus.arrays.take_rows(rows), hidden_K)
    headers_CD, values_CD = encoder.embed_states(view, np.arange(len(rows)))
    text_C = ~numeric_K[~hidden_K][view.cell_column]
    row_C = view.cell_row[text_C]
    joined_CD = (headers_CD[text_C] + values_CD[text_C]) / 2
    sums_ND = np.zeros((len(rows), joined_CD.shape[1]))
    np.add.at(sums_ND, row_C, joined_CD)
    means: Floats = (sums_ND / np.maximum(np.bincount(row_C, minlength=len(rows)), 1)[:, None]).astype(np.float32)
    return means


TEXT_VECTORS = Task(name="text_vectors", run=run, needs=("labels",), only=("navi", "navi-paper"))
"""Vectors of rows' texts for NAVI_FE."""
