from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from navi.cli import app
from navi.cli.demo import STEPS, gaps, learning, segments, verb


@pytest.fixture(scope="module", autouse=True)
def small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "FEWEST_STEPS", 2)
        patch.setattr(learning, "MOST_STEPS", 2)
        patch.setattr(learning, "TRIAL_STEPS", 1)
        patch.setattr(learning, "ROWS_PER_BATCH", 4)
        patch.setattr(learning, "TRAINING", {"epochs": 100, "validate_rows": 4, "curves": False, "workers": 0})
        patch.setattr(gaps, "MOST_ROWS", 12)
        patch.setattr(learning, "ROWS_PER_COLUMN", 4)
        patch.setattr(segments, "ROWS_PER_TABLE", 4)
        yield


@pytest.fixture(scope="module")
def small(tiny_backbone):
    """What makes the demo small."""
    return ("--catalogues", "3", "--rows", "60", "--backbone", str(tiny_backbone))


@pytest.fixture(scope="module")
def first_demo(small, tmp_path_factory):
    """A demo's folder, and what it said."""
    folder = tmp_path_factory.mktemp("demo") / "tour"
    result = CliRunner().invoke(app, ["demo", "--folder", str(folder), *small], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def test_the_demo_goes_the_whole_way_and_keeps_what_it_made(first_demo):
    folder, told = first_demo
    for number, step in enumerate(STEPS, start=1):
        assert f"{number}. {step.title}" in told
    made = {path.name for path in folder.iterdir()}
    assert {"tables", "corpus", "model", "truth.json", "page.json", "report.html"} <= made


def test_the_demo_ends_with_scores_and_what_to_type_next(first_demo):
    _, told = first_demo
    end = told.split("What came out")[1]
    assert "headers, attribute hidden (blind)" in end
    for guess in ("most frequent header", "equal headers", "most frequent meaning", "equal titles"):
        assert guess in end
    assert "navi prepare FOLDER -o corpus" in end


def test_the_demo_may_be_repeated_in_its_folder_and_speak_json(first_demo, small, navi_command):
    folder, _ = first_demo
    scores = json.loads(navi_command("demo", "--folder", folder, *small, "--json").stdout)["scores"]
    assert [set(score) for score in scores] == [{"task", "guess_name", "guess", "navi"}] * len(scores)
    assert scores


def test_the_demo_leaves_a_strangers_folder_alone(tmp_path, navi_command):
    (tmp_path / "mine.csv").write_text("a\n1\n")
    result = navi_command("demo", "--folder", tmp_path, code=2)
    assert "holds files that no demo put there" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_the_demo_does_not_take_a_file_for_its_folder(tmp_path, navi_command):
    (tmp_path / "mine.csv").write_text("a\n1\n")
    assert "is a file" in navi_command("demo", "--folder", tmp_path / "mine.csv", code=2).stderr


@pytest.mark.parametrize("found", [None, "/usr/bin/navi"])
def test_who_has_no_navi_on_the_path_is_told_where_it_is(found, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").touch()
    monkeypatch.setattr(verb, "which", lambda name: found)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    told = [f"`navi` is not on your path yet:  source {tmp_path}/bin/activate"]
    assert verb.tell_where_navi_is() == ([] if found else told)
