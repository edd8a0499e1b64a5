"""Row classification: how well classifiers tell the classes of rows from vectors that were kept of them.

In each run rows are drawn anew, as many of each class as can be; a fifth of each class is held out, and macro-F1 is
that of the rows held out. The paper does not say how it splits: with 200 rows held out its deviations are what chance
gives. Draws depend on labels, rows and seed alone, so every model is asked about the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.randomness import fold, make_key, order_keys
from navi_paper.bench import Bench
from navi_paper.classification.classifiers import CLASSIFIERS, Labels, MakeClassifier, Matrix
from navi_paper.metrics import measure_macro_f1
from navi_paper.task import Arrays, Outcome, Sequel

# Shape suffixes: N labelled rows, D hidden size.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Features = Callable[[Ints, Ints], tuple[Matrix, Matrix]]
"""Makes features of rows to learn from and of rows held out: (places, places) to (matrix, matrix)."""
HELD_OUT = 0.2
"""Share of each class that is held out."""
POOLS = ("rows", "means")
"""Kinds of row vector; of variants and single tables the first alone is classified."""
FEW_RUNS = 5
"""Runs of all but the main classes, as many as the paper makes there."""


def balance(labels: Labels, rows: int) -> dict[str, int]:
    """Return how many rows each class gets: the same for all, but what a small class lacks the others give.

    >>> balance(np.repeat(["a", "b", "c"], [2, 50, 50]), 20)
    {'a': 2, 'b': 9, 'c': 9}
    """
    classes, counts = np.unique(labels, return_counts=True)
    totals = np.minimum(counts[:, None], np.arange(counts.max() + 1)).sum(axis=0)
    level = int(np.searchsorted(totals, rows, side="right")) - 1
    taken = np.minimum(counts, level)
    taken[np.flatnonzero(counts > level)[: rows - int(taken.sum())]] += 1
    return {str(label): int(count) for label, count in zip(classes, taken, strict=True)}


def draw_run(labels: Labels, row: Ints, *, rows: int, seed: int, run: int) -> tuple[Ints, Ints]:
    """Return the places of the rows to learn from and of those held out in a run; each class has some of both."""
    keys = order_keys(fold(make_key(seed, run), row))
    learnt, held = [], []
    for label, count in balance(labels, rows).items():
        own = np.flatnonzero(labels == label)
        drawn = own[np.argsort(keys[own], kind="stable")[:count]]
        num_held = max(1, round(HELD_OUT * len(drawn)))
        held.append(drawn[:num_held])
        learnt.append(drawn[num_held:])
    return np.sort(np.concatenate(learnt)), np.sort(np.concatenate(held))


def classify_features(
    features: Features,
    labels: Labels,
    make: MakeClassifier,
    *,
    rows: int = 1000,
    runs: int = 8,
    seed: int = 0,
    row: Ints | None = None,
) -> Floats:
    """Return macro-F1 of each run: (runs,); `row` are the rows' numbers, which decide what is drawn."""
    _check_classes(labels)
    scores = np.zeros(runs)
    for run in range(runs):
        learnt, held = draw_run(labels, np.arange(len(labels)) if row is None else row, rows=rows, seed=seed, run=run)
        learnt_ND, held_ND = features(learnt, held)
        predicted = make(seed + run).fit(learnt_ND, labels[learnt]).predict(held_ND)
        scores[run] = measure_macro_f1(labels[held], predicted)
    return scores


def classify(
    vectors: NDArray[np.floating],
    labels: Labels,
    classifier: str,
    *,
    rows: int = 1000,
    runs: int = 8,
    seed: int = 0,
    row: Ints | None = None,
) -> Floats:
    """Return macro-F1 of each run: (runs,), of a classifier on (N, D) vectors."""
    if len(vectors) != len(labels):
        raise ConfigError(f"There are {len(vectors)} vectors but {len(labels)} labels.")
    return classify_features(
        lambda learnt, held: (vectors[learnt].astype(np.float32), vectors[held].astype(np.float32)),
        labels,
        find_classifier(classifier),
        rows=rows,
        runs=runs,
        seed=seed,
        row=row,
    )


def find_classifier(name: str) -> MakeClassifier:
    """Return what makes a classifier of this name."""
    if name not in CLASSIFIERS:
        raise ConfigError(f"Unknown classifier '{name}'. Expected one of {', '.join(CLASSIFIERS)}.")
    return CLASSIFIERS[name]


def summarise(name: str, scores: Floats) -> dict[str, float]:
    """Return mean and deviation of the runs as measures of this name."""
    return {name: float(scores.mean()), f"{name}_deviation": float(scores.std(ddof=1)) if len(scores) > 1 else 0.0}


def run(arrays: Arrays, bench: Bench, *, classifier: str) -> Outcome:
    """Measure a classifier on everything that `row_vectors` kept.

    Measures: `rows_f1` and `means_f1` with deviations, and `rows_drawn`, the rows of a run; `rows_f1` also behind
    `text_only/`, `partial_text/` and `NAME/` of each single table. Scores of the runs are kept under the same names.
    """
    config = bench.config
    measures: dict[str, float] = {}
    kept: dict[str, NDArray[np.float64]] = {}
    for prefix in list_prefixes(arrays):
        labels, row = arrays[f"{prefix}labels"], arrays[f"{prefix}row"]
        runs = config.runs if not prefix else min(config.runs, FEW_RUNS)
        measures[f"{prefix}rows_drawn"] = float(sum(balance(labels, config.rows).values()))
        pools = [pool for pool in (POOLS[:1] if prefix else POOLS) if f"{prefix}vectors_{pool}" in arrays]
        for pool in pools:
            vectors = arrays[f"{prefix}vectors_{pool}"]
            scores = classify(vectors, labels, classifier, rows=config.rows, runs=runs, seed=config.seed, row=row)
            measures |= summarise(f"{prefix}{pool}_f1", scores)
            kept[f"{prefix}{pool}_f1"] = scores
    return Outcome(measures, dict(kept))


def list_prefixes(arrays: Arrays) -> list[str]:
    """Return what stands before the names of each set of kept vectors; nothing before the main one."""
    return sorted(name.removesuffix("labels") for name in arrays if name == "labels" or name.endswith("/labels"))


def _check_classes(labels: Labels) -> None:
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        found = ", ".join(f"{label} ({count})" for label, count in zip(classes, counts, strict=True)) or "none"
        raise ConfigError(f"Classification needs two classes or more, each of two rows or more; found {found}.")


CLASSIFICATION = tuple(
    Sequel(
        name=f"classification_{name}",
        after="row_vectors",
        run=partial(run, classifier=name),
        needs=("labels",),
        module="xgboost" if name == "xgboost" else None,
    )
    for name in CLASSIFIERS
)
"""Row classification with each classifier."""
