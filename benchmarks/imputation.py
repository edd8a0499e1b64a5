"""How often the value of a hidden cell is found, and how far its probability is off.

    python benchmarks/imputation.py CORPUS MODEL --cells 2000
    python benchmarks/imputation.py CORPUS MODEL --cells 2000 --split unseen

A quarter of the cells of test rows are hidden, one at a time. Every method is asked for the same cells; training rows
are what it may look at. With `--split unseen`, cells are hidden in one row of ten of the tables that the model has
never seen, and the other nine are what every method may look at. Weights and calibration come from validation rows,
training rows in sight, in both cases. One line a method and role: `exact` is the share of values found whole, `token`
the share of their tokens at their places, `ece` the expected calibration error of the probabilities.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from navi.corpus import ROLES, Corpus
from navi.corpus.hashing import hash_text, mix
from navi.verbs import Navi
from navi.verbs.calibration import Calibration, measure_reliability
from navi.verbs.guessing import Blend, GuessConfig, Guesser
from navi.verbs.guessing.evidence import NearestRows
from navi.verbs.guessing.gaps import sort_cells
from navi.verbs.guessing.generation import Generator
from navi.verbs.heldout import HiddenCells, hide_cells
from navi.verbs.settling import calibrate_model, settle

# needs: a prepared corpus and a model pretrained on it

SPLITS = ("test", "validation", "unseen")
NEIGHBOURS = 5
CONFIDENCES = (0.5, 0.8, 0.9)


@dataclass(frozen=True)
class Result:
    """What a method answered."""

    method: str
    tokens: list[tuple[int, ...]]
    probability: np.ndarray
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--split", choices=("test", "validation", "unseen"), default="test", help="rows whose cells are hidden"
    )
    parser.add_argument("--cells", type=int, default=2000, help="cells hidden")
    parser.add_argument("--calibration-cells", type=int, default=2000, help="validation cells to calibrate with")
    parser.add_argument("--stored", action="store_true", help="use the calibration in the model directory")
    parser.add_argument("--save", action="store_true", help="write the calibration into the model directory")
    parser.add_argument("--lengths", type=int, default=GuessConfig().max_lengths, help="value lengths asked for")
    parser.add_argument("--without-model", action="store_true", help="only the methods that do not run the model")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    run(options)


def run(options: argparse.Namespace) -> None:
    corpus = Corpus.open(options.corpus)
    navi = Navi.from_pretrained(options.model, device=options.device)
    asked, evidence = divide_rows(corpus, options.split)
    hidden = hide_cells(corpus.arrays, asked, options.cells, seed=options.seed)
    print(f"corpus={corpus.path.name} split={options.split} cells={len(hidden.gaps)} device={navi.runner.device}")
    for result in (guess_most_frequent(corpus, evidence, hidden), vote(corpus, evidence, hidden)):
        show(hidden, result)
    methods: list[tuple[str, Blend | None, GuessConfig]] = [
        ("evidence-alone", Blend(model=0.0), GuessConfig(generate_above=None))
    ]
    if not options.without_model:
        show(hidden, fill_masks(navi, corpus, hidden))
        methods.append(("navi", None, GuessConfig(max_lengths=options.lengths)))
    for method, start, config in methods:
        calibration = find_calibration(navi, corpus, start, config, options)
        show(hidden, impute(navi, corpus, evidence, hidden, calibration, config, method))


def divide_rows(corpus: Corpus, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows whose cells may be hidden, and those that methods may look at."""
    rows = corpus.rows_of(split)
    if split != "unseen":
        return rows, corpus.rows_of("train")
    # Equal rows fall on one side: a copy would give the answer away.
    is_asked = mix(corpus.row_hash[rows], hash_text("imputation")) % np.uint64(10) == 0
    return rows[is_asked], rows[~is_asked]


def guess_most_frequent(corpus: Corpus, evidence: np.ndarray, hidden: HiddenCells) -> Result:
    """Answer each cell with its column's most frequent value; the probability is that value's share."""
    begin = time.perf_counter()
    cells = sort_cells(corpus.arrays, evidence)
    best: dict[int, tuple[int, float]] = {}
    for column in np.unique(hidden.gaps.column).tolist():
        values, counts = np.unique(cells.of(column)[1], return_counts=True)
        best[column] = (int(values[counts.argmax()]), counts.max() / counts.sum()) if len(values) else (-1, 0.0)
    answers = [best[column] for column in hidden.gaps.column.tolist()]
    tokens = [read_tokens(corpus, value) for value, _ in answers]
    return Result("most-frequent", tokens, np.array([share for _, share in answers]), time.perf_counter() - begin)


def vote(corpus: Corpus, evidence: np.ndarray, hidden: HiddenCells) -> Result:
    """Answer each cell with what most of the five nearest rows hold there, by TF-IDF over the other cells."""
    begin = time.perf_counter()
    nearest = NearestRows(corpus.arrays, evidence, sort_cells(corpus.arrays, evidence))
    votes = nearest.vote(hidden.gaps, NEIGHBOURS)
    tokens, shares = [], []
    for line in votes.value.tolist():
        counts = Counter(value for value in line if value >= 0).most_common(1)
        tokens.append(read_tokens(corpus, counts[0][0]) if counts else ())
        shares.append(counts[0][1] / NEIGHBOURS if counts else 0.0)
    return Result(f"nearest-rows-{NEIGHBOURS}", tokens, np.array(shares), time.perf_counter() - begin)


def fill_masks(navi: Navi, corpus: Corpus, hidden: HiddenCells) -> Result:
    """Answer each cell with the model's likeliest tokens, told how many there are: the masked-token protocol."""
    begin = time.perf_counter()
    lengths = np.array([len(tokens) for tokens in hidden.truth])
    found = Generator(navi.runner, corpus.arrays, navi.tokenizer).generate(hidden.gaps, lengths, rounds=1)
    answers = [found.of(cell) for cell in range(len(lengths))]
    tokens = [tokens for tokens, _ in answers]
    probability = np.array([np.exp(logp.sum()) for _, logp in answers])
    return Result("masked-tokens-length-given", tokens, probability, time.perf_counter() - begin)


def find_calibration(
    navi: Navi, corpus: Corpus, start: Blend | None, config: GuessConfig, options: argparse.Namespace
) -> Calibration:
    stored = Calibration.load(navi.folder) if options.stored and start is None else None
    if stored is not None:
        return stored
    begin = time.perf_counter()
    calibration = calibrate_model(
        navi.runner,
        corpus,
        navi.domain,
        num_cells=options.calibration_cells,
        start=start,
        config=config,
        seed=options.seed + 1,
    )
    weights = " ".join(f"{name}={weight:.2f}" for name, weight in vars(calibration.blend).items())
    print(
        f"calibration seconds={time.perf_counter() - begin:.1f} ece_before={calibration.before.ece:.4f} "
        f"ece_after={calibration.after.ece:.4f} {weights}"
    )
    if options.save and start is None:
        calibration.save(navi.folder)
    return calibration


def impute(
    navi: Navi,
    corpus: Corpus,
    evidence: np.ndarray,
    hidden: HiddenCells,
    calibration: Calibration,
    config: GuessConfig,
    method: str,
) -> Result:
    """Answer each cell as `navi impute` does, the evidence rows standing for the rest of the table."""
    begin = time.perf_counter()
    guesser = Guesser(
        navi.runner,
        corpus,
        navi.tokenizer,
        rows=evidence,
        domain=navi.domain,
        max_tokens=corpus.config.max_value_tokens,
        blend=calibration.blend,
        config=config,
    )
    settled = settle(guesser, hidden.gaps, hidden.role, calibration)
    return Result(method, list(settled.tokens), settled.probability, time.perf_counter() - begin)


def show(hidden: HiddenCells, result: Result) -> None:
    """Print one line for each role, for all, and for some bars of confidence."""
    exact = np.array([guess == truth for guess, truth in zip(result.tokens, hidden.truth, strict=True)])
    hits = np.array([sum(map(int.__eq__, *pair)) for pair in zip(result.tokens, hidden.truth, strict=True)])
    lengths = np.array([len(truth) for truth in hidden.truth])
    for role in ("all", *ROLES):
        chosen = np.ones(len(exact), bool) if role == "all" else hidden.role == role
        if chosen.any():
            ece = measure_reliability(result.probability[chosen], exact[chosen]).ece
            print(
                f"method={result.method} role={role} cells={chosen.sum()} exact={exact[chosen].mean():.4f} "
                f"token={hits[chosen].sum() / lengths[chosen].sum():.4f} ece={ece:.4f}"
            )
    for bar in CONFIDENCES:
        kept = result.probability >= bar
        accuracy = exact[kept].mean() if kept.any() else float("nan")
        print(f"method={result.method} confidence={bar} kept={kept.mean():.4f} exact={accuracy:.4f}")
    print(f"method={result.method} seconds={result.seconds:.1f}", flush=True)


def read_tokens(corpus: Corpus, value: int) -> tuple[int, ...]:
    offsets = corpus.arrays.value_offsets
    return tuple(corpus.arrays.value_tokens[offsets[value] : offsets[value + 1]].tolist()) if value >= 0 else ()


if __name__ == "__main__":
    main()
