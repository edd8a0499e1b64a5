"""Drafts made by several processes at once.

A worker is a fresh interpreter that is handed sources over a pipe. Unlike `multiprocessing`, this never runs the
caller's own script a second time, so a script may call `navi.prepare` at its top level.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from navi.backbones import load_tokenizer
from navi.corpus.config import PrepareConfig
from navi.corpus.drafts import Draft, draft_source
from navi.corpus.pieces import ChunkEncoder
from navi.errors import CorpusError, NaviError, TableError
from navi.tables import Source

_COMMAND = "from navi.corpus.workers import serve; serve()"
_LITTLE_INPUT = 4 << 20


@dataclass(frozen=True)
class Job:
    """A source, and the file that its pieces go to."""

    source: Source
    pieces: Path


def count_workers(sources: Sequence[Source], config: PrepareConfig) -> int:
    """Return the number of processes worth having for these sources."""
    size = sum(source.path.stat().st_size for source in sources)
    if config.workers is None and size < _LITTLE_INPUT:
        return 1
    return max(1, min(config.workers or _count_cores(), len(sources)))


def _count_cores() -> int:
    # What this process may use can be less than what the machine has; not every system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_drafts(
    jobs: Sequence[Job], tokenizer_folder: Path, config: PrepareConfig, num_workers: int
) -> Generator[int | Draft, None, None]:
    """Yield the drafts as they are done, and numbers of rows as they are read; large files come first."""
    jobs = sorted(jobs, key=lambda job: (-job.source.path.stat().st_size, job.source.name))
    if num_workers == 1:
        yield from _work_here(jobs, tokenizer_folder, config)
    else:
        yield from _work_apart(jobs, tokenizer_folder, config, num_workers)


def _work_here(
    jobs: Sequence[Job], tokenizer_folder: Path, config: PrepareConfig
) -> Generator[int | Draft, None, None]:
    encoder = ChunkEncoder(load_tokenizer(tokenizer_folder), config)
    for job in jobs:
        rows: list[int] = []
        draft = draft_source(job.source, job.pieces, encoder, config, rows.append)
        yield from rows
        yield draft


def _work_apart(
    jobs: Sequence[Job], tokenizer_folder: Path, config: PrepareConfig, num_workers: int
) -> Generator[int | Draft, None, None]:
    waiting, replies = deque(jobs), SimpleQueue[int | Draft | _Failure]()
    processes = [_start_worker() for _ in range(num_workers)]
    setting = (tokenizer_folder, config)
    drivers = [Thread(target=_drive, args=(each, setting, waiting, replies), daemon=True) for each in processes]
    try:
        for driver in drivers:
            driver.start()
        missing = len(jobs)
        while missing:
            reply = replies.get()
            if isinstance(reply, _Failure):
                raise reply.as_error()
            missing -= isinstance(reply, Draft)
            yield reply
    finally:
        for process in processes:
            process.kill()
        for process, driver in zip(processes, drivers, strict=True):
            if driver.is_alive():
                driver.join()
            _close(process)


@dataclass(frozen=True)
class _Failure:
    message: str
    is_table: bool

    def as_error(self) -> NaviError:
        return TableError(self.message) if self.is_table else CorpusError(self.message)


def _start_worker() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path}
    # -P: a file in the working directory must not pass for a module.
    command = [sys.executable, "-P", "-c", _COMMAND]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _close(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        # What was still to be sent has nobody left to read it.
        with suppress(BrokenPipeError):
            pipe.close()


def _drive(process: subprocess.Popen[bytes], setting: object, waiting: deque[Job], replies: SimpleQueue[Any]) -> None:
    """Hand one worker job after job, and pass on what it replies."""
    assert process.stdin is not None
    assert process.stdout is not None
    job = None
    try:
        _send(process.stdin, setting)
        while waiting:
            job = waiting.popleft()
            _send(process.stdin, job)
            while isinstance(reply := pickle.load(process.stdout), int):
                replies.put(reply)
            replies.put(reply)
    except IndexError:
        return
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        place = f" while reading {job.source.path}" if job else ""
        code = process.wait()
        how = f"was killed by signal {-code} (out of memory?)" if code < 0 else f"ended with exit code {code}"
        replies.put(_Failure(f"A worker {how}{place}. Try fewer workers.", is_table=False))


def _send(pipe: IO[bytes], message: object) -> None:
    pickle.dump(message, pipe)
    pipe.flush()


def serve() -> None:
    """Make drafts of the sources that come in, until no more can come: the life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Nothing else may write into the pipe.
    os.dup2(2, 1)
    try:
        folder, config = pickle.load(requests)
        encoder = ChunkEncoder(load_tokenizer(folder), config)
        while True:
            job = pickle.load(requests)
            _send(replies, _try_draft(job, encoder, config, lambda rows: _send(replies, rows)))
    except (EOFError, BrokenPipeError):
        return


def _try_draft(
    job: Job, encoder: ChunkEncoder, config: PrepareConfig, report: Callable[[int], None]
) -> Draft | _Failure:
    try:
        return draft_source(job.source, job.pieces, encoder, config, report)
    except NaviError as error:
        return _Failure(str(error), is_table=isinstance(error, TableError))
