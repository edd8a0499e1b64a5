"""Header clustering: columns that mean the same should lie together, whatever they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi_paper.bench import Bench
from navi_paper.columns import Columns, average_columns, list_gold_columns, sample_cells
from navi_paper.encoder import TableEncoder
from navi_paper.metrics import (
    measure_b_cubed,
    measure_nmi,
    measure_silhouette,
    measure_variants,
    normalise,
)
from navi_paper.task import Outcome, Task
from navi_paper.tasks.generative import SPLITS
from navi_paper.views import permute_columns

# Shape suffixes: Q columns, D hidden size.

PURPOSE = 4
"""Sets the draws of rows apart from other tasks'."""
PARTS = ("headers", "segments")
"""A column's header embedding, and that of its whole segments."""


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `{split}_{headers|segments}_{figure}`, and `…_permuted_{figure}` with columns permuted.

    A column is the mean of its embeddings over at most `column_rows` rows of the split. The figures: `nmi`, `b3_f1`,
    `b3_precision`, `b3_recall` of agglomerative clustering (average linkage on cosine distance) with the gold number of
    clusters; `silhouette` of the gold concepts that have two columns or more, by cosine; `cosine` and `l2`, the mean
    distance of columns of one concept with different headers. `test` are rows of known tables.
    Embeddings, tables, headers and concepts are kept.
    """
    measures: dict[str, float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    gold = list_gold_columns(bench)
    views = {"": bench.corpus.arrays, "_permuted": permute_columns(bench.corpus.arrays, seed=bench.config.seed)}
    for split in SPLITS:
        wanted = sample_cells(bench, split, gold.number, bench.config.column_rows, PURPOSE)
        columns = gold.keep(np.isin(gold.number, wanted[1]))
        if len(columns) < 2:
            continue
        rows = np.unique(wanted[0])
        for name, view in views.items():
            found = average_columns(encoder, view, rows, wanted, PARTS)
            for part in PARTS:
                embedded = found[part][columns.number]
                figures = measure_columns(embedded, columns)
                measures.update({f"{split}_{part}{name}_{figure}": value for figure, value in figures.items()})
                if not name:
                    arrays[f"{split}_{part}"] = embedded.astype(np.float16)
        measures[f"{split}_columns"] = float(len(columns))
        measures[f"{split}_concepts"] = float(len(np.unique(columns.concept)))
        kept = {"table": columns.table, "header": columns.header, "concept": columns.concept}
        arrays.update({f"{split}_{key}": texts for key, texts in kept.items()})
    return Outcome(measures, arrays)


def measure_columns(embedded_QD: NDArray[np.float32], columns: Columns) -> dict[str, float]:
    """Return the figures of some columns' embeddings."""
    clusters = cluster_columns(embedded_QD, len(np.unique(columns.concept)))
    cubed = measure_b_cubed(columns.concept, clusters)
    figures = {
        "nmi": measure_nmi(columns.concept, clusters),
        "b3_f1": cubed.f1,
        "b3_precision": cubed.precision,
        "b3_recall": cubed.recall,
        **measure_variants(embedded_QD, columns.concept, columns.header),
    }
    silhouette = measure_silhouette(embedded_QD, columns.concept)
    return figures if silhouette is None else {**figures, "silhouette": silhouette}


def cluster_columns(embedded_QD: NDArray[np.float32], num_clusters: int) -> NDArray[np.int64]:
    """Return the cluster of each column, by average linkage on cosine distance: (Q,)."""
    from sklearn.cluster import AgglomerativeClustering

    unit = normalise(embedded_QD)
    apart = np.clip(1.0 - unit @ unit.T, 0.0, 2.0)
    clustering = AgglomerativeClustering(n_clusters=num_clusters, metric="precomputed", linkage="average")
    clusters: NDArray[np.int64] = clustering.fit_predict(apart)
    return clusters


CLUSTERING = Task(name="clustering", run=run, needs=("concepts",))
"""Header clustering."""
