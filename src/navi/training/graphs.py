"""Forward and backward of a batch recorded once for each size and replayed: a GPU need not wait for Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from navi.batches.batch import Batch, Tensors
from navi.batches.padding import Capacity, measure_batch, pad_batch
from navi.objectives.total import StepSize

MAX_GRAPHS = 16
"""Sizes that are recorded; batches that fit none run as they are."""
WARM_UP = 2
"""Batches of a size that run as they are before it is recorded."""

Learn = Callable[[Batch, StepSize], Tensor]


class Shelves:
    """The sizes that batches are filled up to; threads that make batches share them."""

    def __init__(self) -> None:
        self._capacities: list[Capacity] = []
        self._lock = threading.Lock()

    def fill(self, batch: Batch) -> Batch:
        """Return the batch filled up to a size that others have too, or as it is when there are too many sizes."""
        need = measure_batch(batch)
        with self._lock:
            fitting = [capacity for capacity in self._capacities if capacity.fits(need)]
            if not fitting:
                if len(self._capacities) == MAX_GRAPHS:
                    return batch
                fitting = [need.loosen()]
                self._capacities.extend(fitting)
        return pad_batch(batch, min(fitting, key=lambda capacity: capacity.tokens))


class Recorder:
    """Runs `learn` on filled-up batches: the first of a size as they are, the later ones as a replayed graph.

    `learn` must put gradients into tensors that stay, and draw randomness from the default generator alone.
    """

    def __init__(self, learn: Learn, device: torch.device) -> None:
        self._learn = learn
        self._device = device
        self._seen: dict[tuple[int, ...], int] = {}
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Batch, Tensor, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, size: StepSize) -> Tensor:
        """Add the batch's gradients; return what `learn` does. The tensor is overwritten by the next call."""
        key = tuple(len(tensor) for tensor in list_tensors(batch))
        if key not in self._graphs:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] <= WARM_UP or len(self._graphs) == MAX_GRAPHS:
                return self._learn(batch.to(self._device), size)
            self._record(key, batch, size)
        graph, own_batch, own_size, sums = self._graphs[key]
        for own, new in zip(list_tensors(own_batch), list_tensors(batch), strict=True):
            own.copy_(new, non_blocking=True)
        own_size[0].fill_(size.num_targets)
        own_size[1].fill_(size.num_tables)
        graph.replay()
        return sums

    def _record(self, key: tuple[int, ...], batch: Batch, size: StepSize) -> None:
        own_batch = batch.to(self._device)
        own_size = torch.tensor([float(size.num_targets), float(size.num_tables)], device=self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            sums = self._learn(own_batch, StepSize(num_targets=own_size[0], num_tables=own_size[1]))
        self._graphs[key] = (graph, own_batch, own_size, sums)


def list_tensors(group: Tensors) -> list[Tensor]:
    """Return all tensors of a group and the groups within it, in the order of their fields."""
    found: list[Tensor] = []
    for field in fields(group):
        member = getattr(group, field.name)
        if isinstance(member, Tensor):
            found.append(member)
        elif isinstance(member, Tensors):
            found.extend(list_tensors(member))
    return found
