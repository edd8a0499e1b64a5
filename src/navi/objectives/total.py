"""The total loss of a batch: L_msm + λ L_align."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from navi.batches.batch import Batch
from navi.batches.masking import REGIME_HEADER, REGIME_VALUE
from navi.model.encoder import NaviModel, NaviOutput
from navi.objectives.alignment import AlignmentConfig, align_high, align_low
from navi.objectives.masked import predict_masked


@dataclass(frozen=True, kw_only=True)
class StepSize:
    """What the losses of a whole step are divided by, so that a step taken in parts has the same loss."""

    num_targets: int | Tensor
    """Masked tokens of the step."""
    num_tables: int | Tensor
    """Tables of the step, a table counted once in each part it appears in."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The losses of a batch, each already divided by the step's size: parts of a step add up."""

    total: Tensor
    """L_msm + λ L_align: what is minimised."""
    masked: Tensor
    """L_msm."""
    low: Tensor
    """Mean of L_low over tables."""
    high: Tensor
    """Mean of L_high over tables."""
    header_hits: Tensor
    """Masked header tokens predicted right, a count."""
    value_hits: Tensor
    """Masked value tokens predicted right, a count."""


def measure_step(batches: list[Batch]) -> StepSize:
    """Return what the losses of a step's batches are divided by."""
    return StepSize(
        num_targets=max(1, sum(len(batch.targets.position) for batch in batches)),
        num_tables=max(1, sum(batch.alignment.num_tables for batch in batches if batch.alignment is not None)),
    )


def compute_losses(
    model: NaviModel, output: NaviOutput, batch: Batch, config: AlignmentConfig, size: StepSize
) -> Losses:
    """Return all losses of one batch of a step."""
    targets = batch.targets
    logits_MV = model.predict_tokens(output, targets.position)
    masked = predict_masked(logits_MV, targets.token) / size.num_targets
    low = high = masked.new_zeros(())
    if batch.alignment is not None:
        alignment = batch.alignment
        low_LD = model.embed_segments(output, batch.rows, alignment.low_segment)
        high_HD = model.embed_segments(output, batch.rows, alignment.high_segment)
        anchors_KD = output.attribute_table.index_select(0, alignment.anchor_slot.clamp(min=0)).float()
        low = align_low(low_LD, anchors_KD, alignment, config) / size.num_tables
        values_HD = output.values.index_select(0, alignment.high_segment)
        high = align_high(high_HD, values_HD, alignment, config) / size.num_tables
    with torch.no_grad():
        hit_M = logits_MV.argmax(dim=1) == targets.token
        header_hits = (hit_M & (targets.kind == REGIME_HEADER)).sum()
        value_hits = (hit_M & (targets.kind == REGIME_VALUE)).sum()
    return Losses(
        total=masked + config.weight * (low + high),
        masked=masked.detach(),
        low=low.detach(),
        high=high.detach(),
        header_hits=header_hits,
        value_hits=value_hits,
    )
