"""Encoder layers in int8 for the CPU, all of them one OpenVINO graph over rows that are padded to a like length."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertLayer

from navi.batches import SpecialTokens
from navi.errors import ConfigError, ModelError
from navi.model.attention import Packing
from navi.model.encoder import NaviModel
from navi.model.reach import SMOOTHING, Reach, observe

# Shape suffixes: T tokens (packed), R rows, B rows of one padded length L, D width of what comes in, O width of what
# goes out.

Node = Any
"""What a graph is made of: OpenVINO's own nodes."""
ACTIVATIONS = {"gelu": ("gelu", "erf"), "gelu_new": ("gelu", "tanh"), "relu": ("relu",)}
"""What the graph calls an activation, by the name that a configuration gives it."""
NUM_STEPS = 256
HIDDEN = -1e9
"""What is added to the score of a token that may not be seen."""
TOKENS_AT_ONCE, PADDING = 2048, 128
"""Tokens that go through the graph together, padding and all, or one row; and padding that is worth a call less."""


def quantize_layers(model: NaviModel, special: SpecialTokens) -> None:
    """Put one graph in int8 in the place of a model's encoder layers; attribute encoder, projection and head stay.

    States are written as eight bits over ranges that the float32 layers show on rows of random tokens. No batch decides
    on them, so a row's embedding does not depend on its neighbours.
    """
    if any(isinstance(layer, QuantizedLayers) for layer in model.layers):
        return
    check_support(model)
    model.layers = nn.ModuleList([QuantizedLayers(model, observe(model, special))])


def check_support(model: NaviModel) -> None:
    """Raise unless int8 layers can be made of a model's layers, here."""
    if model.device.type != "cpu":
        raise ConfigError(f"Precision int8 is for the CPU, got the device '{model.device}'. Use bfloat16 there.")
    if not has_openvino():
        raise ModelError(
            "Precision int8 needs OpenVINO, which is not installed. "
            "Install it with pip install 'navi-tables[int8]', or use float32."
        )
    if model.config.hidden_act not in ACTIVATIONS:
        raise ModelError(
            f"No int8 layers for the activation '{model.config.hidden_act}'. "
            f"Expected one of {', '.join(ACTIVATIONS)}; use float32."
        )


def has_openvino() -> bool:
    """Tell whether OpenVINO is installed."""
    return importlib.util.find_spec("openvino") is not None


class QuantizedLayers(nn.Module):
    """All layers of an encoder, in the place of one; attention, residuals and norms stay in float32."""

    def __init__(self, model: NaviModel, reaches: dict[nn.Module, Reach]) -> None:
        super().__init__()
        num_local = model.config.num_local_heads
        layers = [QuantizedLayer(layer, reaches, ACTIVATIONS[model.config.hidden_act]) for layer in model.layers]
        self._lock = threading.Lock()
        self._graphs = {first: draw_layers(layers, num_local, first=first) for first in (False, True)}

    def forward(self, hidden: Tensor, *, packing: Packing) -> Tensor:
        """Return the states after all layers: (1, T, D) in and out."""
        hidden_TD, units_T = hidden.squeeze(0), _number_units(packing)
        states_TD = torch.zeros_like(hidden_TD)
        for rows in group_alike(packing.wide.starts.diff()):
            places_BL, real_BL = _pad(packing.wide.starts, rows)
            with self._lock:
                states_TD[places_BL[real_BL]] = _infer(self._whole, hidden_TD, units_T, places_BL, real_BL)[real_BL]
        return states_TD.unsqueeze(0)

    def embed_first(self, hidden: Tensor, packing: Packing) -> Tensor:
        """Return the states of the first token of each row alone, after all layers: (R, D)."""
        hidden_TD, units_T = hidden.squeeze(0), _number_units(packing)
        states_RD = hidden_TD.new_zeros(len(packing.wide.starts) - 1, hidden_TD.shape[1])
        for rows in group_alike(packing.wide.starts.diff()):
            places_BL, real_BL = _pad(packing.wide.starts, rows)
            with self._lock:
                states_RD[rows] = _infer(self._first, hidden_TD, units_T, places_BL, real_BL).squeeze(1)
        return states_RD

    @cached_property
    def _whole(self) -> Any:
        return _compile(self._graphs.pop(False))

    @cached_property
    def _first(self) -> Any:
        return _compile(self._graphs.pop(True))


def group_alike(lengths_R: Tensor) -> list[Tensor]:
    """Return groups of rows of like length, within `TOKENS_AT_ONCE` when padded; empty rows are in none.

    >>> [group.tolist() for group in group_alike(torch.tensor([3, 900, 0, 4, 880]))]
    [[1, 4], [3, 0]]
    """
    lengths, order = torch.sort(lengths_R, descending=True, stable=True)
    lengths = lengths[lengths > 0]
    groups: list[Tensor] = []
    begin, real = 0, 0
    for place, length in enumerate(lengths.tolist()):
        padded = (place + 1 - begin) * int(lengths[begin])
        if place > begin and (padded > TOKENS_AT_ONCE or padded - real - length > max(PADDING, padded // 32)):
            groups.append(order[begin:place])
            begin, real = place, 0
        real += length
    return [*groups, order[begin : len(lengths)]] if len(lengths) else []


def _pad(starts: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the tokens of rows stand, (B, L), any token where there is none; and which are real."""
    first, lengths = starts[rows, None].long(), starts.diff()[rows, None].long()
    steps = torch.arange(int(lengths.max()))
    return first + torch.minimum(steps, lengths - 1), steps < lengths


def _number_units(packing: Packing) -> Tensor:
    """Return (T,) a number for each token that those of its segment share; 0 for [CLS]."""
    row_first = packing.wide.limits[0]
    return (row_first if packing.local is None else packing.local.limits[0]) - row_first


def _infer(graph: Any, hidden_TD: Tensor, units_T: Tensor, places_BL: Tensor, real_BL: Tensor) -> Tensor:
    """Return what the graph makes of padded rows, in memory that its next run writes anew."""
    flat = places_BL.reshape(-1)
    states = hidden_TD.index_select(0, flat).view(*places_BL.shape, -1)
    units = torch.where(real_BL, units_T[flat].view(places_BL.shape), -1).int()
    found = graph.infer([states.numpy(), units.numpy()], share_inputs=True, share_outputs=True)
    return torch.from_numpy(found[0])


def _compile(graph: Any) -> Any:
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
    }
    return _open_core().compile_model(graph, "CPU", settings).create_infer_request()


@cache
def _open_core() -> Any:
    """Return OpenVINO's core, one for the process and kept to its end.

    A core gives signals a stack of its own and, when it goes, puts back the one it found. Of two cores the later would
    put back what the earlier took along, and the next signal, Ctrl-C too, would end the process with a fault.
    """
    import openvino as ov

    return ov.Core()


def draw_layers(layers: Sequence[QuantizedLayer], num_local: int, *, first: bool) -> Any:
    """Return the graph of all layers, to the states of all tokens or of the first of each row.

    It takes padded states, (B, L, D), and the number of each token's segment, (B, L), -1 where there is no token.
    """
    import openvino as ov
    from openvino import opset13 as ops

    given = states = ops.parameter([-1, -1, layers[0].num_heads * layers[0].head_width], np.float32)
    units = ops.parameter([-1, -1], np.int32)
    row, segment = _hide(units)
    num_wide = layers[0].num_heads - num_local
    groups = [(0, num_wide, row), (num_wide, layers[0].num_heads, segment)]
    groups = [group for group in groups if group[0] < group[1]]
    for layer in layers[:-1]:
        states = layer.draw(states, groups)
    if first:  # [CLS] sees its row in every head
        groups = [(0, layers[0].num_heads, row)]
    return ov.Model([layers[-1].draw(states, groups, first=first)], [given, units])


def _hide(units: Node) -> tuple[Node, Node]:
    """Return what is added to scores: it hides padding, (B, 1, 1, L), and other segments as well, (B, 1, L, L)."""
    from openvino import opset13 as ops

    asked, asking = ops.unsqueeze(units, [1, 2]), ops.unsqueeze(units, [1, 3])
    real = ops.greater_equal(asked, np.int32(0))
    own = ops.logical_or(ops.equal(asked, asking), ops.equal(asking, np.int32(0)))
    row, segment = (
        ops.select(visible, np.float32(0), np.float32(HIDDEN)) for visible in (real, ops.logical_and(own, real))
    )
    return row, segment


class QuantizedLayer:
    """A BERT layer whose matrix products are in int8, ready to be drawn into a graph."""

    def __init__(self, layer: BertLayer, reaches: dict[nn.Module, Reach], activation: Sequence[str]) -> None:
        attention, mixing, narrow = layer.attention.self, layer.attention.output.dense, layer.output.dense
        wide = layer.intermediate.dense
        self.num_heads: int = attention.num_attention_heads
        self.head_width: int = attention.attention_head_size
        self.activation = activation
        self.look = QuantizedLinear([attention.query, attention.key, attention.value], reaches[attention.query])
        self.mix = QuantizedLinear([mixing], reaches[mixing])
        self.widen = QuantizedLinear([wide], reaches[wide])
        # What the activation gives is written as eight bits by the product itself, with one range for all channels.
        self.narrow = QuantizedLinear([narrow], reaches[narrow], smoothing=None)
        self.attention_norm = layer.attention.output.LayerNorm
        self.output_norm = layer.output.LayerNorm
        # Attention is linear in the values, so they are divided where they are made for the map that takes them.
        scaling = np.full(mixing.in_features, attention.scaling, np.float32)
        self.look.multiply(np.concatenate([scaling, np.ones_like(scaling), 1 / self.mix.spread_D]))

    def draw(self, states: Node, groups: Sequence[tuple[int, int, Node]], *, first: bool = False) -> Node:
        """Return the states after the layer, of all tokens or of the first of each row.

        A group is its first head, the end of its heads, and what hides from them what they may not see.
        """
        from openvino import opset13 as ops

        eight = asking = self.look.quantize(self.look.divide(states))
        if first:
            asking, states = (ops.slice(node, [0], [1], [1], [1]) for node in (eight, states))
        seen = ops.concat([self._attend(asking, eight, *group) for group in groups], 2)
        attended = _normalize(ops.add(self.mix(self.mix.quantize(seen)), states), self.attention_norm)
        inner = self.widen(self.widen.quantize(self.widen.divide(attended)))
        active = getattr(ops, self.activation[0])(inner, *self.activation[1:])
        return _normalize(ops.add(self.narrow(self.narrow.quantize(active)), attended), self.output_norm)

    def _attend(self, asking: Node, eight: Node, begin: int, end: int, hiding: Node) -> Node:
        """Return what some heads take from the states, side by side."""
        from openvino import opset13 as ops

        def look(states: Node, kind: int) -> Node:
            heads = slice(*((kind * self.num_heads + edge) * self.head_width for edge in (begin, end)))
            flat = self.look(states, heads)
            return ops.transpose(ops.reshape(flat, [0, 0, end - begin, self.head_width], True), [0, 2, 1, 3])

        scores = ops.add(ops.matmul(look(asking, 0), look(eight, 1), False, True), hiding)
        mixed = ops.matmul(ops.softmax(scores, -1), look(eight, 2), False, False)
        return ops.reshape(ops.transpose(mixed, [0, 2, 1, 3]), [0, 0, (end - begin) * self.head_width], True)


class QuantizedLinear:
    """A linear map, or several of the same states, with weights and states in eight bits."""

    def __init__(self, linears: Sequence[nn.Linear], reach: Reach, *, smoothing: float | None = SMOOTHING) -> None:
        weight_OD = torch.cat([linear.weight.detach().float() for linear in linears])
        spread_D = reach.spread(weight_OD, smoothing)
        weight_OD = weight_OD * spread_D
        self.low = np.float32(min(float((reach.low / spread_D).min()), -1e-5))
        self.high = np.float32(max(float((reach.high / spread_D).max()), 1e-5))
        self.spread_D: NDArray[np.float32] = spread_D.numpy()
        scale_O = weight_OD.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / _count_weight_levels()
        self.weight_OD: NDArray[np.int8] = (weight_OD / scale_O).round().to(torch.int8).numpy()
        self.scale_O: NDArray[np.float32] = scale_O.numpy()
        self.bias_O: NDArray[np.float32] = torch.cat([linear.bias.detach().float() for linear in linears]).numpy()

    def multiply(self, factor_O: NDArray[np.float32]) -> None:
        """Have the map give its outputs times a factor."""
        self.scale_O = self.scale_O * factor_O[:, None]
        self.bias_O = self.bias_O * factor_O

    def divide(self, states: Node) -> Node:
        """Return states as the map takes them: each channel divided by what its weights were multiplied with."""
        from openvino import opset13 as ops

        return ops.multiply(states, ops.constant(1 / self.spread_D))

    def quantize(self, states: Node) -> Node:
        """Return divided states in the steps of their range; those beyond it get its ends."""
        from openvino import opset13 as ops

        return ops.fake_quantize(states, self.low, self.high, self.low, self.high, NUM_STEPS)

    def __call__(self, eight: Node, outputs: slice = slice(None)) -> Node:
        """Return W x + b, or some of its outputs."""
        from openvino import opset13 as ops

        whole = ops.convert(ops.constant(self.weight_OD[outputs]), "f32")
        weight = ops.multiply(whole, ops.constant(self.scale_O[outputs]))
        return ops.add(ops.matmul(eight, weight, False, True), ops.constant(self.bias_O[outputs]))


def _normalize(states: Node, norm: nn.LayerNorm) -> Node:
    from openvino import opset13 as ops

    weight, bias = (parameter.detach().float().numpy() for parameter in (norm.weight, norm.bias))
    return ops.add(ops.multiply(ops.mvn(states, [-1], True, norm.eps, "inside_sqrt"), weight), bias)


def _count_weight_levels() -> int:
    """Return the largest weight in eight bits; without VNNI two products must fit in 16 bits, so it is halved."""
    return 127 if torch.cpu._is_vnni_supported() else 63
