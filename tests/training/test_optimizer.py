"""AdamW, its schedule, and updates that are skipped."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from navi.model import is_new, load_backbone
from navi.training import TrainingConfig
from navi.training.optimizer import make_optimizer, scale_rate, set_rate, take_step


def make_line(weight: float = 1.0) -> torch.nn.Module:
    line = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(line.weight, weight)
    return line


def test_every_parameter_is_in_one_group_with_its_own_rate_and_decay(tiny_backbone: Path) -> None:
    model = load_backbone(tiny_backbone)
    config = TrainingConfig(learning_rate=1e-5, new_learning_rate=1e-3, weight_decay=0.1)
    optimizer = make_optimizer(model, config, lambda name: is_new(name, model.config))
    found = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        group = found[id(parameter)]
        assert group["highest_rate"] == (1e-3 if is_new(name, model.config) else 1e-5), name
        decays = not ("LayerNorm" in name or "norm" in name or name.endswith(("bias", "unknown_attribute", "scale")))
        assert group["weight_decay"] == (0.1 if decays else 0.0), name


def test_the_rate_rises_then_falls_to_nothing() -> None:
    scales = [scale_rate(step, 100, 0.1) for step in range(101)]
    assert scales[0] == 0.1
    assert max(scales) == scales[9] == scales[10] == 1.0
    assert all(later < earlier for earlier, later in pairwise(scales[10:]))
    assert scales[99] == pytest.approx(1 / 90)
    assert scales[100] == 0.0


@given(st.integers(1, 500), st.floats(0, 1), st.data())
def test_the_rate_is_never_beyond_its_bounds(num_steps: int, share: float, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, num_steps - 1))
    assert 0.0 < scale_rate(step, num_steps, share) <= 1.0
    assert scale_rate(num_steps, num_steps, share) == 0.0


def test_each_group_keeps_its_proportion(tiny_backbone: Path) -> None:
    model = load_backbone(tiny_backbone)
    config = TrainingConfig(learning_rate=2.0, new_learning_rate=8.0)
    optimizer = make_optimizer(model, config, lambda name: is_new(name, model.config))
    set_rate(optimizer, 0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.5, 2.0}


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_that_is_not_finite_leaves_weights_and_optimiser_alone(fused: bool) -> None:
    model = make_line()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    model(torch.ones(1, 3)).sum().backward()
    take_step(optimizer, torch.tensor(True))
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)
    take_step(optimizer, torch.tensor(False))
    assert all(torch.equal(old, new) for old, new in zip(weights, model.parameters(), strict=True))
    assert all(torch.equal(m, s["exp_avg"]) for m, s in zip(moments, optimizer.state.values(), strict=True))
    assert {float(state["step"]) for state in optimizer.state.values()} == {1.0}


def test_a_step_after_a_skipped_one_is_taken() -> None:
    model = make_line()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for finite in (False, True):
        model(torch.ones(1, 3)).sum().backward()
        take_step(optimizer, torch.tensor(finite))
        assert torch.equal(model.weight, torch.ones(2, 3)) is not finite
