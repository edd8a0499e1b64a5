"""How reliable the confidence of pairs of rows is, on simulated catalogues of films.

    python benchmarks/pairs.py MODEL --seeds 21 22 --rows 300

Of each seed's five catalogues, four pairs are compared, one-to-one and without a threshold. `error` is the expected
calibration error; precision and recall are those of pairs with a confidence of at least 0.5.
"""

# needs: a model
from __future__ import annotations

import argparse
from itertools import combinations, islice
from pathlib import Path

import numpy as np

from navi.simulator import SimulatorConfig, simulate
from navi.verbs import Navi
from navi.verbs.calibration import measure_reliability

CATALOGUES, PAIRS_OF_TABLES, LEAST = 5, 4, 0.5


def main(arguments: argparse.Namespace) -> None:
    navi = Navi.from_pretrained(arguments.model, device=arguments.device)
    confidence: list[float] = []
    right: list[bool] = []
    total = 0
    for seed in arguments.seeds:
        world = simulate(SimulatorConfig(num_catalogues=CATALOGUES, rows_per_catalogue=arguments.rows, seed=seed))
        for first, second in islice(combinations(world.catalogues[:-1], 2), PAIRS_OF_TABLES):
            shared = set(world.truth.shared_rows(first.name, second.name))
            total += len(shared)
            pairs = navi.find_pairs(first.rows, second.rows, threshold=0.0, one_to_one=True)
            confidence += pairs.confidence.tolist()
            right += [pair in shared for pair in zip(pairs.left - 1, pairs.right - 1, strict=True)]
    sure = np.array(confidence) >= LEAST
    hits = np.array(right)[sure].sum()
    error = measure_reliability(np.array(confidence), np.array(right)).ece
    print(
        f"pairs={len(right)} shared={total} error={error:.3f} precision={hits / max(sure.sum(), 1):.3f} "
        f"recall={hits / max(total, 1):.3f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    parser.add_argument("--rows", type=int, default=300, help="rows of a catalogue, on average")
    parser.add_argument("--device", default=None)
    main(parser.parse_args())
