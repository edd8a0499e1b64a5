"""Layers in int8: near the float32 ones, in order, whatever the batches, and refused where they cannot be."""

from __future__ import annotations

import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest

from navi.errors import ConfigError, MissingExtraError, ModelError
from navi.model import Runner, load_backbone
from navi.model.int8 import quantize_layers


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(seed=43, num_rows=40, cells=(0, 6))


@pytest.fixture(scope="module")
def exact(tiny_backbone, special):
    return Runner(load_backbone(tiny_backbone), special, devices=["cpu"])


@pytest.fixture(scope="module")
def eight(exact, special):
    return Runner(copy.deepcopy(exact.model), special, devices=["cpu"], precision="int8")


def measure_cosines(found, expected):
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return ((found * expected).sum(axis=1) / np.maximum(lengths, 1e-9))[lengths > 1e-6]


def test_the_command_writes_vectors_near_those_in_float32(navi_command, model_dir, catalogues, tmp_path):
    found = {}
    for precision in ("float32", "int8"):
        out = tmp_path / f"{precision}.parquet"
        flags = ("--precision", precision, "--normalize", "-o", out)
        navi_command("embed", "--model", model_dir, sorted(catalogues.iterdir())[0], *flags)
        found[precision] = np.stack(pq.read_table(out)["embedding"].to_numpy())
    assert not np.array_equal(found["int8"], found["float32"])
    assert (found["int8"] * found["float32"]).sum(axis=1).min() >= 0.99


@pytest.mark.parametrize("part", ["texts", "rows", "headers", "values", "segments", "means"])
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
    assert lengths.min() < 256 < 512 < lengths.max()
    for part in ("rows", "texts"):
        found, expected = (runner.embed(arrays, parts=(part,))[part] for runner in (eight, exact))
        assert measure_cosines(found, expected).min() >= 0.99


@pytest.mark.parametrize("batch_size", [1, 7])
def test_a_row_does_not_depend_on_the_other_rows_of_its_batch(eight, arrays, batch_size):
    together = eight.embed(arrays)["rows"]
    apart = eight.embed(arrays, batch_size=batch_size)["rows"]
    beside = eight.embed(arrays, parts=("rows", "values"))["rows"]  # of a whole pass, not of [CLS] alone
    assert measure_cosines(beside, together).min() >= 0.9999
    # A state at the edge of two of the 256 steps may round to either, by float32's own rounding of attention.
    assert measure_cosines(apart, together).min() >= 0.9999
    np.testing.assert_allclose(apart, together, atol=0.05)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_heads_may_all_see_the_row_or_all_their_segment(tiny_backbone, special, arrays, share):
    runners = []
    for precision in ("float32", "int8"):
        model = load_backbone(tiny_backbone)
        model.config.local_head_share = share
        runners.append(Runner(model, special, devices=["cpu"], precision=precision))
    for part in ("rows", "values"):
        expected, found = (runner.embed(arrays, parts=(part,))[part] for runner in runners)
        assert measure_cosines(found, expected).min() >= 0.99


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
from navi.model.int8 import _compile

def make_graph():
    given = ops.parameter([-1], np.float32)
    return ov.Model([ops.relu(given)], [given])

first, second = _compile(make_graph()), _compile(make_graph())
del first
del second
signal.signal(signal.SIGINT, lambda number, frame: noted.touch())
signal.raise_signal(signal.SIGINT)
"""


def test_a_signal_can_be_taken_when_two_graphs_are_gone(forkserver, tmp_path):
    """In a process of its own: where signals have lost their stack, it ends by a fault."""
    process = forkserver.Process(target=exec, args=(SIGNAL_AFTER_TWO_GRAPHS, {"noted": tmp_path / "noted"}))
    process.start()
    process.join(120)
    assert (process.exitcode, (tmp_path / "noted").exists()) == (0, True)


def test_what_has_no_int8_form_is_refused_and_a_missing_extra_is_named(tiny_backbone, special, monkeypatch):
    with pytest.raises(ConfigError, match="Precision int8 is for the CPU, got the device 'meta'"):
        quantize_layers(load_backbone(tiny_backbone).to("meta"), special)
    model = load_backbone(tiny_backbone)
    model.config.hidden_act = "silu"
    with pytest.raises(ModelError, match=r"No int8 layers for the activation 'silu'. Expected one of gelu"):
        quantize_layers(model, special)
    monkeypatch.setitem(sys.modules, "navi.model.int8", None)
    with pytest.raises(MissingExtraError, match=r"Precision int8 needs an extra: pip install 'navi-tables\[int8\]'"):
        Runner(load_backbone(tiny_backbone), special, devices=["cpu"], precision="int8")
