"""Tests of drafts made by several processes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from navi.corpus import prepare, workers
from navi.corpus.workers import count_workers
from navi.errors import CorpusError
from navi.tables import find_sources

SCRIPT = """
import sys
from navi.corpus import PrepareConfig, prepare

print(prepare([sys.argv[1]], sys.argv[2], PrepareConfig(backbone=sys.argv[3], workers=2)).tables)
"""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("import os; os._exit(3)", "A worker ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", r"A worker was killed by signal 9 \(out of memory\?\)"),
        ("print('this is no pickle')", "A worker ended with exit code 0"),
    ],
)
def test_worker_that_dies_is_one_clear_error(films, config, tmp_path, monkeypatch, command, message):
    monkeypatch.setattr(workers, "_COMMAND", command)
    with pytest.raises(CorpusError, match=message):
        prepare([films], tmp_path / "out", replace(config, workers=2))
    assert [path.name for path in tmp_path.iterdir()] == ["films"]


def test_script_may_prepare_at_its_top_level(films, backbone, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(films), str(tmp_path / "out"), backbone]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("('amber', 'birch', 'cedar')\n", "")


def test_little_input_is_not_worth_a_process(films, config):
    sources = find_sources([films]).sources
    assert count_workers(sources, replace(config, workers=None)) == 1


def test_no_more_workers_than_sources(films, config):
    sources = find_sources([films]).sources
    assert count_workers(sources, replace(config, workers=8)) == 3
    assert count_workers(sources, replace(config, workers=2)) == 2
