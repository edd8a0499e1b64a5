"""Work on a cluster of Ray's: the one at `RAY_ADDRESS`, or one of this machine's cores alone.

Workers are actors that keep what is slow to load. Where one dies, another takes its place and its job is done again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from navi.errors import ConfigError, MissingExtraError, NaviError, StorageError
from navi.version import VERSION

Engine = Literal["local", "ray"]
"""Where bulk work is done: on this machine, or by Ray's workers."""
RETRIES = 4
"""Times that a job is done again, and a worker started again, after one has died."""


def check_engine(engine: str) -> bool:
    """Return whether work goes to Ray; an engine that is not known is an error."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"Unknown engine '{engine}'. Expected local or ray.")
    return engine == "ray"


def run_jobs(
    make_work: Callable[..., Callable[[Any], Any]], arguments: Sequence[Any], jobs: Sequence[Any], *, gpus: bool = False
) -> Iterator[tuple[int, Any]]:
    """Yield the place of each job and what `make_work(*arguments)(job)` returned for it, in the order they are done.

    `make_work` is called once in each worker; there is one for each core, or with `gpus` for each GPU, if there are.
    """
    with _connect() as ray:
        resources = ray.cluster_resources()
        on_gpus = gpus and resources.get("GPU", 0) >= 1
        count = min(len(jobs), int(resources["GPU" if on_gpus else "CPU"]))
        make = ray.remote(_Worker).options(
            num_cpus=1, num_gpus=int(on_gpus), max_restarts=RETRIES, max_task_retries=RETRIES
        )
        shared = [ray.put(argument) for argument in arguments]
        workers = [make.remote(VERSION, make_work, *shared) for _ in range(max(1, count))]
        left = iter(enumerate(jobs))
        running = {worker.run.remote(job): (place, worker) for worker, (place, job) in zip(workers, left, strict=False)}
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            place, worker = running.pop(done)
            try:
                result = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                cause = error.cause
                raise cause if isinstance(cause, NaviError | OSError) else StorageError(_explain(error)) from error
            except ray.exceptions.RayError as error:
                raise StorageError(f"A worker of the cluster died again and again. {_explain(error)}") from error
            following = next(left, None)
            if following is not None:
                running[worker.run.remote(following[1])] = (following[0], worker)
            yield place, result


class _Worker:
    """What does jobs, in a process of the cluster."""

    def __init__(self, version: str, make_work: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        self._work: Callable[[Any], Any] | None = None
        self._differs = ""
        if version != VERSION:
            self._differs = (
                f"{socket.gethostname()} has NAVI {VERSION}, this machine {version}: install the same on all."
            )
        else:
            self._work = make_work(*arguments)

    def run(self, job: Any) -> Any:
        """Return what the work gives for a job."""
        if self._work is None:
            raise ConfigError(self._differs)
        return self._work(job)


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
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = f"the cluster at RAY_ADDRESS={address}" if address else "a cluster of this machine"
        raise StorageError(
            f"Cannot reach {where}: {_explain(error)} Start it (ray start --head), or unset it."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _explain(error: BaseException) -> str:
    """Return the last line of what Ray says, which is the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{(lines or [type(error).__name__])[-1].rstrip('.')}."
