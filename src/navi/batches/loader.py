"""Batches made ahead in threads or processes, handed out in order, the same whatever their number."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Task = TypeVar("Task")
Made = TypeVar("Made")

_make: Callable[[Any], Any] | None = None


def prefetch(
    tasks: Sequence[Task],
    make: Callable[[Task], Made],
    *,
    workers: int = 1,
    ahead: int = 4,
    processes: bool = False,
) -> Iterator[Made]:
    """Yield `make(task)` for each task in order, up to `ahead` of them made before they are asked for.

    Threads are enough beside a CPU that computes. A GPU is fed by many small calls of this interpreter, each of which
    would wait for the threads' lock: there `processes` serve, where the system can fork; what they make is pickled.
    With `workers=0` everything happens in the caller's thread.
    """
    if workers == 0:
        yield from map(make, tasks)
        return
    with _open_pool(make, workers, processes) as (pool, call):
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(call, task))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


@contextmanager
def _open_pool(
    make: Callable[[Task], Made], workers: int, processes: bool
) -> Iterator[tuple[Executor, Callable[[Task], Made]]]:
    if processes and "fork" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_remember, initargs=(make,)) as pool:
            yield pool, _call
    else:
        with ThreadPoolExecutor(workers, thread_name_prefix="navi-batches") as threads:
            yield threads, make


def _remember(make: Callable[[Any], Any]) -> None:
    """Keep in a forked process what it makes things with; it came along with the fork, unpickled."""
    global _make
    _make = make


def _call(task: Any) -> Any:
    assert _make is not None
    return _make(task)
