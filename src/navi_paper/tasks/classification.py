"""Row classification: vectors of rows with a class; then classifiers on these, and on features made of the cells.

Label and whatever gives it away are hidden from the encoder.

In each run rows are drawn again, as many of each class as can be; a fifth of each class is held out, and macro-F1 is
that of the rows held out. The paper does not say how it splits: with 200 rows held out its deviations are what chance
gives. Most product tables have one class, so that this may measure which table a row comes from: beside it, whole
tables are held out. Draws depend on labels, rows, tables and seed alone, so every model is asked about the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus import SPLITS
from navi.errors import ConfigError
from navi.randomness import fold, make_key, permute
from navi_paper.data import (
    ROWS_AT_ONCE,
    Arrays,
    EvaluationConfig,
    EvaluationData,
    Task,
    TaskResult,
    draw_members,
    parse_numbers,
    sum_by,
)
from navi_paper.gold import (
    LabelledRows,
    find_revealing_columns,
    read_labels,
)
from navi_paper.table_encoder import EMBEDS_TEXTS, IN_VARIANTS, Bools, Floats, Ints, TableEncoder
from navi_paper.table_views import hide_columns
from navi_paper.tabpfn import TabPFN, find_missing_files

if TYPE_CHECKING:
    import pandas as pd

# Shape suffixes: N labelled rows, C cells, K columns of the corpus, D hidden size.

Matrix = NDArray[np.float32]
Labels = NDArray[Any]
Features = Callable[[Ints, Ints], tuple[Matrix, Matrix]]
"""Makes features of rows to learn from and of rows held out: (places, places) to (matrix, matrix)."""
HELD_OUT = 0.2
"""Share of each class that is held out."""
Draws = list[tuple[Ints, Ints]]
"""The places of the rows to learn from and of those held out, in each run."""
HELD_OUT_TABLES = 0.3
"""Share of the tables that are held out where whole tables are."""
FEW_RUNS = 5
"""Runs of the variants, as many as the paper makes there."""
MIN_CELLS = 10
"""A feature that fewer of the rows have is left out."""
_PURPOSE = 6
"""Sets the draws apart from other tasks'."""
MAX_ROWS, MAX_TABLE_ROWS = 150, 50
"""Rows of a class that are taken, at most, and of a class in one table."""
FEW_ROWS = 100
"""A class with fewer test rows than this takes every held-out row."""


def keep_row_vectors(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Keep the row vectors of the gold's classes: `vectors_rows` (N, D), `labels`, `row` and `table` (N,).

    Measures: `rows` and `classes`.
    """
    return _embed_pool(encoder, data, find_pool(data), find_revealing_columns(data.corpus, data.gold.labels))


def keep_variant_vectors(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Keep them without columns of numbers (`text_only/`), and without half of the text columns (`partial_text/`)."""
    pool = find_pool(data)
    kept = [(name, _embed_pool(encoder, data, pool, each)) for name, each in list_variants(data).items() if name]
    return TaskResult(
        {f"{name}{key}": value for name, each in kept for key, value in each.measures.items()},
        {f"{name}{key}": array for name, each in kept for key, array in each.arrays.items()},
    )


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
    """Return some test rows of each class, of many tables; a class with few of them takes from all rows held out.

    Rows that were trained on, or that some encoder cannot see whole, are never drawn.
    """
    split = data.corpus.row_split[labelled.rows]
    usable = (split != SPLITS.index("train")) & (data.row_tokens[labelled.rows] <= data.config.max_tokens)
    labelled, in_test = labelled[usable], split[usable] == SPLITS.index("test")
    _, group = np.unique(labelled.labels, return_inverse=True)
    few = np.bincount(group, weights=in_test) < FEW_ROWS
    eligible = np.flatnonzero(in_test | few[group])
    keys = fold(make_key(data.config.seed, _PURPOSE), labelled.rows)
    in_table = group * len(data.corpus.tables) + data.corpus.arrays.row_table[labelled.rows]
    eligible = eligible[draw_members(in_table[eligible], keys[eligible], MAX_TABLE_ROWS)]
    return labelled[np.sort(eligible[draw_members(group[eligible], keys[eligible], MAX_ROWS)])]


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
    found = encoder.embed(view, np.arange(len(pool.rows)), parts=("rows",))
    return TaskResult(
        {"rows": float(len(pool.rows)), "classes": float(len(np.unique(pool.labels)))},
        {
            "vectors_rows": found["rows"].astype(np.float16),
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
    sums_ND = sum_by(row_C, (headers_CD[text_C] + values_CD[text_C]) / 2, len(rows))
    means: Floats = (sums_ND / np.maximum(np.bincount(row_C, minlength=len(rows)), 1)[:, None]).astype(np.float32)
    return means


def make_xgboost(seed: int) -> Any:
    """Return boosted trees, 100 rounds of them, with everything else modest and fixed."""
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=100,
        max_depth=6,
        learning_rate=0.2,
        max_bin=64,
        # Vectors have hundreds of features, each of which says little: some for each split are enough.
        colsample_bynode=0.2,
        tree_method="hist",
        random_state=seed,
    )


def make_logistic_regression(seed: int) -> Any:
    """Return logistic regression on standardised features; gaps take the feature's mean."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    learner = LogisticRegression(max_iter=2000, random_state=seed)
    return make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), learner)


CLASSIFIERS: Mapping[str, Callable[[int], Any]] = {
    "xgboost": make_xgboost,
    "lr": make_logistic_regression,
    "tabpfn": TabPFN,
}
"""What makes an untrained classifier from a seed, by name; NaN stands for what a row does not have."""
BY_TABLE = ("xgboost", "lr")
"""Classifiers that are measured with whole tables held out, too: what is left then is more than TabPFN takes."""


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
    keys = fold(make_key(seed, run), row)
    learnt, held = [], []
    for label, count in balance(labels, rows).items():
        own = np.flatnonzero(labels == label)
        drawn = own[draw_members(np.zeros(len(own), np.int64), keys[own], count)]
        num_held = max(1, round(HELD_OUT * len(drawn)))
        held.append(drawn[:num_held])
        learnt.append(drawn[num_held:])
    return np.sort(np.concatenate(learnt)), np.sort(np.concatenate(held))


def draw_runs(labels: Labels, row: Ints, config: EvaluationConfig) -> Draws:
    """Return what each run learns from and holds out, rows of all tables on both sides."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        found = ", ".join(f"{label} ({count})" for label, count in zip(classes, counts, strict=True)) or "none"
        raise ConfigError(f"Classification needs two classes or more, each of two rows or more; found {found}.")
    return [draw_run(labels, row, rows=config.rows, seed=config.seed, run=run) for run in range(config.runs)]


def draw_table_runs(labels: Labels, table: Labels, config: EvaluationConfig) -> Draws:
    """Return what each run learns from and holds out, no table on both sides; classes on one side alone are left out.

    A run without two classes on both sides is left out.
    """
    names, number = np.unique(table, return_inverse=True)
    draws = []
    for run in range(config.runs):
        order = permute(make_key(config.seed, run, _PURPOSE), len(names))
        held = np.isin(number, order[: max(1, round(HELD_OUT_TABLES * len(names)))])
        shared = np.intersect1d(labels[held], labels[~held])
        usable = np.isin(labels, shared)
        if len(shared) > 1:
            draws.append((np.flatnonzero(usable & ~held), np.flatnonzero(usable & held)))
    return draws


def classify(features: Features, labels: Labels, draws: Draws, classifier: str, seed: int) -> NDArray[np.float64]:
    """Return macro-F1 of each run: (runs,)."""
    from sklearn.metrics import f1_score

    scores = np.zeros(len(draws))
    for run, (learnt, held) in enumerate(draws):
        learnt_ND, held_ND = features(learnt, held)
        classes, numbers = np.unique(labels[learnt], return_inverse=True)
        model = CLASSIFIERS[classifier](seed + run).fit(learnt_ND, numbers)
        predicted = classes[model.predict(held_ND)]
        scores[run] = f1_score(labels[held], predicted, average="macro", zero_division=0)
    return scores


def summarise_runs(scores: dict[str, NDArray[np.float64]], **measures: float) -> TaskResult:
    """Return mean and deviation of the runs, and each run as `…_run0`, beside other measures."""
    scores = {name: each for name, each in scores.items() if len(each)}
    for name, each in scores.items():
        measures[name] = float(each.mean())
        measures[f"{name}_deviation"] = float(each.std(ddof=1)) if len(each) > 1 else 0.0
        measures |= {f"{name}_run{run}": float(score) for run, score in enumerate(each)}
    return TaskResult(measures)


def classify_vectors(arrays: Arrays, data: EvaluationData, *, classifier: str) -> TaskResult:
    """Measure a classifier on everything that `row_vectors`, or `variant_vectors`, kept.

    Measures: `rows_f1` with its deviation, `tables_f1` with whole tables held out, and `rows_drawn`, the rows of a run;
    `rows_f1` also behind `text_only/` and `partial_text/`.
    """
    measures: dict[str, float] = {}
    scores: dict[str, NDArray[np.float64]] = {}
    for prefix in sorted(name.removesuffix("labels") for name in arrays if name.split("/")[-1] == "labels"):
        labels, features = arrays[f"{prefix}labels"], take_vectors(arrays[f"{prefix}vectors_rows"])
        config = replace(data.config, runs=min(data.config.runs, FEW_RUNS)) if prefix else data.config
        measures[f"{prefix}rows_drawn"] = float(sum(balance(labels, config.rows).values()))
        draws = {"rows_f1": draw_runs(labels, arrays[f"{prefix}row"], config)}
        if not prefix and classifier in BY_TABLE:
            draws["tables_f1"] = draw_table_runs(labels, arrays["table"], config)
        for name, each in draws.items():
            scores[f"{prefix}{name}"] = classify(features, labels, each, classifier, config.seed)
    return summarise_runs(scores, **measures)


def read_cells(
    data: EvaluationData, rows: Ints, hidden_K: Bools, *, min_cells: int = MIN_CELLS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cells of these rows without the hidden columns: the numbers of columns of numbers, and other texts.

    Tables share a column where their headers mean the same attribute. An attribute that a row has several times (a
    list) takes several columns: `actors name (text 1)`, and so on.
    """
    import pandas as pd

    arrays = data.corpus.arrays.take_rows(rows)
    column_C = arrays.cell_column
    texts = data.corpus.values.take(pa.array(arrays.segment_value[arrays.row_segments]))
    number_C, numeric_C = parse_numbers(texts), data.numeric_columns[column_C]
    cells = pd.DataFrame({"row": arrays.cell_row, "attribute": arrays.column_attribute[column_C]})
    cells["number"], cells["text"] = number_C, texts.to_numpy(zero_copy_only=False).astype(np.object_)
    shown = pd.Series(~hidden_K[column_C])
    spread = partial(_spread, data, len(rows), min_cells)
    numbers = spread("number", cells[shown & numeric_C & ~np.isnan(number_C)])
    return numbers, spread("text", cells[shown & ~numeric_C])


def _spread(data: EvaluationData, num_rows: int, min_cells: int, kind: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Return a column for each attribute and place among a row's cells of it, where enough rows have one."""
    place = cells.groupby(["row", "attribute"]).cumcount().rename("place")
    frame = cells.assign(place=place).pivot(index="row", columns=["attribute", "place"], values=kind)
    frame = frame.reindex(range(num_rows)).sort_index(axis=1)
    frame = frame.loc[:, frame.notna().sum() >= min_cells]
    # Kind and place stand behind every name, so that no two columns are called the same.
    frame.columns = [
        f"{data.corpus.attributes[int(each)].as_py()} ({kind} {place + 1})" for each, place in frame.columns
    ]
    return frame


def make_raw(numbers: pd.DataFrame, texts: pd.DataFrame) -> Matrix:
    """Return raw features: numbers as they are; of a text its length and its number of words, 0 where there is none."""
    lengths = texts.apply(lambda column: column.str.len()).fillna(0)
    words = texts.apply(lambda column: column.str.split().str.len()).fillna(0)
    return _join(numbers, lengths, words)


def make_table_vectorizer(frame: pd.DataFrame) -> Features:
    """Return what skrub's TableVectorizer, default but for a seed, makes of cells, fitted on the rows to learn from."""
    from skrub import StringEncoder, TableVectorizer

    def features(learnt: Ints, held: Ints) -> tuple[Matrix, Matrix]:
        vectorizer = TableVectorizer(high_cardinality=StringEncoder(random_state=0))
        with warnings.catch_warnings():
            # Rows held out have values that the others have not; they count as none of them.
            warnings.simplefilter("ignore", UserWarning)
            return _join(vectorizer.fit_transform(frame.iloc[learnt])), _join(vectorizer.transform(frame.iloc[held]))

    return features


def classify_features(arrays: Arrays, data: EvaluationData, *, classifier: str) -> TaskResult:
    """Measure a classifier on each feature pipeline; `arrays` are those of `text_vectors`.

    Measures: `raw_f1`, `table_vectorizer_f1` and `navi_fe_f1` (numbers as they are beside the vectors of the rows'
    texts) with deviations, `…_tables_f1` with whole tables held out, and `raw_features`, the number of raw features.
    """
    hidden_K = find_revealing_columns(data.corpus, data.gold.labels)
    numbers, texts = read_cells(data, arrays["row"], hidden_K)
    raw = make_raw(numbers, texts)
    pipelines = {
        "raw": take_vectors(raw),
        "navi_fe": take_vectors(_join(numbers, arrays["vectors"])),
        "table_vectorizer": make_table_vectorizer(numbers.join(texts)),
    }
    labels, row = arrays["labels"], arrays["row"]
    table = data.corpus.arrays.row_table[row]
    draws = {"": draw_runs(labels, row, data.config)}
    if classifier in BY_TABLE:
        draws["_tables"] = draw_table_runs(labels, table, data.config)
    scores = {
        f"{name}{ending}_f1": classify(features, labels, each, classifier, data.config.seed)
        for name, features in pipelines.items()
        for ending, each in draws.items()
    }
    return summarise_runs(scores, raw_features=float(raw.shape[1]))


def _join(*parts: Any) -> Matrix:
    """Return frames and matrices side by side."""
    return np.hstack([np.asarray(part, dtype=np.float32) for part in parts])


def take_vectors(matrix: NDArray[np.floating]) -> Features:
    """Return features that are vectors kept before: (N, D)."""
    return lambda learnt, held: (matrix[learnt].astype(np.float32), matrix[held].astype(np.float32))


def find_missing(classifier: str, *packages: str) -> str | None:
    """Return what has to be installed for a classifier and these packages; None if nothing."""
    needed = ("xgboost", *packages) if classifier == "xgboost" else packages
    if any(find_spec(package) is None for package in needed):
        return "install the extra: pip install 'navi-tables[eval]'"
    return find_missing_files() if classifier == "tabpfn" else None


ROW_VECTORS = Task(name="row_vectors", run=keep_row_vectors, needs=("labels",))
VARIANT_VECTORS = Task(
    name="variant_vectors", run=keep_variant_vectors, needs=("labels",), requires=frozenset({IN_VARIANTS})
)
TEXT_VECTORS = Task(name="text_vectors", run=keep_text_vectors, needs=("labels",), requires=frozenset({EMBEDS_TEXTS}))
CLASSIFICATION = tuple(
    Task(
        name=f"{name}_{classifier}",
        after=after,
        run=partial(run, classifier=classifier),
        needs=("labels",),
        missing=partial(find_missing, classifier, *packages),
    )
    for name, after, run, packages in (
        ("classification", "row_vectors", classify_vectors, ()),
        ("variants", "variant_vectors", classify_vectors, ()),
        ("features", "text_vectors", classify_features, ("skrub",)),
    )
    for classifier in CLASSIFIERS
    if name != "variants" or classifier == "xgboost"
)
"""Row vectors, then feature pipelines, with each classifier; variants with the paper's."""
