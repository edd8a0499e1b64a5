"""Packed batches of a few tables, masked and plain; nothing random without a seed."""

from navi.batches.batch import Alignment, Batch, Columns, Rows, Sequences, Targets
from navi.batches.builder import BatchBuilder
from navi.batches.layout import Layout, SpecialTokens, lay_out
from navi.batches.loader import prefetch
from navi.batches.masking import MaskingConfig, Masks, mask_layout
from navi.batches.sampler import SamplerConfig, plan_epoch

__all__ = [
    "Alignment",
    "Batch",
    "BatchBuilder",
    "Columns",
    "Layout",
    "MaskingConfig",
    "Masks",
    "Rows",
    "SamplerConfig",
    "Sequences",
    "SpecialTokens",
    "Targets",
    "lay_out",
    "mask_layout",
    "plan_epoch",
    "prefetch",
]
