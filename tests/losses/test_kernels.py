"""Tests of the cross-entropy kernel against torch's, on a CUDA device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from navi.batches import IGNORED
from navi.losses.masked import predict_masked

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("width", [5, 4096, 30522])
def test_the_kernel_has_the_loss_the_gradient_and_the_hits_of_float32(width):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(37, width, generator=generator)).cuda().bfloat16()
    token = torch.randint(width, (37,), generator=generator).cuda()
    token[::3] = logits.float().argmax(dim=1)[::3]
    token[5:8] = IGNORED
    tiled, exact = logits.clone().requires_grad_(), logits.float().requires_grad_()
    found = predict_masked(tiled, token)
    expected = F.cross_entropy(exact, token, reduction="sum", ignore_index=IGNORED)
    (found.loss / 7).backward()
    (expected / 7).backward()
    torch.testing.assert_close(found.loss, expected)
    assert torch.equal(found.hit, exact.argmax(dim=1) == token)
    torch.testing.assert_close(tiled.grad, exact.grad.bfloat16(), atol=1e-6, rtol=1e-2)


def test_no_targets_have_no_loss():
    logits = torch.zeros(0, 11, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    found = predict_masked(logits, torch.zeros(0, dtype=torch.int64, device="cuda"))
    found.loss.backward()
    assert found.loss == 0
    assert logits.grad.shape == (0, 11)
