"""How often the value of an empty cell is found, and how often a sure fill is right, with gaps like real ones.

    python benchmarks/imputation.py CORPUS [--model MODEL] [--split unseen] [--evidence profiles|model|both]
    python benchmarks/imputation.py --fit TABLE [TABLE ...]

Of each table of a split some columns lose a quarter of their values: single cells, drawn at random, or whole groups,
all cells of the column in rows that are the same in another column (all years of a maker). What is left of the table
is all that may be looked at, and what the model learned from. Columns nearly all of whose values are different are not
asked for. `exact` is the share of values found, `ece` the expected calibration error, `right` the share of right ones
among the cells surer than a bar. `--fit` prints the optimism and steepness that `navi.verbs.candidate_values` has.

`profiles` is what `navi impute` does: what stood beside a row's other cells. `model` lets the ten nearest rows vote, by
the encoder's vectors of their cells, column by column; `both` takes the surer of the two. Only `exact` counts then.
"""

# needs: a prepared corpus
from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from concepts import list_frames
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from navi.columns.texts import embed_texts
from navi.corpus import Corpus, Encoded
from navi.corpus.arrays import SegmentArrays
from navi.corpus.tokens import TextTokenizer
from navi.tables import read_table
from navi.verbs import Navi, candidate_values
from navi.verbs.candidate_values import CandidateFinder, Candidates, Gaps, fold_texts
from navi_paper.tasks.prediction import calibration_error

BARS = (0.5, 0.8, 0.9)
COLUMNS, CELLS = 4, 40
"""Columns of a table that lose values, and cells of each that are asked for, at most."""
SHARE = 0.25
"""Share of a column's cells that are hidden, about."""
KINDS = ("cells", "groups")


def draw_gaps(arrays: SegmentArrays, kind: str, rng: np.random.Generator) -> Iterator[tuple[Gaps, Gaps]]:
    """Yield for some columns of a table the cells to hide, and those of them to ask for."""
    table_RK, drawn = tabulate(arrays), 0
    for column in rng.permutation(arrays.num_columns):
        held = np.flatnonzero((table_RK[:, column] >= 0) & ((table_RK >= 0).sum(axis=1) > 1))
        if len(held) < 20 or len(np.unique(table_RK[held, column])) > 0.9 * len(held):
            continue
        others = np.delete(table_RK[held], column, axis=1)
        hidden = draw_groups(others, rng) if kind == "groups" else rng.permutation(len(held))[: int(SHARE * len(held))]
        if len(hidden):
            rows = held[hidden]
            every = Gaps(row=rows, column=np.full(len(rows), column))
            yield every, every.take(rng.permutation(len(rows))[:CELLS])
            drawn += 1
        if drawn == COLUMNS:
            return


def draw_groups(others_RK: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows of some groups: those that are the same in one column that divides rows into a few or more."""
    for column in rng.permutation(others_RK.shape[1]):
        groups, of_row, counts = np.unique(others_RK[:, column], return_inverse=True, return_counts=True)
        counts[groups < 0] = 0
        total = counts.sum()
        if total > 0.5 * len(of_row) and 3 <= len(groups) <= 0.7 * total and counts.max() < 0.5 * total:
            order = rng.permutation(np.flatnonzero(groups >= 0))
            chosen = order[np.cumsum(counts[order]) <= 1.3 * SHARE * total]
            return np.flatnonzero(np.isin(of_row, chosen))
    return np.zeros(0, np.int64)


class Outcome:
    """How sure the guesses were, and whether they are right."""

    def __init__(self) -> None:
        self.sure: list[NDArray[np.float64]] = []
        self.right: list[NDArray[np.bool_]] = []

    def add(self, encoded: Encoded, gaps: Gaps, found: Candidates) -> None:
        table, arrays = tabulate(encoded.arrays), encoded.arrays
        truth = encoded.values.take(pa.array(arrays.segment_value[table[gaps.row, gaps.column]]))
        guess = pa.array([found.values.texts[value] for value in found.best])
        self.sure.append(found.probability)
        self.right.append(np.array(fold_texts(guess)) == np.array(fold_texts(truth.take(pa.array(found.gaps)))))

    def show(self, label: str) -> None:
        sure, right = np.concatenate(self.sure), np.concatenate(self.right)
        bars = [(bar, sure >= bar) for bar in BARS]
        shown = (f"≥{bar}: {kept.sum()} right={right[kept].mean() if kept.any() else 1:.3f}" for bar, kept in bars)
        columns = [right[sure >= 0.8] for sure, right in zip(self.sure, self.right, strict=True)]
        columns = [each.mean() for each in columns if len(each) >= 5]
        print(
            f"{label} cells={len(right)} exact={right.mean():.3f} ece={calibration_error(sure, right):.3f}",
            *shown,
            f"columns with five at 0.8: {len(columns)}, of these right below 0.8: {sum(np.array(columns) < 0.8)}",
        )


def tabulate(arrays: SegmentArrays) -> NDArray[np.int64]:
    """Return the segment of each cell of a table, -1 for empty ones: (rows, columns)."""
    table = np.full((arrays.num_rows, arrays.num_columns), -1)
    table[arrays.cell_row, arrays.cell_column] = arrays.row_segments
    return table


def embed_values(navi: Navi, encoded: Encoded) -> NDArray[np.float32]:
    """Return the encoder's vector of each value, read as a text."""
    texts = [text[:60] for text in encoded.values.to_pylist()]
    return embed_texts(navi.runner, TextTokenizer(navi.tokenizer), texts)


def vote(embedded: NDArray[np.float32], arrays: SegmentArrays, gaps: Gaps, found: Candidates, mixed: bool) -> None:
    """Put the value for which the nearest rows vote in the place of the likeliest."""
    values, table = found.values, tabulate(arrays)
    rows, column = gaps.row[found.gaps], int(gaps.column[0])
    cosine = np.zeros((len(rows), len(values.row)))
    for other in np.delete(np.arange(arrays.num_columns), column):
        filled = table[:, other] >= 0
        vectors = np.where(filled[:, None], embedded[arrays.segment_value[table[:, other]]], 0.0)
        vectors -= filled[:, None] * vectors.sum(axis=0) / max(filled.sum(), 1)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
        cosine += vectors[rows] @ vectors[values.row].T
    cosine /= np.sqrt(
        np.maximum(np.multiply.outer(*((table[some] >= 0).sum(axis=1) for some in (rows, values.row))), 1)
    )
    nearest = np.argsort(-cosine, axis=1, kind="stable")[:, :10]
    weight = np.exp(10 * (np.take_along_axis(cosine, nearest, axis=1) - 1))
    votes = 0.01 * np.tile(values.share, (len(rows), 1))
    np.add.at(votes, (np.arange(len(rows))[:, None], values.cell_value[nearest]), weight)
    votes /= votes.sum(axis=1, keepdims=True)
    changed = (votes.max(axis=1) > found.probability) | (not mixed)
    found.best[changed] = votes.argmax(axis=1)[changed]
    found.probability[changed] = votes.max(axis=1)[changed]


def fit(outcomes: list[Outcome]) -> None:
    """Print what makes shares honest probabilities, for a finder that takes nothing from them."""
    sure, right = (np.concatenate([x for each in outcomes for x in getattr(each, name)]) for name in ("sure", "right"))
    fitted = LogisticRegression(max_iter=1000).fit(np.log(sure / (1 - sure))[:, None], right)
    print(f"OPTIMISM, STEEPNESS = {-fitted.intercept_[0]:.2f}, {fitted.coef_[0, 0]:.2f}")


def main(options: argparse.Namespace) -> None:
    navi, begin, num_tables = Navi.from_pretrained(options.model, device="cpu"), time.perf_counter(), 0
    if options.fit:
        candidate_values.OPTIMISM, candidate_values.STEEPNESS = 0.0, 1.0
        frames = ((file.name, read_table(file).text.slice(0, options.rows)) for file in options.paths)
    else:
        frames = list_frames(Corpus.open(options.paths[0]), options.split, options.rows, options.tables)
    outcomes = {kind: Outcome() for kind in KINDS}
    for _, frame in frames:
        encoded = navi.encode(frame)
        num_tables += 1
        embedded = None if options.evidence == "profiles" else embed_values(navi, encoded)
        for kind, outcome in outcomes.items():
            for hidden, gaps in draw_gaps(encoded.arrays, kind, np.random.default_rng(options.seed)):
                for found in CandidateFinder(encoded, navi.domain, hidden=hidden).find(gaps):
                    if embedded is not None:
                        vote(embedded, encoded.arrays, gaps, found, mixed=options.evidence == "both")
                    outcome.add(encoded, gaps, found)
    if options.fit:
        fit(list(outcomes.values()))
    for kind, outcome in outcomes.items():
        outcome.show(f"{options.paths[0].name} split={options.split} evidence={options.evidence} gaps={kind}")
    print(f"tables={num_tables} seed={options.seed} seconds={time.perf_counter() - begin:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", help="a prepared corpus, or tables to fit to")
    parser.add_argument("--model", default=None, help="a model directory; the one that comes along if not given")
    parser.add_argument("--split", choices=("unseen", "train"), default="unseen", help="whose tables lose values")
    parser.add_argument("--evidence", choices=("model", "profiles", "both"), default="profiles")
    parser.add_argument("--fit", action="store_true", help="fit weights to these tables, and print them")
    parser.add_argument("--rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--tables", type=int, default=None, help="tables, at most, the first by a fixed draw")
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
