"""The examples are run, in a minute each and less, with a tiny backbone."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NUMBERED = sorted(file.name for file in EXAMPLES.glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the examples keep what they make; later ones find what earlier ones left."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("name", NUMBERED)
def test_an_example_runs_and_says_what_came_out(name, folder, tiny_backbone, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NAVI_EXAMPLE_BACKBONE", str(tiny_backbone))
    monkeypatch.setenv("NAVI_EXAMPLE_STEPS", "6")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_examples_are_numbered_from_one_without_a_gap():
    assert [int(name[:2]) for name in NUMBERED] == list(range(1, len(NUMBERED) + 1))
    assert len(NUMBERED) >= 6
