"""Contrastive losses: segments aligned by the entropy of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import Alignment
from navi.errors import ConfigError

# Shape suffixes: Q queries, X candidates, L low-entropy segments, H high-entropy segments, K anchors, D hidden size.


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
    """Weight of the loss by which [CLS] predicts the words of its row (the paper: 0)."""

    def __post_init__(self) -> None:
        for name in ("weight", "row_weight"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)}.")
        for name in ("temperature_low", "temperature_high"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.low_negatives not in ("table", "batch"):
            raise ConfigError(f"low_negatives must be 'table' or 'batch', got '{self.low_negatives}'.")

    @property
    def needs_plain(self) -> bool:
        """Whether any loss looks at rows that are not masked."""
        return max(self.weight, self.row_weight) > 0


def info_nce(similarity_QX: Tensor, positive_Q: Tensor, candidates_QX: Tensor) -> Tensor:
    """Return the loss of each query: −log(exp(s⁺) / Σ_x exp(s_x)), s = sim(q, x) / τ, over its own candidates x: (Q,).

    The positive is one of the candidates. On inner products its gradient is ((p⁺ − 1) x⁺ + Σ p⁻ x⁻) / τ.
    """
    allowed = similarity_QX.masked_fill(~candidates_QX, -torch.inf)
    return torch.logsumexp(allowed, dim=1) - similarity_QX.gather(1, positive_Q[:, None]).squeeze(1)


def low_entropy_loss(segments_LD: Tensor, anchors_KD: Tensor, alignment: Alignment, config: AlignmentConfig) -> Tensor:
    """Return Σ_t L_low^t: segments of low-entropy columns drawn to their attribute, away from the other anchors.

    L_low^t is the mean of L_NCE(σ, e_a, {e_a' | a' ≠ a}, τ_low) over the segments of table t.
    """
    similarity_LK = compare(segments_LD, anchors_KD) / config.temperature_low
    own_L = alignment.low_anchor
    rival_LK = alignment.anchor_slot[None, :] != alignment.anchor_slot[own_L][:, None]
    if config.low_negatives == "table":
        rival_LK = rival_LK & (alignment.anchor_table[None, :] == alignment.low_table[:, None])
    else:
        rival_LK = rival_LK & (alignment.anchor_first > 0)
    losses_L = info_nce(similarity_LK, own_L, rival_LK.scatter(1, own_L[:, None], True))
    return _sum_table_means(losses_L, alignment.low_table, alignment.num_tables)


def high_entropy_loss(segments_HD: Tensor, values_HD: Tensor, alignment: Alignment, config: AlignmentConfig) -> Tensor:
    """Return Σ_t L_high^t: segments of high-entropy columns drawn to their own value, away from other rows' values.

    L_high^t is the mean of L_NCE(σ_r, e_r^(v), {e_r'^(v) | r' ≠ r, same column}, τ_high) over the segments of table t.
    """
    similarity_HH = compare(segments_HD, values_HD) / config.temperature_high
    own_H = torch.arange(len(segments_HD), device=segments_HD.device)
    rival_HH = alignment.high_column[None, :] == alignment.high_column[:, None]
    if not config.same_value_negatives:
        rival_HH = rival_HH & (alignment.high_value[None, :] != alignment.high_value[:, None])
    losses_H = info_nce(similarity_HH, own_H, rival_HH.scatter(1, own_H[:, None], True))
    return _sum_table_means(losses_H, alignment.high_table, alignment.num_tables)


def compare(queries_QD: Tensor, candidates_XD: Tensor) -> Tensor:
    """Return all cosines; autocast would round them to 1/256, which the temperatures then multiply: (Q, X)."""
    with torch.autocast(queries_QD.device.type, enabled=False):
        return F.normalize(queries_QD, dim=1) @ F.normalize(candidates_XD, dim=1).T


def _sum_table_means(losses: Tensor, table: Tensor, num_tables: int) -> Tensor:
    """Return the sum over tables of their mean losses; what belongs to table `num_tables` only fills a batch up."""
    sums = losses.new_zeros(num_tables + 1).index_add(0, table, losses)
    counts = losses.new_zeros(num_tables + 1).index_add(0, table, torch.ones_like(losses))
    return (sums / counts.clamp(min=1.0))[:num_tables].sum()
