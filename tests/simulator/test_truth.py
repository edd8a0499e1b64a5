"""Truth: concepts, gaps and films of catalogues."""

import pytest

from navi.errors import TableError
from navi.simulator import Truth, columns_by_concept


@pytest.fixture
def truth():
    return Truth(
        concepts={("a", "cast.0.name"): "actor", ("a", "title"): "title", ("b", "film"): "title"},
        gaps={("a", 0, "title"): "Zélie's Mask", ("b", 7, "film"): "118"},
        films={"a": [5, 9, 2], "b": [2, 4, 5]},
        first_place={"a": 1, "b": 2},
    )


def test_what_is_saved_is_loaded_equal(truth, tmp_path):
    truth.save(tmp_path / "truth.json")
    assert Truth.load(tmp_path / "truth.json") == truth


def test_a_file_that_is_no_truth_is_refused(tmp_path):
    (tmp_path / "truth.json").write_text('{"concepts": {}}')
    with pytest.raises(TableError, match=r"truth\.json as a truth: 'gaps'\. Expected what Truth\.save writes"):
        Truth.load(tmp_path / "truth.json")


def test_a_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "truth.json").write_text("title,year")
    with pytest.raises(TableError, match=r"Cannot read .* as a truth"):
        Truth.load(tmp_path / "truth.json")


def test_later_members_of_a_list_mean_what_the_first_does(truth):
    assert truth.concept_of("a", "cast.2.name") == "actor"


def test_an_unknown_header_has_no_concept(truth):
    assert truth.concept_of("b", "title") is None


def test_shared_rows_are_about_the_same_film(truth):
    assert truth.shared_rows("a", "b") == [(0, 2), (2, 0)]


def test_columns_are_grouped_by_concept(truth):
    assert columns_by_concept(truth) == {"actor": [("a", "cast.0.name")], "title": [("a", "title"), ("b", "film")]}
