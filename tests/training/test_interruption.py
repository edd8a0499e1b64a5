"""Signals turned into a wish to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from navi.errors import TrainingError
from navi.training.interruption import SIGNALS, Interruption, TrainingInterrupted


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_the_old_handler_comes_back(number: int) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert interruption.number is None
        os.kill(os.getpid(), number)
        assert interruption.number == number
    assert signal.getsignal(number) is before


@pytest.fixture
def python_handler() -> Iterator[None]:
    """Ctrl-C as Python takes it by itself: a shell may have started the tests with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handler")
def test_a_second_ctrl_c_acts_as_it_always_did() -> None:
    with Interruption(), pytest.raises(KeyboardInterrupt):  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TrainingError, match="no"), Interruption():
        raise TrainingError("no")
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_nothing_changes() -> None:
    before, found = signal.getsignal(signal.SIGTERM), []

    def enter() -> None:
        with Interruption():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]


def test_the_exit_code_is_what_a_shell_expects() -> None:
    assert TrainingInterrupted("stopped", signal.SIGINT).exit_code == 130
    assert TrainingInterrupted("stopped", signal.SIGTERM).exit_code == 143
