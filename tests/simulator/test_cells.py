"""Cells: facts about films, written a catalogue's way."""

from dataclasses import replace

import numpy as np
import pytest

from navi.simulator.cells import Page, flatten
from navi.simulator.draws import Draws
from navi.simulator.films import Cinema
from navi.simulator.phrases import Phrases
from navi.simulator.schema import MAX_FAMILY, Column, choose_schemas


@pytest.fixture(scope="module")
def page():
    cinema = Cinema(0, 500)
    schema = choose_schemas(cinema.draws, 3, 0.0)[0]
    number = np.arange(300)
    return Page(cinema.films(number), schema, Phrases(cinema), Draws(0), number)


def written(page, concept, *, shape="plain", keys=(), part=0, **formats):
    """The cells of a column in a catalogue with these formats."""
    schema = replace(page.schema, formats=replace(page.formats, **formats))
    column = Column(concept=concept, path=("x",), shape=shape, keys=keys, part=part)
    return Page(page.films, schema, page.phrases, page.draws, page.row).cells(column)


@pytest.mark.parametrize(
    ("cell", "leaves"),
    [
        (None, []),
        (7.0, [("x", "7.0")]),
        ("Drama", [("x", "Drama")]),
        (["Drama", "War"], [("x.0", "Drama"), ("x.1", "War")]),
        ([{"name": "Ada", "as": "Kit"}], [("x.0.name", "Ada"), ("x.0.as", "Kit")]),
    ],
)
def test_a_cell_flattens_to_its_leaves(cell, leaves):
    assert list(flatten("x", cell)) == leaves


def test_a_title_may_end_in_its_article(page):
    plain, moved = written(page, "title", title="plain"), written(page, "title", title="article last")
    changed = [(a, b) for a, b in zip(plain, moved, strict=True) if a != b]
    assert changed
    assert all(f"The {b.removesuffix(', The')}" == a for a, b in changed)


def test_a_title_may_carry_its_year(page):
    assert written(page, "title", title="with year")[0].endswith(f" ({page.films.year[0]})")


def test_a_cast_is_written_joined_listed_as_objects_or_in_parts(page):
    casts = page.phrases.casts(page.films)
    assert written(page, "actor", separator="|", person="plain") == ["|".join(cast) for cast in casts]
    assert written(page, "actor", shape="list", person="plain") == [cast[:MAX_FAMILY] for cast in casts]
    third = written(page, "actor", shape="part", part=2, person="plain")
    assert third == [cast[2] if len(cast) > 2 else None for cast in casts]
    objects = written(page, "actor", shape="objects", keys=("name", "role"), person="plain")
    assert [[member["name"] for member in cast] for cast in objects] == [cast[:MAX_FAMILY] for cast in casts]
    assert all(member["role"] for cast in objects for member in cast)


def test_a_genre_is_written_under_its_names(page):
    assert "Science Fiction" in written(page, "genre", genre="first")
    assert "Sci-Fi" in {name for names in written(page, "genre", genre="alias", shape="list") for name in names}
    assert all(text == text.lower() for text in written(page, "genre", genre="lower"))


@pytest.mark.parametrize("way", ["number", "prefixed", "padded", "hex"])
def test_ids_are_unique(page, way):
    ids = written(page, "id", id=way)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("concept", ["source", "title_type", "currency", "best_score"])
def test_constant_columns_hold_one_value(page, concept):
    assert len(set(written(page, concept))) == 1


def test_two_catalogues_measure_scores_alike_but_not_equally(page):
    here = np.array(written(page, "user_score", score="hundred"))
    other = replace(page.schema, name="elsewhere", formats=replace(page.formats, score="hundred"))
    there = np.array(
        Page(page.films, other, page.phrases, page.draws, page.row).cells(Column(concept="user_score", path=("x",)))
    )
    assert np.any(here != there)
    assert np.abs(here - there).max() <= 9


def test_awards_are_counted_in_words(page):
    awards = written(page, "awards")
    place = next(place for place, wins in enumerate(page.films.wins.tolist()) if wins == 1)
    assert awards[place].startswith("1 win & ")


def test_addresses_hold_no_blanks(page):
    assert not [url for url in written(page, "url") if " " in url]
