"""Training speed on one GPU: rows/s with all losses, loader and optimiser included, beside the card's matmul peak.

    python benchmarks/training_gpu.py [--shape base minilm] [--rows 32 256]

Synthetic rows of 96 tokens; random weights. One line a figure.
"""

# needs: a GPU

from __future__ import annotations

import argparse
import dataclasses
import time

import numpy as np
import torch
from synthetic import SPECIAL, VOCABULARY, make_arrays

from navi.batches import BatchBuilder, SamplerConfig, plan_epoch, prefetch
from navi.losses import compute_losses, masked_segment_loss
from navi.model import NaviConfig, NaviModel
from navi.model.attention import Packing
from navi.training import make_preset
from navi.training.step import Stepper

SHAPES = {
    "base": {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    "minilm": {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536},
}
WARM_UP, STEPS = 40, 60


def measure_peak(size: int = 8192) -> float:
    """TFLOP/s of a large bf16 matrix product on random data."""
    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / time_gpu(lambda: left @ right, 20) / 1e12


def time_gpu(work, times: int) -> float:
    """Seconds of one call, by events, after a warm-up."""
    for _ in range(3):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / times


def make_stepper(shape: str, preset: str, *, graphs: bool) -> Stepper:
    config = make_preset(preset)
    training = dataclasses.replace(config.training, graphs=graphs)
    settings = config.model.as_settings()
    torch.manual_seed(0)
    model = NaviModel(NaviConfig(vocab_size=VOCABULARY, **SHAPES[shape], **settings))
    builder = BatchBuilder(ARRAYS, SPECIAL, masking=config.masking)
    return Stepper(model, builder, dataclasses.replace(config, training=training))


def measure(shape: str, rows: int, preset: str, peak: float, *, graphs: bool, workers: int) -> None:
    torch.cuda.reset_peak_memory_stats()
    stepper = make_stepper(shape, preset, graphs=graphs)
    sampler = SamplerConfig(rows_per_batch=rows, tables_per_batch=min(16, max(4, rows // 16)))
    plan = plan_epoch(np.arange(ARRAYS.num_rows), ARRAYS.row_table, sampler, seed=0, epoch=0)
    plan = (plan * (1 + (WARM_UP + STEPS) // len(plan)))[: WARM_UP + STEPS]
    stepper.prepare_graphs(plan)
    begun, num_rows, num_tokens, waited = time.perf_counter(), 0, 0, 0.0
    steps = prefetch(plan, lambda part: stepper.build(part, 0, None), workers=workers, ahead=2 * workers)
    mark = time.perf_counter()
    for number, made in enumerate(steps):
        waited += time.perf_counter() - mark
        if number == WARM_UP:
            torch.cuda.synchronize()
            warm = time.perf_counter() - begun
            begun, num_rows, num_tokens, waited = time.perf_counter(), 0, 0, 0.0
        stepper.update(stepper.accumulate(made, number), 1.0)
        num_rows, num_tokens = num_rows + made.num_rows, num_tokens + made.num_tokens
        mark = time.perf_counter()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    weights = sum(p.numel() for name, p in stepper.model.named_parameters() if name.startswith("layers."))
    flops = 6 * weights * num_tokens / seconds / 1e12
    print(
        f"training shape={shape} preset={preset} rows_per_step={rows} graphs={graphs} "
        f"rows_per_s={num_rows / seconds:.0f} row_tokens_per_s={num_tokens / 2 / seconds:.0f} tflops={flops:.0f} "
        f"share_of_peak={flops / peak:.2f} step_ms={1000 * seconds / STEPS:.1f} loader_wait={waited / seconds:.2f} "
        f"memory_gb={torch.cuda.max_memory_allocated() / 2**30:.1f} warm_up_s={warm:.0f}",
        flush=True,
    )


def measure_parts(shape: str, rows: int, preset: str) -> None:
    """Each part of a step alone, forward and backward, as shares of their sum."""
    stepper = make_stepper(shape, preset, graphs=False)
    sampler = SamplerConfig(rows_per_batch=rows, tables_per_batch=16)
    part = plan_epoch(np.arange(ARRAYS.num_rows), ARRAYS.row_table, sampler, seed=0, epoch=0)[0]
    begun = time.perf_counter()
    for _ in range(5):
        made = stepper.build(part, 0, None)
    loader = (time.perf_counter() - begun) / 5
    batch, model = made.batches[0].to("cuda"), stepper.model.train()

    def learn(whole):
        with torch.autocast("cuda", torch.bfloat16):
            loss = whole()
        loss.float().sum().backward()

    def embed():
        return model._embed(batch.rows, model.embed_attributes(batch.rows.attributes))

    def encode():
        hidden, rows = states.unsqueeze(0), batch.rows
        packing = Packing(rows.starts, rows.num_tokens, rows.local_starts, model.config.num_local_heads)
        for layer in model.layers:
            hidden = layer(hidden, packing=packing)
        return hidden

    def predict():
        return masked_segment_loss(model.head(states[batch.targets.position]), batch.targets.token)[0]

    def align():  # and all that is added to it
        return compute_losses(model, dataclasses.replace(output), masked_only, stepper.config.alignment, made.size).loss

    with torch.autocast("cuda", torch.bfloat16):
        output = model(batch.rows)
        states = torch.randn_like(embed()).requires_grad_()
    output = dataclasses.replace(
        output,
        **{name: getattr(output, name).detach().requires_grad_() for name in ("words", "tokens", "attribute_table")},
    )
    few = dataclasses.replace(
        batch.targets, **{n: getattr(batch.targets, n)[:1] for n in ("position", "token", "kind")}
    )
    masked_only = dataclasses.replace(batch, targets=few)
    seconds = {name: time_gpu(lambda work=work: learn(work), 5) for name, work in
               {"embeddings": embed, "encoder": encode, "head": predict, "alignment": align}.items()}  # fmt: skip
    finite = torch.ones((), dtype=torch.bool, device="cuda")
    from navi.training.step import take_step

    seconds["optimiser"] = time_gpu(lambda: take_step(stepper.optimizer, 1.0, finite), 5)
    total = sum(seconds.values())
    shares = " ".join(f"{name}={value / total:.2f}" for name, value in seconds.items())
    print(f"parts shape={shape} rows_per_step={rows} {shares} sum_ms={1000 * total:.1f} loader_ms={1000 * loader:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", nargs="+", default=["base", "minilm"], choices=SHAPES)
    parser.add_argument("--rows", nargs="+", type=int, default=[32, 256])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--parts", action="store_true")
    arguments = parser.parse_args()
    ARRAYS = make_arrays(20_000)
    card_peak = measure_peak()
    print(f"card {torch.cuda.get_device_name()} matmul_peak_tflops={card_peak:.0f} torch={torch.__version__}")
    for one in arguments.shape:
        for count in arguments.rows:
            measure(one, count, arguments.preset, card_peak, graphs=not arguments.no_graphs, workers=arguments.workers)
        if arguments.parts:
            measure_parts(one, arguments.rows[-1], arguments.preset)
