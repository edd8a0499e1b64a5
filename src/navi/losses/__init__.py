"""What pretraining minimises: masked segment modelling, entropy-driven segment alignment, and what is added to them."""

from navi.losses.agreement import agree_columns
from navi.losses.alignment import AlignmentConfig, align_high, align_low
from navi.losses.masked import predict_masked
from navi.losses.total import Losses, StepSize, compute_losses, find_read_tokens, measure_step
from navi.losses.words import tell_words

__all__ = [
    "AlignmentConfig",
    "Losses",
    "StepSize",
    "agree_columns",
    "align_high",
    "align_low",
    "compute_losses",
    "find_read_tokens",
    "measure_step",
    "predict_masked",
    "tell_words",
]
