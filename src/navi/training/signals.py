"""SIGTERM and Ctrl-C as an exception: at once, or when what must not be cut short is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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

    def note(self, number: int) -> None:
        """Take a signal."""
        self.came = number
        self.check()

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

    Outside the main thread Python cannot listen, and nothing changes.
    """
    listens = threading.current_thread() is threading.main_thread()
    # A handler that was not set from Python is given as None and cannot be put back by it.
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}
    signals = StopSignals()

    def note(number: int, frame: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        signals.note(number)

    for number in before if listens else ():
        signal.signal(number, note)
    try:
        yield signals
    finally:
        for number, handler in before.items() if listens else ():
            signal.signal(number, handler)
