"""`pretrain`: from a corpus to a model directory, by a run that can stop and go on anywhere."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from navi.errors import ConfigError, TrainingInterrupted
from navi.files import is_there, local_folder
from navi.storage import is_remote, show_address
from navi.training.checkpoint import RECORD_FILE, RunIdentity, list_checkpoints, open_folder
from navi.training.config import PretrainConfig, make_preset
from navi.training.export import TrainingResult
from navi.training.processes import Processes, Stopped, stop_on_signals
from navi.training.trainer import Progress, Trainer

if TYPE_CHECKING:
    from navi.corpus import Corpus


def pretrain(
    corpus: Corpus | str | Path,
    out: str | Path,
    config: PretrainConfig | None = None,
    *,
    resume: bool = False,
    finish: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainingResult:
    """Learn a NAVI encoder from a corpus; return what the model directory `out` then records.

    With `resume` the run in `out` goes on from its newest complete checkpoint, exactly as if it had never stopped, and
    a finished one is left as it is; without a checkpoint it begins. With `finish` that checkpoint becomes the model,
    and nothing more is learned. SIGTERM and Ctrl-C save a checkpoint and raise `TrainingInterrupted`. Without a
    `config`, the preset is `laptop` on a CPU, else `default`. The global random state is put back afterwards. Where
    `out` is an address in an object store, the run is kept in a scratch folder, and put up with each checkpoint.
    """
    address, source, processes = Path(out), open_corpus(corpus), Processes.join()
    if is_remote(address) and not (resume or finish or overwrite) and is_there(address):
        raise ConfigError(f"{show_address(address)} holds files. Resume it, overwrite it, or give another directory.")
    folder = local_folder(address, make=True)
    settings = config or make_preset(choose_preset(processes.device))
    with ExitStack() as stack:
        stack.callback(processes.leave)
        if processes.is_main:
            stack.enter_context(open_folder(folder, resume=resume or finish, overwrite=overwrite))
        processes.wait()
        checkpoints = list_checkpoints(folder) if resume or finish else []
        if not checkpoints and (resume or finish) and (folder / RECORD_FILE).is_file():
            return _recall(folder, source, settings)
        if finish and not checkpoints:
            raise ConfigError(f"{folder} has no checkpoint to finish. Train it first (--resume begins or goes on).")
        stack.enter_context(torch.random.fork_rng(list(range(torch.cuda.device_count()))))
        stack.enter_context(keep_freed_memory(processes.device))
        signals = stack.enter_context(stop_on_signals())
        if processes.count > 1:  # several stop where all of them agree
            stack.enter_context(signals.hold())
        try:
            trainer = Trainer(source, folder, settings, processes, signals, progress, address)
        except Stopped as stop:
            raise TrainingInterrupted(
                f"Stopped by {stop} before the first step; {folder} is as it was. To go on: the same with resume=True "
                "(--resume).",
                stop.number,
            ) from stop
        trainer.begin(checkpoints[-1] if checkpoints else None, is_last=finish)
        return replace(trainer.finish(), path=address)


def choose_preset(device: torch.device) -> str:
    """Return the preset of a machine: a CPU has minutes, not epochs."""
    return "laptop" if device.type == "cpu" else "default"


def open_corpus(corpus: Corpus | str | Path) -> Corpus:
    """Return a corpus given as it is, or as its directory."""
    if not isinstance(corpus, str | Path):
        return corpus
    from navi.corpus import Corpus

    return Corpus.open(corpus, verify=True)


def _recall(folder: Path, corpus: Corpus, config: PretrainConfig) -> TrainingResult:
    """Return the record of a finished run; raise if corpus or settings differ from those given."""
    result = TrainingResult.load(folder)
    recorded = PretrainConfig.from_dict(result.config)
    found = RunIdentity(config=recorded.to_dict(), corpus=result.corpus["fingerprint"])
    RunIdentity(config=config.to_dict(), corpus=corpus.fingerprint).check(found, folder)
    return result


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
