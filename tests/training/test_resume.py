"""A run killed at any moment and resumed ends as one that was never interrupted."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from navi.corpus import Corpus
from navi.training import PretrainConfig, StepReport, TrainingInterrupted, pretrain
from navi.training.checkpoint import FOLDER, list_checkpoints
from navi.training.metrics import TIMINGS

MakeConfig = Callable[..., PretrainConfig]


@pytest.fixture(scope="module")
def start_process() -> Callable[..., multiprocessing.process.BaseProcess]:
    """A starter of runs in processes of their own, forked from one that has the imports done but no threads begun."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["navi.training", "navi.corpus", "accelerate"])
    os.environ["OMP_NUM_THREADS"] = "1"

    def start(corpus: Corpus, out: Path, config: PretrainConfig, **options: object):
        process = context.Process(target=pretrain, args=(corpus.path, out, config), kwargs=options)
        process.start()
        return process

    return start


def wait_for_step(out: Path, step: int, process, seconds: float = 120.0) -> None:
    """Wait until a checkpoint of this step or a later one is there."""
    end = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < end:
        done = list_checkpoints(out / FOLDER)
        if done and int(done[-1].name.removeprefix("step-")) >= step:
            return
        time.sleep(0.002)
    raise AssertionError(f"The run ended or stood still before step {step}.")


def run_whole(start, corpus: Corpus, out: Path, config: PretrainConfig) -> None:
    process = start(corpus, out, config)
    process.join(120)
    assert process.exitcode == 0


def run_with_kills(start, corpus: Corpus, out: Path, config: PretrainConfig, kills: list[tuple[int, float]]) -> None:
    """Kill a run each time it has come to a step and a moment longer; then let it end."""
    for step, moment in kills:
        process = start(corpus, out, config, resume=True)
        wait_for_step(out, step, process)
        time.sleep(moment)
        assert process.is_alive(), "the run ended before it could be killed"
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    process = start(corpus, out, config, resume=True)
    process.join(120)
    assert process.exitcode == 0


def read_lines(folder: Path) -> list[dict[str, object]]:
    """Return the lines of metrics.jsonl without what depends on the clock."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{key: entry for key, entry in line.items() if key not in TIMINGS} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    first, second = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert read_lines(one) == read_lines(other)
    assert (one / "samples.txt").read_text() == (other / "samples.txt").read_text()


def test_a_run_killed_twice_and_resumed_has_the_weights_of_one_never_interrupted(
    start_process, toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path
) -> None:
    config = make_config(training={"epochs": 3, "checkpoint_steps": 2, "workers": 2, "log_every": 3})
    run_whole(start_process, toy_corpus, tmp_path / "whole", config)
    run_with_kills(start_process, toy_corpus, tmp_path / "killed", config, [(4, 0.03), (14, 0.0)])
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_leaves_and_the_run_can_be_resumed(
    toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, number: signal.Signals
) -> None:
    def send(report: StepReport) -> None:
        if report.step == 5:
            os.kill(os.getpid(), number)

    config, before = make_config(), signal.getsignal(number)
    with pytest.raises(TrainingInterrupted, match=rf"{number.name} after step 5 of 18.*resume") as caught:
        pretrain(toy_corpus, tmp_path / "stopped", config, progress=send)
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert [place.name for place in list_checkpoints(tmp_path / "stopped" / FOLDER)] == [
        "step-000000000",
        "step-000000005",
    ]
    pretrain(toy_corpus, tmp_path / "stopped", config, resume=True)
    pretrain(toy_corpus, tmp_path / "whole", config)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_at_random_moments_leave_no_trace(
    start_process, toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    training = {"epochs": 6, "checkpoint_steps": seed % 3 + 1, "workers": seed % 3, "log_every": 4, "seed": seed}
    config = make_config(training=training, sampler={"rows_per_batch": 12, "tables_per_batch": 3})
    run_whole(start_process, toy_corpus, tmp_path / "whole", config)
    kills = sorted((draw.randrange(60), draw.random() * 0.1) for _ in range(5))
    run_with_kills(start_process, toy_corpus, tmp_path / "killed", config, kills)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
