"""What makes steps quick on a GPU: passes recorded once a capacity and replayed, in half precision throughout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import Batch, BatchBuilder, BatchCapacity, choose_capacities, measure_capacity
from navi.losses import StepSize, measure_step
from navi.model import NaviModel

NUM_CAPACITIES = 4
"""Sizes that batches are filled up to; each is recorded once."""
MEASURED_STEPS = 512
"""Steps that capacities are chosen by, at most; one that fits none of them is made on the host."""
WARM_UP = 2
"""Batches of a capacity that run as they are before it is recorded."""

Ints = NDArray[np.int64]
Learn = Callable[[Batch, StepSize], Tensor]


@dataclass
class Recording:
    """A recorded pass, the memory it reads from and the memory it leaves its sums in."""

    graph: torch.cuda.CUDAGraph
    """The program."""
    inputs: Tensor
    """The epoch's key, then the rows."""
    sums: Tensor
    """What the pass returns."""


class Recorder:
    """Makes batches on the device and runs `learn` on them: the first of a capacity as they are, then as replays.

    `learn` must put gradients into tensors that stay, and draw randomness from the default generator alone. On devices
    that cannot record, every batch runs as it is.
    """

    def __init__(self, learn: Learn, builder: BatchBuilder, steps: Sequence[Ints]) -> None:
        self._learn, self._builder = learn, builder
        places = np.linspace(0, len(steps) - 1, min(len(steps), MEASURED_STEPS)).astype(np.int64)
        needs = [measure_capacity(builder, steps[place]) for place in places]
        self.capacities = choose_capacities(needs, NUM_CAPACITIES)
        self._records = builder.device.type == "cuda"
        self._seen: Counter[BatchCapacity] = Counter()
        self._recordings: dict[BatchCapacity, Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._records else None

    def find_capacity(self, rows: Ints) -> BatchCapacity | None:
        """Return the smallest capacity that holds the batch of these rows; None if there is none."""
        need = measure_capacity(self._builder, rows)
        return next((capacity for capacity in self.capacities if capacity.holds(need)), None)

    def __call__(self, rows: Ints, key: int, capacity: BatchCapacity) -> Tensor:
        """Add the gradients of the batch of these rows; return what `learn` does, until it is called again."""
        inputs = torch.full((capacity.rows + 1,), -1, dtype=torch.int64)
        inputs[0] = key
        inputs[1 : len(rows) + 1] = torch.from_numpy(rows)
        if not self._records or self._seen[capacity] < WARM_UP:
            self._seen[capacity] += 1
            return self._build_and_learn(inputs.to(self._builder.device), capacity)
        if capacity not in self._recordings:
            self._recordings[capacity] = self._record(inputs.to(self._builder.device), capacity)
        recording = self._recordings[capacity]
        recording.inputs.copy_(inputs.pin_memory(), non_blocking=True)
        recording.graph.replay()
        return recording.sums

    def _build_and_learn(self, inputs: Tensor, capacity: BatchCapacity) -> Tensor:
        batch = self._builder.build_filled(inputs[1:], inputs[0], capacity)
        sums = self._learn(batch, measure_step([batch]))
        # A step that lost targets is not to be taken; what is not finite never is.
        return torch.where(batch.targets.num_masked > capacity.targets, torch.nan, sums)

    def _record(self, inputs: Tensor, capacity: BatchCapacity) -> Recording:
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU's memory meanwhile, which a stricter mode would take for a mistake.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            sums = self._build_and_learn(inputs, capacity)
        return Recording(graph=graph, inputs=inputs, sums=sums)


class HalfCopy:
    """Computes in half precision throughout, while the model itself keeps its weights and gradients in float32.

    Autocast instead casts at every linear layer and normalises in float32, which on a GPU costs as much time as a third
    of the matrix products.
    """

    def __init__(self, model: NaviModel, dtype: torch.dtype) -> None:
        self.model: NaviModel = deepcopy(model).to(dtype)
        self._whole = list(model.parameters())
        self._half = list(self.model.parameters())

    def pull(self) -> None:
        """Take over the model's weights, and forget the gradients of last time."""
        with torch.no_grad():
            torch._foreach_copy_([half.data for half in self._half], [whole.data for whole in self._whole])
        for half in self._half:
            half.grad = None

    def push(self) -> None:
        """Add the gradients to the model's; what had no part in the loss stays without one."""
        used = [
            (whole, half.grad) for whole, half in zip(self._whole, self._half, strict=True) if half.grad is not None
        ]
        for whole, _ in used:
            if whole.grad is None:
                whole.grad = torch.zeros_like(whole)
        torch._foreach_add_([whole.grad for whole, _ in used], [gradient.float() for _, gradient in used])
