"""Figures of a benchmark as lines of `benchmarks/results.jsonl`, each with what is needed to get it again.

A benchmark calls `add_record` for each line that it prints, if it is run with `--record`. Every figure in a
table of docs/benchmarks.md has its line there; a test compares them. A `note` says what is not as it should be: figures
that were read from the page because they are older than records, or a commit that was entered by hand.
"""

# needs: nothing; other benchmarks import it.
from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from navi.files import digest_file
from navi.verbs import Navi
from navi_paper.grid import find_commit

RESULTS = Path(__file__).with_name("results.jsonl")


def add_record(figures: Mapping[str, float], *, setting: str, data: Sequence[Path], seed: int, navi: Navi) -> None:
    """Append the figures, what was measured (`setting`), commit, command, seed, and digests of data and model."""
    line = {
        "benchmark": Path(sys.argv[0]).stem,
        "setting": setting,
        "figures": {name: round(float(figure), 4) for name, figure in figures.items()},
        "commit": find_commit(),
        "command": write_command(),
        "seed": seed,
        "data": digest_files(data),
        "model": navi.fingerprint[:16],
    }
    with RESULTS.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_command() -> str:
    """Return the command without the folders of this machine: of each path its last part."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:] if word != "--record"]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def digest_files(paths: Sequence[Path]) -> str:
    """Return one digest of all files, those of folders included, by their bytes."""
    files = sorted(file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    return hashlib.sha256("\n".join(map(digest_file, files)).encode()).hexdigest()[:16]


def calibration_error(probability: NDArray[np.float64], right: NDArray[np.bool_], num_bins: int = 10) -> float:
    """Return the expected calibration error: the mean distance of confidence and accuracy in bins of equal width.

    >>> calibration_error(np.array([0.9, 0.9, 0.9, 0.9]), np.array([True, True, True, False]))
    0.15
    """
    bins = np.minimum((probability * num_bins).astype(np.int64), num_bins - 1)
    gaps = np.bincount(bins, probability - right, num_bins)
    return round(float(np.abs(gaps).sum()) / max(1, len(right)), 12)
