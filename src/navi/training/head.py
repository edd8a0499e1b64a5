"""A cold head that knows how frequent each token is before it has learned anything else."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches.layout import gather_ranges
from navi.model import NaviModel
from navi.segments.arrays import SegmentArrays
from navi.training.domain import count_cells


def count_tokens(arrays: SegmentArrays, rows: NDArray[np.int64], vocabulary_size: int) -> NDArray[np.float64]:
    """Return how often each token stands in the headers and values of some rows: (V,)."""
    counts = np.zeros(vocabulary_size)
    _, count_S = count_cells(arrays, rows)
    for offsets, tokens, owner_S in (
        (arrays.header_offsets, arrays.header_tokens, arrays.segment_header),
        (arrays.value_offsets, arrays.value_tokens, arrays.segment_value),
    ):
        uses = np.bincount(owner_S, weights=count_S, minlength=len(offsets) - 1)
        lengths, index = gather_ranges(offsets, np.arange(len(offsets) - 1))
        counts += np.bincount(tokens[index], weights=np.repeat(uses, lengths), minlength=vocabulary_size)
    return counts


def start_head(model: NaviModel, arrays: SegmentArrays, rows: NDArray[np.int64]) -> None:
    """Let the head's bias start at the logarithm of each token's frequency, which it would spend its first steps on."""
    counts = count_tokens(arrays, rows, model.config.vocab_size) + 1.0
    with torch.no_grad():
        model.head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
