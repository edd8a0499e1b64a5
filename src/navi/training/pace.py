"""How fast a run goes."""

from __future__ import annotations

from time import monotonic


class Pace:
    """Rows and tokens by the clock; rates are taken from one mark to the next, when the device has caught up.

    Every process is taken to be as fast as this one.
    """

    def __init__(self, seconds_before: float = 0.0, num_processes: int = 1) -> None:
        self._num_processes = num_processes
        self._start = self._mark = monotonic()
        self._seconds_before = seconds_before
        self._marked = (0, 0)
        self.num_steps = self.num_rows = self.num_tokens = 0
        self.rows_per_second = self.tokens_per_second = 0.0

    @property
    def seconds(self) -> float:
        """Time spent on the run, earlier sittings counted in."""
        return self._seconds_before + monotonic() - self._start

    def add(self, num_rows: int, num_tokens: int) -> None:
        """Count a step."""
        self.num_steps += 1
        self.num_rows += num_rows
        self.num_tokens += num_tokens

    def mark(self) -> None:
        """Take the rates since the last mark."""
        now = monotonic()
        passed = max(now - self._mark, 1e-9)
        self.rows_per_second = self._num_processes * (self.num_rows - self._marked[0]) / passed
        self.tokens_per_second = self._num_processes * (self.num_tokens - self._marked[1]) / passed
        self.restart()

    def restart(self) -> None:
        """Leave out of the rates what has passed since the last mark."""
        self._mark, self._marked = monotonic(), (self.num_rows, self.num_tokens)

    def estimate(self, steps_left: int) -> float | None:
        """Return the seconds that so many steps will take; None before the first step."""
        if self.num_steps == 0:
            return None
        return (monotonic() - self._start) / self.num_steps * steps_left
