"""Batches made ahead in threads, handed out in order, the same whatever the number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Made = TypeVar("Made")


def prefetch(
    tasks: Iterable[Task], make: Callable[[Task], Made], *, workers: int = 1, ahead: int = 4
) -> Iterator[Made]:
    """Yield `make(task)` for each task in order, up to `ahead` of them made before they are asked for.

    Threads serve because making a batch is numpy, which mostly lets go of the interpreter lock; processes forked
    beside a GPU were tried and hung. With `workers=0` everything happens in the caller's thread.
    """
    if workers == 0:
        yield from map(make, tasks)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="navi-batches") as pool:
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(make, task))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
