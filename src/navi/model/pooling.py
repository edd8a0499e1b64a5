"""Averages over spans of a packed token axis."""

from __future__ import annotations

import torch
from torch import Tensor

# Shape suffixes: T tokens (packed), D hidden size.


def pool_spans(hidden_TD: Tensor, span_T: Tensor, num_spans: int) -> Tensor:
    """Average the tokens of each span, in float32; a span with no tokens yields zeros.

    Tokens whose span is `num_spans` belong to none.
    """
    hidden_TD = hidden_TD.float()
    sums = hidden_TD.new_zeros(num_spans + 1, hidden_TD.shape[1]).index_add(0, span_T, hidden_TD)
    counts = hidden_TD.new_zeros(num_spans + 1).index_add(0, span_T, hidden_TD.new_ones(len(span_T)))
    return sums[:num_spans] / counts[:num_spans].clamp(min=1.0).unsqueeze(1)


def pool_sequences(hidden_TD: Tensor, starts: Tensor) -> Tensor:
    """Average each packed sequence."""
    lengths = starts[1:] - starts[:-1]
    span_T = torch.repeat_interleave(
        torch.arange(len(lengths), device=starts.device), lengths, output_size=len(hidden_TD)
    )
    return pool_spans(hidden_TD, span_T, len(lengths))
