"""Embedding on one GPU: rows/s from Arrow tables in memory to one numpy array, tokenising included.

    python benchmarks/embedding_gpu.py [FOLDER...] [--shape base minilm] [--rows 100000] [--tokens 96]
    python benchmarks/embedding_gpu.py --shape minilm --block-rows 8192 16384 32768 --threads 1 2 3

Rows of the given tables, or of simulated film catalogues, with as many of their columns as make about so many tokens
a row; random weights. Beside the whole way stand its parts: encoding to segments alone, and the model on rows that are
encoded already. Sizes of blocks and numbers of threads that are given are compared, taken in turn.
"""

# needs: a GPU

from __future__ import annotations

import argparse
import shutil
import tempfile
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from embedding_cpu import make_tables, read_tables, time_in_turn
from training_gpu import SHAPES

from navi.backbones import find_backbone, load_tokenizer
from navi.model import NaviConfig, NaviModel
from navi.verbs import Navi, embed


def make_navi(shape: str, folder: str, device: str) -> Navi:
    """Return a model of random weights of a shape, loaded as a user would load it."""
    tokenizer = load_tokenizer("minilm")
    torch.manual_seed(0)
    model = NaviModel(NaviConfig(vocab_size=tokenizer.get_vocab_size(), local_head_share=0.5, **SHAPES[shape]))
    model.save_pretrained(folder)
    shutil.copy(find_backbone("navi-base") / "tokenizer.json", Path(folder) / "tokenizer.json")
    return Navi.from_pretrained(folder, device=device)


def repeat_rows(tables: dict[str, pa.Table], num_rows: int) -> dict[str, pa.Table]:
    """Return tables with as many rows in all, each row told apart by a number in its first column."""
    times = -(-num_rows // sum(table.num_rows for table in tables.values()))
    repeated = {}
    for name, table in tables.items():
        whole = pa.concat_tables([table] * times)
        first = whole.column_names[0]
        numbered = [f"{cell} {place}" for place, cell in enumerate(whole[first].to_pylist())]
        repeated[name] = whole.set_column(0, first, pa.array(numbered))
    return repeated


def fit_columns(navi: Navi, tables: dict[str, pa.Table], tokens: int) -> dict[str, pa.Table]:
    """Return tables with the share of their columns that brings a row's mean closest to so many tokens."""
    few = {name: table.slice(0, 100) for name, table in tables.items()}

    def miss(share: float) -> float:
        return abs(navi.encode(keep_columns(few, share)).arrays.count_row_tokens().mean() - tokens)

    return keep_columns(tables, min(np.linspace(0.1, 1, 46), key=miss))


def keep_columns(tables: dict[str, pa.Table], share: float) -> dict[str, pa.Table]:
    """Return tables with a share of their columns, the first ones."""
    return {name: table.select(range(max(1, round(share * table.num_columns)))) for name, table in tables.items()}


def embed_all(navi: Navi, tables: dict[str, pa.Table], block_rows: int, threads: int) -> None:
    """Embed all rows in blocks of so many, so many of them at once."""
    embed.BLOCK_ROWS, embed.BLOCKS_AT_ONCE = block_rows, threads
    navi.embed_rows(tables)


def main(options: argparse.Namespace) -> None:
    few = options.rows // 4
    all_tables = repeat_rows(read_tables(options.folders, few) if options.folders else make_tables(few), options.rows)
    for shape in options.shape:
        with tempfile.TemporaryDirectory() as folder:
            navi = make_navi(shape, folder, options.device)
        tables = fit_columns(navi, all_tables, options.tokens) if options.tokens else all_tables
        encoded = navi.encode(tables)
        rows, tokens = encoded.arrays.num_rows, encoded.arrays.count_row_tokens()
        works = {
            f"embedding,block_rows={block_rows},threads={threads}": partial(
                embed_all, navi, tables, block_rows, threads
            )
            for block_rows, threads in product(options.block_rows, options.threads)
        }
        works["encoding"] = partial(navi.encode, tables)
        works["model"] = partial(navi.runner.embed, encoded.arrays)
        if options.show_waits:
            torch.cuda.set_sync_debug_mode("warn")
            embed_all(navi, tables, options.block_rows[0], options.threads[0])
            torch.cuda.set_sync_debug_mode("default")
        seconds, _ = time_in_turn(works, options.repeats)
        memory = torch.cuda.max_memory_allocated() / 2**30
        print(
            f"shape={shape} rows={rows} tokens_per_row={tokens.mean():.1f} memory_gib={memory:.2f} rows/s:", flush=True
        )
        for name, each in seconds.items():
            print(f"  {name} {rows / each:.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--shape", nargs="+", default=["base", "minilm"], choices=SHAPES)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=96, help="0 keeps all columns")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--block-rows", type=int, nargs="+", default=[embed.BLOCK_ROWS])
    parser.add_argument("--threads", type=int, nargs="+", default=[embed.BLOCKS_AT_ONCE])
    parser.add_argument("--show-waits", action="store_true", help="warn of each place where the host waits for the GPU")
    parser.add_argument("--device", default="cuda")
    main(parser.parse_args())
