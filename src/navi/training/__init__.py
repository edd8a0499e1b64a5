"""Pretraining: from a corpus and a backbone to a model directory, by a run that can stop and go on anywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from navi.errors import TrainingInterrupted
    from navi.training.config import ABLATIONS, PRESETS, ModelConfig, PretrainConfig, TrainingConfig, make_preset
    from navi.training.export import Domain, TrainingResult
    from navi.training.metrics import StepReport
    from navi.training.trainer import pretrain

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
    "TrainingInterrupted": "navi.errors",
    "StepReport": "navi.training.metrics",
    "pretrain": "navi.training.trainer",
}
_HOME |= dict.fromkeys(("Domain", "TrainingResult"), "navi.training.export")


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first asked for: reading settings, or answering, needs no run."""
    if name in __all__:
        return getattr(import_module(_HOME.get(name, "navi.training.config")), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
