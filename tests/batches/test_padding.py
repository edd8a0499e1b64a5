import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder
from navi.batches.padding import Capacity, measure_batch, pad_batch
from navi.model import load_backbone
from navi.objectives import AlignmentConfig, compute_losses
from navi.objectives.total import measure_step


@pytest.fixture(scope="module")
def model(tiny_backbone):
    return load_backbone(tiny_backbone).eval()


@pytest.mark.parametrize("negatives", ["table", "batch"])
@pytest.mark.parametrize("seed", range(3))
def test_a_filled_up_batch_has_the_losses_and_gradients_of_the_batch_itself(
    make_arrays, special, model, negatives, seed
):
    arrays = make_arrays(num_rows=12, num_tables=3, seed=seed)
    batch = BatchBuilder(arrays, special, seed=seed).build(np.arange(12), epoch=0)
    filled = pad_batch(batch, measure_batch(batch).loosen())
    config, size = AlignmentConfig(weight=1.0, low_negatives=negatives), measure_step([batch])
    found = []
    for one in (batch, filled):
        model.zero_grad()
        losses = compute_losses(model, model(one.rows), one, config, size)
        losses.total.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((losses, gradient))
    (plain, plain_gradient), (padded, padded_gradient) = found
    assert filled.rows.num_tokens > batch.rows.num_tokens
    for name in ("total", "masked", "low", "high"):
        torch.testing.assert_close(getattr(padded, name), getattr(plain, name), atol=1e-5, rtol=1e-5)
    assert int(padded.header_hits) == int(plain.header_hits)
    torch.testing.assert_close(padded_gradient, plain_gradient, atol=1e-4, rtol=1e-3)


def test_a_loosened_capacity_holds_the_batch_it_was_made_for(make_arrays, special):
    arrays = make_arrays(num_rows=20, num_tables=3)
    need = measure_batch(BatchBuilder(arrays, special).build(np.arange(20), epoch=0))
    assert need.loosen().fits(need)


def test_a_capacity_much_too_large_does_not_fit():
    need = Capacity(tokens=100, rows=4, segments=10, attributes=3, attribute_tokens=6, targets=20)
    large = Capacity(tokens=200, rows=9, segments=20, attributes=9, attribute_tokens=9, targets=40)
    assert not large.fits(need)
