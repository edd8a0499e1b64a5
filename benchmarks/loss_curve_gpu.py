"""Whether fast training learns what plain training does: losses of the same steps, fast beside float32.

    python benchmarks/loss_curve_gpu.py CORPUS [--steps 300]

Each setting trains from the same seed on the same batches. The last line of each compares its curve with float32's:
the mean and the largest relative difference of the loss, smoothed over 50 steps, after the first 50.
"""

# needs: a GPU and a corpus

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from navi.training import PretrainConfig, pretrain

SETTINGS = {
    "float32": {"precision": "float32", "graphs": False},
    "bfloat16": {"precision": "bfloat16", "graphs": False},
    "graphs": {"precision": "bfloat16", "graphs": True},
}


def train(corpus: str, steps: int, settings: dict[str, object]) -> tuple[np.ndarray, float]:
    """Return the loss of each step, and rows/s of the later half of the run."""
    fixed = {"max_steps": steps, "log_every": 1, "validate_rows": 0, "curves": False, "workers": 6}
    config = PretrainConfig.from_dict({"training": {**fixed, **settings}})
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        pretrain(corpus, Path(folder) / "model", config)
        seconds = time.perf_counter() - begun
        lines = (Path(folder) / "model" / "metrics.jsonl").read_text().splitlines()
    losses = [line["loss"] for line in map(json.loads, lines) if line["kind"] == "train"]
    return np.array(losses), seconds


def smooth(losses: np.ndarray, width: int = 50) -> np.ndarray:
    return np.convolve(losses, np.ones(width) / width, mode="valid")


def main(options: argparse.Namespace) -> None:
    curves = {}
    for name, settings in SETTINGS.items():
        curves[name], seconds = train(options.corpus, options.steps, settings)
        shown = " ".join(f"{loss:.4f}" for loss in curves[name][:: max(1, options.steps // 12)])
        print(f"curve {name} seconds={seconds:.1f} losses={shown}", flush=True)
    plain = smooth(curves["float32"])
    for name, losses in curves.items():
        apart = np.abs(smooth(losses) - plain) / plain
        print(f"apart {name} mean={apart.mean():.5f} largest={apart.max():.5f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--steps", type=int, default=300)
    main(parser.parse_args())
