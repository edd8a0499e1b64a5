"""Encoder layers in int8 for the CPU, all of them one OpenVINO graph over rows that are padded to a like length."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

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
HIGHEST = np.float32(127 / 128)
"""The highest of eight bits with a sign, of which the lowest is -1."""
QUERY, KEY, VALUE = range(3)
"""What attention is made of, in the order in which one product gives it."""
HIDDEN = -1e9
"""What is added to the score of a token that may not be seen."""
TOKENS_AT_ONCE, FEWEST_TOKENS = 1024, 256
"""Tokens that go through the graph together, padding and all, or one row; and those of a small group."""
SHORT_ROW = 256
"""Tokens of a row whose shares of attention are told in steps of 1/255; those of many tokens would come to nothing."""
PADDING_SHARE = 1 / 32
"""Most of a group that is padding, beyond what the length step adds."""
LENGTH_STEP = 16
"""What rows are padded to a multiple of: other lengths are slower in attention, and each new one takes preparing."""


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
    """All layers of an encoder, in the place of one; residuals, norms and, in long rows, shares stay in float32.

    Groups of rows go through the graph side by side, each in one thread: products that threads share take longer.
    """

    def __init__(self, model: NaviModel, reaches: dict[nn.Module, Reach]) -> None:
        super().__init__()
        num_local = model.config.num_local_heads
        layers = [QuantizedLayer(layer, reaches, ACTIVATIONS[model.config.hidden_act]) for layer in model.layers]
        self._lock = threading.Lock()
        self._open = cache(
            lambda *, first, short: _compile(draw_layers(layers, num_local, first=first, eight_shares=short))
        )

    def forward(self, hidden: Tensor, *, packing: Packing) -> Tensor:
        """Return the states after all layers: (1, T, D) in and out."""
        hidden_TD = hidden.squeeze(0).numpy()
        states_TD = np.zeros_like(hidden_TD)

        def keep(group: Group, found_BLD: NDArray[np.float32]) -> None:
            states_TD[group.places[group.real]] = found_BLD[group.real]

        with self._lock:
            _infer(partial(self._open, first=False), hidden_TD, packing, keep)
        return torch.from_numpy(states_TD).unsqueeze(0)

    def embed_first(self, hidden: Tensor, packing: Packing) -> Tensor:
        """Return the states of the first token of each row alone, after all layers: (R, D)."""
        hidden_TD = hidden.squeeze(0).numpy()
        states_RD = np.zeros((len(packing.wide.starts) - 1, hidden_TD.shape[1]), np.float32)

        def keep(group: Group, found_BLD: NDArray[np.float32]) -> None:
            states_RD[group.rows] = found_BLD[:, 0]

        with self._lock:
            _infer(partial(self._open, first=True), hidden_TD, packing, keep)
        return torch.from_numpy(states_RD)


class Group(NamedTuple):
    """Rows padded to one length, to go through the graph together."""

    rows: NDArray[np.int64]
    """(B,) which rows."""
    places: NDArray[np.int64]
    """(B, L) where each place's token stands on the token axis; any token where there is none."""
    real: NDArray[np.bool_]
    """(B, L) which places hold a token."""


def group_alike(lengths_R: NDArray[np.int64], num_threads: int) -> list[NDArray[np.int64]]:
    """Return groups of rows of like length, within `TOKENS_AT_ONCE` when padded; empty rows are in none.

    The last groups are smaller, so that the threads end at about the same time.

    >>> [group.tolist() for group in group_alike(np.array([3, 900, 0, 4, 880]), num_threads=1)]
    [[1], [4], [3, 0]]
    """
    order = np.argsort(-lengths_R, kind="stable")[: np.count_nonzero(lengths_R)]
    padded_R = round_up(lengths_R[order]).tolist()
    left, limit = sum(padded_R), 0
    groups: list[NDArray[np.int64]] = []
    begin, real = 0, 0
    for end, length in enumerate(padded_R):
        whole = (end + 1 - begin) * padded_R[begin]
        if end > begin and (whole > limit or whole - real - length > PADDING_SHARE * whole):
            groups.append(order[begin:end])
            begin, left, real = end, left - real, 0
        if end == begin:
            limit = min(TOKENS_AT_ONCE, max(FEWEST_TOKENS, left // (2 * num_threads)))
        real += length
    return [*groups, order[begin:]] if len(order) else []


def round_up(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return lengths that attention takes without a rest.

    >>> round_up(np.array([1, 16, 17])).tolist()
    [16, 16, 32]
    """
    return -(-lengths // LENGTH_STEP) * LENGTH_STEP


def _pad(starts: NDArray[np.int64], rows: NDArray[np.int64]) -> Group:
    first, lengths = starts[rows, None], np.diff(starts)[rows, None]
    steps = np.arange(int(round_up(lengths).max()))
    return Group(rows, first + np.minimum(steps, lengths - 1), steps < lengths)


def _number_units(packing: Packing) -> Tensor:
    """Return (T,) a number for each token that those of its segment share; 0 for [CLS]."""
    row_first = packing.wide.limits[0]
    return (row_first if packing.local is None else packing.local.limits[0]) - row_first


def _infer(
    open_queue: Callable[..., Any],
    hidden_TD: NDArray[np.float32],
    packing: Packing,
    keep: Callable[[Group, NDArray[np.float32]], None],
) -> None:
    """Send all rows through the graph; what it makes of a group lies in memory that its next run writes anew."""
    starts, units_T = packing.wide.starts.numpy().astype(np.int64), _number_units(packing).numpy()
    queues: dict[bool, Any] = {}
    try:
        for rows in group_alike(np.diff(starts), torch.get_num_threads()):
            group = _pad(starts, rows)
            short = group.places.shape[1] <= SHORT_ROW
            if short not in queues:
                queues[short] = open_queue(short=short)
                queues[short].set_callback(lambda request, given: keep(given[0], request.get_output_tensor().data))
            inputs = [hidden_TD[group.places], np.where(group.real, units_T[group.places], -1).astype(np.int32)]
            # The callback's arguments keep the inputs until it is called.
            queues[short].start_async(inputs, (group, inputs), share_inputs=True)
    finally:  # also of an interrupt: what is under way must not meet the next callback
        for queue in queues.values():
            queue.wait_all()


def _compile(graph: Any) -> Any:
    import openvino as ov

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
    import openvino as ov

    return ov.Core()


def draw_layers(layers: Sequence[QuantizedLayer], num_local: int, *, first: bool, eight_shares: bool) -> Any:
    """Return the graph of all layers, to the states of all tokens or of the first of each row.

    With `eight_shares`, the shares that a token takes from others are in eight bits as well.

    It takes padded states, (B, L, D), and the number of each token's segment, (B, L), -1 where there is no token.
    """
    import openvino as ov
    from openvino import opset13 as ops

    width = layers[0].num_heads * layers[0].head_width
    given = ops.parameter([-1, -1, width], np.float32)
    states = Normed(given, np.ones(width, np.float32), np.zeros(width, np.float32))
    units = ops.parameter([-1, -1], np.int32)
    row, segment = _hide(units)
    num_wide = layers[0].num_heads - num_local
    groups = [(0, num_wide, row), (num_wide, layers[0].num_heads, segment)]
    groups = [group for group in groups if group[0] < group[1]]
    for layer in layers[:-1]:
        states = layer.draw(states, groups, eight_shares=eight_shares)
    if first:  # [CLS] sees its row in every head
        groups = [(0, layers[0].num_heads, row)]
    node, gain_D, bias_D = layers[-1].draw(states, groups, eight_shares=eight_shares, first=first)
    return ov.Model([ops.add(ops.multiply(node, gain_D), bias_D)], [given, units])


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


class Normed(NamedTuple):
    """What a layer norm gives before its gain and bias: who takes it applies them beside its own work."""

    node: Node
    gain: NDArray[np.float32]
    """(D,)"""
    bias: NDArray[np.float32]
    """(D,)"""


class QuantizedLayer:
    """A BERT layer whose matrix products are in int8, ready to be drawn into a graph."""

    def __init__(self, layer: BertLayer, reaches: dict[nn.Module, Reach], activation: Sequence[str]) -> None:
        attention, mixing, narrow = layer.attention.self, layer.attention.output.dense, layer.output.dense
        wide = layer.intermediate.dense
        self.num_heads: int = attention.num_attention_heads
        self.head_width: int = attention.attention_head_size
        self.activation = activation
        self.look = QuantizedLinear([attention.query, attention.key, attention.value], reaches[attention])
        self.mix = QuantizedLinear([mixing], reaches[mixing])
        self.widen = QuantizedLinear([wide], reaches[wide])
        # What the activation gives is written as eight bits by the product itself, with one range for all channels.
        self.narrow = QuantizedLinear([narrow], reaches[narrow], smoothing=None)
        self.attention_norm = layer.attention.output.LayerNorm
        self.output_norm = layer.output.LayerNorm
        # Scores are products of queries and keys, so their channels are made to reach as far as each other.
        # Attention is linear in the values, so they are divided where they are made for the map that takes them.
        asked_D, known_D = (reaches[made].measure().numpy() for made in (attention.query, attention.key))
        even_D = np.sqrt(asked_D * known_D * attention.scaling)
        self.look.multiply(np.concatenate([even_D / asked_D, even_D / known_D, 1 / self.mix.spread_D]))
        self.score_reach = np.float32(even_D.max())
        self.value_reach = np.float32((reaches[attention.value].measure().numpy() / self.mix.spread_D).max())

    def draw(
        self, states: Normed, groups: Sequence[tuple[int, int, Node]], *, eight_shares: bool, first: bool = False
    ) -> Normed:
        """Return the states after the layer, of all tokens or of the first of each row.

        A group is its first head, the end of its heads, and what hides from them what they may not see.
        """
        from openvino import opset13 as ops

        eight = asking = self.look.quantize(self.look.divide(states))
        if first:
            asking, node = (ops.slice(node, [0], [1], [1], [1]) for node in (eight, states.node))
            states = states._replace(node=node)
        seen = ops.concat([self._attend(asking, eight, *group, eight_shares=eight_shares) for group in groups], 2)
        attended = _normalize(self.mix.add_to(states, self.mix.quantize(seen)), self.attention_norm)
        inner = self.widen(self.widen.quantize(self.widen.divide(attended)))
        active = getattr(ops, self.activation[0])(inner, *self.activation[1:])
        return _normalize(self.narrow.add_to(attended, self.narrow.quantize(active)), self.output_norm)

    def _attend(self, asking: Node, eight: Node, begin: int, end: int, hiding: Node, *, eight_shares: bool) -> Node:
        """Return what some heads take from the states, side by side."""
        from openvino import opset13 as ops

        # Without VNNI, two products of numbers that use all of their eight bits overflow sixteen.
        fits = torch.cpu._is_vnni_supported()
        reaches = {QUERY: self.score_reach, KEY: self.score_reach, VALUE: self.value_reach if eight_shares else None}

        def look(states: Node, kind: int) -> Node:
            heads = slice(*((kind * self.num_heads + edge) * self.head_width for edge in (begin, end)))
            flat = self.look(states, heads)
            reach = reaches[kind]
            if fits and reach is not None:
                flat = _quantize(flat, -reach, reach * HIGHEST)
            return ops.transpose(ops.reshape(flat, [0, 0, end - begin, self.head_width], True), [0, 2, 1, 3])

        scores = ops.add(ops.matmul(look(asking, QUERY), look(eight, KEY), False, True), hiding)
        shares = ops.softmax(scores, -1)
        if fits and eight_shares:
            shares = _quantize(shares, np.float32(0), np.float32(1))
        mixed = ops.matmul(shares, look(eight, VALUE), False, False)
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

    def divide(self, states: Normed) -> Node:
        """Return states as the map takes them: each channel divided by what its weights were multiplied with."""
        from openvino import opset13 as ops

        return ops.add(ops.multiply(states.node, states.gain / self.spread_D), states.bias / self.spread_D)

    def quantize(self, states: Node) -> Node:
        """Return divided states in the steps of their range."""
        return _quantize(states, self.low, self.high)

    def __call__(self, eight: Node, outputs: slice = slice(None)) -> Node:
        """Return W x + b, or some of its outputs."""
        from openvino import opset13 as ops

        return ops.add(self._multiply(eight, outputs), self.bias_O[outputs])

    def add_to(self, states: Normed, eight: Node) -> Node:
        """Return W x + b + states, both biases as one."""
        from openvino import opset13 as ops

        mapped = ops.add(self._multiply(eight), self.bias_O + states.bias)
        return ops.add(ops.multiply(states.node, states.gain), mapped)

    def _multiply(self, eight: Node, outputs: slice = slice(None)) -> Node:
        from openvino import opset13 as ops

        whole = ops.convert(ops.constant(self.weight_OD[outputs]), "f32")
        return ops.matmul(eight, ops.multiply(whole, self.scale_O[outputs]), False, True)


def _quantize(states: Node, low: np.float32, high: np.float32) -> Node:
    """Return states in the steps of a range; those beyond it get its ends."""
    from openvino import opset13 as ops

    return ops.fake_quantize(states, low, high, low, high, NUM_STEPS)


def _normalize(states: Node, norm: nn.LayerNorm) -> Normed:
    from openvino import opset13 as ops

    gain, bias = (parameter.detach().float().numpy() for parameter in (norm.weight, norm.bias))
    return Normed(ops.mvn(states, [-1], True, norm.eps, "inside_sqrt"), gain, bias)


def _count_weight_levels() -> int:
    """Return the largest weight in eight bits; without VNNI two products must fit in 16 bits, so it is halved."""
    return 127 if torch.cpu._is_vnni_supported() else 63
