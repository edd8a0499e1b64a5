from __future__ import annotations

import json

import pytest

from navi.cli.demo import STEPS, learning


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(learning, "FEWEST_STEPS", 2)
    monkeypatch.setattr(learning, "MOST_STEPS", 2)
    monkeypatch.setattr(learning, "TRIAL_STEPS", 1)
    monkeypatch.setattr(learning, "ROWS_PER_BATCH", 4)
    monkeypatch.setattr(learning, "TRAINING", {"epochs": 100, "validate_rows": 4, "curves": False, "workers": 0})


@pytest.fixture
def small(tiny_backbone):
    """What makes the demo small."""
    return ("--catalogues", 2, "--rows", 40, "--backbone", tiny_backbone)


def test_the_demo_goes_the_whole_way_and_scores_itself(tmp_path, small, navi_command):
    folder = tmp_path / "tour"
    told = navi_command("demo", "--folder", folder, *small).stdout
    for number, step in enumerate(STEPS, start=1):
        assert f"{number}. {step.title}" in told
    assert "What came out" in told
    assert "what the guess is" in told
    assert "navi prepare FOLDER -o corpus" in told
    assert {"tables", "corpus", "model", "truth.json"} <= {path.name for path in folder.iterdir()}


def test_the_demo_may_be_repeated_in_its_folder_and_speak_json(tmp_path, small, navi_command):
    folder = tmp_path / "tour"
    navi_command("demo", "--folder", folder, *small, "--quiet")
    scores = json.loads(navi_command("demo", "--folder", folder, *small, "--json").stdout)["scores"]
    assert [set(score) for score in scores] == [{"task", "guess_name", "guess", "navi"}] * len(scores)
    assert scores


def test_the_demo_leaves_a_strangers_folder_alone(tmp_path, navi_command):
    (tmp_path / "mine.csv").write_text("a\n1\n")
    result = navi_command("demo", "--folder", tmp_path, code=2)
    assert "holds files that no demo put there" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]
