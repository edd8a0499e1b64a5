"""Beyond the paper: columns of different tables whose values are alike agree."""

from __future__ import annotations

import torch
from torch import Tensor

from navi.batches import RelatedColumns
from navi.losses.alignment import compare_all

# Shape suffixes: S segments, K columns of the batch, A columns with known affinities, D hidden size.

ALIKE, UNLIKE = 0.5, 0.05
"""Affinities from which two columns are positives, and up to which they are negatives; what lies between is neither."""


def agree_columns(segments_SD: Tensor, columns: RelatedColumns, affinity_AA: Tensor, temperature: float) -> Tensor:
    """Return the sum over columns of the cross-entropy between what they are like and what they should be like.

    A column is the mean of its segments' embeddings in the batch. It should be like columns of other tables in
    proportion to their affinity, and unlike the others of its own table and of other tables.
    """
    num_columns = len(columns.column)
    sums_KD = segments_SD.new_zeros(num_columns, segments_SD.shape[1]).index_add(0, columns.segment_column, segments_SD)
    similarity_KK = compare_all(sums_KD, sums_KD) / temperature
    with torch.no_grad():
        column_K = columns.column.clamp(min=0)
        target_KK, candidate_KK = _pair_up(columns, affinity_AA[column_K][:, column_K].float())
        weight_K = (target_KK.sum(dim=1) > 0).float()
        target_KK = target_KK / target_KK.sum(dim=1, keepdim=True).clamp(min=1e-9)
        # A column without candidates has no loss; it is its own only to keep the logarithm finite.
        alone_K = ~candidate_KK.any(dim=1)
        candidate_KK = candidate_KK | torch.diag(alone_K)
    log_share_KK = similarity_KK - torch.logsumexp(
        similarity_KK.masked_fill(~candidate_KK, -torch.inf), dim=1, keepdim=True
    )
    return -(weight_K[:, None] * target_KK * log_share_KK).sum()


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
