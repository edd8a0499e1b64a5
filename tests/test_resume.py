"""A run killed at any moment and resumed ends as one never interrupted; what is there is not lost by chance."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from navi import Navi
from navi.corpus import Corpus
from navi.errors import ConfigError, ModelError, TrainingError
from navi.training import PretrainConfig, StepReport, TrainingInterrupted, TrainingResult, pretrain

MakeConfig = Callable[..., PretrainConfig]
TIMINGS = ("seconds", "rows_per_second", "tokens_per_second")
"""The entries of a line of metrics that depend on the machine and not on the run."""


@pytest.fixture(scope="module")
def start_process(forkserver) -> Callable[..., multiprocessing.process.BaseProcess]:
    """A starter of runs in processes of their own."""

    def start(corpus: Corpus, out: Path, config: PretrainConfig, **options: object):
        process = forkserver.Process(target=pretrain, args=(corpus.path, out, config), kwargs=options)
        process.start()
        return process

    return start


@pytest.fixture(scope="module")
def finished(toy_corpus: Corpus, make_config: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    """A finished run of one step; do not change it."""
    return pretrain(toy_corpus, tmp_path_factory.mktemp("run") / "model", make_config(training={"max_steps": 1}))


@pytest.fixture
def stopped(toy_corpus: Corpus, make_config: MakeConfig, tmp_path: Path) -> Path:
    """The directory of a run that stands at step 2 of 3, with a checkpoint of step 1 too; it was moved."""
    config = make_config(training={"max_steps": 3, "checkpoint_steps": 1})
    stop_after(2, toy_corpus, tmp_path / "begun", config)
    return Path(shutil.move(tmp_path / "begun", tmp_path / "stopped"))


def list_steps(out: Path) -> list[int]:
    """Return the steps of which there is a complete checkpoint: nothing else has such a name."""
    names = [path.name for path in (out / "checkpoints").glob("step-*") if (path / "state.json").is_file()]
    return sorted(int(name.removeprefix("step-")) for name in names if name.removeprefix("step-").isdecimal())


def stop_after(step: int, corpus: Corpus, out: Path, config: PretrainConfig, number: int = signal.SIGTERM) -> str:
    """Stop a run by a signal; return what it says."""

    def send(report: StepReport) -> None:
        if report.step == step:
            os.kill(os.getpid(), number)

    with pytest.raises(TrainingInterrupted) as caught:
        pretrain(corpus, out, config, progress=send)
    assert caught.value.exit_code == 128 + number
    return str(caught.value)


def wait_for_step(out: Path, step: int, process: Any, seconds: float = 120.0) -> None:
    """Wait until a checkpoint of this step or a later one is there."""
    end = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < end:
        if max(list_steps(out), default=-1) >= step:
            return
        time.sleep(0.002)
    raise AssertionError(f"The run ended or stood still before step {step}.")


def run_whole(start: Callable[..., Any], corpus: Corpus, out: Path, config: PretrainConfig, **options: object) -> None:
    process = start(corpus, out, config, **options)
    process.join(120)
    assert process.exitcode == 0


def run_with_kills(
    start: Callable[..., Any], corpus: Corpus, out: Path, config: PretrainConfig, kills: list[tuple[int, float]]
) -> None:
    """Kill a run each time it has come to a step and a moment longer; then let it end."""
    for step, moment in kills:
        process = start(corpus, out, config, resume=True)
        wait_for_step(out, step, process)
        time.sleep(moment)
        assert process.is_alive(), "the run ended before it could be killed"
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    run_whole(start, corpus, out, config, resume=True)


def read_lines(folder: Path) -> list[dict[str, object]]:
    """Return the lines of metrics.jsonl without what depends on the clock."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{key: entry for key, entry in line.items() if key not in TIMINGS} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    first, second = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert read_lines(one) == read_lines(other)


# Killed, stopped, resumed


def test_a_run_killed_at_several_points_has_the_weights_of_one_never_interrupted(
    start_process, toy_corpus, make_config, tmp_path
):
    config = make_config(training={"epochs": 2, "checkpoint_steps": 2, "workers": 2, "log_every": 3})
    run_whole(start_process, toy_corpus, tmp_path / "whole", config)
    run_with_kills(start_process, toy_corpus, tmp_path / "killed", config, [(2, 0.0), (4, 0.03), (12, 0.0)])
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_at_random_moments_leave_no_trace(start_process, toy_corpus, make_config, tmp_path, seed):
    draw = random.Random(seed)
    training = {"epochs": 6, "checkpoint_steps": seed % 3 + 1, "workers": seed % 3, "log_every": 4, "seed": seed}
    config = make_config(training=training, sampler={"rows_per_batch": 12, "tables_per_batch": 3})
    run_whole(start_process, toy_corpus, tmp_path / "whole", config)
    kills = sorted((draw.randrange(1, 60), draw.random() * 0.1) for _ in range(5))
    run_with_kills(start_process, toy_corpus, tmp_path / "killed", config, kills)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_leaves_and_the_run_can_be_resumed(
    toy_corpus, make_config, tmp_path, number
):
    config, before = make_config(), signal.getsignal(number)
    message = stop_after(5, toy_corpus, tmp_path / "stopped", config, number)
    assert message.startswith(f"Stopped by {number.name} after step 5 of 18")
    assert "--resume" in message
    assert signal.getsignal(number) is before
    assert list_steps(tmp_path / "stopped") == [5]
    result = pretrain(toy_corpus, tmp_path / "stopped", config, resume=True)
    assert result.notes == ["Going on after step 5 of 18."]
    assert result.train["views"] > 0
    pretrain(toy_corpus, tmp_path / "whole", config)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_outside_the_main_thread_leaves_signals_alone(toy_corpus, make_config, tmp_path):
    before, found = signal.getsignal(signal.SIGTERM), []
    options = {"progress": lambda _: found.append(signal.getsignal(signal.SIGTERM))}
    config = make_config(training={"max_steps": 2})
    thread = threading.Thread(target=pretrain, args=(toy_corpus, tmp_path, config), kwargs=options)
    thread.start()
    thread.join()
    assert found == [before, before]


def test_a_resumed_run_remembers_that_memory_was_short(toy_corpus, make_config, tmp_path, monkeypatch):
    from navi.model import NaviModel

    forward, calls = NaviModel.forward, []

    def limited(self: NaviModel, rows: Any, *attributes: Any, **options: Any) -> Any:
        if self.training:
            calls.append(rows.num_tokens)
            if rows.num_tokens > 400:
                raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, rows, *attributes, **options)

    monkeypatch.setattr(NaviModel, "forward", limited)
    config = make_config(training={"max_steps": 4})
    stop_after(2, toy_corpus, tmp_path, config)
    calls.clear()
    *shortages, last = pretrain(toy_corpus, tmp_path, config, resume=True).notes
    assert 0 < max(calls) <= 400
    assert shortages
    assert all(note.startswith("Memory ran out at ") for note in shortages)
    assert last == "Going on after step 2 of 4."


# What run a directory holds, and what may be done with it


def test_resuming_a_finished_run_returns_its_record_if_nothing_else_is_asked_for(finished, toy_corpus):
    before = (finished.path / "model.safetensors").stat().st_mtime_ns
    config = PretrainConfig.from_dict(finished.config)
    assert pretrain(toy_corpus, finished.path, config, resume=True) == finished
    other = PretrainConfig.from_dict({"training": {"seed": 5}}, config)
    with pytest.raises(TrainingError, match=r"training.seed was 0 and is now 5"):
        pretrain(toy_corpus, finished.path, other, resume=True)
    assert (finished.path / "model.safetensors").stat().st_mtime_ns == before


def test_what_is_there_is_replaced_only_when_asked(finished, stopped, toy_corpus, make_config, tmp_path):
    folder, config = shutil.copytree(finished.path, tmp_path / "model"), make_config(training={"max_steps": 2})
    with pytest.raises(ConfigError, match=r"holds a finished model. Resume it \(--resume\), overwrite it"):
        pretrain(toy_corpus, folder, PretrainConfig.from_dict(finished.config))
    with pytest.raises(ConfigError, match=r"holds a run that stands at step-000000002. Resume it"):
        pretrain(toy_corpus, stopped, config)
    for out in (folder, stopped):
        assert pretrain(toy_corpus, out, config, overwrite=True).num_steps == 2
        assert [line["step"] for line in read_lines(out) if line["kind"] == "train"] == [2]


@pytest.mark.parametrize("options", [{"resume": True}, {"overwrite": True}])
def test_a_run_that_was_killed_as_it_began_to_overwrite_can_go_on(
    start_process, finished, toy_corpus, make_config, tmp_path, options
):
    out, config = shutil.copytree(finished.path, tmp_path / "model"), make_config(training={"max_steps": 1})
    process = start_process(toy_corpus, out, config, overwrite=True)
    while (out / "pretrain.json").exists():
        assert process.is_alive()
        time.sleep(0.001)
    process.kill()
    process.join()
    assert list_steps(out) == []
    with pytest.raises(ModelError, match=r"holds a run that is not finished"):
        Navi.from_pretrained(out)
    assert pretrain(toy_corpus, out, config, **options).num_steps == 1
    assert_same_run(out, finished.path)
    assert not [path for path in out.iterdir() if path.name.startswith(".navi")]


def test_a_second_run_in_the_same_folder_is_told_of_the_first(toy_corpus, make_config, tmp_path):
    def begin_another(report: StepReport) -> None:
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(ConfigError, match=rf"is being written by process {os.getpid()} on|holds a run"):
                pretrain(toy_corpus, tmp_path / "model", make_config(training={"max_steps": 1}), **options)

    pretrain(toy_corpus, tmp_path / "model", make_config(training={"max_steps": 1}), progress=begin_another)


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}], ids=str)
def test_a_folder_with_files_of_others_is_refused(toy_corpus, make_config, tmp_path, options):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"files that are not a run's, README.md among them"):
        pretrain(toy_corpus, tmp_path, make_config(), **options)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_what_changes_the_result_cannot_change_on_the_way_and_all_else_may(stopped, toy_corpus, make_config):
    config = make_config(training={"max_steps": 3, "seed": 1, "learning_rate": 1.0})
    message = r"learning_rate was 0.0002 and is now 1.0, and 1 more settings differ"
    with pytest.raises(TrainingError, match=message):
        pretrain(toy_corpus, stopped, config, resume=True)
    harmless = {"workers": 1, "checkpoint_steps": 1, "keep_checkpoints": 5}
    config = make_config(training={"max_steps": 3, **harmless})
    with pytest.raises(TrainingError, match=r"Cannot resume from .*step-000000002: the corpus has changed"):
        pretrain(replace(toy_corpus, fingerprint="other"), stopped, config, resume=True)
    assert pretrain(toy_corpus, stopped, config, resume=True).num_steps == 3


# Checkpoints


@pytest.mark.parametrize(
    ("training", "expected"),
    [({"checkpoint_minutes": 1e-9}, [1, 2, 3]), ({"checkpoint_steps": 2}, [2]), ({}, [])],
    ids=str,
)
def test_checkpoints_come_by_steps_or_minutes_or_not_at_all(toy_corpus, make_config, tmp_path, training, expected):
    found: set[int] = set()
    config = make_config(training={"max_steps": 4, **training}, sampler={"rows_per_batch": 64})  # two epochs
    pretrain(toy_corpus, tmp_path, config, progress=lambda _: found.update(list_steps(tmp_path)))
    assert sorted(found) == expected


def test_the_newest_checkpoints_are_kept(toy_corpus, make_config, tmp_path):
    config = make_config(training={"checkpoint_steps": 1, "keep_checkpoints": 3})
    stop_after(7, toy_corpus, tmp_path, config)
    assert list_steps(tmp_path) == [5, 6, 7]
    half = tmp_path / "checkpoints" / "step-000000008"  # what is half-written is no checkpoint
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert pretrain(toy_corpus, tmp_path, config, resume=True).notes == ["Going on after step 7 of 18."]


def test_a_damaged_checkpoint_is_one_line_and_the_one_before_it_serves(stopped, toy_corpus, make_config):
    config, newest = make_config(training={"max_steps": 3}), stopped / "checkpoints" / "step-000000002"
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        whole = (newest / name).read_bytes()
        flipped = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
        for content in (flipped, b"{", b'{"state": {"steps": 1}, "identity": {}}'):
            (newest / name).write_bytes(content)
            with pytest.raises(TrainingError, match=r"step-000000002") as caught:
                pretrain(toy_corpus, stopped, config, resume=True)
            if content is flipped:
                assert "is not as it was written" in str(caught.value)
                assert "Delete it to go on from the one before" in str(caught.value)
        (newest / name).write_bytes(whole)
    (newest / "state.json").unlink()
    shutil.rmtree(newest)
    assert pretrain(toy_corpus, stopped, config, resume=True).notes == ["Going on after step 1 of 3."]


def test_a_run_that_died_before_its_first_checkpoint_is_no_hindrance(toy_corpus, make_config, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 99}\n')
    pretrain(toy_corpus, tmp_path, make_config(training={"max_steps": 2}))
    assert [line["step"] for line in read_lines(tmp_path)] == [0, 2, 2]
