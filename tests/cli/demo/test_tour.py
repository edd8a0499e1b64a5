from __future__ import annotations

import pytest

from navi.cli.console import Screen
from navi.cli.demo import Score, Tour
from navi.cli.demo.tour import find_file, measure_f1
from navi.errors import ConfigError


def test_f1_is_one_for_all_and_zero_for_none():
    assert measure_f1({1, 2}, {1, 2}) == 1.0
    assert measure_f1({1, 2}, {1, 3}) == 0.5
    assert measure_f1(set(), {1}) == 0.0
    assert measure_f1(set(), set()) == 0.0


def test_a_catalogue_is_found_by_its_name(tmp_path):
    for name in ("film.csv", "film_hub.jsonl.gz"):
        (tmp_path / name).touch()
    assert find_file(tmp_path, "film_hub").name == "film_hub.jsonl.gz"


def test_only_a_demos_own_folder_is_written_to(tmp_path):
    tour = Tour(folder=tmp_path / "tour", screen=Screen(quiet=True))
    tour.check_folder()
    tour.folder.mkdir()
    tour.check_folder()
    (tour.folder / "mine.csv").touch()
    with pytest.raises(ConfigError, match="holds files that no demo put there"):
        tour.check_folder()
    (tour.folder / "truth.json").touch()
    tour.check_folder()


def test_scores_stand_beside_what_a_guess_reaches(tmp_path, capsys):
    tour = Tour(folder=tmp_path, screen=Screen())
    tour.scores.append(Score(task="columns", guess_name="equal headers", guess=0.25, navi=0.875))
    tour.screen.answer(tour.list_scores())
    line = capsys.readouterr().out.splitlines()[-2]
    assert line.split() == ["columns", "87.5", "%", "25.0", "%", "equal", "headers"]
