"""`navi demo`: the whole way on tables it makes itself, and the page of what came out, cell by cell."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from navi.cli import app, demo
from navi.cli.console import Screen
from navi.cli.demo import Demo
from navi.report import load_page
from navi.simulator import Truth
from navi.tables import read_table
from navi.training import PRESETS
from navi.verbs.column_groups import ColumnCluster, ColumnRef

TITLES = [
    "How well it went",
    "Columns that mean the same, by the model that comes along",
    "Columns that mean the same, after learning",
    *("Unnamed columns, named", "Empty cells, filled", "The same film in two catalogues", "Your own tables"),
]


@pytest.fixture(scope="module")
def small(tiny_backbone):
    """What makes the demo small."""
    laptop = {
        "sampler": {"rows_per_batch": 4, "tables_per_batch": 3},
        "training": {"max_steps": 2, "validate_rows": 4, "workers": 0},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "laptop", laptop)
        patch.setattr(demo, "ROWS_FILLED", 12)
        patch.setattr(demo, "BASE_MODEL", str(tiny_backbone))
        patch.setattr(demo, "WORLD", {"num_catalogues": 4, "num_rows": 60})
        yield


@pytest.fixture(scope="module")
def first_demo(small, tmp_path_factory):
    """A demo's folder, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "tour"
    result = CliRunner().invoke(app, ["demo", "--folder", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def test_the_demo_goes_the_whole_way_and_keeps_what_it_made(first_demo):
    folder, printed = first_demo
    for number, title in enumerate(demo.STEPS, start=1):
        assert f"{number}. {title}" in printed
    assert [section.title for section in load_page(folder).sections] == TITLES
    made = {path.name for path in folder.iterdir()}
    assert {"tables", "corpus", "model", "truth.json", "page.json", "report.html"} <= made


def test_the_demo_ends_with_scores_and_what_to_type_next(first_demo):
    folder, printed = first_demo
    end = printed.split("What came out")[1]
    assert "headers, attribute hidden (blind)" in end
    for guess in ("most frequent header", "equal headers", "most frequent meaning", "equal titles"):
        assert guess in end
    assert "navi pretrain FOLDER -o model" in end
    assert f"navi match --model {folder / 'model'}" in end.replace("\n", "")


@pytest.mark.long
def test_the_demo_may_be_repeated_in_its_folder_and_speak_json(first_demo, small, navi_command):
    scores = json.loads(navi_command("demo", "--folder", first_demo[0], "--json").stdout)["scores"]
    assert [set(score) for score in scores] == [{"task", "guess_name", "guess", "navi"}] * len(scores)
    assert scores


@pytest.mark.parametrize(("place", "message"), [(".", "holds files that no demo put there"), ("mine.csv", "is a file")])
def test_the_demo_leaves_a_strangers_folder_alone(place, message, tmp_path, navi_command):
    (tmp_path / "mine.csv").write_text("a\n1\n")
    assert message in navi_command("demo", "--folder", tmp_path / place, code=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


# Each question, with a model that gives known answers


@pytest.fixture
def tour(tmp_path, monkeypatch):
    """Three small catalogues, `c` kept out of training, and a model that each test gives its answers."""
    (tmp_path / "a.csv").write_text("film,year\nHeat,1995\n,1979\nALIEN,1979\n")
    (tmp_path / "b.jsonl").write_text('{"name": "Alien"}\n{"name": "Seven"}\n')
    (tmp_path / "c.csv").write_text("title,mpaa\nAlien,R\nAlien,R\nHeat,PG\n")
    made = Demo(folder=tmp_path, screen=Screen())
    made.tables = {path.stem: read_table(path) for path in sorted(tmp_path.iterdir())}
    made.truth = Truth(
        concepts={("a", "film"): "title", ("a", "year"): "release_year", ("b", "name"): "title"}
        | {("c", "title"): "title", ("c", "mpaa"): "certificate"},
        gaps={("a", 1, "film"): "The  Alien"},
        films={"a": [5, 6, 7], "b": [7, 4], "c": [7, 6, 5]},
        first_place={"a": 2, "b": 1, "c": 2},
    )
    made.model = SimpleNamespace()
    monkeypatch.setattr(Demo, "unseen_tables", ["c"])
    return made


def read_section(tour):
    """The cells of the last section's table, row after row, by what stands above them."""
    table = tour.sections[-1].items[0]
    return [dict(zip([c.name for c in table.described_columns], row, strict=True)) for row in table.rows]


def test_matched_columns_are_shown_with_what_they_mean_and_how_many_agree(tour, capsys):
    columns = tuple(ColumnRef(table=t, header=h) for t, h in (("a", "film"), ("b", "name"), ("c", "mpaa")))
    clusters = (ColumnCluster(name="film", columns=columns, score=0.9),)
    tour.model.match = lambda tables: SimpleNamespace(clusters=clusters)
    demo.match_columns(tour)
    found = {"name": "film", "columns": "film (a), name (b), mpaa (c)", "probability": 0.9}
    assert read_section(tour) == [found | {"meaning": "title", "agree": "2 of 3"}]
    assert "film (a), name (b), mpaa (c)" in capsys.readouterr().out
    assert (tour.scores[0].navi, tour.scores[0].guess) == (0.5, 0.0)


def test_fills_stand_beside_what_their_own_row_held(tour):
    cells = [
        {"row": 2, "column": "film", "value": "the alien", "probability": 0.9, "reason": "filled"},
        {"row": 3, "column": "film", "value": "Seven", "probability": 0.7, "reason": "filled"},
        {"row": 2, "column": "year", "value": None, "probability": 0.1, "reason": "below confidence"},
    ]
    answer = SimpleNamespace(cells=pa.Table.from_pylist(cells), num_filled=2)
    tour.model.impute = lambda frame, **settings: answer
    demo.fill_gaps(tour)
    expected = {"column": "film", "filled with": "the alien", "truth": "The  Alien", "right": True, "probability": 0.9}
    assert read_section(tour) == [expected]
    assert (tour.scores[0].navi, tour.scores[0].guess) == (1.0, 0.0)


def test_paired_rows_stand_beside_each_other_and_are_judged_by_their_films(tour):
    numbers = {"left_row": [4, 2], "right_row": [1, 2], "probability": [0.875, 0.5]}
    answer = SimpleNamespace(**{name: np.array(each) for name, each in numbers.items()})
    tour.model.link = lambda frames, **settings: answer
    tour.truth.films["c"] = [1]
    demo.find_same_films(tour)
    assert read_section(tour) == [
        {"a": "film: ALIEN, year: 1979", "b": "name: Alien", "right": True, "probability": 0.875},
        {"a": "film: Heat, year: 1995", "b": "name: Seven", "right": False, "probability": 0.5},
    ]
    assert tour.scores[0].navi == pytest.approx(2 / 3)
    assert tour.scores[0].guess == 1.0
