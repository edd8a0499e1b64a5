"""Whether fast training learns what plain training does: losses of the same steps, fast beside float32.

    python benchmarks/loss_curve_gpu.py [CORPUS] [--steps 300] [--preset paper] [--dropout 0] [--settings graphs]

Each setting trains from the same seed on the same batches, of a prepared corpus or of simulated film catalogues. Passes
draw other dropout masks when they are recorded, because batches are filled up: with `--dropout 0` nothing but the
arithmetic differs, and `unrecorded` beside `graphs` tells what recording does from what half precision does. The last
line of each compares its curve with the first one's: the mean and the largest relative difference of the loss, smoothed
over 50 steps. Under `torchrun --nproc-per-node 1` rows/s show what that costs.
"""

# needs: a GPU

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from navi import prepare
from navi.simulator import SimulatorConfig, write_catalogues
from navi.training import PretrainConfig, make_preset, pretrain
from navi.training import step as training_step

SETTINGS = {
    "float32": {"precision": "float32", "graphs": False},
    "bfloat16": {"precision": "bfloat16", "graphs": False},
    "unrecorded": {"precision": "bfloat16", "graphs": True},
    "graphs": {"precision": "bfloat16", "graphs": True},
}
"""Float32; autocast; filled batches in half precision throughout, but never recorded; and the same recorded."""


def train(corpus: str, options: argparse.Namespace, settings: dict[str, object]) -> tuple[np.ndarray, float]:
    """Return the loss of each step, and the median rows/s of the later half of the run."""
    fixed = {"epochs": 1000, "max_steps": options.steps, "log_every": 1, "validate_rows": 0}
    changes = {"training": {**fixed, "workers": 6, **settings}, "model": {"dropout": options.dropout}}
    changes |= {"backbone": options.backbone} if options.backbone else {}
    config = PretrainConfig.from_dict(changes, base=make_preset(options.preset))
    with tempfile.TemporaryDirectory() as folder:
        pretrain(corpus, Path(folder) / "model", config)
        lines = (Path(folder) / "model" / "metrics.jsonl").read_text().splitlines()
    steps = [line for line in map(json.loads, lines) if line["kind"] == "train"]
    rates = [line["rows_per_second"] for line in steps[len(steps) // 2 :]]
    return np.array([line["loss"] for line in steps]), float(np.median(rates))


def smooth(losses: np.ndarray, width: int = 50) -> np.ndarray:
    return np.convolve(losses, np.ones(width) / width, mode="valid")


def main(options: argparse.Namespace) -> None:
    curves = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus or str(Path(folder) / "corpus")
        if not options.corpus:
            write_catalogues(Path(folder) / "tables", SimulatorConfig(num_rows=20_000))
            prepare([Path(folder) / "tables"], corpus)
        warm_up = training_step.WARM_UP
        for name in options.settings:
            training_step.WARM_UP = options.steps if name == "unrecorded" else warm_up
            curves[name], rate = train(corpus, options, SETTINGS[name])
            shown = " ".join(f"{loss:.4f}" for loss in curves[name][:: max(1, options.steps // 12)])
            print(f"curve {name} rows_per_s={rate:.0f} losses={shown}", flush=True)
    plain = smooth(curves[options.settings[0]])
    for name, losses in curves.items():
        apart = np.abs(smooth(losses) - plain) / plain
        last = losses[-50:].mean()
        print(f"apart {name} mean={apart.mean():.5f} largest={apart.max():.5f} last_50={last:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", help="simulated film catalogues if none is given")
    parser.add_argument("--backbone", help="what the runs start from; what the preset says if not given")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--dropout", type=float, help="instead of the backbone's own")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    main(parser.parse_args())
