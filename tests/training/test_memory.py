"""Running out of memory."""

from __future__ import annotations

import pytest
import torch

from navi.training.memory import is_out_of_memory, release_memory


def test_a_device_without_memory_is_recognised() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))


def test_a_host_without_memory_is_recognised() -> None:
    with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
        torch.empty(2**60, dtype=torch.float32)
    assert is_out_of_memory(caught.value)


def test_another_error_is_not_mistaken_for_it() -> None:
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))


def test_memory_can_be_released_without_a_device() -> None:
    release_memory()
