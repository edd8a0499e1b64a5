"""Entropy-driven segment alignment: anchors for stable columns, instances for identifying ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import Alignment
from navi.errors import ConfigError

# Shape suffixes: L low-entropy segments, K anchors, H high-entropy segments, D hidden size.


@dataclass(frozen=True, kw_only=True)
class AlignmentConfig:
    """The two contrastive losses, what is added to them, and their weights."""

    weight: float = 0.0125
    """λ, the weight of alignment in the total loss; 0 switches it off."""
    temperature_low: float = 0.1
    """τ of the low-entropy loss."""
    temperature_high: float = 0.02
    """τ of the high-entropy loss."""
    low_negatives: Literal["table", "batch"] = "batch"
    """Anchors that compete: those of the segment's own table (the paper), or of all tables of the batch."""
    same_value_negatives: bool = False
    """Whether rows with the same value are each other's negatives (the paper does not exclude them)."""
    random_routing: bool = False
    """Deal roles out at random instead of by entropy: the paper's ablation."""
    row_weight: float = 0.1
    """Weight of what [CLS] tells of the words of its row (the paper: 0)."""
    column_weight: float = 0.2
    """Weight of the agreement of columns of different tables whose values are alike (the paper: 0)."""
    column_temperature: float = 0.1
    """τ of the agreement of columns."""

    def __post_init__(self) -> None:
        for name in ("weight", "row_weight", "column_weight"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        for name in ("temperature_low", "temperature_high", "column_temperature"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.low_negatives not in ("table", "batch"):
            raise ConfigError(f"low_negatives must be 'table' or 'batch', got '{self.low_negatives}'.")

    @property
    def needs_plain(self) -> bool:
        """Whether any loss looks at rows that are not masked."""
        return max(self.weight, self.row_weight, self.column_weight) > 0


def align_low(segments_LD: Tensor, anchors_KD: Tensor, alignment: Alignment, config: AlignmentConfig) -> Tensor:
    """Return Σ_t L_low^t: segments of low-entropy columns drawn to their attribute, away from the other anchors.

    InfoNCE with query σ, positive e_a and negatives e_a' of the other low-entropy attributes. The mean over a table's
    segments is summed over tables.
    """
    similarity_LK = compare_all(segments_LD, anchors_KD) / config.temperature_low
    own_L = alignment.low_anchor
    rival_LK = alignment.anchor_slot[None, :] != alignment.anchor_slot[own_L][:, None]
    if config.low_negatives == "table":
        rival_LK = rival_LK & (alignment.anchor_table[None, :] == alignment.low_table[:, None])
    else:
        rival_LK = rival_LK & (alignment.anchor_first > 0)
    rival_LK = rival_LK.scatter(1, own_L[:, None], True)
    losses_L = _contrast(similarity_LK, own_L, rival_LK)
    return _sum_table_means(losses_L, alignment.low_table, alignment.num_tables)


def align_high(segments_HD: Tensor, values_HD: Tensor, alignment: Alignment, config: AlignmentConfig) -> Tensor:
    """Return Σ_t L_high^t: segments of high-entropy columns drawn to their own value, away from other rows' values.

    InfoNCE with query σ, positive e^(v) of the same row and negatives e^(v) of the same column in other rows.
    """
    similarity_HH = compare_all(segments_HD, values_HD) / config.temperature_high
    own_H = torch.arange(len(segments_HD), device=segments_HD.device)
    rival_HH = alignment.high_column[None, :] == alignment.high_column[:, None]
    if not config.same_value_negatives:
        rival_HH = rival_HH & (alignment.high_value[None, :] != alignment.high_value[:, None])
    rival_HH = rival_HH.scatter(1, own_H[:, None], True)
    losses_H = _contrast(similarity_HH, own_H, rival_HH)
    return _sum_table_means(losses_H, alignment.high_table, alignment.num_tables)


def compare_all(queries: Tensor, candidates: Tensor) -> Tensor:
    """Return all cosines; autocast would round them to 1/256, which the temperatures then multiply."""
    with torch.autocast(queries.device.type, enabled=False):
        return F.normalize(queries, dim=1) @ F.normalize(candidates, dim=1).T


def _contrast(similarity: Tensor, own: Tensor, candidates: Tensor) -> Tensor:
    """Return InfoNCE of each query: its own candidate against all of its candidates."""
    allowed = similarity.masked_fill(~candidates, -torch.inf)
    return torch.logsumexp(allowed, dim=1) - similarity.gather(1, own[:, None]).squeeze(1)


def _sum_table_means(losses: Tensor, table: Tensor, num_tables: int) -> Tensor:
    """Return the sum over tables of their mean losses; what belongs to table `num_tables` only fills a batch up."""
    sums = losses.new_zeros(num_tables + 1).index_add(0, table, losses)
    counts = losses.new_zeros(num_tables + 1).index_add(0, table, torch.ones_like(losses))
    return (sums / counts.clamp(min=1.0))[:num_tables].sum()
