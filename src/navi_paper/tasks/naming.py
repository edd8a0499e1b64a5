"""Naming: the columns of tables that nobody has seen, called by the headers of those that were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.columns import is_useless
from navi.corpus.arrays import SegmentArrays
from navi_paper.data import (
    Columns,
    EvaluationData,
    Task,
    TaskResult,
    list_gold_columns,
    sample_cells,
)
from navi_paper.encoder import PREDICTS_TOKENS, Floats, Hidden, Ints, TableEncoder
from navi_paper.gold import name_columns
from navi_paper.views import blank_headers, permute_columns

# Shape suffixes: C cells, Q columns to name, N candidates, L tokens of a header.

PURPOSE = 5
"""Sets the draws of rows apart from other tasks'."""
ROWS = 16
"""Rows of a column that it is named from, at most."""
LONGEST = 8
"""Tokens of the longest header that is a candidate: each length is another pass."""
TOP = 5
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The headers of known tables, those with the same tokens once."""

    tokens: tuple[tuple[int, ...], ...]
    """(N,) tokens of each."""
    concepts: tuple[frozenset[str], ...]
    """(N,) what each means in some known table, by the gold."""
    usual: tuple[str | None, ...]
    """(N,) what each means in most of them; of equals the first by name."""
    too_long: int
    """Headers left out for their length."""

    @property
    def nameable(self) -> frozenset[str]:
        """Everything that some candidate means."""
        return frozenset().union(*self.concepts)


def measure_naming(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Measure `top1` and `top5`, and `permuted_top1` and `permuted_top5` with columns permuted, on unseen tables.

    For each column, its header alone is hidden, blind, in at most 16 rows, once for each length that a candidate may
    have; a candidate scores the mean of its tokens' log-probabilities over tokens and rows. It is right if some known
    table has it in the column's concept; for `…_strict`, if that is what it means in most of them. Columns whose
    concept no candidate has cannot be named; they are counted as `unnameable`, not as wrong. `frequent_top1` and
    `frequent_top5` is what the headers of most known tables get.
    """
    candidates = list_candidates(data)
    gold = list_gold_columns(data)
    wanted = sample_cells(data, "unseen", gold.number, min(ROWS, data.config.column_rows), PURPOSE)
    present = gold[np.isin(gold.number, wanted[1])]
    columns = present[np.isin(present.concept, sorted(candidates.nameable))]
    if not len(columns):
        return TaskResult({})
    rules = {
        "": np.array([[concept in each for each in candidates.concepts] for concept in columns.concept]),
        "_strict": np.array([[concept == each for each in candidates.usual] for concept in columns.concept]),
    }
    measures = {
        "columns": float(len(columns)),
        "unnameable": float(len(present) - len(columns)),
        "candidates": float(len(candidates.tokens)),
        "too_long": float(candidates.too_long),
    }
    views = {"": data.corpus.arrays, "permuted_": permute_columns(data.corpus.arrays, seed=data.config.seed)}
    scores = {name: score_columns(encoder, view, wanted, columns, candidates) for name, view in views.items()}
    # Candidates stand from those of most tables to those of fewest.
    scores["frequent_"] = np.tile(-np.arange(len(candidates.tokens), dtype=np.float32), (len(columns), 1))
    for name, score in scores.items():
        order = np.argsort(-score, axis=1, kind="stable")[:, :TOP]
        for ending, right in rules.items():
            best = np.take_along_axis(right, order, axis=1)
            measures[f"{name}top1{ending}"] = float(best[:, 0].mean())
            measures[f"{name}top5{ending}"] = float(best.any(axis=1).mean())
    return TaskResult(measures)


def list_candidates(data: EvaluationData) -> Candidates:
    """Return the headers of the tables that were trained on, those of most tables first; fillers are none."""
    arrays = data.corpus.arrays
    tables, headers = name_columns(data.corpus)
    known = set(np.unique(arrays.row_table[data.corpus.rows_of("train")]).tolist())
    found: dict[tuple[int, ...], Counter[str]] = {}
    spread: Counter[tuple[int, ...]] = Counter()
    for column in range(len(headers)):
        if int(arrays.column_table[column]) not in known or is_useless(headers[column]):
            continue
        start, end = arrays.header_offsets[arrays.column_header[column] :][:2]
        tokens = tuple(arrays.header_tokens[start:end].tolist())
        concept = data.gold.concepts.get((tables[column], headers[column]))
        found.setdefault(tokens, Counter()).update(() if concept is None else (concept,))
        spread[tokens] += 1
    short = sorted((tokens for tokens in found if len(tokens) <= LONGEST), key=lambda each: (-spread[each], each))
    counted = [found[tokens] for tokens in short]
    return Candidates(
        tokens=tuple(short),
        concepts=tuple(map(frozenset, counted)),
        usual=tuple(min(each, key=lambda concept: (-each[concept], concept), default=None) for each in counted),
        too_long=len(found) - len(short),
    )


def score_columns(
    encoder: TableEncoder,
    arrays: SegmentArrays,
    wanted: tuple[Ints, Ints],
    columns: Columns,
    candidates: Candidates,
) -> Floats:
    """Return the score of each candidate for each column: (Q, N)."""
    asked = np.isin(wanted[1], columns.number)
    rows, place = wanted[0][asked], np.searchsorted(columns.number, wanted[1][asked])
    tokens, flat = np.unique([token for each in candidates.tokens for token in each], return_inverse=True)
    lengths = np.array([len(each) for each in candidates.tokens])
    spelled = np.split(flat.reshape(-1), np.cumsum(lengths)[:-1])
    scores = np.zeros((len(columns), len(lengths)), dtype=np.float32)
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        logged_QLV = _read_columns(encoder, arrays, (rows, columns.number[place]), int(length), tokens)
        spelling = np.stack([spelled[member] for member in members])  # (N, L)
        scores[:, members] = logged_QLV[:, np.arange(length), spelling].mean(axis=2)
    return scores


def _read_columns(
    encoder: TableEncoder, arrays: SegmentArrays, wanted: tuple[Ints, Ints], length: int, tokens: Ints
) -> NDArray[np.float32]:
    """Return the mean log-probability of each token at each place of a header of this length: (Q, L, tokens)."""
    rows, column = wanted
    columns, place = np.unique(column, return_inverse=True)
    sums = np.zeros((len(columns), length * len(tokens)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        taken = arrays.take_rows(rows[some])
        cells = taken.cell_column == np.repeat(column[some], np.diff(taken.row_offsets))
        blank = blank_headers(taken, cells, np.full(length, tokens[0]))
        hidden = Hidden(part="header", cells=cells, blind=True)
        found = encoder.predict_log(blank, np.arange(len(rows[some])), hidden, tokens)
        np.add.at(sums, place[some], found.reshape(-1, length * len(tokens)))
    means = sums / np.bincount(place, minlength=len(columns))[:, None]
    return means.reshape(len(columns), length, len(tokens)).astype(np.float32)


NAMING = Task(name="naming", run=measure_naming, needs=("concepts",), requires=frozenset({PREDICTS_TOKENS}))
