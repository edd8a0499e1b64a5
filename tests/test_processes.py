"""Several processes train one model: the steps and losses of one, checkpoints for any number, no lonely rank."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from navi.corpus import Corpus
from navi.errors import ConfigError
from navi.training import PretrainConfig, TrainingResult, pretrain
from navi.training.processes import Processes

RANK = """
import os, pathlib, sys
os.environ |= environment
from navi.errors import NaviError
from navi.training import pretrain
try:
    pretrain(corpus, out, config, **options)
except NaviError as error:
    pathlib.Path(f"{out}.rank{environment['RANK']}").write_text(str(error))
    sys.exit(getattr(error, "exit_code", 1))
"""
"""What each process of a run does."""
Start = Callable[..., list[multiprocessing.process.BaseProcess]]


@pytest.fixture(scope="module")
def start_ranks(forkserver) -> Start:
    """A starter of runs of several processes."""

    def start(count: int, corpus: Corpus, out: Path, config: PretrainConfig, **options: Any) -> list[Any]:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes = []
        for rank in range(count):
            environment = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
            given = {"environment": environment, "corpus": corpus.path, "out": out, "config": config}
            processes.append(forkserver.Process(target=exec, args=(RANK, {**given, "options": options})))
            processes[-1].start()
        return processes

    return start


def join(processes: list[Any], seconds: float = 120.0) -> list[int]:
    """Return the exit codes of processes that end in time."""
    end = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.1, end - time.monotonic()))
    return [process.exitcode for process in processes]


def wait_for_step(out: Path, step: int, processes: list[Any]) -> None:
    end = time.monotonic() + 120
    while not any(int(path.name[5:]) >= step for path in (out / "checkpoints").glob("step-*") if path.suffix == ""):
        assert all(process.is_alive() for process in processes), "a process ended before it was stopped"
        assert time.monotonic() < end
        time.sleep(0.01)


def read_lines(out: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "train"]


@pytest.fixture(scope="module")
def config(make_config: Callable[..., PretrainConfig]) -> PretrainConfig:
    """Settings under which nothing depends on who takes which row: without dropout."""
    training = {"epochs": 2, "log_every": 1, "checkpoint_steps": 3, "validate_rows": 8}
    return make_config(model={"dropout": 0.0}, views={"columns_per_step": 7, "rows_between": 16}, training=training)


@pytest.fixture(scope="module")
def whole(toy_corpus: Corpus, config: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by one process; do not change it."""
    return pretrain(toy_corpus, tmp_path_factory.mktemp("run") / "whole", config).path


def assert_same_run(one: Path, other: Path) -> None:
    """Sums in another order differ in their last digits, and training makes more of that with every step."""
    first, second = read_lines(one), read_lines(other)
    assert [line["step"] for line in first] == [line["step"] for line in second]
    for name in ("loss", "masked", "low", "high", "bag_of_words", "views", "keeping", "norm"):
        found = [line[name] for line in second]
        assert found == pytest.approx([line[name] for line in first], rel=2e-3, abs=1e-4), name
    weights = load_file(other / "model.safetensors")
    for name, tensor in load_file(one / "model.safetensors").items():
        assert_close(weights[name], tensor, rtol=1e-2, atol=2e-3)


def test_two_processes_have_the_losses_of_one(start_ranks, toy_corpus, config, whole, tmp_path):
    assert join(start_ranks(2, toy_corpus, tmp_path / "two", config)) == [0, 0]
    assert_same_run(whole, tmp_path / "two")
    first, second = (TrainingResult.load(folder).validation[-1] for folder in (whole, tmp_path / "two"))
    assert first.pop("kind") == second.pop("kind")
    assert second == pytest.approx(first, abs=0.02)


def test_a_killed_process_stops_the_others_and_any_number_goes_on(start_ranks, toy_corpus, config, whole, tmp_path):
    out = tmp_path / "killed"
    processes = start_ranks(2, toy_corpus, out, config)
    wait_for_step(out, 3, processes)
    processes[1].kill()
    assert join(processes[:1], 20) == [1]
    said = Path(f"{out}.rank0").read_text()
    assert said.startswith("Process 0 of 2 cannot reach the others: one of them ended")
    assert "--resume" in said
    processes = start_ranks(3, toy_corpus, out, config, resume=True)
    wait_for_step(out, 9, processes)
    for process in processes:  # as torchrun does
        os.kill(process.pid, signal.SIGTERM)
    assert join(processes, 20) == [128 + signal.SIGTERM] * 3
    assert Path(f"{out}.rank0").read_text().startswith("Stopped by SIGTERM after step ")
    pretrain(toy_corpus, out, config, resume=True)
    assert_same_run(whole, out)


def test_minutes_are_those_of_the_first_process(start_ranks, toy_corpus, config, tmp_path):
    limited = PretrainConfig.from_dict({"training": {"epochs": 100_000, "minutes": 0.02}}, base=config)
    assert join(start_ranks(2, toy_corpus, tmp_path / "two", limited)) == [0, 0]
    assert any("0.02 minutes will see" in note for note in TrainingResult.load(tmp_path / "two").notes)


@pytest.mark.parametrize(("name", "value"), [("RANK", "one"), ("WORLD_SIZE", "0")])
def test_an_environment_that_says_nonsense_is_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"The environment says {name}={value}; expected a number"):
        Processes.join()


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_launchers_need_nothing_else(toy_tables, tmp_path, launcher):
    commands = {
        "torchrun": ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"),
        "accelerate": ("-m", "accelerate.commands.launch", "--num_processes=2", "--multi_gpu"),
    }
    if launcher == "accelerate":
        pytest.importorskip("accelerate")
    command = (sys.executable, *commands[launcher], "-m", "navi", "pretrain", str(toy_tables), "-o", "model")
    flags = ("--max-steps", "2", "--rows-per-batch", "8")
    done = subprocess.run([*command, *flags], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("Model model: 2 steps") == 1
    assert [line["step"] for line in read_lines(tmp_path / "model")] == [2]
