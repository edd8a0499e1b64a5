"""Encoder layers in int8 for the CPU: SmoothQuant (Xiao et al., 2023), all layers as one OpenVINO graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
import torch
from numpy.typing import NDArray
from openvino import opset13 as ops
from torch import Tensor, nn

from navi.batches import BatchBuilder, SpecialTokens
from navi.corpus.arrays import SegmentArrays
from navi.errors import ConfigError, ModelError
from navi.model.attention import Packing
from navi.model.encoder import NaviConfig, NaviModel
from navi.model.runner import write_texts

# Shape suffixes: T tokens (packed), B rows of one padded length L, D width of what comes in, O width of what goes out.

Node = Any
"""What a graph is made of: OpenVINO's own nodes."""
ACTIVATIONS = {"gelu": ("gelu", "erf"), "gelu_new": ("gelu", "tanh"), "relu": ("relu",)}
"""What the graph calls an activation, by the name that a configuration gives it."""
HIDDEN = np.float32(-1e9)
"""What is added to the score of a token that may not be seen."""
TOKENS_AT_ONCE = 1024
"""Tokens that go through the graph together in one thread, padding and all, or one row."""
SMOOTHING = 0.4
"""How much of a channel's range moves from the states to the weights, where it costs less; beyond 0.6 real rows leave
the ranges that random ones show."""
TRIAL_ROWS, TRIAL_COLUMNS, TRIAL_LENGTH = 64, 8, 12
"""Rows, columns and longest value of the random rows that ranges are seen on; fewer rows were seen to miss outliers."""


def quantize_layers(model: NaviModel, special: SpecialTokens) -> None:
    """Put one graph in int8 in the place of a model's encoder layers; attribute encoder, projection and head stay.

    States are written as eight bits over ranges that the float32 layers show on rows of random tokens. No batch decides
    on them, so a row's embedding does not depend on its neighbours.
    """
    if model.quantized_layers is not None:
        return
    if model.device.type != "cpu":
        raise ConfigError(f"Precision int8 is for the CPU, got the device '{model.device}'. Use bfloat16 there.")
    if model.config.hidden_act not in ACTIVATIONS:
        raise ModelError(
            f"No int8 layers for the activation '{model.config.hidden_act}'. "
            f"Expected one of {', '.join(ACTIVATIONS)}; use float32."
        )
    model.quantized_layers = QuantizedLayers(model, observe_ranges(model, special))
    model.layers = nn.ModuleList()


class ActivationRange(NamedTuple):
    """The lowest and the highest number of each channel, (D,) each."""

    low: Tensor
    high: Tensor


Ranges = dict[nn.Module, ActivationRange]
"""The range of what each module is given."""


@torch.inference_mode()
def observe_ranges(model: NaviModel, special: SpecialTokens) -> Ranges:
    """Return the ranges that the layers show on rows of random tokens, encoded and read as texts."""
    ranges: Ranges = {}
    layers: list[Any] = list(model.layers)

    def look(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        low, high = torch.aminmax(given[0].reshape(-1, given[0].shape[-1]), dim=0)
        seen = ranges.get(module, ActivationRange(low, high))
        ranges[module] = ActivationRange(torch.minimum(seen.low, low), torch.maximum(seen.high, high))

    hooks = [
        module.register_forward_pre_hook(look)
        for layer in layers
        for module in (layer.attention.self, layer.attention.output.dense, layer.intermediate.dense, layer.output.dense)
    ]
    try:
        builder = BatchBuilder(make_trial_rows(special), special, align=False)
        layout = builder.lay_out(np.arange(TRIAL_ROWS))
        model(builder.pack_layout(layout))
        model.embed_texts(write_texts(layout, special, model.config.max_position_embeddings))
    finally:
        for hook in hooks:
            hook.remove()
    return ranges


def make_trial_rows(special: SpecialTokens) -> SegmentArrays:
    """Return rows of random tokens, every tenth of them [MASK]; always the same ones."""
    generator = np.random.default_rng(0)
    num_cells = TRIAL_ROWS * TRIAL_COLUMNS

    def draw(number: int, longest: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        lengths = generator.integers(1, longest + 1, number)
        tokens = generator.choice(special.regular, lengths.sum()).astype(np.int32)
        tokens[generator.random(len(tokens)) < 0.1] = special.mask
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), tokens

    columns = np.arange(TRIAL_COLUMNS, dtype=np.int32)
    header = np.tile(columns, TRIAL_ROWS)
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
        column_table=np.zeros_like(columns),
        column_header=columns,
        column_attribute=columns,
        column_role=np.zeros(TRIAL_COLUMNS, dtype=np.int8),
    )


class QuantizedLayers:
    """All layers of an encoder; attention, residuals and norms stay in float32.

    Parts of a batch go through the graph side by side, each in one thread: products that threads share take longer.
    """

    def __init__(self, model: NaviModel, ranges: Ranges) -> None:
        self._lock = threading.Lock()
        self._queue = _compile(draw_graph(list(model.layers), model.config, ranges))

    def __call__(self, hidden_TD: Tensor, packing: Packing, some_K: Tensor | None = None) -> Tensor:
        """Return the states after all layers: (T, D), or (K, D) of some tokens."""
        states_TD = np.zeros(hidden_TD.shape, np.float32)

        def keep(request: Any, given: tuple[NDArray[np.int64], list[NDArray[Any]]]) -> None:
            places_BL, (_, segment_BL) = given
            real_BL = segment_BL >= 0
            states_TD[places_BL[real_BL]] = request.get_output_tensor().data[real_BL]

        with self._lock:
            self._queue.set_callback(keep)
            try:
                for places_BL, segment_BL in split_buckets(packing):
                    inputs = [hidden_TD.numpy()[places_BL], segment_BL]
                    # The callback's arguments keep the inputs until it is called.
                    self._queue.start_async(inputs, (places_BL, inputs), share_inputs=True)
            finally:  # also of an interrupt: what is under way must not meet the next callback
                self._queue.wait_all()
        states = torch.from_numpy(states_TD)
        return states if some_K is None else states.index_select(0, some_K)


def split_buckets(packing: Packing) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Yield the buckets of a packing, the longest first, in parts of at most `TOKENS_AT_ONCE` places: (B, L) each."""
    for places, segment in reversed(packing.buckets):
        num_rows = max(1, TOKENS_AT_ONCE // places.shape[1])
        for part in zip(torch.split(places, num_rows), torch.split(segment, num_rows), strict=True):
            yield part[0].numpy(), part[1].numpy()


def _compile(graph: Any) -> Any:
    num_threads = torch.get_num_threads()
    settings = {
        "NUM_STREAMS": num_threads,
        "INFERENCE_NUM_THREADS": num_threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    # One more than run at a time, so that no thread waits for its next rows.
    return ov.AsyncInferQueue(_open_core().compile_model(graph, "CPU", settings), num_threads + 1)


@cache
def _open_core() -> Any:
    """Return OpenVINO's core, one for the process and kept to its end.

    A core gives signals a stack of its own and, when it goes, puts back the one it found. Of two cores the later would
    put back what the earlier took along, and the next signal, Ctrl-C too, would end the process with a fault.
    """
    return ov.Core()


def draw_graph(layers: Sequence[Any], config: NaviConfig, ranges: Ranges) -> Any:
    """Return the graph of all layers: of padded states, (B, L, D), and the segment of each token, (B, L).

    Segments are as a `PaddedBucket` has them.
    """
    given = ops.parameter([-1, -1, config.hidden_size], np.float32)
    segments = ops.parameter([-1, -1], np.int32)
    states, hiding = given, _hide(segments)
    for layer in layers:
        states = _draw_layer(layer, config, ranges, states, hiding)
    return ov.Model([states], [given, segments])


def _hide(segments: Node) -> tuple[Node, Node]:
    """Return what is added to scores: it hides padding, (B, 1, 1, L), and other segments as well, (B, 1, L, L)."""
    asked, asking = ops.unsqueeze(segments, [1, 2]), ops.unsqueeze(segments, [1, 3])
    real = ops.greater_equal(asked, np.int32(0))
    own = ops.logical_or(ops.equal(asked, asking), ops.equal(asking, np.int32(0)))  # [CLS] sees its row in every head
    row, segment = (ops.select(seen, np.float32(0), HIDDEN) for seen in (real, ops.logical_and(own, real)))
    return row, segment


def _draw_layer(layer: Any, config: NaviConfig, ranges: Ranges, states: Node, hiding: tuple[Node, Node]) -> Node:
    """Return what a BERT layer makes of states, which see all but those that are hidden from them."""
    mixing, wide, narrow = layer.attention.output.dense, layer.intermediate.dense, layer.output.dense
    num_heads, num_wide = config.num_attention_heads, config.num_attention_heads - config.num_local_heads
    attend = _draw_attention(layer.attention.self, ranges[layer.attention.self], states)
    groups = ((range(num_wide), hiding[0]), (range(num_wide, num_heads), hiding[1]))
    mixed = ops.concat([attend(heads, hidden) for heads, hidden in groups if heads], 2)
    attended = ops.add(QuantizedLinear([mixing], ranges[mixing])(mixed), states)
    attended = _normalize(attended, layer.attention.output.LayerNorm)
    activation, *settings = ACTIVATIONS[config.hidden_act]
    inner = getattr(ops, activation)(QuantizedLinear([wide], ranges[wide])(attended), *settings)
    # What the activation gives is written as eight bits by the product itself, with one range for all channels.
    outer = QuantizedLinear([narrow], ranges[narrow], smoothing=None)(inner)
    return _normalize(ops.add(outer, attended), layer.output.LayerNorm)


def _draw_attention(attention: Any, seen: ActivationRange, states: Node) -> Callable[[range, Node], Node]:
    """Return what draws, for some heads and what is hidden from them, what they take: (B, L, width of these heads)."""
    maps, width = (attention.query, attention.key, attention.value), attention.query.out_features // attention.num_heads
    qkv = QuantizedLinear(maps, seen)
    quantized = qkv.quantize(states)

    def look(kind: int, heads: range) -> Node:
        first = (kind * attention.num_heads + heads.start) * width
        flat = qkv.multiply(quantized, slice(first, first + len(heads) * width))
        return ops.transpose(ops.reshape(flat, [0, 0, len(heads), width], True), [0, 2, 1, 3])

    def attend(heads: range, hiding: Node) -> Node:
        scores = ops.matmul(look(0, heads), look(1, heads), False, True)
        shares = ops.softmax(ops.add(ops.multiply(scores, np.float32(attention.scaling)), hiding), -1)
        mixed = ops.matmul(shares, look(2, heads), False, False)
        return ops.reshape(ops.transpose(mixed, [0, 2, 1, 3]), [0, 0, len(heads) * width], True)

    return attend


class QuantizedLinear:
    """A linear map, or several of the same states, with weights and states in eight bits.

    Each channel of the states is divided by a factor that its weights are multiplied with, so that outliers of a few
    channels cost the others few of their 256 steps.
    """

    def __init__(
        self, linears: Sequence[nn.Linear], seen: ActivationRange, *, smoothing: float | None = SMOOTHING
    ) -> None:
        weight_OD = torch.cat([linear.weight.detach().float() for linear in linears])
        factor_D = torch.ones(weight_OD.shape[1])
        if smoothing is not None:
            largest_D = torch.maximum(seen.low.abs(), seen.high.abs()).clamp(min=1e-5)
            factor_D = largest_D**smoothing / weight_OD.abs().amax(dim=0).clamp(min=1e-5) ** (1 - smoothing)
            weight_OD = weight_OD * factor_D
        self.low = min(float((seen.low / factor_D).min()), -1e-5)
        self.high = max(float((seen.high / factor_D).max()), 1e-5)
        self.inverse_D: NDArray[np.float32] | None = None if smoothing is None else (1 / factor_D).numpy()
        # Without VNNI two products of eight bits must fit in sixteen, so the largest weight is halved.
        num_levels = 127 if torch.cpu._is_vnni_supported() else 63
        scale_O = weight_OD.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / num_levels
        self.weight_OD: NDArray[np.int8] = (weight_OD / scale_O).round().to(torch.int8).numpy()
        self.scale_O: NDArray[np.float32] = scale_O.numpy()
        self.bias_O: NDArray[np.float32] = torch.cat([linear.bias.detach().float() for linear in linears]).numpy()

    def __call__(self, states: Node) -> Node:
        """Return W x + b."""
        return self.multiply(self.quantize(states))

    def quantize(self, states: Node) -> Node:
        """Return states in the 256 steps of their range; those beyond it get its ends."""
        if self.inverse_D is not None:
            states = ops.multiply(states, self.inverse_D)
        ends = [np.float32(self.low), np.float32(self.high)]
        return ops.fake_quantize(states, *ends, *ends, 256)

    def multiply(self, quantized: Node, outputs: slice = slice(None)) -> Node:
        """Return W x + b, or some of its outputs, of states in their steps."""
        weight_OD = ops.multiply(ops.convert(ops.constant(self.weight_OD[outputs]), "f32"), self.scale_O[outputs])
        return ops.add(ops.matmul(quantized, weight_OD, False, True), self.bias_O[outputs])


def _normalize(states: Node, norm: nn.LayerNorm) -> Node:
    gain, bias = (parameter.detach().float().numpy() for parameter in (norm.weight, norm.bias))
    return ops.add(ops.multiply(ops.mvn(states, [-1], True, norm.eps, "inside_sqrt"), gain), bias)
