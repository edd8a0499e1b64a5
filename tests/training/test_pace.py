"""How fast a run goes."""

from __future__ import annotations

import pytest

from navi.training.pace import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands at its first entry."""
    now = [100.0]
    monkeypatch.setattr("navi.training.pace.monotonic", lambda: now[0])
    return now


def test_rates_are_taken_from_mark_to_mark(clock: list[float]) -> None:
    pace = Pace()
    pace.add(10, 1000)
    clock[0] += 2.0
    pace.mark()
    assert (pace.rows_per_second, pace.tokens_per_second) == (5.0, 500.0)
    pace.add(30, 600)
    clock[0] += 3.0
    pace.mark()
    assert (pace.rows_per_second, pace.tokens_per_second) == (10.0, 200.0)


def test_a_restart_leaves_out_what_has_passed(clock: list[float]) -> None:
    pace = Pace()
    clock[0] += 50.0
    pace.restart()
    pace.add(10, 10)
    clock[0] += 1.0
    pace.mark()
    assert pace.rows_per_second == 10.0


def test_processes_multiply_the_rate(clock: list[float]) -> None:
    pace = Pace(num_processes=4)
    pace.add(10, 10)
    clock[0] += 1.0
    pace.mark()
    assert pace.rows_per_second == 40.0


def test_earlier_sittings_count_in(clock: list[float]) -> None:
    pace = Pace(seconds_before=7.0)
    clock[0] += 2.0
    assert pace.seconds == 9.0


def test_the_time_left_is_that_of_the_steps_left(clock: list[float]) -> None:
    pace = Pace()
    assert pace.estimate(10) is None
    pace.add(1, 1)
    pace.add(1, 1)
    clock[0] += 4.0
    assert pace.estimate(10) == 20.0
