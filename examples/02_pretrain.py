"""Pretrain a model on a corpus, and see what it learned."""

from __future__ import annotations

import json

from catalogues import make_model

from navi.training import TrainingResult

folder = make_model()
result = TrainingResult.load(folder)
before, after = result.validation[0], result.validation[-1]

print(f"{result.num_steps} steps in {result.seconds:.0f} s on {result.device}")
print(f"{'on validation rows':34} {'before':>8} {'after':>8} {'guess':>8}")
for name, guess in (
    ("masked_loss", None),
    ("header_accuracy_informed", "most_frequent_header"),
    ("header_accuracy_blind", "most_frequent_header"),
    ("value_accuracy", "most_frequent_value"),
):
    beat = "" if guess is None else f"{before[guess]:.3f}"
    print(f"{name:34} {before[name]:8.3f} {after[name]:8.3f} {beat:>8}")

lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
losses = [(line["step"], round(line["loss"], 2)) for line in lines if line["kind"] == "train"]
print("loss by step:", losses)
