"""What the linear maps of an encoder's layers are given: ranges seen on rows of random tokens, and how to part them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertSelfAttention

from navi.batches import BatchBuilder, SpecialTokens
from navi.corpus.arrays import SegmentArrays
from navi.model.encoder import NaviModel

# Shape suffixes: D width of what comes in, O width of what goes out.

SMOOTHING = 0.4
"""How much of a channel's reach moves from the states to the weights, where it costs less; 1 would be all of it."""
TRIAL_ROWS, TRIAL_COLUMNS, TRIAL_LENGTH = 64, 8, 12
"""Rows, columns and longest value of the random rows; fewer rows were seen to miss outliers."""


class Reach(NamedTuple):
    """The lowest and the highest number of each channel, (D,) each."""

    low: Tensor
    high: Tensor

    def spread(self, weight_OD: Tensor, smoothing: float | None = SMOOTHING) -> Tensor:
        """Return (D,) what each channel of the states is divided by, and its weights multiplied with."""
        if smoothing is None:
            return torch.ones(weight_OD.shape[1])
        weights_D = weight_OD.abs().amax(dim=0).clamp(min=1e-5)
        return self.measure() ** smoothing / weights_D ** (1 - smoothing)

    def measure(self) -> Tensor:
        """Return (D,) the largest size of each channel."""
        return torch.maximum(self.low.abs(), self.high.abs()).clamp(min=1e-5)


@torch.inference_mode()
def observe(model: NaviModel, special: SpecialTokens) -> dict[nn.Module, Reach]:
    """Return the reach of what attention and each linear map of the layers is given, over rows of random tokens.

    Of the maps to queries, keys and values it is the reach of what they give.
    """
    reaches: dict[nn.Module, Reach] = {}

    def look(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        states = given[0].reshape(-1, given[0].shape[-1])
        reaches[module] = Reach(*torch.aminmax(states, dim=0))
        if isinstance(module, BertSelfAttention):
            for made in (module.query, module.key, module.value):
                reaches[made] = Reach(*torch.aminmax(F.linear(states, made.weight, made.bias), dim=0))

    hooks = [
        module.register_forward_pre_hook(look)
        for module in model.layers.modules()
        if isinstance(module, nn.Linear | BertSelfAttention)
    ]
    try:
        arrays = make_trial_rows(special)
        model(BatchBuilder(arrays, special, align=False).pack_rows(np.arange(TRIAL_ROWS)))
    finally:
        for hook in hooks:
            hook.remove()
    return reaches


def make_trial_rows(special: SpecialTokens) -> SegmentArrays:
    """Return rows of random tokens, every tenth of them [MASK]; always the same ones."""
    generator = np.random.default_rng(0)
    num_cells = TRIAL_ROWS * TRIAL_COLUMNS

    def draw(number: int, longest: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        lengths = generator.integers(1, longest + 1, number)
        tokens = generator.choice(special.regular, lengths.sum()).astype(np.int32)
        tokens[generator.random(len(tokens)) < 0.1] = special.mask
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), tokens

    header = np.tile(np.arange(TRIAL_COLUMNS, dtype=np.int32), TRIAL_ROWS)
    columns = np.arange(TRIAL_COLUMNS, dtype=np.int32)
    header_offsets, header_tokens = draw(TRIAL_COLUMNS, 4)
    value_offsets, value_tokens = draw(num_cells, TRIAL_LENGTH)
    return SegmentArrays(
        row_offsets=np.arange(TRIAL_ROWS + 1, dtype=np.int64) * TRIAL_COLUMNS,
        row_segments=np.arange(num_cells, dtype=np.int32),
        row_table=np.zeros(TRIAL_ROWS, dtype=np.int32),
        segment_attribute=header,
        segment_header=header,
        segment_value=np.arange(num_cells, dtype=np.int32),
        header_offsets=header_offsets,
        header_tokens=header_tokens,
        value_offsets=value_offsets,
        value_tokens=value_tokens,
        attribute_offsets=header_offsets,
        attribute_tokens=header_tokens,
        column_table=np.zeros(TRIAL_COLUMNS, dtype=np.int32),
        column_header=columns,
        column_attribute=columns,
        column_role=np.zeros(TRIAL_COLUMNS, dtype=np.int8),
    )
