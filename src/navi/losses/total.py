"""The total loss of a batch: L_msm + λ L_align, and what is added to the paper's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import IGNORED, REGIME_HEADER, REGIME_VALUE, Batch, Rows
from navi.losses.alignment import AlignmentConfig, high_entropy_loss, low_entropy_loss
from navi.model.attention import is_for_triton
from navi.model.encoder import NaviModel, NaviOutput

# Shape suffixes: R rows, N all copies of rows, S segments, T tokens (packed), M targets, L low- and H high-entropy
# segments, K anchors, D hidden size, V vocabulary.


@dataclass(frozen=True, kw_only=True)
class StepSize:
    """What the losses of a whole step are divided by, so that a step taken in parts has the same loss.

    Tables are counted once in each part they appear in.
    """

    num_targets: int | Tensor
    num_tables: int | Tensor
    num_rows: int | Tensor = 1


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The losses of a batch, each already divided by the step's size: parts of a step add up."""

    loss: Tensor  # the total, which is minimised: L_msm + λ L_align, and what is added to them
    masked: Tensor  # L_msm
    low: Tensor  # mean of L_low over tables
    high: Tensor  # mean of L_high over tables
    bag_of_words: Tensor  # mean over rows of their bags of words
    header_targets: Tensor  # masked header tokens, a count
    header_hits: Tensor  # those of them that are predicted right
    value_targets: Tensor  # masked value tokens, a count
    value_hits: Tensor  # those of them that are predicted right


def measure_step(batches: list[Batch]) -> StepSize:
    """Return what the losses of a step's batches are divided by, counted where they lie, filling left out."""
    return StepSize(
        num_targets=_add_up([batch.targets.num_masked for batch in batches]),
        num_tables=_add_up([_count_distinct(batch.row_table) for batch in batches]),
        num_rows=_add_up([(batch.row_ids >= 0).sum() for batch in batches]),
    )


def _add_up(counts: list[Tensor]) -> Tensor:
    """Return the sum, at least 1."""
    return torch.stack(counts).sum().clamp(min=1) if counts else torch.ones(())


def _count_distinct(numbers: Tensor) -> Tensor:
    """Return how many distinct numbers there are, those below 0 left out."""
    ordered = numbers.sort().values
    return ((ordered[1:] != ordered[:-1]) & (ordered[1:] >= 0)).sum() + (ordered[:1] >= 0).sum()


def find_read_tokens(batch: Batch, config: AlignmentConfig) -> Tensor:
    """Return the tokens whose last states `compute_losses` reads, in their order; it needs no others."""
    rows = batch.rows
    is_read_S = torch.zeros(rows.num_segments + 1, dtype=torch.bool, device=rows.token_span.device)
    if batch.alignment is not None and config.weight > 0:
        is_read_S[batch.alignment.low_segment] = True
        is_read_S[batch.alignment.high_segment] = True
    is_read_T = is_read_S[rows.token_span // 2]  # what is in no segment has the span after the last
    is_read_T[batch.targets.position] = True
    if batch.has_plain and config.row_weight > 0:
        is_read_T[_find_plain_firsts(batch)] = True
    return is_read_T.nonzero().squeeze(1)


def _find_plain_firsts(batch: Batch) -> Tensor:
    """Return (R,) the [CLS] of each row's plain copy."""
    return batch.rows.starts.index_select(0, batch.plain_row).clamp(max=batch.rows.num_tokens - 1)


def masked_segment_loss(logits_MV: Tensor, token_M: Tensor) -> tuple[Tensor, Tensor]:
    """Return |M| L_msm = −Σ_m log softmax(z_m)[m], and (M,) which targets m are the likeliest tokens.

    Targets that are IGNORED add nothing. The caller divides the loss by the number of targets of the whole step, so
    that a step taken in parts has the same loss. The gradient is softmax(z_m), less 1 at the token itself.
    """
    if is_for_triton(logits_MV):
        from navi.model.kernels import cross_entropy

        loss_M, _, best_M = cross_entropy(logits_MV, token_M)
        return loss_M.sum(), best_M == token_M
    loss = F.cross_entropy(logits_MV.float(), token_M, reduction="sum", ignore_index=IGNORED)
    return loss, logits_MV.detach().argmax(dim=1) == token_M


def bag_of_words_loss(logits_RV: Tensor, rows: Rows, place_R: Tensor) -> Tensor:
    """Return −Σ_r 1/|W_r| Σ_{w ∈ W_r} log softmax(z_r)[w], W_r the distinct tokens of row r's values; not in the paper.

    z_r are the logits of one vector a row, [CLS]; `place_R` says where the rows stand among all. Rows without values
    have no loss. The head that made the logits should not learn from it: it would learn how frequent tokens are.
    """
    with torch.no_grad():
        (num_rows, num_words), device = logits_RV.shape, place_R.device
        row_N = torch.full((rows.num_rows + 1,), num_rows, device=device)
        row_N[place_R] = torch.arange(num_rows, device=device)
        marked = torch.zeros((num_rows + 1, num_words), device=device)
        marked.view(-1).index_fill_(0, row_N[rows.find_value_rows()] * num_words + rows.token_ids, 1.0)
        target_RV = marked[:num_rows] / marked[:num_rows].sum(dim=1, keepdim=True).clamp(min=1.0)
    return F.cross_entropy(logits_RV.float(), target_RV, reduction="sum")


def compute_losses(
    model: NaviModel, output: NaviOutput, batch: Batch, config: AlignmentConfig, size: StepSize
) -> Losses:
    """Return all losses of one batch of a step."""
    targets = batch.targets
    logits_MV = model.predict_tokens(output, targets.position)
    loss, hit_M = masked_segment_loss(logits_MV, targets.token)
    masked = loss / size.num_targets
    low = high = words = masked.new_zeros(())
    if batch.alignment is not None and config.weight > 0:
        alignment = batch.alignment
        low_LD = model.embed_segments(output, alignment.low_segment)
        high_HD = model.embed_segments(output, alignment.high_segment)
        anchors_KD = output.attribute_table.index_select(0, alignment.anchor_slot.clamp(min=0)).float()
        low = low_entropy_loss(low_LD, anchors_KD, alignment, config) / size.num_tables
        values_HD = output.values.index_select(0, alignment.high_segment)
        high = high_entropy_loss(high_HD, values_HD, alignment, config) / size.num_tables
    if config.row_weight > 0 and batch.has_plain:
        logits_RV = model.predict_tokens(output, _find_plain_firsts(batch), train_head=False)
        words = bag_of_words_loss(logits_RV, batch.rows, batch.plain_row) / size.num_rows
    is_header_M, is_value_M = targets.kind == REGIME_HEADER, targets.kind == REGIME_VALUE
    return Losses(
        loss=masked + config.weight * (low + high) + config.row_weight * words,
        masked=masked.detach(),
        low=low.detach(),
        high=high.detach(),
        bag_of_words=words.detach(),
        header_targets=is_header_M.sum(),
        header_hits=(hit_M & is_header_M).sum(),
        value_targets=is_value_M.sum(),
        value_hits=(hit_M & is_value_M).sum(),
    )
