"""Tests of layers in int8: near the float32 ones, in order, whatever the batches, and refused where they cannot be."""

from __future__ import annotations

import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError, ModelError
from navi.model import load_backbone
from navi.model.quantized import (
    FEWEST_TOKENS,
    PADDING_SHARE,
    SHORT_ROW,
    TOKENS_AT_ONCE,
    Normed,
    QuantizedLayers,
    QuantizedLinear,
    _open_core,
    check_support,
    group_alike,
    quantize_layers,
    round_up,
)
from navi.model.reach import Reach, make_trial_rows
from navi.model.runner import Runner

PARTS = ("rows", "headers", "values", "segments", "means")


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(seed=43, num_rows=40, cells=(0, 6))


@pytest.fixture(scope="module")
def exact(tiny_backbone, special):
    return Runner(load_backbone(tiny_backbone), special, device="cpu", workers=0)


@pytest.fixture(scope="module")
def eight(exact, special):
    return Runner(copy.deepcopy(exact.model), special, device="cpu", precision="int8", workers=0)


def measure_cosines(found, expected):
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return ((found * expected).sum(axis=1) / np.maximum(lengths, 1e-9))[lengths > 1e-6]


@pytest.mark.parametrize("part", PARTS)
def test_embeddings_are_near_those_of_float32_in_the_order_of_the_rows(eight, exact, arrays, part):
    rows = np.random.default_rng(0).permutation(arrays.num_rows)
    found, expected = (runner.embed(arrays, rows, parts=(part,))[part] for runner in (eight, exact))
    assert found.dtype == np.float32
    assert not np.array_equal(found, expected)
    assert measure_cosines(found, expected).min() >= 0.99


def test_rows_of_all_lengths_are_near_those_of_float32(eight, exact, make_arrays):
    wide = {"num_headers": 90, "columns_per_table": 80, "roles": (0,) * 80}
    arrays = make_arrays(seed=47, num_rows=12, cells=(1, 80), **wide)
    lengths = arrays.count_row_tokens()
    assert lengths.min() < SHORT_ROW < 2 * SHORT_ROW < lengths.max()
    found, expected = (runner.embed(arrays)["rows"] for runner in (eight, exact))
    assert measure_cosines(found, expected).min() >= 0.99


def test_rows_embedded_alone_are_those_of_the_whole_pass(eight, arrays):
    alone, beside = (eight.embed(arrays, parts=parts)["rows"] for parts in (("rows",), ("rows", "values")))
    assert measure_cosines(alone, beside).min() >= 0.9999


@pytest.mark.parametrize("batch_size", [1, 7])
def test_a_row_does_not_depend_on_the_other_rows_of_its_batch(eight, arrays, batch_size):
    together = eight.embed(arrays)["rows"]
    apart = eight.embed(arrays, batch_size=batch_size)["rows"]
    # A state at the edge of two of the 256 steps may round to either, by float32's own rounding of attention.
    assert measure_cosines(apart, together).min() >= 0.9999
    np.testing.assert_allclose(apart, together, atol=0.05)


def test_a_second_runner_takes_layers_that_are_in_int8_already(eight, special, arrays):
    layers = list(eight.model.layers)
    again = Runner(eight.model, special, device="cpu", precision="int8", workers=0)
    assert [type(layer) for layer in layers] == [QuantizedLayers]
    assert list(again.model.layers) == layers
    np.testing.assert_array_equal(again.embed(arrays)["rows"], eight.embed(arrays)["rows"])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_heads_may_all_see_the_row_or_all_their_segment(tiny_backbone, special, arrays, share):
    runners = []
    for precision in ("float32", "int8"):
        model = load_backbone(tiny_backbone)
        model.config.local_head_share = share
        runners.append(Runner(model, special, device="cpu", precision=precision, workers=0))
    for part in ("rows", "values"):
        expected, found = (runner.embed(arrays, parts=(part,))[part] for runner in runners)
        assert measure_cosines(found, expected).min() >= 0.99


def test_local_heads_see_their_segment_alone(tiny_backbone, special, make_arrays):
    model = load_backbone(tiny_backbone)
    model.config.local_head_share = 1.0
    model.config.attribute_embedding = False
    eight = Runner(model, special, device="cpu", precision="int8", workers=0)
    arrays = make_arrays(seed=5, num_rows=30, cells=(2, 6))
    together = eight.embed(arrays, parts=("values",))["values"]
    row_S = np.repeat(np.arange(arrays.num_rows), np.diff(arrays.row_offsets))
    segment_S = arrays.row_segments
    pairs = [(i, j) for i in range(len(segment_S)) for j in range(i) if segment_S[i] == segment_S[j]]
    apart = [np.abs(together[i] - together[j]).max() for i, j in pairs if row_S[i] != row_S[j]]
    assert apart
    assert max(apart) < 0.05


def test_threads_may_share_the_layers(eight, arrays):
    expected = eight.embed(arrays)["rows"]
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: eight.embed(arrays)["rows"], range(6)):
            np.testing.assert_array_equal(found, expected)


SIGNAL_AFTER_TWO_GRAPHS = """
import signal
import numpy as np
import openvino as ov
from openvino import opset13 as ops
from navi.model.quantized import _compile

def make_graph():
    given = ops.parameter([-1], np.float32)
    return ov.Model([ops.relu(given)], [given])

first, second = _compile(make_graph()), _compile(make_graph())
del first
del second
signal.signal(signal.SIGINT, lambda number, frame: print("noted"))
signal.raise_signal(signal.SIGINT)
"""


def test_a_signal_can_be_taken_when_two_graphs_are_gone():
    """In a process of its own: where signals have lost their stack, it ends by a fault."""
    done = subprocess.run([sys.executable, "-c", SIGNAL_AFTER_TWO_GRAPHS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "noted\n"), done.stderr


def test_the_same_weights_give_the_same_embeddings(exact, eight, special, arrays):
    other = Runner(copy.deepcopy(exact.model), special, device="cpu", precision="int8", workers=0)
    np.testing.assert_array_equal(other.embed(arrays)["rows"], eight.embed(arrays)["rows"])


def compute(make, states, gain=1.0, bias=0.0):
    import openvino as ov
    from openvino import opset13 as ops

    width = states.shape[1]
    given = ops.parameter([-1, width], np.float32)
    normed = Normed(given, np.full(width, gain, np.float32), np.full(width, bias, np.float32))
    return _open_core().compile_model(ov.Model([make(normed)], [given]), "CPU")(states.numpy())[0]


def test_a_linear_map_is_met_within_the_steps_of_its_ranges():
    torch.manual_seed(0)
    linear, states = torch.nn.Linear(16, 24), torch.randn(50, 16) * torch.linspace(0.1, 10, 16)
    eight = QuantizedLinear([linear], Reach(*torch.aminmax(states, dim=0)))
    expected = linear(states).detach().numpy()
    found = compute(lambda given: eight(eight.quantize(eight.divide(given))), states)
    some = compute(lambda given: eight(eight.quantize(eight.divide(given)), slice(3, 7)), states)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    np.testing.assert_allclose(some, found[:, 3:7], atol=1e-5)


def test_a_linear_map_applies_the_gain_and_bias_of_the_norm_before_it():
    torch.manual_seed(0)
    linear, states = torch.nn.Linear(16, 16), torch.randn(50, 16)
    normed = 3 * states + 0.5
    eight = QuantizedLinear([linear], Reach(*torch.aminmax(normed, dim=0)))
    expected = (linear(normed) + normed).detach().numpy()
    found = compute(lambda given: eight.add_to(given, eight.quantize(eight.divide(given))), states, gain=3, bias=0.5)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_a_linear_map_can_give_its_outputs_times_a_factor():
    torch.manual_seed(0)
    linear, states, factor = torch.nn.Linear(8, 6), torch.randn(20, 8), np.linspace(0.5, 3, 6, dtype=np.float32)
    plain, multiplied = (QuantizedLinear([linear], Reach(*torch.aminmax(states, dim=0))) for _ in range(2))
    multiplied.multiply(factor)
    found, expected = (
        compute(lambda given, each=each: each(each.quantize(each.divide(given))), states)
        for each in (multiplied, plain)
    )
    np.testing.assert_allclose(found, expected * factor, rtol=1e-4, atol=1e-5)


def test_states_beyond_the_range_that_was_seen_get_its_ends():
    linear = torch.nn.Linear(4, 4)
    eight = QuantizedLinear([linear], Reach(torch.full((4,), -1.0), torch.full((4,), 2.0)), smoothing=None)
    found = compute(lambda given: eight.quantize(given.node), torch.tensor([[-50.0, -1.0, 2.0, 50.0]]))
    np.testing.assert_allclose(found, [[-1, -1, 2, 2]], atol=1e-6)


@given(lengths=st.lists(st.integers(0, 700), max_size=60), num_threads=st.integers(1, 8))
def test_rows_of_like_length_go_together_each_once_and_little_padded(lengths, num_threads):
    groups = group_alike(np.array(lengths, np.int64), num_threads)
    assert sorted(row for group in groups for row in group) == [row for row, length in enumerate(lengths) if length]
    for group in groups:
        own = round_up(np.array(lengths)[group])
        assert len(group) == 1 or len(group) * own.max() <= TOKENS_AT_ONCE
        assert len(group) * own.max() - own.sum() <= PADDING_SHARE * len(group) * own.max()


def test_few_rows_are_shared_among_the_threads():
    groups = group_alike(np.full(16, 64), num_threads=2)
    assert [len(group) for group in groups] == [FEWEST_TOKENS // 64] * 4


def test_rows_of_many_groups_come_back_in_order(eight, make_arrays):
    arrays = make_arrays(seed=44, num_rows=600, cells=(0, 12))
    assert len(group_alike(arrays.count_row_tokens(), torch.get_num_threads())) > 10
    for part in ("rows", "values"):
        found, expected = (eight.embed(arrays, parts=(part,), batch_size=size)[part] for size in (600, 4))
        np.testing.assert_allclose(found, expected, atol=0.05)


def test_trial_rows_are_always_the_same(special):
    first, second = make_trial_rows(special), make_trial_rows(special)
    np.testing.assert_array_equal(first.value_tokens, second.value_tokens)
    assert special.mask in first.value_tokens


def test_a_gpu_is_refused(tiny_backbone):
    model = load_backbone(tiny_backbone).to("meta")
    with pytest.raises(ConfigError, match="Precision int8 is for the CPU, got the device 'meta'"):
        check_support(model)


def test_an_activation_that_has_no_int8_form_is_refused(tiny_backbone, special):
    model = load_backbone(tiny_backbone)
    model.config.hidden_act = "silu"
    with pytest.raises(ModelError, match=r"No int8 layers for the activation 'silu'. Expected one of gelu"):
        quantize_layers(model, special)


def test_what_to_install_is_told_where_openvino_is_missing(tiny_backbone, monkeypatch):
    monkeypatch.setattr("navi.model.quantized.has_openvino", lambda: False)
    with pytest.raises(ModelError, match=r"needs OpenVINO, which is not installed. Install it with pip install"):
        check_support(load_backbone(tiny_backbone))
