"""Packed batches of a few tables, masked and plain; nothing random without a seed."""

from navi.batches.batch import (
    FIRST_SLOT,
    IGNORED,
    SLOT_NONE,
    SLOT_UNKNOWN,
    Alignment,
    Batch,
    BatchCapacity,
    Rows,
    Sequences,
)
from navi.batches.builder import BatchBuilder, pack_texts
from navi.batches.layout import (
    REGIME_HEADER,
    REGIME_VALUE,
    REGIME_VANILLA,
    Layout,
    MaskingConfig,
    SpecialTokens,
)
from navi.batches.sampler import (
    SamplerConfig,
    choose_capacities,
    measure_capacity,
    plan_epoch,
    prefetch,
    shard_rows,
    split_rows,
)

__all__ = [
    "FIRST_SLOT",
    "IGNORED",
    "REGIME_HEADER",
    "REGIME_VALUE",
    "REGIME_VANILLA",
    "SLOT_NONE",
    "SLOT_UNKNOWN",
    "Alignment",
    "Batch",
    "BatchBuilder",
    "BatchCapacity",
    "Layout",
    "MaskingConfig",
    "Rows",
    "SamplerConfig",
    "Sequences",
    "SpecialTokens",
    "choose_capacities",
    "measure_capacity",
    "pack_texts",
    "plan_epoch",
    "prefetch",
    "shard_rows",
    "split_rows",
]
