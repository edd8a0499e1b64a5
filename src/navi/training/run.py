"""`pretrain`: from a corpus to a model directory, by a run that can stop and go on anywhere."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from navi.training.checkpoint import RECORD_FILE, RunIdentity, list_checkpoints, open_folder
from navi.training.config import PretrainConfig
from navi.training.export import TrainingResult
from navi.training.step import make_accelerator
from navi.training.trainer import Progress, Trainer

if TYPE_CHECKING:
    from navi.corpus import Corpus


def pretrain(
    corpus: Corpus | str | Path,
    out: str | Path,
    config: PretrainConfig | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainingResult:
    """Learn a NAVI encoder from a corpus; return what the model directory `out` then records.

    With `resume` the run in `out` goes on from its newest complete checkpoint, exactly as if it had never stopped, and
    a finished one is left as it is; without a checkpoint it begins. SIGTERM and Ctrl-C finish the step, save a
    checkpoint and raise `TrainingInterrupted`. The global random state is put back afterwards.
    """
    folder, settings, source = Path(out), config or PretrainConfig(), open_corpus(corpus)
    accelerator = make_accelerator()
    with ExitStack() as stack:
        if accelerator.is_main_process:
            stack.enter_context(open_folder(folder, resume=resume, overwrite=overwrite))
        accelerator.wait_for_everyone()
        checkpoints = list_checkpoints(folder) if resume else []
        if resume and not checkpoints and (folder / RECORD_FILE).is_file():
            return _recall(folder, source, settings)
        devices = list(range(torch.cuda.device_count()))
        stack.enter_context(torch.random.fork_rng(devices))
        stack.enter_context(keep_freed_memory(accelerator.device))
        find_signal = stack.enter_context(listen_for_signals())
        trainer = Trainer(source, folder, settings, accelerator, find_signal, progress)
        trainer.begin(checkpoints[-1] if checkpoints else None)
        return trainer.finish()


def open_corpus(corpus: Corpus | str | Path) -> Corpus:
    """Return a corpus given as it is, or as its directory."""
    if not isinstance(corpus, str | Path):
        return corpus
    from navi.corpus import Corpus

    return Corpus.open(corpus, verify=True)


def _recall(folder: Path, corpus: Corpus, config: PretrainConfig) -> TrainingResult:
    """Return the record of a finished run, if it is the one that is asked for."""
    result = TrainingResult.load(folder)
    recorded = PretrainConfig.from_dict(result.config)
    found = RunIdentity(config=recorded.to_dict(), corpus=result.corpus["fingerprint"])
    RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint).check(found, folder)
    return result


@contextmanager
def listen_for_signals() -> Iterator[Callable[[], int]]:
    """Give a function that returns the number of the signal that came, SIGTERM or SIGINT, and 0 while none did.

    The same signal a second time acts as it always did. Outside the main thread Python cannot listen, and nothing
    changes.
    """
    listens = threading.current_thread() is threading.main_thread()
    # A handler that was not set from Python is given as None and cannot be put back by it.
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before if listens else ():
        signal.signal(number, note)
    try:
        yield lambda: came[-1] if came else 0
    finally:
        for number, handler in before.items() if listens else ():
            signal.signal(number, handler)


@contextmanager
def keep_freed_memory(device: torch.device) -> Iterator[None]:
    """Keep, inside, freed memory of the host for the next step instead of giving it back to the system.

    A step on a CPU takes and frees gigabytes in large arrays, and the system clears each page of a new one. Kept, a
    step of benchmarks/training_cpu.py has 17,000 to 26,000 page faults instead of 174,000, 0.06 s of system time
    instead of 0.32, and took 0.91 of its time on two quiet cores. Without glibc nothing is done.
    """
    libc: Any = ctypes.CDLL(None) if device.type == "cpu" and sys.platform.startswith("linux") else None
    if not hasattr(libc, "gnu_get_libc_version"):
        yield
        return
    trim_threshold, mmap_max = -1, -4  # what mallopt calls them
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, -1)
    try:
        yield
    finally:  # where glibc itself arrives once large arrays were freed
        libc.mallopt(mmap_max, 65536)
        libc.mallopt(trim_threshold, 64 << 20)
        libc.malloc_trim(0)
