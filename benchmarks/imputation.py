"""How often the value of an empty cell is found, and how often a sure fill is right, with gaps like real ones.

    python benchmarks/imputation.py TABLE|FOLDER ... [--names paper/split.json movie unseen] [--training FOLDER] [--fit]

Some columns of each table lose a quarter of their values: single cells, drawn at random, or whole groups, all cells of
the column in rows that are the same in another column (all years of a maker). What is left of the table is all that may
be looked at. Columns nearly all of whose values are different are not asked for. `exact` is the share of values found,
`ece` the expected calibration error, `right` the share of right ones among the cells surer than a bar. `--fit` prints
the optimism that `navi.verbs.candidate_values` has. `--names` takes the tables that a split names.
If a table overlaps with one in the folders of `--training` (but for those that the file `--without` lists), none runs.
"""

# needs: nothing
from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from overlap import check_no_overlap
from records import add_record, calibration_error
from scipy.optimize import brentq

from navi.corpus import Encoded
from navi.corpus.arrays import SegmentArrays
from navi.tables import read_tables
from navi.verbs import Navi, candidate_values
from navi.verbs.candidate_values import CandidateFinder, Candidates, Gaps, fold_texts

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
            chosen = rng.permutation(len(rows))[:CELLS]
            yield every, Gaps(row=every.row[chosen], column=every.column[chosen])
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

    def measure(self) -> dict[str, float]:
        sure, right = np.concatenate(self.sure), np.concatenate(self.right)
        figures = {"cells": len(right), "exact": right.mean(), "ece": calibration_error(sure, right)}
        for bar in BARS:
            kept = sure >= bar
            figures |= {f"fills at {bar}": kept.sum(), f"right at {bar}": right[kept].mean() if kept.any() else 1.0}
        columns = [right[sure >= 0.8] for sure, right in zip(self.sure, self.right, strict=True)]
        columns = [each.mean() for each in columns if len(each) >= 5]
        figures |= {"columns with five at 0.8": len(columns), "of these right below 0.8": sum(np.array(columns) < 0.8)}
        return {name: float(value) for name, value in figures.items()}


def tabulate(arrays: SegmentArrays) -> NDArray[np.int64]:
    """Return the segment of each cell of a table, -1 for empty ones: (rows, columns)."""
    table = np.full((arrays.num_rows, arrays.num_columns), -1)
    table[arrays.cell_row, arrays.cell_column] = arrays.row_segments
    return table


def fit(outcomes: list[Outcome]) -> None:
    """Print what makes shares honest probabilities, for a finder that takes nothing from them."""
    sure, right = (np.concatenate([x for each in outcomes for x in getattr(each, name)]) for name in ("sure", "right"))
    odds = sure / (1 - sure)
    print(f"OPTIMISM = {brentq(lambda less: (1 / (1 + np.exp(less) / odds)).mean() - right.mean(), -5, 5):.2f}")


def main(options: argparse.Namespace) -> None:
    if options.fit:
        candidate_values.OPTIMISM = 0.0
    navi, rng = Navi.from_pretrained(options.model, device="cpu"), np.random.default_rng(options.seed)
    tables, label = read_tables(options.paths), options.paths[0].name
    if options.names:
        split, *keys = options.names
        named, label = json.loads(Path(split).read_text(encoding="utf-8")), " ".join(keys)
        for key in keys:
            named = named[key]
        tables = {name: tables[name] for name in named}
    if options.training:
        check_no_overlap(
            options.training, {name: table.text for name, table in tables.items()}, without=options.without
        )
    outcomes = {kind: Outcome() for kind in KINDS}
    for table in tables.values():
        drawn = np.sort(rng.permutation(table.num_rows)[: options.rows])
        encoded = navi.encode_whole(table.text.take(drawn))
        for kind, outcome in outcomes.items():
            for hidden, gaps in draw_gaps(encoded.arrays, kind, np.random.default_rng(options.seed)):
                for found in CandidateFinder(encoded, navi.trained_values, hidden=hidden).find(gaps):
                    outcome.add(encoded, gaps, found)
    if options.fit:
        fit(list(outcomes.values()))
    for kind, outcome in outcomes.items():
        figures = outcome.measure()
        print(f"{label}, {kind}:", *(f"{name}={value:.3f}" for name, value in figures.items()), flush=True)
        if options.record:
            add_record(figures, setting=f"{label}, {kind}", data=options.paths, seed=options.seed, navi=navi)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", help="tables, or folders of them")
    parser.add_argument("--names", nargs="+", metavar=("FILE", "KEY"), help="a split, and where it names the tables")
    parser.add_argument("--model", default=None, help="a model directory; the one that comes along if not given")
    parser.add_argument("--training", type=Path, nargs="+", help="folders that the model was trained on")
    parser.add_argument("--without", type=Path, help="a file that lists tables of these that it was not trained on")
    parser.add_argument("--fit", action="store_true", help="fit weights to these tables, and print them")
    parser.add_argument("--rows", type=int, default=1000, help="rows of each table, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    main(parser.parse_args())
