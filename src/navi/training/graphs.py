"""Whole passes of a step recorded once for each room and replayed: a GPU need not wait for Python, nor for batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches.batch import Batch
from navi.batches.device import DeviceBuilder
from navi.batches.room import Room, choose_rooms, measure_needs
from navi.losses.total import StepSize, measure_filled

NUM_ROOMS = 4
"""Sizes that batches are filled up to; each is recorded once."""
MEASURED_STEPS = 512
"""Steps that rooms are chosen by, at most; one that fits none of them is made on the host."""
WARM_UP = 2
"""Batches of a room that run as they are before it is recorded."""

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
    """Makes batches on the device and runs `learn` on them: the first of a room as it is, later ones as a replay.

    `learn` must put gradients into tensors that stay, and draw randomness from the default generator alone. On devices
    that cannot record, every batch runs as it is.
    """

    def __init__(self, learn: Learn, builder: DeviceBuilder, steps: Sequence[Ints]) -> None:
        self._learn, self._builder = learn, builder
        places = np.linspace(0, len(steps) - 1, min(len(steps), MEASURED_STEPS)).astype(np.int64)
        needs = measure_needs(builder.builder, [steps[place] for place in places])
        self.rooms, _ = choose_rooms(needs, NUM_ROOMS)
        self._records = builder.device.type == "cuda"
        self._seen: Counter[Room] = Counter()
        self._recordings: dict[Room, Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._records else None

    def find_room(self, rows: Ints) -> Room | None:
        """Return the smallest room that holds the batch of these rows; None if there is none."""
        need = measure_needs(self._builder.builder, [rows])[0]
        fitting = (room for room in self.rooms if room.holds(need))
        return next(fitting, None)

    def __call__(self, rows: Ints, key: int, room: Room) -> Tensor:
        """Add the gradients of the batch of these rows; return what `learn` does, until it is called again."""
        inputs = torch.full((room.rows + 1,), -1, dtype=torch.int64)
        inputs[0] = key
        inputs[1 : len(rows) + 1] = torch.from_numpy(rows)
        if not self._records or self._seen[room] < WARM_UP:
            self._seen[room] += 1
            return self._build_and_learn(inputs.to(self._builder.device), room)
        if room not in self._recordings:
            self._recordings[room] = self._record(inputs.to(self._builder.device), room)
        recording = self._recordings[room]
        recording.inputs.copy_(inputs.pin_memory(), non_blocking=True)
        recording.graph.replay()
        return recording.sums

    def _build_and_learn(self, inputs: Tensor, room: Room) -> Tensor:
        batch, num_targets = self._builder.build(inputs[1:], inputs[0], room)
        sums = self._learn(batch, measure_filled(batch))
        # A step that lost targets is not to be taken; what is not finite never is.
        return torch.where(num_targets > room.targets, torch.nan, sums)

    def _record(self, inputs: Tensor, room: Room) -> Recording:
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU's memory meanwhile, which a stricter mode would take for a mistake.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            sums = self._build_and_learn(inputs, room)
        return Recording(graph=graph, inputs=inputs, sums=sums)
