from __future__ import annotations

import pytest

from navi import report
from navi.cli.console import Screen
from navi.cli.demo import Score, Tour
from navi.cli.demo.writing import write_page
from navi.errors import MissingExtraError


@pytest.fixture
def tour(tmp_path):
    made = Tour(folder=tmp_path, screen=Screen())
    made.scores.append(Score(task="columns", guess_name="equal headers", guess=0.25, navi=0.875))
    return made


def test_the_page_has_the_scores(tour, capsys):
    write_page(tour)
    assert f"Open {tour.folder / 'report.html'} in a browser." in capsys.readouterr().out
    assert "equal headers" in (tour.folder / "report.html").read_text()


def test_without_the_extra_the_page_can_be_drawn_later(tour, capsys, monkeypatch):
    def lack(page, folder):
        raise MissingExtraError("Drawing", "report")

    monkeypatch.setattr(report, "write_report", lack)
    write_page(tour)
    told = capsys.readouterr().out
    assert "pip install 'navi-tables[report]'" in told
    assert f"navi report {tour.folder}" in told
    assert (tour.folder / "page.json").is_file()
