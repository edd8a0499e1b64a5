"""Embedding on the CPU: rows/s of NAVI, as texts and by [CLS], in float32 and int8, beside sentence-transformers.

    python benchmarks/embedding_cpu.py [FOLDER...] [--rows 400] [--repeats 2] [--model MODEL]

Rows of the given tables, or of simulated film catalogues, from Arrow tables in memory to one numpy array, tokenising
included; sentence-transformers gets each row as text. Without a model, one is made of the default backbone, whose
weights sentence-transformers has.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from navi.backbones import find_backbone
from navi.model import load_backbone
from navi.simulator import SimulatorConfig, simulate
from navi.tables import ReadReport, find_sources, read_chunks, read_frame, to_arrow
from navi.verbs import Navi

POOLINGS = ("text", "cls")


def make_tables(num_rows: int) -> dict[str, pa.Table]:
    config = SimulatorConfig(num_catalogues=8, rows_per_catalogue=-(-num_rows // 8), seed=1)
    return {str(place): to_arrow(read_frame(list(one.rows))) for place, one in enumerate(simulate(config).catalogues)}


def read_tables(folders: list[str], num_rows: int) -> dict[str, pa.Table]:
    """Return as many rows of each table, drawn from its first thousands."""
    sources = find_sources(folders).sources
    generator = np.random.default_rng(0)
    tables = {}
    for source in sources:
        table = to_arrow([next(iter(read_chunks(source, ReadReport())))])
        few = min(table.num_rows, -(-num_rows // len(sources)))
        tables[source.name] = table.take(np.sort(generator.choice(table.num_rows, few, replace=False)))
    return tables


def write_out(tables: dict[str, pa.Table]) -> list[str]:
    """Return each row as the text that a sentence encoder would be given."""
    return [
        ", ".join(f"{header}: {value}" for header, value in row.items() if value is not None)
        for table in tables.values()
        for row in table.to_pylist()
    ]


def time_in_turn(works: dict, repeats: int) -> tuple[dict[str, float], dict]:
    """Seconds of the quickest of several runs of each, taken in turn after one to warm up; and what they gave."""
    found = {name: work() for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begun)
    return {name: min(each) for name, each in seconds.items()}, found


def main(options: argparse.Namespace) -> None:
    from sentence_transformers import SentenceTransformer

    tables = read_tables(options.folders, options.rows) if options.folders else make_tables(options.rows)
    texts = write_out(tables)
    sentences = SentenceTransformer(str(find_backbone("minilm")), device="cpu")
    sentences.max_seq_length = 512
    with tempfile.TemporaryDirectory() as folder:
        load_backbone("minilm").save_pretrained(folder)
        shutil.copy(find_backbone("minilm") / "tokenizer.json", Path(folder) / "tokenizer.json")
        model = options.model or folder
        exact, eight = (Navi.from_pretrained(model, device="cpu", precision=name) for name in ("float32", "int8"))
    works = {
        f"{pooling}{name}": partial(navi.embed_rows, tables, normalize=True, pooling=pooling)
        for pooling in POOLINGS
        for name, navi in (("", exact), ("_int8", eight))
    }
    seconds, found = time_in_turn(works | {"sentences": lambda: sentences.encode(texts)}, options.repeats)
    print(f"embedding_cpu rows={len(texts)} threads={torch.get_num_threads()}")
    for name, each in seconds.items():
        ratio = seconds["sentences"] / each
        print(f"{name} rows_per_s={len(texts) / each:.1f} times_sentence_transformers={ratio:.2f}")
    for pooling in POOLINGS:
        cosines = (found[pooling] * found[f"{pooling}_int8"]).sum(axis=1)
        ratio = seconds[pooling] / seconds[f"{pooling}_int8"]
        print(f"{pooling}_int8 ratio={ratio:.2f} cosine_mean={cosines.mean():.4f} cosine_min={cosines.min():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="folders (or files) of tables")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model", help="a model directory")
    main(parser.parse_args())
