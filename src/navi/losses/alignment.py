"""Contrastive losses: segments aligned by the entropy of their columns, and columns of different tables that agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import Alignment, RelatedColumns
from navi.errors import ConfigError

# Shape suffixes: Q queries, X candidates, L low-entropy segments, H high-entropy segments, S segments, K anchors or
# columns of the batch, A columns with known affinities, D hidden size.

ALIKE, UNLIKE = 0.5, 0.05
"""Affinities from which two columns are positives, and up to which they are negatives; what lies between is neither."""


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


def column_agreement_loss(
    segments_SD: Tensor, columns: RelatedColumns, affinity_AA: Tensor, temperature: float
) -> Tensor:
    """Return −Σ_k Σ_x y_kx log softmax_x(cos(c_k, c_x) / τ), c the mean of a column's segments (not in the paper).

    y_kx is the affinity of k and x, columns of different tables that are alike, as a share of all of k's. They compete
    with the other columns of k's own table and with those of other tables that are unlike.
    """
    sums_KD = segments_SD.new_zeros(len(columns.column), segments_SD.shape[1])
    sums_KD = sums_KD.index_add(0, columns.segment_column, segments_SD)
    similarity_KK = compare(sums_KD, sums_KD) / temperature
    with torch.no_grad():
        column_K = columns.column.clamp(min=0)
        target_KK, candidate_KK = _pair_up(columns, affinity_AA[column_K][:, column_K].float())
        target_KK = target_KK / target_KK.sum(dim=1, keepdim=True).clamp(min=1e-9)
        # A column without candidates has no loss; it is its own only to keep the logarithm finite.
        candidate_KK = candidate_KK | torch.diag(~candidate_KK.any(dim=1))
    allowed_KK = similarity_KK.masked_fill(~candidate_KK, -torch.inf)
    return -(target_KK * (similarity_KK - torch.logsumexp(allowed_KK, dim=1, keepdim=True))).sum()


def compare(queries_QD: Tensor, candidates_XD: Tensor) -> Tensor:
    """Return all cosines; autocast would round them to 1/256, which the temperatures then multiply: (Q, X)."""
    with torch.autocast(queries_QD.device.type, enabled=False):
        return F.normalize(queries_QD, dim=1) @ F.normalize(candidates_XD, dim=1).T


def _sum_table_means(losses: Tensor, table: Tensor, num_tables: int) -> Tensor:
    """Return the sum over tables of their mean losses; what belongs to table `num_tables` only fills a batch up."""
    sums = losses.new_zeros(num_tables + 1).index_add(0, table, losses)
    counts = losses.new_zeros(num_tables + 1).index_add(0, table, torch.ones_like(losses))
    return (sums / counts.clamp(min=1.0))[:num_tables].sum()


def _pair_up(columns: RelatedColumns, affinity_KK: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much each pair should be alike, and which pairs are compared at all: (K, K) each."""
    real_K = columns.column >= 0
    real_KK = real_K[:, None] & real_K[None, :]
    same_table_KK = columns.table[:, None] == columns.table[None, :]
    same_attribute_KK = columns.attribute[:, None] == columns.attribute[None, :]
    affinity_KK = torch.where(same_attribute_KK, torch.ones_like(affinity_KK), affinity_KK)
    target_KK = affinity_KK * (real_KK & ~same_table_KK & (affinity_KK >= ALIKE))
    unlike_KK = torch.where(same_table_KK, ~same_attribute_KK, affinity_KK <= UNLIKE)
    return target_KK, real_KK & (unlike_KK | (target_KK > 0))
