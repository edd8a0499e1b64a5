"""Forward and backward of a batch recorded once for each size and replayed: a GPU need not wait for Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields

import torch
from torch import Tensor

from navi.batches.batch import Batch
from navi.batches.padding import Capacity, measure_batch, pad_batch
from navi.objectives.total import StepSize

MAX_GRAPHS = 16
"""Sizes that are recorded; batches that fit none run as they are."""
WARM_UP = 2
"""Batches of a size that run as they are before it is recorded."""

Learn = Callable[[Batch, StepSize], Tensor]


class Shelves:
    """The sizes that batches are filled up to."""

    def __init__(self) -> None:
        self._capacities: list[Capacity] = []

    def fill(self, batch: Batch) -> tuple[Batch, Capacity | None]:
        """Return the batch filled up to a size that others have too; unfilled, and None, past the last size."""
        need = measure_batch(batch)
        fitting = [capacity for capacity in self._capacities if capacity.fits(need)]
        if not fitting:
            if len(self._capacities) == MAX_GRAPHS:
                return batch, None
            fitting = [need.loosen()]
            self._capacities.extend(fitting)
        capacity = min(fitting, key=lambda one: one.tokens)
        return pad_batch(batch, capacity), capacity


@dataclass
class Recording:
    """A recorded pass, the memory it reads from and the memory it leaves its sums in."""

    graph: torch.cuda.CUDAGraph
    """The program."""
    inputs: Tensor
    """The joined tensors of a batch."""
    size: Tensor
    """What the losses are divided by, in the order of `StepSize`."""
    sums: Tensor
    """What the pass returns."""


class Recorder:
    """Runs `learn` on filled-up batches: the first of a size as they are, the later ones as a replayed graph.

    `learn` must put gradients into tensors that stay, and draw randomness from the default generator alone.
    """

    def __init__(self, learn: Learn, device: torch.device) -> None:
        self._learn = learn
        self._device = device
        self._shelves = Shelves()
        self._seen: Counter[Capacity] = Counter()
        self._recordings: dict[Capacity, Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, size: StepSize) -> Tensor:
        """Add the batch's gradients; return what `learn` does. The tensor is overwritten by a later call."""
        filled, capacity = self._shelves.fill(batch)
        if capacity is None or self._seen[capacity] < WARM_UP:
            if capacity is not None:
                self._seen[capacity] += 1
            return self._learn(filled.to(self._device), size)
        if capacity not in self._recordings:
            self._recordings[capacity] = self._record(filled)
        recording = self._recordings[capacity]
        recording.inputs.copy_(filled.join().pin_memory(), non_blocking=True)
        recording.size.copy_(torch.tensor(astuple(size), dtype=torch.float32).pin_memory(), non_blocking=True)
        recording.graph.replay()
        return recording.sums

    def _record(self, batch: Batch) -> Recording:
        inputs = batch.join().to(self._device)
        own_batch, own_size = batch.spread(inputs), torch.ones(len(fields(StepSize)), device=self._device)
        size = StepSize(**{field.name: own_size[place] for place, field in enumerate(fields(StepSize))})
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU's memory meanwhile, which a stricter mode would take for a mistake.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            sums = self._learn(own_batch, size)
        return Recording(graph=graph, inputs=inputs, size=own_size, sums=sums)
