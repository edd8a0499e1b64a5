"""Feature pipelines on the rows that encoders are classified on: raw features, skrub's TableVectorizer, and NAVI_FE."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.errors import MissingExtraError
from navi_paper.bench import Bench
from navi_paper.classification.classifiers import CLASSIFIERS, Matrix
from navi_paper.classification.scoring import Features, classify_features, summarise
from navi_paper.columns import find_numeric_columns
from navi_paper.labels import find_revealing_columns, list_hidden
from navi_paper.task import Arrays, Outcome, Sequel

if TYPE_CHECKING:
    import pandas as pd

# Shape suffixes: N rows, C cells, K columns of the corpus, F features.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MIN_CELLS = 10
"""A feature that fewer of the rows have is left out."""


@dataclass(frozen=True, kw_only=True)
class RowCells:
    """The cells of some rows as two frames; tables share a column where their headers mean the same attribute.

    An attribute that a row has several times (a list) takes several columns: `actors name (text 1)`, and so on.
    """

    numbers: pd.DataFrame
    """(N, …) the numbers of columns that have mostly numbers; NaN where there is none."""
    texts: pd.DataFrame
    """(N, …) the texts of all other columns; missing where there is none."""


def read_cells(bench: Bench, rows: Ints, hidden_K: Bools, *, min_cells: int = MIN_CELLS) -> RowCells:
    """Return the cells of these rows without the hidden columns of the corpus."""
    arrays = bench.corpus.arrays.take_rows(rows)
    column_C = arrays.cell_column
    texts = bench.corpus.values.take(pa.array(arrays.segment_value[arrays.row_segments]))
    number_C = parse_numbers(texts)
    numeric_C, shown_C = find_numeric_columns(bench)[column_C], ~hidden_K[column_C]
    spread = partial(
        _spread, bench, len(rows), arrays.cell_row, arrays.column_attribute[column_C].astype(np.int64), min_cells
    )
    text_C = texts.to_numpy(zero_copy_only=False).astype(np.object_)
    return RowCells(
        numbers=spread("number", number_C, shown_C & numeric_C & ~np.isnan(number_C)),
        texts=spread("text", text_C, shown_C & ~numeric_C),
    )


def parse_numbers(values: pa.Array) -> NDArray[np.float64]:
    """Return the number that each text is, NaN if it is none; currency and per cent signs are left out.

    >>> parse_numbers(pa.array(["1,200", "$3.50", "12%", "ten"])).tolist()
    [1200.0, 3.5, 12.0, nan]
    """
    bare = pc.replace_substring_regex(values, r"[$€£%,\s]", "")
    is_number = pc.match_substring_regex(bare, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?$")
    # Arrow reads no plus sign.
    plain = pc.replace_substring_regex(bare, r"^\+", "")
    numbers = pc.cast(pc.if_else(is_number, plain, None), pa.float64())
    found: NDArray[np.float64] = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def make_raw(cells: RowCells) -> Features:
    """Return raw features: numbers as they are; of a text its length and its number of words, 0 where there is none."""
    lengths = cells.texts.apply(lambda column: column.str.len()).fillna(0)
    words = cells.texts.apply(lambda column: column.str.split().str.len()).fillna(0)
    return _choose_rows(_join(cells.numbers, lengths, words))


def make_navi(cells: RowCells, vectors: NDArray[np.floating]) -> Features:
    """Return NAVI_FE: numbers as they are beside the vectors of the rows' texts."""
    return _choose_rows(_join(cells.numbers, vectors))


def make_table_vectorizer(cells: RowCells) -> Features:
    """Return what skrub's TableVectorizer, default but for a seed, makes of cells, fitted on the rows to learn from."""
    try:
        from skrub import StringEncoder, TableVectorizer
    except ImportError as error:
        raise MissingExtraError("The feature pipeline TableVectorizer", "eval") from error
    import pandas as pd

    frame = pd.concat([cells.numbers, cells.texts], axis=1)

    def features(learnt: Ints, held: Ints) -> tuple[Matrix, Matrix]:
        vectorizer = TableVectorizer(high_cardinality=StringEncoder(random_state=0))
        with warnings.catch_warnings():
            # Rows held out have values that the others have not; they count as none of them.
            warnings.simplefilter("ignore", UserWarning)
            return _join(vectorizer.fit_transform(frame.iloc[learnt])), _join(vectorizer.transform(frame.iloc[held]))

    return features


def run(arrays: Arrays, bench: Bench, *, classifier: str) -> Outcome:
    """Measure a classifier on each pipeline; `arrays` are those of `text_vectors`.

    Measures: `raw_f1`, `table_vectorizer_f1` and `navi_fe_f1` with deviations, and `raw_features`, the number of raw
    features. Scores of the runs are kept as arrays under the same names.
    """
    hidden_K = find_revealing_columns(bench.corpus, list_hidden(bench.gold.labels))
    cells = read_cells(bench, arrays["row"], hidden_K)
    pipelines: Mapping[str, Callable[[], Features]] = {
        "raw": lambda: make_raw(cells),
        "navi_fe": lambda: make_navi(cells, arrays["vectors"]),
        "table_vectorizer": lambda: make_table_vectorizer(cells),
    }
    config = bench.config
    scores = {
        f"{name}_f1": classify_features(
            make(),
            arrays["labels"],
            CLASSIFIERS[classifier],
            rows=config.rows,
            runs=config.runs,
            seed=config.seed,
            row=arrays["row"],
        )
        for name, make in pipelines.items()
    }
    measures = {key: value for name, each in scores.items() for key, value in summarise(name, each).items()}
    return Outcome({**measures, "raw_features": float(cells.numbers.shape[1] + 2 * cells.texts.shape[1])}, dict(scores))


def _spread(
    bench: Bench,
    num_rows: int,
    row_C: Ints,
    attribute_C: Ints,
    min_cells: int,
    kind: str,
    content_C: NDArray[Any],
    chosen_C: Bools,
) -> pd.DataFrame:
    """Put chosen cells into a frame, a column for each attribute and each of its places in a row."""
    import pandas as pd

    row_C, attribute_C, content_C = row_C[chosen_C], attribute_C[chosen_C], content_C[chosen_C]
    rank_C = _count_before(row_C, attribute_C)
    num_ranks = int(rank_C.max(initial=0)) + 1
    keys, place_C, counts = np.unique(attribute_C * num_ranks + rank_C, return_inverse=True, return_counts=True)
    kept = counts >= min_cells
    grid = np.full((num_rows, int(kept.sum())), None if content_C.dtype == np.object_ else np.nan, content_C.dtype)
    kept_C = kept[place_C]
    grid[row_C[kept_C], (np.cumsum(kept) - 1)[place_C[kept_C]]] = content_C[kept_C]
    attributes, ranks = np.divmod(keys[kept], num_ranks)
    names: list[str] = bench.corpus.attributes.take(pa.array(attributes)).to_pylist()
    # Kind and place stand behind every name, so that no two columns are called the same.
    return pd.DataFrame(grid, columns=[f"{name} ({kind} {rank + 1})" for name, rank in zip(names, ranks, strict=True)])


def _count_before(row_C: Ints, attribute_C: Ints) -> Ints:
    """Return how many cells of the same row and attribute stand before each cell: (C,)."""
    order = np.lexsort((np.arange(len(row_C)), attribute_C, row_C))
    pairs = np.stack([row_C[order], attribute_C[order]])
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    begin = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    counts = np.empty(len(order), dtype=np.int64)
    counts[order] = np.arange(len(order)) - begin
    return counts


def _join(*parts: Any) -> Matrix:
    """Return frames and matrices side by side."""
    return np.hstack([np.asarray(part, dtype=np.float32) for part in parts])


def _choose_rows(matrix: Matrix) -> Features:
    return lambda learnt, held: (matrix[learnt], matrix[held])


FEATURES = tuple(
    Sequel(
        name=f"features_{name}",
        after="text_vectors",
        run=partial(run, classifier=name),
        needs=("labels",),
        module="xgboost" if name == "xgboost" else "skrub",
    )
    for name in CLASSIFIERS
)
"""Feature pipelines with each classifier."""
