"""Tests of int8 layers: near the float32 ones, in order, whatever the batches, and refused where they cannot be."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from navi.errors import ConfigError, ModelError
from navi.model import load_backbone
from navi.model.quantized import QuantizedLayer, QuantizedLinear, Reach, check_support, make_trial_rows, quantize_layers
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
    assert all(isinstance(layer, QuantizedLayer) for layer in layers)
    assert list(again.model.layers) == layers
    np.testing.assert_array_equal(again.embed(arrays)["rows"], eight.embed(arrays)["rows"])


def test_the_same_weights_give_the_same_embeddings(exact, eight, special, arrays):
    other = Runner(copy.deepcopy(exact.model), special, device="cpu", precision="int8", workers=0)
    np.testing.assert_array_equal(other.embed(arrays)["rows"], eight.embed(arrays)["rows"])


def test_a_linear_map_is_met_within_the_steps_of_its_ranges():
    torch.manual_seed(0)
    linear, states = torch.nn.Linear(16, 24), torch.randn(50, 16) * torch.linspace(0.1, 10, 16)
    eight = QuantizedLinear([linear], Reach(*torch.aminmax(states, dim=0)))
    with torch.inference_mode():
        expected = linear(states)
        found = eight(eight.quantize(states))
        added = eight(eight.quantize(states), torch.ones(50, 24))
    assert (found - expected).abs().max() < 0.02 * expected.abs().max()
    torch.testing.assert_close(added, found + 1)


def test_states_beyond_the_range_that_was_seen_get_its_ends():
    linear = torch.nn.Linear(4, 4)
    eight = QuantizedLinear([linear], Reach(torch.full((4,), -1.0), torch.full((4,), 2.0)), smoothing=None)
    assert eight.quantize(torch.tensor([[-50.0, -1.0, 2.0, 50.0]])).tolist() == [[0, 0, 255, 255]]
    assert eight.quantize(torch.zeros(1, 4)).tolist() == [[85] * 4]


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


def test_a_torch_without_onednn_is_refused(tiny_backbone, monkeypatch):
    monkeypatch.setattr("navi.model.quantized.has_onednn", lambda: False)
    with pytest.raises(ModelError, match=r"has no oneDNN, which precision int8 needs. Use float32"):
        check_support(load_backbone(tiny_backbone))
