"""How often the value of a hidden cell is found, and how far its probability is off.

    python benchmarks/imputation.py CORPUS --cells 2000
    python benchmarks/imputation.py CORPUS --cells 2000 --split unseen

Cells of test rows are hidden, one at a time. Every method is asked for the same cells; training rows are what it may
look at. With `--split unseen`, cells are hidden in one row of ten of the tables that were kept out of training, and the
other nine are what every method may look at. The calibration comes from validation rows, training rows in sight, in
both cases; the other methods go by one kind of evidence alone. One line a method and role: `exact` is the share of
values found, `ece` the expected calibration error of the probabilities.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from navi.corpus import ROLES, Corpus
from navi.corpus.hashing import hash_text, mix
from navi.training.export import survey_domain
from navi.verbs.calibration import Calibration, measure_reliability
from navi.verbs.candidate_values import EVIDENCE, CandidateFinder
from navi.verbs.impute import fit_calibration, guess_cells, hide_cells

# needs: a prepared corpus

CONFIDENCES = (0.5, 0.8, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument(
        "--split", choices=("test", "validation", "unseen"), default="test", help="rows whose cells are hidden"
    )
    parser.add_argument("--cells", type=int, default=2000, help="cells hidden")
    parser.add_argument("--calibration-cells", type=int, default=2000, help="validation cells to calibrate with")
    parser.add_argument("--seed", type=int, default=0)
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    corpus = Corpus.open(options.corpus)
    asked, evidence = divide_rows(corpus, options.split)
    gaps, values = hide_cells(corpus.arrays, asked, options.cells, seed=options.seed)
    truth = corpus.values.take(pa.array(values)).to_pylist()
    role = np.array(ROLES)[corpus.arrays.column_role[gaps.column]]
    print(f"corpus={corpus.path.name} split={options.split} cells={len(gaps)}")
    domain = survey_domain(corpus)
    begin = time.perf_counter()
    candidates = list(CandidateFinder(corpus, domain, evidence).find(gaps))
    print(f"candidates seconds={time.perf_counter() - begin:.1f}")
    for method, calibration in list_methods(corpus, domain, options):
        guesses = guess_cells(candidates, len(gaps), calibration)
        exact = np.array([(a or "").lower() == b.lower() for a, b in zip(guesses.texts, truth, strict=True)])
        show(method, role, exact, guesses.probability)


def divide_rows(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows whose cells may be hidden, and those that methods may look at."""
    rows = corpus.rows_of(split)
    if split != "unseen":
        return rows, corpus.rows_of("train")
    # Equal rows fall on one side: a copy would give the answer away.
    is_asked = mix(corpus.row_hash[rows], hash_text("imputation")) % np.uint64(10) == 0
    return rows[is_asked], rows[~is_asked]


def list_methods(corpus: Corpus, domain: object, options: argparse.Namespace) -> list[tuple[str, Calibration | None]]:
    """Return how evidence is weighed: each kind alone, all by the usual weights, and all by fitted ones."""
    methods: list[tuple[str, Calibration | None]] = [
        (name.replace(" ", "-"), Calibration(weights=tuple(float(kind == number) for kind in range(len(EVIDENCE)))))
        for number, name in enumerate(EVIDENCE)
    ]
    begin = time.perf_counter()
    gaps, values = hide_cells(
        corpus.arrays, corpus.rows_of("validation"), options.calibration_cells, seed=options.seed + 1
    )
    candidates = CandidateFinder(corpus, domain, corpus.rows_of("train")).find(gaps)
    fitted = fit_calibration(candidates, corpus.values.take(pa.array(values)), seed=options.seed)
    print(f"calibration cells={len(gaps)} seconds={time.perf_counter() - begin:.1f} ece={fitted.reliability.ece:.4f}")
    return [*methods, ("usual-weights", None), ("navi", fitted)]


def show(method: str, role: np.ndarray, exact: np.ndarray, probability: np.ndarray) -> None:
    """Print one line for each role, for all, and for some bars of confidence."""
    for name in ("all", *ROLES):
        chosen = np.ones(len(exact), bool) if name == "all" else role == name
        if chosen.any():
            ece = measure_reliability(probability[chosen], exact[chosen]).ece
            print(f"method={method} role={name} cells={chosen.sum()} exact={exact[chosen].mean():.4f} ece={ece:.4f}")
    for bar in CONFIDENCES:
        kept = probability >= bar
        accuracy = exact[kept].mean() if kept.any() else float("nan")
        print(f"method={method} confidence={bar} kept={kept.mean():.4f} exact={accuracy:.4f}")


if __name__ == "__main__":
    main()
