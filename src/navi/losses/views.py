"""The losses of columns and rows read as texts: two views of one are alike, and what the model knew of words stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches.batch import Sequences, TensorGroup
from navi.errors import ConfigError
from navi.model.encoder import NaviModel

# Shape suffixes: K columns, N texts, D hidden size.


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
        if min(self.weight, self.keep_weight) < 0:
            raise ConfigError(f"Weights must be 0 or more, got {self.weight} and {self.keep_weight}.")
        if self.temperature <= 0 or min(self.columns_per_step, self.rows_between, self.num_views - 1) < 1:
            raise ConfigError(
                "temperature must be positive, columns_per_step and rows_between 1 or more, num_views 2 or more."
            )


@dataclass(frozen=True, kw_only=True)
class ViewsBatch(TensorGroup):
    """Texts of N columns and rows: the first view of each, the second, then each as it is; N of K for one process."""

    texts: Sequences
    meaning: Tensor  # (K,) those of the same meaning are not told apart
    target: Tensor  # (N, D) where the model had the texts that are as they are, before training


def compute_views_losses(
    model: NaviModel, batch: ViewsBatch, config: ViewsConfig, gather: Callable[[Tensor], Tensor] = lambda mine: mine
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
