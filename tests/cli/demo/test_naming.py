from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from navi.cli.console import Screen
from navi.cli.demo import Tour
from navi.cli.demo.naming import describe_column, guess_meaning, list_learned, list_meanings
from navi.simulator import Truth
from navi.tables import read_table
from navi.verbs.name import ColumnNames, NameCandidate


@pytest.fixture
def tour(tmp_path, monkeypatch):
    """A tour whose catalogue c was kept out of training."""
    made = Tour(folder=tmp_path, screen=Screen(quiet=True))
    made.truth = Truth(
        concepts={
            ("a", "film_title"): "title",
            ("a", "released"): "release_year",
            ("b", "Title"): "title",
            ("c", "name"): "title",
            ("c", "mpaa"): "certificate",
        }
    )
    monkeypatch.setattr(Tour, "unseen_tables", ["c"])
    return made


def test_only_what_training_tables_have_is_learned(tour):
    assert list_learned(tour) == {"title", "release_year"}


def test_the_guess_is_the_meaning_of_most_training_columns(tour):
    assert guess_meaning(tour) == "title"


def test_a_name_means_what_headers_of_its_words_mean(tour):
    assert list_meanings(tour, "film title") == {"title"}
    assert list_meanings(tour, "budget") == set()


@pytest.mark.parametrize(("proposed", "is_right"), [("title", True), ("released", False), ("budget", False)])
def test_a_name_is_right_if_it_means_the_same(proposed, is_right, tour):
    table = replace(read_table({"c": pa.table({"name": ["Alien", "Alien", None, "Heat"]})}), row_number=np.arange(4))
    candidate = NameCandidate(header=proposed, probability=0.5, source="known", like=None, evidence={})
    named = describe_column(tour, table, ColumnNames(column="name", candidates=(candidate,)))
    assert named.is_right is is_right
    assert named.values == ("Alien", "Heat")
