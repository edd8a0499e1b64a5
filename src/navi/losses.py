"""What pretraining minimises: masked segment modelling, entropy-driven alignment, and what is added to the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import IGNORED, REGIME_HEADER, REGIME_VALUE, Alignment, Batch, Rows, Sequences
from navi.batches.batch import TensorGroup
from navi.errors import ConfigError
from navi.model.attention import is_for_triton
from navi.model.encoder import NaviModel, NaviOutput
from navi.settings import check_bounds

# Shape suffixes: R rows, N all copies of rows, or texts, S segments, T tokens (packed), M targets, Q queries,
# X candidates, L low- and H high-entropy segments, K anchors, or columns, D hidden size, V vocabulary.


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
        check_bounds(self, "weight", "row_weight", least=0)
        check_bounds(self, "temperature_low", "temperature_high", above=0)
        if self.low_negatives not in ("table", "batch"):
            raise ConfigError(f"low_negatives must be 'table' or 'batch', got '{self.low_negatives}'.")


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """How texts of columns and rows are learned beside segments; the paper does not do it."""

    weight: float = 0.5
    """Weight of the loss by which two views of a column or a row find each other; 0, and no `keep_weight`, for none."""
    keep_weight: float = 2.0
    """Weight of the loss by which texts of them stay where the model had them before training."""
    temperature: float = 0.05
    """τ of the views' similarities."""
    num_views: int = 6
    """Perturbed views made of each column and row before training."""
    columns_per_step: int = 96
    """Columns and rows whose views are compared in one step."""
    rows_between: int = 256
    """Rows of a run from one such step to the next: smaller batches leave columns out of some steps."""

    def __post_init__(self) -> None:
        check_bounds(self, "weight", "keep_weight", least=0)
        check_bounds(self, "columns_per_step", "rows_between", least=1)
        check_bounds(self, "num_views", least=2)
        check_bounds(self, "temperature", above=0)


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
    else:  # an attribute competes once, however many tables of the batch have it
        slot_K = alignment.anchor_slot
        rival_LK = rival_LK & (slot_K >= 0) & ~(slot_K[:, None] == slot_K).tril(-1).any(dim=1)
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


def measure_step(batches: list[Batch]) -> Tensor:
    """Return (3,) the targets, tables and rows of a step, which its losses are divided by, filling left out.

    Divided by those of the whole step, the losses of its parts add up. Tables are counted once in each part.
    """
    size = torch.zeros(3, dtype=torch.int64, device=batches[0].row_ids.device if batches else None)
    for batch in batches:
        table = batch.row_table.sort().values
        num_tables = ((table[1:] != table[:-1]) & (table[1:] >= 0)).sum() + (table[:1] >= 0).sum()
        size = size + torch.stack([batch.targets.num_masked, num_tables, (batch.row_ids >= 0).sum()])
    return size


def find_read_tokens(batch: Batch, config: AlignmentConfig) -> Tensor:
    """Return the tokens whose last states `compute_losses` reads, in their order; it needs no others."""
    rows = batch.rows
    is_read_S = torch.zeros(rows.num_segments + 1, dtype=torch.bool, device=rows.token_span.device)
    if batch.alignment is not None and config.weight > 0:
        is_read_S[batch.alignment.low_segment] = True
        is_read_S[batch.alignment.high_segment] = True
    is_read_T = is_read_S[rows.token_span // 2]  # what is in no segment has the span after the last
    is_read_T[batch.targets.position] = True
    if batch.alignment is not None and config.row_weight > 0:
        is_read_T[_find_plain_firsts(batch)] = True
    return is_read_T.nonzero().squeeze(1)


def _find_plain_firsts(batch: Batch) -> Tensor:
    """Return (R,) the [CLS] of each row's plain copy."""
    return batch.rows.starts.index_select(0, batch.plain_row).clamp(max=batch.rows.num_tokens - 1)


def compute_losses(model: NaviModel, output: NaviOutput, batch: Batch, config: AlignmentConfig, size: Tensor) -> Losses:
    """Return all losses of one batch of a step, of which `measure_step` gives the size."""
    targets, (num_targets, num_tables, num_rows) = batch.targets, size.clamp(min=1).unbind()
    logits_MV = model.predict_tokens(output, targets.position)
    loss, hit_M = masked_segment_loss(logits_MV, targets.token)
    masked = loss / num_targets
    low = high = words = masked.new_zeros(())
    if batch.alignment is not None and config.weight > 0:
        alignment = batch.alignment
        low_LD = model.embed_segments(output, alignment.low_segment)
        high_HD = model.embed_segments(output, alignment.high_segment)
        anchors_KD = output.attribute_table.index_select(0, alignment.anchor_slot.clamp(min=0)).float()
        low = low_entropy_loss(low_LD, anchors_KD, alignment, config) / num_tables
        values_HD = output.values.index_select(0, alignment.high_segment)
        high = high_entropy_loss(high_HD, values_HD, alignment, config) / num_tables
    if batch.alignment is not None and config.row_weight > 0:
        logits_RV = model.predict_tokens(output, _find_plain_firsts(batch), train_head=False)
        words = bag_of_words_loss(logits_RV, batch.rows, batch.plain_row) / num_rows
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


@dataclass(frozen=True, kw_only=True)
class ViewsBatch(TensorGroup):
    """Texts of N columns and rows: the first view of each, the second, then each as it is; N of K for one process."""

    texts: Sequences
    meaning: Tensor  # (K,) those of the same meaning are not told apart
    target: Tensor  # (N, D) where the model had the texts that are as they are, before training


def compute_views_losses(
    model: NaviModel, batch: ViewsBatch, config: ViewsConfig, gather: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the loss of views and this part of that of keeping, neither weighed; `gather` makes K vectors of N."""
    first_ND, second_ND, kept_ND = torch.chunk(model.embed_texts(batch.texts), 3)
    kept = keeping_loss(kept_ND, batch.target) * (len(kept_ND) / len(batch.meaning))
    return views_loss(gather(first_ND), gather(second_ND), batch.meaning, config.temperature), kept


def views_loss(first_KD: Tensor, second_KD: Tensor, meaning_K: Tensor, temperature: float) -> Tensor:
    """Return −1/2K Σ_k log softmax(cos(u_k, v_·) / τ)[k], and the same with u and v exchanged.

    Those of the same meaning are no negatives of each other: columns of one attribute, rows with the same cells.
    """
    cosine_KK = F.normalize(first_KD.float(), dim=1) @ F.normalize(second_KD.float(), dim=1).T / temperature
    same_KK = meaning_K[:, None] == meaning_K[None, :]
    same_KK.fill_diagonal_(fill_value=False)
    cosine_KK = cosine_KK.masked_fill(same_KK, -torch.inf)
    own_K = torch.arange(len(meaning_K), device=cosine_KK.device)
    return (F.cross_entropy(cosine_KK, own_K) + F.cross_entropy(cosine_KK.T, own_K)) / 2


def keeping_loss(vectors_ND: Tensor, target_ND: Tensor) -> Tensor:
    """Return 1 − 1/N Σ_n cos(x_n, t_n)."""
    return 1 - F.cosine_similarity(vectors_ND.float(), target_ND.float(), dim=1).mean()
