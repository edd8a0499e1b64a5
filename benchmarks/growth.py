"""Growth: what a token costs in long rows, what a row costs in large tables, and what alignment costs in large batches.

    python benchmarks/growth.py [--lengths 64 256 1024 2048] [--rows 10000 100000] [--batches 16 64] [--device cpu]

Synthetic rows of about ten tokens a cell. Lengths and batches are measured at the default backbone's shape, numbers of
rows with an encoder of two layers, 32 wide, over rows of 16 tokens, so that a million rows take minutes. The share of
alignment is that of its own forward and backward pass in those of a whole step. One line a figure.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable

import numpy as np
import torch
from synthetic import SPECIAL, VOCABULARY, make_arrays

from navi.batches import BatchBuilder
from navi.losses import AlignmentConfig, compute_losses, high_entropy_loss, low_entropy_loss, measure_step
from navi.model import NaviConfig, NaviModel, Runner

SHAPES = {
    "minilm": {"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12},
    "tiny": {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2},
}


def make_model(shape: str) -> NaviModel:
    torch.manual_seed(0)
    return NaviModel(NaviConfig(vocab_size=VOCABULARY, **SHAPES[shape]))


def time_best(work: Callable[[], object], repeats: int = 3) -> float:
    work()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def measure_lengths(lengths: list[int], device: str, num_tokens: int = 8192) -> None:
    runner = Runner(make_model("minilm"), SPECIAL, devices=[device])
    found = {}
    for length in lengths:
        arrays = make_arrays(num_tokens // length, tokens_per_row=length, num_columns=length // 10)
        seconds = time_best(lambda arrays=arrays: runner.embed(arrays))
        found[length] = seconds / arrays.count_row_tokens().sum() * 1e6
    told = " ".join(f"us_per_token_{length}={cost:.1f}" for length, cost in found.items())
    print(f"growth_tokens {told} ratio={found[lengths[-1]] / found[lengths[0]]:.2f}", flush=True)


def measure_rows(counts: list[int], device: str) -> None:
    runner = Runner(make_model("tiny"), SPECIAL, devices=[device])
    runner.embed(make_arrays(1000, tokens_per_row=16, num_columns=2))
    found = {}
    for count in counts:
        arrays = make_arrays(count, tokens_per_row=16, num_columns=2, num_values=100_000)
        begun = time.perf_counter()
        runner.embed(arrays)
        found[count] = count / (time.perf_counter() - begun)
    told = " ".join(f"rows_per_s_{count}={rate:.0f}" for count, rate in found.items())
    print(f"growth_rows {told} ratio={found[counts[-1]] / found[counts[0]]:.2f}", flush=True)


def measure_alignment(batches: list[int], device: str) -> None:
    arrays = make_arrays(4096, tokens_per_row=96, num_tables=8)
    builder, config = BatchBuilder(arrays, SPECIAL), AlignmentConfig()
    model = make_model("minilm").to(device).train()
    found = {}
    for num_rows in batches:
        rows = np.sort(np.random.default_rng(0).choice(arrays.num_rows, num_rows, replace=False))
        batch = builder.build(rows, epoch=0).to(device)
        size = measure_step([batch])

        def step(batch=batch, size=size) -> None:
            compute_losses(model, model(batch.rows), batch, config, size).loss.backward()

        with torch.no_grad():
            output = model(batch.rows)
        leaves = {
            name: getattr(output, name).clone().requires_grad_() for name in ("headers", "values", "attribute_table")
        }
        output = dataclasses.replace(output, **leaves)

        def align(batch=batch, output=output) -> None:
            alignment = batch.alignment
            low = model.embed_segments(output, alignment.low_segment)
            high = model.embed_segments(output, alignment.high_segment)
            anchors = output.attribute_table.index_select(0, alignment.anchor_slot).float()
            values = output.values.index_select(0, alignment.high_segment)
            low_loss = low_entropy_loss(low, anchors, alignment, config)
            (low_loss + high_entropy_loss(high, values, alignment, config)).backward()

        segments = batch.rows.num_segments // 2
        found[segments] = (time_best(align), time_best(step))
    told = " ".join(
        f"alignment_ms_{segments}={align * 1e3:.1f} share_{segments}={align / step:.3f}"
        for segments, (align, step) in found.items()
    )
    print(f"growth_alignment (by segments of a batch) {told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="*", default=[64, 256, 1024, 2048])
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--batches", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    for measure, sizes in (
        (measure_lengths, options.lengths),
        (measure_rows, options.rows),
        (measure_alignment, options.batches),
    ):
        if sizes:
            measure(sizes, options.device)
