"""Pretraining: from a corpus and a backbone to a model directory, by a run that can stop and go on anywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from navi.training.config import ModelConfig, PretrainConfig, TrainingConfig
    from navi.training.domain import Domain
    from navi.training.interruption import TrainingInterrupted
    from navi.training.presets import ABLATIONS, PRESETS, make_preset
    from navi.training.result import StepReport, TrainingResult
    from navi.training.run import pretrain

__all__ = [
    "ABLATIONS",
    "PRESETS",
    "Domain",
    "ModelConfig",
    "PretrainConfig",
    "StepReport",
    "TrainingConfig",
    "TrainingInterrupted",
    "TrainingResult",
    "make_preset",
    "pretrain",
]
_HOME = {
    "ABLATIONS": "presets",
    "PRESETS": "presets",
    "Domain": "domain",
    "ModelConfig": "config",
    "PretrainConfig": "config",
    "StepReport": "result",
    "TrainingConfig": "config",
    "TrainingInterrupted": "interruption",
    "TrainingResult": "result",
    "make_preset": "presets",
    "pretrain": "run",
}


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first asked for: reading settings, or answering, needs no run."""
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
