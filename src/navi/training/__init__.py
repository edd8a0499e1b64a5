"""Pretraining: from a corpus and a backbone to a model directory, by a run that can stop and go on anywhere."""

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
