"""The processes that train one model together, as launchers start them, mostly just one; and signals that stop them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from navi.errors import ConfigError, TrainingError, TrainingInterrupted

PATIENCE = timedelta(hours=1)
"""How long a process waits for the others, which may be making a corpus; one that ended is noticed at once."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Which of how many processes this is, and where it computes."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def join(cls) -> Self:
        """Return this process as its launcher numbered it, connected with the others where there are some."""
        rank, count, local = (_read_number(name, least) for name, least in _LAUNCHER.items())
        processes = cls(rank=rank, count=count, device=choose_device(local))
        if count > 1 and not dist.is_initialized():
            with processes._reaching():
                dist.init_process_group("nccl" if processes.device.type == "cuda" else "gloo", timeout=PATIENCE)
        return processes

    def leave(self) -> None:
        """Close the connections with the others."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and shows progress."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place."""
        if self.count > 1:
            with self._reaching():
                dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Give every process the sum of all gradients; one that a process does not have counts as zeros."""
        if self.count == 1:
            return
        found = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        flat = self.sum(torch.cat([gradient.flatten() for gradient in found]))
        parts = torch.split(flat, [gradient.numel() for gradient in found])
        for parameter, gradient in zip(parameters, parts, strict=True):
            parameter.grad = gradient.view_as(parameter)

    def gather(self, mine: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return the tensors of all processes, of these lengths, joined; gradients flow to this process's own."""
        if self.count == 1:
            return mine
        padded = torch.cat([mine.detach(), mine.new_zeros(max(sizes) - len(mine), *mine.shape[1:])])
        found = [torch.empty_like(padded) for _ in sizes]
        with self._reaching():
            dist.all_gather(found, padded)
        parts = [part[:size] for part, size in zip(found, sizes, strict=True)]
        return torch.cat([*parts[: self.rank], mine, *parts[self.rank + 1 :]])

    def max(self, *numbers: int) -> list[int]:
        """Return the largest that any process has of each number."""
        if self.count == 1:
            return list(numbers)
        most = torch.tensor(numbers, device=self.device)
        with self._reaching():
            dist.all_reduce(most, dist.ReduceOp.MAX)
        return [int(number) for number in most.tolist()]

    def wait(self) -> None:
        """Wait until every process has come here."""
        self.max(0)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turn the loss of another process into one clear line."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            raise TrainingError(
                f"Process {self.rank} of {self.count} cannot reach the others: one of them ended, or was never started "
                f"({str(error).splitlines()[0]}). Start all of them again, with --resume to go on."
            ) from error


_LAUNCHER = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}
"""What launchers say of a process in its environment, and the least that each can be."""


def _read_number(name: str, least: int) -> int:
    text = os.environ.get(name, str(least))
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(f"The environment says {name}={text}; expected a number from {least} on, as torchrun has it.")
    return int(text)


def choose_device(local_rank: int = 0) -> torch.device:
    """Return the device that this process of its machine computes on."""
    wants_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes", "y")
    if torch.cuda.is_available() and not wants_cpu:
        if local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"Process {local_rank} of this machine has no GPU: there are {torch.cuda.device_count()}. "
                "Start one process for each (--nproc-per-node)."
            )
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    return torch.device("mps" if torch.backends.mps.is_available() and not wants_cpu else "cpu")


class Stopped(KeyboardInterrupt):
    """A signal asked for an end; libraries let it pass like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class StopSignals:
    """Raises `Stopped` where the signal comes; inside `hold` it is only noted, until `check` is called."""

    def __init__(self) -> None:
        self.came = 0
        """Number of the signal that came; 0 while none did."""
        self._holds = 0

    def check(self) -> None:
        """Raise if a signal came and nothing holds it back."""
        if self.came and not self._holds:
            raise Stopped(self.came)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let nothing be cut short inside."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1


@contextmanager
def stop_on_signals() -> Iterator[StopSignals]:
    """Listen for SIGTERM and SIGINT; the same one a second time acts as it always did.

    What nobody inside has caught came before a run had anything to save. Outside the main thread Python cannot listen,
    and nothing changes.
    """
    listens = threading.current_thread() is threading.main_thread()
    # A handler that was not set from Python is given as None and cannot be put back by it.
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}
    signals = StopSignals()

    def note(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        signals.came = number
        signals.check()

    for number in before if listens else ():
        signal.signal(number, note)
    try:
        yield signals
    except Stopped as stop:
        raise TrainingInterrupted(
            f"Stopped by {stop} before the first step; nothing is half-written. To go on: the same with resume=True "
            "(--resume).",
            stop.number,
        ) from stop
    finally:
        for number, handler in before.items() if listens else ():
            signal.signal(number, handler)
