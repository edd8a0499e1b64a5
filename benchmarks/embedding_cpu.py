"""Embedding on the CPU: rows/s of NAVI beside sentence-transformers on the same rows as text, with the same weights.

    python benchmarks/embedding_cpu.py [--rows 1000] [--repeats 3]

Simulated film catalogues, float32, from a frame in memory to a numpy array, tokenising included. One line a figure.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import torch

from navi.backbones import find_backbone
from navi.inference import Navi
from navi.model import load_backbone
from navi.simulator import SimulatorConfig, simulate
from navi.tables import read_frame, to_arrow


def make_tables(num_rows: int) -> list:
    """Return simulated catalogues as Arrow tables, rows of equal content left out: both sides encode the same."""
    config = SimulatorConfig(num_catalogues=8, rows_per_catalogue=-(-num_rows // 8), seed=1)
    return [to_arrow(read_frame(list(catalogue.rows))) for catalogue in simulate(config).catalogues]


def write_out(tables: list) -> list[str]:
    """Return each row as the text that a sentence encoder would be given."""
    return [
        ", ".join(f"{header}: {value}" for header, value in row.items() if value is not None)
        for table in tables
        for row in table.to_pylist()
    ]


def time_best(work, repeats: int) -> float:
    """Seconds of the quickest of several runs, after one to warm up."""
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def main(num_rows: int, repeats: int) -> None:
    from sentence_transformers import SentenceTransformer

    tables = make_tables(num_rows)
    texts = write_out(tables)
    with tempfile.TemporaryDirectory() as folder:
        load_backbone("minilm").save_pretrained(folder)
        shutil.copy(find_backbone("minilm") / "tokenizer.json", Path(folder) / "tokenizer.json")
        navi = Navi.from_pretrained(folder, device="cpu")
        ours = time_best(lambda: [navi.embed_rows(table) for table in tables], repeats)
    sentences = SentenceTransformer(str(find_backbone("minilm")), device="cpu")
    theirs = time_best(lambda: sentences.encode(texts), repeats)
    count = len(texts)
    print(
        f"embedding_cpu rows={count} threads={torch.get_num_threads()} navi_rows_per_s={count / ours:.1f} "
        f"sentence_transformers_rows_per_s={count / theirs:.1f} ratio={theirs / ours:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.rows, arguments.repeats)
