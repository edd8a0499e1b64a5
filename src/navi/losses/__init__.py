"""What pretraining minimises: masked segment modelling, entropy-driven segment alignment, and what is added to them."""

from navi.losses.alignment import AlignmentConfig, high_entropy_loss, info_nce, low_entropy_loss
from navi.losses.total import (
    Losses,
    StepSize,
    bag_of_words_loss,
    compute_losses,
    find_read_tokens,
    masked_segment_loss,
    measure_step,
)
from navi.losses.views import ViewsBatch, ViewsConfig, compute_views_losses, keeping_loss, views_loss

__all__ = [
    "AlignmentConfig",
    "Losses",
    "StepSize",
    "ViewsBatch",
    "ViewsConfig",
    "bag_of_words_loss",
    "compute_losses",
    "compute_views_losses",
    "find_read_tokens",
    "high_entropy_loss",
    "info_nce",
    "keeping_loss",
    "low_entropy_loss",
    "masked_segment_loss",
    "measure_step",
    "views_loss",
]
