"""Work in threads: a bounded queue whose requests of one kind run as one batch, and tasks that a page waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from navi.errors import NaviError

if TYPE_CHECKING:
    from navi.model.runner import Progress

T = TypeVar("T")
Run = Callable[[Sequence[Any]], Sequence[Any]]


class QueueFullError(Exception):
    """The queue has as many requests as it may."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """Something to do for one request."""

    run: Run
    """Takes the payloads of jobs of one kind, and returns an answer for each."""
    payload: Any
    size: int
    """Its rows."""
    kind: Hashable = None
    """Jobs of one kind may run at once; None runs alone."""
    future: Future[Any] = field(default_factory=Future)


class JobQueue:
    """Runs jobs in their order in a thread of its own; those of a kind that wait together run as one batch."""

    def __init__(self, *, places: int, batch_rows: int) -> None:
        self.places, self.batch_rows = places, batch_rows
        self.taken = 0
        """Requests that have a place: being read, waiting or running."""
        self.is_open = True
        self._waiting: deque[Job] = deque()
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="navi-jobs", daemon=True)
        self._thread.start()

    @contextmanager
    def take_place(self) -> Iterator[None]:
        """Hold a place while a request is answered; for the event loop's thread alone."""
        if self.taken >= self.places or not self.is_open:
            raise QueueFullError
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    def submit(self, job: Job) -> Future[Any]:
        """Return what will be the answer; cancelling it takes a job that has not begun from the queue."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Finish what was taken, and end."""
        with self._changed:
            self.is_open = False
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._take_batch():
            begun = [job for job in batch if job.future.set_running_or_notify_cancel()]
            if begun:
                self._run(begun)

    def _take_batch(self) -> list[Job]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self.is_open)
            if not self._waiting:
                return []
            batch = [self._waiting.popleft()]
            rows = batch[0].size
            for job in [each for each in self._waiting if each.kind is not None and each.kind == batch[0].kind]:
                if rows + job.size <= self.batch_rows:
                    rows += job.size
                    batch.append(job)
                    self._waiting.remove(job)
            return batch

    def _run(self, batch: list[Job]) -> None:
        try:
            answers = batch[0].run([job.payload for job in batch])
        except BaseException as error:  # noqa: BLE001 - it is the request's, which raises it again
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for job in batch:  # whose fault it was shows when each runs alone
                self._run([job])
            return
        for job, answer in zip(batch, answers, strict=True):
            job.future.set_result(answer)


class Tasks:
    """Work that takes long: each task runs once, one after the other, in a thread that ends with the process."""

    def __init__(self) -> None:
        self._queue = JobQueue(places=1, batch_rows=1)
        self._futures: dict[Hashable, Future[Any]] = {}
        self.running: Hashable = None
        """The key of the task that runs."""
        self.done, self.total = 0, 0
        """How far that is."""

    def start(self, key: Hashable, run: Callable[[Progress], T]) -> T | str | None:
        """Return what a task returned; None while it runs, and a text where it failed."""
        if key not in self._futures:
            job = Job(run=lambda _: [self._run(key, run)], payload=None, size=1)
            self._futures[key] = self._queue.submit(job)
        future: Future[T] = self._futures[key]
        if not future.done():
            return None
        return str(error) if isinstance(error := future.exception(), NaviError) else future.result()

    def _run(self, key: Hashable, run: Callable[[Progress], T]) -> T:
        def report(just_done: int, total: int) -> None:
            self.done, self.total = min(self.done + just_done, total), total

        self.running, self.done, self.total = key, 0, 0
        return run(report)

    def forget(self, key: Hashable) -> None:
        """Have a task run again when it is started again."""
        self._futures.pop(key, None)
