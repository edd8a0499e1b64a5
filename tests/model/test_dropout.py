"""Tests of dropout on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from navi.model import load_backbone
from navi.model.dropout import Dropout, replace_dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 503), (1, 3, 67_001)])
def test_the_share_is_dropped_and_the_others_are_scaled_so_that_the_mean_stays(share, shape):
    torch.manual_seed(0)
    states = torch.ones(shape, requires_grad=True)
    found = Dropout(share)(states)
    dropped = (found == 0).double().mean().item()
    assert dropped == pytest.approx(share, abs=0.005)
    torch.testing.assert_close(
        found[found != 0], torch.full_like(found[found != 0], 1 / (1 - share)), rtol=1e-4, atol=0
    )
    found.sum().backward()
    assert torch.equal(states.grad, found.detach())


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(400_000)) == 0).double().view(-1, 4)
    away = torch.corrcoef(dropped.T) - torch.eye(4)
    assert away.abs().max() < 0.01


def test_the_mask_is_drawn_from_the_seeded_generator():
    masks = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        masks.append(Dropout(0.3)(torch.ones(1000)))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_or_nothing_is_torchs(share):
    assert torch.equal(Dropout(share)(torch.ones(9)), nn.Dropout(share)(torch.ones(9)))


def test_nothing_is_dropped_when_the_model_does_not_train():
    states = torch.randn(50, 7)
    assert torch.equal(Dropout(0.5).eval()(states), states)


def test_every_dropout_of_a_model_is_replaced(tiny_backbone):
    kinds = {type(module) for module in load_backbone(tiny_backbone).modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
    other = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.2)))
    replace_dropout(other)
    assert isinstance(other[1][0], Dropout)
    assert other[1][0].p == 0.2
