"""Jobs in this process, in others of this machine, or on a Ray cluster: at `RAY_ADDRESS`, or of this machine's cores.

Workers keep what is slow to load. Where one of a cluster dies, another takes its place and its job is done again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.connection import Connection
from threading import Thread
from types import ModuleType
from typing import Any

from navi.errors import ConfigError, MissingExtraError, NaviError, StorageError
from navi.version import VERSION

MakeWork = Callable[..., Callable[[Any], Any]]
"""Makes, in a worker, what does its jobs."""
RETRIES = 4
"""Times that a job is done again, and a worker started again, after one has died."""
PATIENCE = 10.0
"""Seconds that a cluster has to answer that it is there."""
_run_job_here: Callable[[Any], Any]
"""In another process: what does its jobs."""


def check_engine(engine: str) -> bool:
    """Return whether work goes to Ray; an engine that is not known is an error."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"Unknown engine '{engine}'. Expected local or ray.")
    return engine == "ray"


def run_jobs(
    make_work: MakeWork,
    arguments: Sequence[Any],
    jobs: Sequence[Any],
    *,
    num_workers: int | None = None,
    gpus: bool = False,
) -> Generator[tuple[int, Any]]:
    """Yield the place of each job and what `make_work(*arguments)(job)` returned for it, in the order they are done.

    `make_work` is called once in each worker. One worker is this process, several are others of this machine, and None
    are those of a cluster, one for each core, or with `gpus` for each GPU, if there are. Close it to stop them.
    """
    if num_workers == 1:
        yield from enumerate(map(make_work(*arguments), jobs))
    elif num_workers is not None:
        yield from _run_in_processes(make_work, arguments, jobs, num_workers)
    else:
        yield from _run_on_cluster(make_work, arguments, jobs, gpus)


def _run_in_processes(
    make_work: MakeWork, arguments: Sequence[Any], jobs: Sequence[Any], num_workers: int
) -> Iterator[tuple[int, Any]]:
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    with _hidden_script():
        pool = ProcessPoolExecutor(num_workers, context, _start_process, (theirs, make_work, arguments))
        futures = {pool.submit(_run_job, job): place for place, job in enumerate(jobs)}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        # Whatever was still being done, nobody waits for: see `_end_with`.
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Let new processes start without the caller's script: it may do all its work at its top level."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _start_process(parent: Connection, make_work: MakeWork, arguments: Sequence[Any]) -> None:
    global _run_job_here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    _run_job_here = make_work(*arguments)


def _end_with(parent: Connection) -> None:
    """End this process when the other end of the connection is closed, by the parent or by its death."""
    parent.poll(None)
    os._exit(1)


def _run_job(job: Any) -> Any:
    return _run_job_here(job)


def _run_on_cluster(
    make_work: MakeWork, arguments: Sequence[Any], jobs: Sequence[Any], gpus: bool
) -> Iterator[tuple[int, Any]]:
    with _connect() as ray:
        from ray.util import ActorPool

        resources = ray.cluster_resources()
        on_gpus = gpus and resources.get("GPU", 0) >= 1
        count = min(len(jobs), int(resources["GPU" if on_gpus else "CPU"]))
        make = ray.remote(_Worker).options(
            num_cpus=1, num_gpus=int(on_gpus), max_restarts=RETRIES, max_task_retries=RETRIES
        )
        shared = [ray.put(argument) for argument in arguments]
        pool = ActorPool([make.remote(VERSION, make_work, *shared) for _ in range(max(1, count))])
        try:
            yield from pool.map_unordered(lambda worker, job: worker.run.remote(*job), list(enumerate(jobs)))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, NaviError | OSError) else StorageError(_explain(error)) from error
        except ray.exceptions.RayError as error:
            raise StorageError(f"A worker of the cluster died again and again. {_explain(error)}") from error


class _Worker:
    """What does jobs, in a process of the cluster."""

    def __init__(self, version: str, make_work: MakeWork, *arguments: Any) -> None:
        self._work: Callable[[Any], Any] | None = None
        self._differs = ""
        if version != VERSION:
            self._differs = (
                f"{socket.gethostname()} has NAVI {VERSION}, this machine {version}: install the same on all."
            )
        else:
            self._work = make_work(*arguments)

    def run(self, place: int, job: Any) -> tuple[int, Any]:
        """Return the place of a job, and what the work gives for it."""
        if self._work is None:
            raise ConfigError(self._differs)
        return place, self._work(job)


@contextmanager
def _connect() -> Iterator[Any]:
    """Give Ray, connected; a cluster that was started for this is stopped again."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("--engine ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS")
    try:
        _reach(address)
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"the cluster at RAY_ADDRESS={address}" if address else "a cluster of this machine"
        raise StorageError(
            f"Cannot reach {where}: {_explain(error)} Start it (ray start --head), or unset it."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str | None) -> None:
    """Raise an error where nobody listens at an address, for which Ray itself waits for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():  # else a word, as `auto`
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()


def _explain(error: BaseException) -> str:
    """Return the last line of what Ray says, which is the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{(lines or [type(error).__name__])[-1].rstrip('.')}."
