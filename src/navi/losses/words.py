"""Beyond the paper: [CLS] tells the words of its row's values, so that the row embedding has something to say."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from navi.batches import Rows

# Shape suffixes: R rows that are told, N all rows of the batch, T tokens (packed), V vocabulary.


def tell_words(logits_RV: Tensor, rows: Rows, place_R: Tensor) -> Tensor:
    """Return the sum over rows of the cross-entropy of the distinct tokens of their values, told from one vector each.

    `place_R` says where each row stands among the rows of the batch. Rows without values have no loss. The head that
    made the logits should not learn from it: it would learn how frequent tokens are, and masked tokens later.
    """
    target_RV = mark_words(rows, place_R, logits_RV.shape[1])
    target_RV = target_RV / target_RV.sum(dim=1, keepdim=True).clamp(min=1.0)
    return F.cross_entropy(logits_RV.float(), target_RV, reduction="sum")


@torch.no_grad()
def mark_words(rows: Rows, place_R: Tensor, num_words: int) -> Tensor:
    """Return (R, V): 1 where a token stands among the values of a row, else 0."""
    num_told, device = len(place_R), place_R.device
    told_N = torch.full((rows.num_rows + 1,), num_told, device=device)
    told_N[place_R] = torch.arange(num_told, device=device)
    marked = torch.zeros((num_told + 1, num_words), device=device)
    marked.view(-1).index_fill_(0, told_N[rows.find_value_rows()] * num_words + rows.token_ids, 1.0)
    return marked[:num_told]
