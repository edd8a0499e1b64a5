"""Memory kept between steps, and running out of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from navi.training import memory
from navi.training.memory import _find_glibc, is_out_of_memory, kept_memory, release_memory


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


@pytest.mark.skipif(_find_glibc() is None, reason="memory is kept with glibc alone")
def test_memory_freed_inside_is_there_for_what_comes_next_and_goes_back_at_the_end() -> None:
    """Counts page faults and pages in a process of its own: other tests leave memory of all sizes behind."""
    found = subprocess.run([sys.executable, "-c", COUNT_PAGES], capture_output=True, text=True, check=True)
    faults, kept_faults, held, held_after = map(int, found.stdout.split())
    assert kept_faults < faults / 3
    assert held - held_after > 64 << 20


COUNT_PAGES = """
from resource import RUSAGE_SELF, getpagesize, getrusage
import torch
from navi.training.memory import kept_memory

def count_faults():
    begun = getrusage(RUSAGE_SELF).ru_minflt
    for _ in range(40):
        torch.ones(1 << 25)
    return getrusage(RUSAGE_SELF).ru_minflt - begun

def measure():
    return int(open("/proc/self/statm").read().split()[1]) * getpagesize()

print(count_faults())
with kept_memory(torch.device("cpu")):
    print(count_faults(), measure())
print(measure())
"""


def test_beside_a_gpu_memory_of_the_host_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_find_glibc", lambda: pytest.fail("asked for"))
    with kept_memory(torch.device("cuda")):
        pass
