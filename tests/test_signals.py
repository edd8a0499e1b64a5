"""Every stage of `navi pretrain` answers SIGTERM and Ctrl-C within seconds, in one line that says how to go on."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from navi.training.processes import Stopped, stop_on_signals

SECONDS = 5.0
"""How long an answer may take, on a processor of its own."""
STAGES = {
    "making the corpus": ("navi.corpus.encode.RowEncoder.encode_chunks", "before the first step"),
    "reading columns": ("navi.training.trainer.StepViews.__init__", "before the first step"),
    "measuring": ("navi.training.metrics.Validation.__call__", "after step 0 of 2"),
    "a step": ("navi.training.step.Stepper.accumulate", "after step 0 of 2"),
    "writing": ("navi.training.export.survey_columns", "after step 2 of 2"),
}
"""A function of each stage, and what is said where a signal comes in it."""


def run_command(arguments: list[str], endless: str, errors) -> None:  # type: ignore[no-untyped-def]
    """Run `navi` in this process, with a function that does its work over and over."""
    import importlib
    import os
    import signal
    import sys

    from navi.cli.app import main

    *home, name = endless.split(".")
    try:
        owner = importlib.import_module(".".join(home))
    except ImportError:
        owner = getattr(importlib.import_module(".".join(home[:-1])), home[-1])
    work = getattr(owner, name)

    def repeat(*given, **named):  # type: ignore[no-untyped-def]
        errors.with_suffix(".ready").touch()
        while True:
            work(*given, **named)

    setattr(owner, name, repeat)
    with errors.open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    # A shell may have started the tests with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["navi", *arguments]
    main()


@pytest.fixture(scope="module")
def start_command(forkserver) -> Callable[..., multiprocessing.process.BaseProcess]:
    """A starter of `navi` in a process of its own."""

    def start(*arguments: object, endless: str, errors: Path) -> multiprocessing.process.BaseProcess:
        # The other process does not know this module.
        given = {"given": (list(map(str, arguments)), endless, errors)}
        process = forkserver.Process(
            target=exec, args=(f"{inspect.getsource(run_command)}\nrun_command(*given)", given)
        )
        process.start()
        return process

    return start


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_answers_a_signal_and_says_how_to_go_on(
    start_command, navi_command, toy_tables, toy_corpus, tmp_path, stage
):
    endless, said = STAGES[stage]
    number = signal.SIGINT if stage == "a step" else signal.SIGTERM
    settings = tmp_path / "navi.toml"
    settings.write_text("[training]\nmax_steps = 2\nworkers = 0\nvalidate_rows = 8\n[views]\ncolumns_per_step = 4\n")
    errors, source = tmp_path / "errors", toy_tables if stage == "making the corpus" else toy_corpus.path
    command = ("pretrain", source, "-o", tmp_path / "model", "--config", settings)
    process = start_command(*command, endless=endless, errors=errors)
    end = time.monotonic() + 120
    while not errors.with_suffix(".ready").exists():
        assert process.is_alive(), errors.read_text() if errors.exists() else "it did not start"
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(0.2)
    watched = psutil.Process(process.pid)
    os.kill(process.pid, number)
    before = used = sum(watched.cpu_times()[:2])
    while process.is_alive() and used - before < SECONDS and time.monotonic() < end:
        with suppress(psutil.Error):  # it may end meanwhile
            used = sum(watched.cpu_times()[:2])
        process.join(0.05)
    assert process.exitcode == 128 + number
    (line,) = (line for line in errors.read_text().splitlines() if line.startswith("navi: "))
    assert f"Stopped by {number.name}" in line
    assert said in line
    assert "--resume" in line
    if stage != "making the corpus":
        assert "2 steps" in navi_command(*command, "--resume").stdout


def test_what_must_not_be_cut_short_is_done_first_but_for_a_second_ctrl_c():
    # A shell may have started the tests with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stop_on_signals() as signals:
            with signals.hold():
                os.kill(os.getpid(), signal.SIGINT)
                signals.check()
            assert signals.came == signal.SIGINT
            with pytest.raises(Stopped, match="SIGINT"):
                signals.check()
            with signals.hold(), pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
