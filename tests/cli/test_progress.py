from __future__ import annotations

import io

import pytest
from rich.console import Console

from navi.cli import progress
from navi.cli.console import Screen
from navi.cli.progress import follow_preparing, follow_training, show_progress
from navi.corpus import ProgressEvent


@pytest.fixture
def told_at_once(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)


def report_reading(screen):
    with show_progress(screen) as meter:
        report = follow_preparing(meter)
        report(ProgressEvent(stage="read", done=1, total=4, rows=8192))
        report(ProgressEvent(stage="read", done=2, total=4, rows=12000))


@pytest.mark.usefixtures("told_at_once")
def test_without_a_terminal_progress_is_lines_on_stderr(capsys):
    report_reading(Screen())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[1].startswith("Reading tables: 2 of 4, 12,000 rows, ")
    assert err.endswith(" left\n")


def test_lines_come_now_and_then_and_not_for_each_report(capsys):
    report_reading(Screen())
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("told_at_once")
def test_quiet_shows_no_progress(capsys):
    report_reading(Screen(quiet=True))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar():
    screen = Screen()
    screen.notes = Console(file=io.StringIO(), force_terminal=True, width=120)
    report_reading(screen)
    drawn = screen.notes.file.getvalue()
    assert "Reading tables" in drawn
    assert "2/4" in drawn


@pytest.mark.usefixtures("told_at_once")
def test_training_tells_losses_rates_and_the_time_left(capsys):
    from navi.training import StepReport

    with show_progress(Screen()) as meter:
        meter.wait("Loading")
        follow_training(meter)(
            StepReport(
                step=10,
                num_steps=200,
                epoch=1,
                rows_per_second=16.25,
                tokens_per_second=1234.0,
                seconds_left=125.0,
                metrics={"loss": 3.5, "masked": 3.4, "low": None},
                note="Memory ran out.",
            )
        )
    assert capsys.readouterr().err.splitlines() == [
        "Loading …",
        "Memory ran out.",
        "Epoch 1: 10 of 200, loss 3.500, masked 3.400, low –, 16.2 rows/s, 1,234 tokens/s, 2 min 05 s left",
    ]


@pytest.mark.usefixtures("told_at_once")
def test_the_time_left_is_not_told_before_the_rate_is(capsys):
    from navi.training import StepReport

    unknown = {"rows_per_second": 0.0, "tokens_per_second": 0.0}
    first = StepReport(step=1, num_steps=200, epoch=1, seconds_left=2000.0, **unknown)
    with show_progress(Screen()) as meter:
        follow_training(meter)(first)
    assert capsys.readouterr().err == "Epoch 1: 1 of 200\n"
