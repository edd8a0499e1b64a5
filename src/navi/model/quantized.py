"""Encoder layers in int8 for the CPU: weights by output channel, states by ranges seen on rows of random tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertLayer

from navi.batches import BatchBuilder, SpecialTokens, lay_out
from navi.errors import ConfigError, ModelError
from navi.model.attention import Packing, attend_first, packed_attention
from navi.model.encoder import NaviModel
from navi.segments.arrays import SegmentArrays

# Shape suffixes: T tokens (packed), D width of what comes in, O width of what goes out, H heads, E width of a head.

SMOOTHING = 0.4
"""How much of a channel's reach moves from the states to the weights, where it costs less; 1 would be all of it."""
ACTIVATIONS = {"gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "relu": ("relu", "")}
"""What oneDNN can do to a product before it is written, by the name that a configuration gives it."""
TRIAL_ROWS, TRIAL_COLUMNS, TRIAL_LENGTH = 64, 8, 12
"""Rows, columns and longest value of the random rows; fewer rows were seen to miss outliers."""
NUM_LEVELS = 255


class Reach(NamedTuple):
    """The lowest and the highest number of each channel, (D,) each."""

    low: Tensor
    high: Tensor


def quantize_layers(model: NaviModel, special: SpecialTokens) -> None:
    """Put int8 layers in the place of a model's encoder layers; attribute encoder, projection and head stay.

    States are written as eight bits over ranges that the float32 layers show on rows of random tokens. No batch decides
    on them, so a row's embedding does not depend on its neighbours.
    """
    if any(isinstance(layer, QuantizedLayer) for layer in model.layers):
        return
    check_support(model)
    reaches = observe(model, special)
    activation = ACTIVATIONS[model.config.hidden_act]
    model.layers = nn.ModuleList(QuantizedLayer(layer, reaches, activation) for layer in model.layers)


def check_support(model: NaviModel) -> None:
    """Raise unless int8 layers can be made of a model's layers, here."""
    if model.device.type != "cpu":
        raise ConfigError(f"Precision int8 is for the CPU, got the device '{model.device}'. Use bfloat16 there.")
    if not has_onednn():
        raise ModelError("This build of torch has no oneDNN, which precision int8 needs. Use float32.")
    if model.config.hidden_act not in ACTIVATIONS:
        raise ModelError(
            f"No int8 layers for the activation '{model.config.hidden_act}'. "
            f"Expected one of {', '.join(ACTIVATIONS)}; use float32."
        )


def has_onednn() -> bool:
    """Tell whether this build of torch has the products that int8 layers need."""
    return hasattr(torch.ops.onednn, "qlinear_pointwise")


@torch.inference_mode()
def observe(model: NaviModel, special: SpecialTokens) -> dict[nn.Module, Reach]:
    """Return the reach of what each linear map of the layers is given, over rows of random tokens."""
    reaches: dict[nn.Module, Reach] = {}

    def look(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        reaches[module] = Reach(*torch.aminmax(given[0].reshape(-1, given[0].shape[-1]), dim=0))

    hooks = [
        module.register_forward_pre_hook(look) for module in model.layers.modules() if isinstance(module, nn.Linear)
    ]
    try:
        arrays = make_trial_rows(special)
        layout = lay_out(arrays, np.arange(TRIAL_ROWS), special)
        model(BatchBuilder(arrays, special, align=False).pack_layout(layout))
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


class QuantizedLinear:
    """A linear map with weights and states in eight bits; products are summed in 32, then scaled to float32."""

    def __init__(self, linears: list[nn.Linear], reach: Reach, *, smoothing: float | None = SMOOTHING) -> None:
        weight_OD = torch.cat([linear.weight.detach().float() for linear in linears])
        spread_D = _share_reach(reach, weight_OD, smoothing)
        weight_OD = weight_OD * spread_D
        low = min(float((reach.low / spread_D).min()), 0.0)
        high = max(float((reach.high / spread_D).max()), 0.0)
        self.scale = max(high - low, 1e-5) / NUM_LEVELS
        self.zero = round(-low / self.scale)
        self.factor_D = 1 / (spread_D * self.scale)
        self.shift = torch.tensor(self.zero + 0.5)
        self.weight_scale_O = weight_OD.abs().amax(dim=1).clamp(min=1e-9) / _count_weight_levels()
        self.weight_zero_O = torch.zeros(len(weight_OD), dtype=torch.int64)
        rounded = (weight_OD / self.weight_scale_O[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.bias_O = torch.cat([linear.bias.detach().float() for linear in linears])

    def quantize(self, states_TD: Tensor) -> Tensor:
        """Return states as eight bits; those beyond the range that was seen get its ends."""
        return torch.addcmul(self.shift, states_TD, self.factor_D).clamp_(0, NUM_LEVELS).to(torch.uint8)

    def __call__(self, eight_TD: Tensor, added_TO: Tensor | None = None) -> Tensor:
        """Return W x + b, and what is added to it, in float32: (T, O)."""
        given = (eight_TD, self.scale, self.zero, self.packed, self.weight_scale_O, self.weight_zero_O)
        written = (self.bias_O, 1.0, 0, torch.float32)
        if added_TO is None:
            product: Tensor = torch.ops.onednn.qlinear_pointwise(*given, *written, "none", [], "")
        else:
            product = torch.ops.onednn.qlinear_pointwise.binary(
                *given, added_TO, *written, 1.0, 0, "add", 1.0, "none", [], ""
            )
        return product

    def activate(self, eight_TD: Tensor, following: QuantizedLinear, activation: tuple[str, str]) -> Tensor:
        """Return act(W x + b) as the eight bits that the following map takes: (T, O)."""
        activated: Tensor = torch.ops.onednn.qlinear_pointwise(
            eight_TD, self.scale, self.zero, self.packed, self.weight_scale_O, self.weight_zero_O, self.bias_O,
            following.scale, following.zero, torch.uint8, activation[0], [], activation[1],
        )  # fmt: skip
        return activated


class QuantizedLayer(nn.Module):
    """A BERT layer whose matrix products are in int8; attention, residuals and norms stay in float32."""

    def __init__(self, layer: BertLayer, reaches: dict[nn.Module, Reach], activation: tuple[str, str]) -> None:
        super().__init__()
        attention, mixing, narrow = layer.attention.self, layer.attention.output.dense, layer.output.dense
        wide = layer.intermediate.dense
        self.num_heads: int = attention.num_attention_heads
        self.scaling: float = attention.scaling
        self.activation = activation
        self.look = QuantizedLinear([attention.query, attention.key, attention.value], reaches[attention.query])
        self.mix = QuantizedLinear([mixing], reaches[mixing])
        self.widen = QuantizedLinear([wide], reaches[wide])
        # What the activation gives is written as eight bits by the product itself, with one scale for all channels.
        self.narrow = QuantizedLinear([narrow], reaches[narrow], smoothing=None)
        self.attention_norm = layer.attention.output.LayerNorm
        self.output_norm = layer.output.LayerNorm

    def forward(self, hidden: Tensor, *, packing: Packing) -> Tensor:
        """Return the states after the layer: (1, T, D) in and out, as the layer it stands for."""
        hidden_TD = hidden.squeeze(0)
        query, key, value = self._look(hidden_TD).permute(1, 2, 0, 3).unsqueeze(1)  # (1, H, T, E) each
        seen = packed_attention(self, query, key, value, None, packing=packing, scaling=self.scaling)[0]
        return self._finish(seen.reshape(hidden_TD.shape), hidden_TD).unsqueeze(0)

    def embed_first(self, hidden: Tensor, packing: Packing) -> Tensor:
        """Return the states of the first token of each row alone: (R, D)."""
        hidden_TD, first_R = hidden.squeeze(0), packing.wide.starts[:-1].long()
        query, key, value = self._look(hidden_TD).unbind(1)
        seen = attend_first(query.index_select(0, first_R), key, value, packing, self.scaling)
        return self._finish(seen.flatten(1), hidden_TD.index_select(0, first_R))

    def _look(self, hidden_TD: Tensor) -> Tensor:
        """Return queries, keys and values: (T, 3, H, E)."""
        return self.look(self.look.quantize(hidden_TD)).view(len(hidden_TD), 3, self.num_heads, -1)

    def _finish(self, seen_TD: Tensor, hidden_TD: Tensor) -> Tensor:
        """Return the states after attention has been given: (T, D)."""
        attended_TD = self.attention_norm(self.mix(self.mix.quantize(seen_TD), hidden_TD))
        inner = self.widen.activate(self.widen.quantize(attended_TD), self.narrow, self.activation)
        states: Tensor = self.output_norm(self.narrow(inner, attended_TD))
        return states


def _share_reach(reach: Reach, weight_OD: Tensor, smoothing: float | None) -> Tensor:
    """Return (D,) what each channel of the states is divided by, and its weights multiplied with."""
    if smoothing is None:
        return torch.ones(weight_OD.shape[1])
    states_D = torch.maximum(reach.low.abs(), reach.high.abs()).clamp(min=1e-5)
    weights_D = weight_OD.abs().amax(dim=0).clamp(min=1e-5)
    return states_D**smoothing / weights_D ** (1 - smoothing)


def _count_weight_levels() -> int:
    """Return the largest weight in eight bits; without VNNI two products must fit in 16 bits, so it is halved."""
    return 127 if torch.cpu._is_vnni_supported() else 63
