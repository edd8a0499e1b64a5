"""How embeddings lie: columns that mean the same together, whatever they are called; segments by their roles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLES, SegmentArrays
from navi.randomness import fold, make_key, permute
from navi_paper.data import (
    SPLITS,
    Columns,
    EvaluationData,
    Task,
    TaskResult,
    average_columns,
    draw_members,
    list_gold_columns,
    sample_cells,
)
from navi_paper.table_encoder import Ints, TableEncoder

# Shape suffixes: Q columns, C cells, N items, D hidden size.

Labels = NDArray[np.generic]
Floats = NDArray[np.floating]
_CLUSTERING, _GEOMETRY = 4, 7
"""Set the draws of one task apart from those of the others."""
PARTS = ("headers", "segments")
"""A column's header embedding, and that of its whole segments."""
TABLES = 5
"""Tables on a map of segments, as in the paper."""
SEGMENTS = 150
"""Segments of each role of each table, at most: 1,500 in all."""
ROWS = 150
"""Rows of a table that they are drawn from, at most."""
MAX_TEXT = 80
"""Letters of a value that are kept."""


def measure_clusters(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Measure `{split}_{headers|segments}_{figure}`, and `…_permuted_{figure}` with columns permuted.

    A column is the mean of its embeddings over at most `column_rows` rows of the split. The figures: `nmi`, `b3_f1`,
    `b3_precision`, `b3_recall` of agglomerative clustering (average linkage on cosine distance) with the gold number of
    clusters; `silhouette` of the gold concepts that have two columns or more, by cosine; `cosine` and `l2`, the mean
    distance of columns of one concept with different headers. `test` are rows of known tables.
    Embeddings, tables, headers and concepts are kept.
    """
    measures: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    gold = list_gold_columns(data)
    views = {"": data.corpus.arrays, "_permuted": data.permuted}
    for split in SPLITS:
        wanted = sample_cells(data, split, gold.number, data.config.column_rows, _CLUSTERING)
        columns = gold[np.isin(gold.number, wanted[1])]
        if len(columns) < 2:
            continue
        for name, view in views.items():
            found = average_columns(encoder, view, np.unique(wanted[0]), wanted, PARTS)
            for part in PARTS:
                embedded = found[part][columns.number]
                figures = measure_columns(embedded, columns)
                measures.update({f"{split}_{part}{name}_{figure}": value for figure, value in figures.items()})
                if not name:
                    arrays[f"{split}_{part}"] = embedded.astype(np.float16)
        measures[f"{split}_columns"] = float(len(columns))
        measures[f"{split}_concepts"] = float(len(np.unique(columns.concept)))
        for key in ("table", "header", "concept"):
            arrays[f"{split}_{key}"] = getattr(columns, key)
    return TaskResult(measures, arrays)


def measure_columns(embedded_QD: Floats, columns: Columns) -> dict[str, float]:
    """Return the figures of some columns' embeddings."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import normalized_mutual_info_score
    from sklearn.preprocessing import normalize

    unit_QD = normalize(embedded_QD)
    clustering = AgglomerativeClustering(
        n_clusters=len(np.unique(columns.concept)), metric="precomputed", linkage="average"
    )
    clusters = clustering.fit_predict(np.clip(1.0 - unit_QD @ unit_QD.T, 0.0, 2.0))
    return {
        "nmi": float(normalized_mutual_info_score(columns.concept, clusters)),
        **measure_b_cubed(columns.concept, clusters),
        **measure_variants(embedded_QD, columns.concept, columns.header),
        **measure_silhouette(embedded_QD, columns.concept),
    }


def measure_b_cubed(gold: Labels, clusters: Labels) -> dict[str, float]:
    """Return B³ (Bagga and Baldwin) of a clustering: precision and recall of each item's own cluster, averaged.

    Each item is counted as a member of its own cluster and class; F1 is the harmonic mean of the averages.

    >>> measure_b_cubed(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 5]))
    {'b3_f1': 0.6666666666666666, 'b3_precision': 0.5, 'b3_recall': 1.0}
    """
    from sklearn.metrics.cluster import contingency_matrix

    together = contingency_matrix(gold, clusters).astype(np.float64)  # (classes, clusters)
    squares, count = together**2, len(gold)
    precision = float((squares.sum(axis=0) / together.sum(axis=0)).sum() / count)
    recall = float((squares.sum(axis=1) / together.sum(axis=1)).sum() / count)
    return {"b3_f1": 2 * precision * recall / (precision + recall), "b3_precision": precision, "b3_recall": recall}


def measure_silhouette(embedded_ND: Floats, gold: Labels, name: str = "silhouette") -> dict[str, float]:
    """Return the silhouette of the gold classes by cosine distance, over the classes with two items or more.

    Nothing comes back where fewer than two classes are left, or as many as items.
    """
    from sklearn.metrics import silhouette_score

    _, gold_N, counts = np.unique(gold, return_inverse=True, return_counts=True)
    several = counts[gold_N] > 1
    if not 2 <= (counts > 1).sum() < several.sum():
        return {}
    return {name: float(silhouette_score(embedded_ND[several], gold_N[several], metric="cosine"))}


def measure_variants(embedded_ND: Floats, gold: Labels, texts: Labels) -> dict[str, float]:
    """Return the mean distance of pairs that mean the same under different texts: `cosine`, and `l2` at unit length.

    Nothing comes back where there is no such pair.
    """
    from sklearn.preprocessing import normalize

    unit = normalize(embedded_ND)
    pair = (gold[:, None] == gold[None, :]) & (texts[:, None] != texts[None, :])
    pair &= np.tri(len(gold), k=-1, dtype=np.bool_)
    if not pair.any():
        return {}
    apart = np.clip(1.0 - (unit @ unit.T)[pair], 0.0, 2.0)
    return {"cosine": float(apart.mean()), "l2": float(np.sqrt(2 * apart).mean())}


def keep_segments(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Keep low and high segments of five known tables: `segments`, and `role`, `table`, `header`, `value` of each.

    Measures: `segments`, `tables`, and `role_silhouette`, how well the roles lie apart (by cosine).
    """
    corpus, seed = data.corpus, data.config.seed
    rows = data.draw_rows("test", None)
    rows = rows[np.isin(corpus.arrays.row_table[rows], choose_tables(data))]
    keys, table = fold(make_key(seed, _GEOMETRY), rows), corpus.arrays.row_table[rows].astype(np.int64)
    rows = np.sort(rows[draw_members(table, keys, min(ROWS, data.config.rows))])
    if not len(rows):
        return TaskResult({})
    taken = corpus.arrays.take_rows(rows)
    cells = _draw_cells(taken, seed)
    embedded = encoder.embed(taken, np.arange(len(rows)), parts=("segments",))["segments"][cells]
    segments = taken.row_segments[cells]
    values = corpus.values.take(np.asarray(taken.segment_value[segments])).to_pylist()
    role = np.array(ROLES)[taken.column_role[taken.cell_column[cells]]]
    measures = {"segments": float(len(cells)), "tables": float(len(np.unique(taken.row_table)))}
    return TaskResult(
        measures | measure_silhouette(embedded, role, "role_silhouette"),
        {
            "segments": embedded.astype(np.float16),
            "role": role,
            "table": np.array(corpus.tables)[taken.row_table[taken.cell_row[cells]]],
            "header": np.array(corpus.headers.take(np.asarray(taken.segment_header[segments])).to_pylist()),
            "value": np.array([value[:MAX_TEXT] for value in values]),
        },
    )


def choose_tables(data: EvaluationData) -> Ints:
    """Draw five tables among the ten with most low or high columns, of those that have both and test rows."""
    arrays, num_tables = data.corpus.arrays, len(data.corpus.tables)
    low, high = (
        np.bincount(arrays.column_table[arrays.column_role == role], minlength=num_tables)
        for role in (ROLE_LOW, ROLE_HIGH)
    )
    tested = np.isin(np.arange(num_tables), arrays.row_table[data.draw_rows("test", None)])
    fit = np.flatnonzero((low > 0) & (high > 0) & tested)
    richest = fit[np.argsort(-(low + high)[fit], kind="stable")[: 2 * TABLES]]
    drawn = permute(make_key(data.config.seed, _GEOMETRY), len(richest))[:TABLES]
    return np.sort(richest[drawn])


def _draw_cells(taken: SegmentArrays, seed: int) -> Ints:
    """Return at most SEGMENTS low and as many high cells of each table, ascending."""
    column_C = taken.cell_column
    role_C = taken.column_role[column_C]
    cells = np.flatnonzero((role_C == ROLE_LOW) | (role_C == ROLE_HIGH))
    group = taken.column_table[column_C[cells]].astype(np.int64) * len(ROLES) + role_C[cells]
    return np.sort(cells[draw_members(group, fold(make_key(seed, _GEOMETRY, 1), cells), SEGMENTS)])


CLUSTERING = Task(name="clustering", run=measure_clusters, needs=("concepts",))
GEOMETRY = Task(name="geometry", run=keep_segments)
