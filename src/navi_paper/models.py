"""The models that are compared: NAVI, the paper's NAVI, their ablations, and the baselines, all trained alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.errors import ConfigError
from navi.training import ABLATIONS, PretrainConfig, StepReport, make_preset, pretrain
from navi.training.checkpoint import RunIdentity
from navi_paper.baselines import BASELINES, load_baseline, train_baseline
from navi_paper.baselines.training import describe_baseline
from navi_paper.encoder import PREDICTS_TOKENS, NaviTableEncoder, TableEncoder

if TYPE_CHECKING:
    from navi.corpus import Corpus

NAVI_PRESETS = {"navi": "default", "navi-paper": "paper"}
"""The whole models by name, and the preset of each."""
Progress = Callable[[StepReport], None]


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """How a model comes about."""

    name: str
    """What it is called in results."""
    preset: str | None = None
    """The preset of a NAVI; None for a baseline."""
    ablation: str | None = None
    """What is taken from it."""
    abilities: frozenset[str] = NaviTableEncoder.abilities
    """What tasks may ask of it; of an ablation, only what the paper asks of it."""


def list_models() -> dict[str, ModelSpec]:
    """Return all that can be compared, by name."""
    specs = [ModelSpec(name=name, abilities=kind.abilities) for name, kind in BASELINES.items()]
    ablated = frozenset({PREDICTS_TOKENS})
    for name, preset in NAVI_PRESETS.items():
        specs.append(ModelSpec(name=name, preset=preset))
        for each in ABLATIONS:
            specs.append(ModelSpec(name=f"{name}-{each}", preset=preset, ablation=each, abilities=ablated))
    return {spec.name: spec for spec in specs}


def find_model(name: str) -> ModelSpec:
    """Return what is called so."""
    known = list_models()
    if name not in known:
        raise ConfigError(f"Unknown model '{name}'. Expected some of {', '.join(known)}.")
    return known[name]


def make_config(spec: ModelSpec, shared: PretrainConfig, seed: int) -> PretrainConfig:
    """Return a model's settings: its own model, masking and losses; backbone, batches and optimiser as for all."""
    own = make_preset(spec.preset, spec.ablation) if spec.preset else shared
    training = replace(shared.training, seed=seed)
    return replace(own, backbone=shared.backbone, sampler=shared.sampler, training=training)


def describe_model(spec: ModelSpec, corpus: Corpus, config: PretrainConfig) -> dict[str, Any]:
    """Return all that decides what a model becomes; of a baseline, nothing that is NAVI's own."""
    if spec.preset is None:
        return describe_baseline(spec.name, corpus, config)
    return RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint).describe()


def train_model(
    spec: ModelSpec, corpus: Corpus, folder: Path, config: PretrainConfig, progress: Progress | None = None
) -> None:
    """Train a model into a folder; what is there already is taken, what was interrupted goes on."""
    if spec.preset is None:
        train_baseline(spec.name, corpus, folder, config, progress)
    else:
        pretrain(corpus, folder, config, resume=True, progress=progress)


def load_model(spec: ModelSpec, folder: Path, *, device: str | None, precision: str | None) -> TableEncoder:
    """Return a trained model, ready to be asked."""
    load = load_baseline if spec.preset is None else NaviTableEncoder.from_folder
    encoder: TableEncoder = load(folder, device=device, precision=precision)
    encoder.name, encoder.abilities = spec.name, spec.abilities
    return encoder
