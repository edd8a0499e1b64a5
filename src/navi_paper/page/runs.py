"""How the models of an evaluation were trained: their settings and how their losses went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDS = {"pretrain.json": "config", "training.json": "identity"}
"""What a model's folder holds of its run, NAVI's and a baseline's, and where the settings are in it."""
METRICS_FILE = "metrics.jsonl"
SECTIONS = ("model", "masking", "sampler", "alignment", "training")
WITHOUT_MEANING = ("workers", "checkpoint_", "keep_checkpoints", "curves", "log_every", "sample_rows", "graphs")
"""Settings of a run that change nothing of what a model learns."""
Setting = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A model's run."""

    model: str
    """What the model is called in results."""
    seed: int
    """Seed that it was trained with."""
    settings: Mapping[str, Setting]
    """Its settings, those of a section behind the section's name and a point."""
    metrics: tuple[Mapping[str, Any], ...]
    """What was logged, line after line."""

    def follow(self, kind: str, name: str) -> tuple[tuple[float, float], ...]:
        """Return step and figure wherever a figure was logged."""
        return tuple((line["step"], line[name]) for line in self.metrics if line.get("kind") == kind and name in line)


def list_runs(folder: Path, models: tuple[str, ...]) -> dict[str, TrainedModel]:
    """Return the run of each model that a folder has, the lowest seed's; models taken as they are have none there."""
    found = {}
    for model in models:
        endings = [each.name.removeprefix(f"{model}-") for each in folder.glob(f"{model}-*")]
        for seed in sorted(int(ending) for ending in endings if ending.isdigit())[:1]:
            settings = read_settings(folder / f"{model}-{seed}")
            metrics = _read_metrics(folder / f"{model}-{seed}" / METRICS_FILE)
            if settings or metrics:
                found[model] = TrainedModel(model=model, seed=seed, settings=settings, metrics=metrics)
    return found


def read_settings(folder: Path) -> dict[str, Setting]:
    """Return the settings of the run that a model's folder tells of; none if it tells of none."""
    for name, key in RECORDS.items():
        if (folder / name).is_file():
            return flatten(json.loads((folder / name).read_text(encoding="utf-8")).get(key, {}))
    return {}


def flatten(settings: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the settings that matter, one level deep.

    >>> flatten({"backbone": "minilm", "training": {"epochs": 2, "workers": 6}})
    {'backbone': 'minilm', 'training.epochs': 2}
    """
    flat = {"backbone": settings["backbone"]} if "backbone" in settings else {}
    for section in SECTIONS:
        for name, value in settings.get(section, {}).items():
            if not name.startswith(WITHOUT_MEANING):
                flat[f"{section}.{name}"] = value
    return flat


def _read_metrics(file: Path) -> tuple[Mapping[str, Any], ...]:
    if not file.is_file():
        return ()
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line.strip())
