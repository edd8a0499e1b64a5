"""How fast, and in how much memory, tables become a corpus.

    python benchmarks/preparing.py FOLDER...            each folder by itself
    python benchmarks/preparing.py --grow 10000 1000000 simulated tables of growing size; 20,000 rows without arguments

Each run is a process of its own, so that its peak memory is its own too. One line a run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="folders (or files) of tables")
    parser.add_argument("--grow", nargs="+", type=int, metavar="ROWS", help="numbers of simulated rows")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.folders[0], options.backbone, options.workers)))
        return
    for folder in options.folders:
        show(Path(folder).name, run(folder, options))
    for num_rows in options.grow or ([] if options.folders else [20_000]):
        with tempfile.TemporaryDirectory() as scratch:
            simulate(scratch, num_rows, options.seed)
            show(f"simulated_{num_rows}", run(scratch, options))


def simulate(folder: str, num_rows: int, seed: int) -> None:
    from navi.simulator import SimulatorConfig, write_catalogues

    write_catalogues(folder, SimulatorConfig(num_rows=num_rows, seed=seed))


def run(folder: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", folder]
    command += ["--backbone", options.backbone, "--workers", str(options.workers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure(folder: str, backbone: str, workers: int) -> dict[str, float]:
    from navi.corpus import PrepareConfig, prepare

    with tempfile.TemporaryDirectory() as scratch:
        begin = time.perf_counter()
        corpus = prepare([folder], Path(scratch, "corpus"), PrepareConfig(backbone=backbone, workers=workers))
        seconds = time.perf_counter() - begin
        totals = corpus.manifest["totals"]
        size = sum(entry["bytes"] for entry in corpus.manifest["files"].values())
    parent, worker = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "rows": totals["read"],
        "seconds": seconds,
        "cpu_seconds": parent.ru_utime + parent.ru_stime + worker.ru_utime + worker.ru_stime,
        "rows_per_s": totals["read"] / seconds,
        "tokens_per_s": totals["tokens"] / seconds,
        "distinct_value_tokens_per_s": totals["value_tokens"] / seconds,
        "distinct_values_and_segments": totals["values"] + totals["segments"],
        "corpus_mb": size / 1e6,
        "peak_mb_parent": parent.ru_maxrss / 1024,
        "peak_mb_worker": worker.ru_maxrss / 1024,
        # The workers have ended before the parent's own peak, so this is a bound and not reached.
        "peak_mb_at_most": (parent.ru_maxrss + workers * worker.ru_maxrss) / 1024,
    }


def show(name: str, figures: dict[str, float]) -> None:
    print(
        f"prepare tables={name} " + " ".join(f"{figure}={value:.1f}" for figure, value in figures.items()), flush=True
    )


if __name__ == "__main__":
    main()
