"""Memory: the peak of `navi prepare` and `navi embed` over tables of three narrow columns, one of them all different.

    python benchmarks/memory.py [--rows 100000 1000000 10000000] [--verbs prepare embed] [--folder DIR]

Embedding is done by a random encoder of one layer, 32 wide. Each verb runs in processes of its own; what they hold for
themselves (anonymous memory, VmRSS less mapped files) and all resident pages are read twenty times a second, added up
over the processes. Ten files at every size, so that the number of processes is the same. One line a figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

NUM_FILES = 10
GENRES = ("drama", "comedy", "horror", "action")


def write_tables(folder: Path, num_rows: int) -> None:
    folder.mkdir()
    for number in range(NUM_FILES):
        draw = np.random.default_rng(number)
        ids = np.arange(number * num_rows // NUM_FILES, (number + 1) * num_rows // NUM_FILES)
        years, genres = draw.integers(1920, 2026, len(ids)), draw.integers(0, len(GENRES), len(ids))
        lines = (f"tt{i * 7919},{year},{GENRES[genre]}\n" for i, year, genre in zip(ids, years, genres, strict=True))
        with (folder / f"films{number:03}.csv").open("w") as file:
            file.write("id,year,genre\n")
            file.writelines(lines)


def make_model(folder: Path) -> None:
    import torch

    from navi.backbones import load_tokenizer
    from navi.model import NaviConfig, NaviModel

    shape = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    torch.manual_seed(0)
    tokenizer = load_tokenizer("navi-base")
    model = NaviModel(NaviConfig(vocab_size=tokenizer.get_vocab_size(), **shape))
    model.config.save_pretrained(folder)
    from safetensors.torch import save_file

    save_file(
        {name: each.detach().contiguous() for name, each in model.named_parameters()}, folder / "model.safetensors"
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def watch(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return its peaks of anonymous and of resident memory in MB, and seconds."""
    begun, anonymous, resident = time.perf_counter(), 0, 0
    with subprocess.Popen(command) as running:
        parent = psutil.Process(running.pid)
        while running.poll() is None:
            own = total = 0
            try:
                for process in (parent, *parent.children(recursive=True)):
                    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                        own += int(line.split()[1]) if line.startswith("RssAnon") else 0
                        total += int(line.split()[1]) if line.startswith("VmRSS") else 0
            except (psutil.Error, OSError):
                continue
            anonymous, resident = max(anonymous, own), max(resident, total)
            time.sleep(0.05)
    assert running.returncode == 0, command
    return anonymous / 1024, resident / 1024, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--verbs", nargs="*", default=["prepare", "embed"])
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        (folder / "model").mkdir()
        make_model(folder / "model")
        for num_rows in options.rows:
            tables = folder / f"tables{num_rows}"
            write_tables(tables, num_rows)
            for verb in options.verbs:
                out = folder / f"{verb}{num_rows}"
                extra = ["--workers", "2"] if verb == "prepare" else ["--model", str(folder / "model")]
                command = [sys.executable, "-m", "navi", verb, str(tables), "-o", str(out), "--quiet", *extra]
                own, total, seconds = watch(command)
                figures = {"rows": num_rows, "anonymous_MB": round(own), "resident_MB": round(total)}
                print(f"memory_{verb}", json.dumps({**figures, "seconds": round(seconds)}), flush=True)


if __name__ == "__main__":
    main()
