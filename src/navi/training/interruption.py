"""SIGTERM and Ctrl-C turned into a wish to stop after the step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from navi.errors import TrainingError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(TrainingError):  # noqa: N818
    """A run that was asked to stop, and did, with a checkpoint saved; `exit_code` is what a shell expects."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interruption:
    """Listens for SIGTERM and SIGINT while it is entered; the same signal a second time acts as it always did.

    Outside the main thread Python cannot listen, and nothing changes.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that came, if one did."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self._before):
            self._put_back(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._put_back(number)

    def _put_back(self, number: int) -> None:
        before = self._before.pop(number, None)
        # A handler that was not set from Python is given as None and cannot be put back by it.
        signal.signal(number, signal.SIG_DFL if before is None else before)
