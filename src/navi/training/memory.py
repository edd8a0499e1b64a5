"""Running out of memory: how to tell, and how to clear up after it."""

from __future__ import annotations

import gc

import torch


def is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether an error says that a device, or the host, has no memory left for a tensor."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def release_memory() -> None:
    """Give back what a failed step left behind; call it when its error is no longer held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
