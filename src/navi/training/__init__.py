"""Pretraining: from a corpus and a backbone to a model directory, by a run that can stop and go on anywhere."""

from navi.errors import TrainingInterrupted
from navi.training.config import ABLATIONS, PRESETS, ModelConfig, PretrainConfig, TrainingConfig, make_preset
from navi.training.export import TrainingResult
from navi.training.metrics import StepReport
from navi.training.trainer import pretrain

__all__ = [
    "ABLATIONS",
    "PRESETS",
    "ModelConfig",
    "PretrainConfig",
    "StepReport",
    "TrainingConfig",
    "TrainingInterrupted",
    "TrainingResult",
    "make_preset",
    "pretrain",
]
