"""Memory of the host and of devices: kept between steps, and cleared up when it ran out."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""What `mallopt` calls them: free memory at the heap's end that goes back to the system, and how many allocations may
be mapped each on its own."""
NO_TRIM, NO_MAPS = -1, 0
USUAL_TRIM, USUAL_MAPS = 64 << 20, 65536
"""Where glibc itself arrives once large arrays were freed."""


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Keep, inside, freed memory of the host for the next step instead of giving it back to the system.

    A step on a CPU frees and takes gigabytes in large arrays. Each page of a new one costs a fault and is cleared by
    the system, which was seen to take a tenth of a step. It is given back at the end; without glibc nothing is done.
    """
    libc = _find_glibc() if device.type == "cpu" else None
    if libc is None:
        yield
        return
    _set(libc, maps=NO_MAPS, trim=NO_TRIM)
    try:
        yield
    finally:
        _set(libc, maps=USUAL_MAPS, trim=USUAL_TRIM)
        libc.malloc_trim(0)


def _find_glibc() -> Any:
    """Return glibc if it is what this process takes its memory from, as far as can be seen."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def _set(libc: Any, *, maps: int, trim: int) -> None:
    libc.mallopt(M_MMAP_MAX, maps)
    libc.mallopt(M_TRIM_THRESHOLD, trim)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether an error says that a device, or the host, has no memory left for a tensor."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def release_memory() -> None:
    """Give back what a failed step left behind; call it when its error is no longer held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
