"""Phrases: names, titles, plots and tags."""

import re

import numpy as np
import pytest

from navi.simulator.countries import COUNTRIES
from navi.simulator.films import Cinema
from navi.simulator.genres import GENRES
from navi.simulator.languages import LANGUAGES
from navi.simulator.phrases import Phrases

NUM_FILMS = 3000


@pytest.fixture(scope="module")
def cinema():
    return Cinema(0, NUM_FILMS)


@pytest.fixture(scope="module")
def films(cinema):
    return cinema.films(np.arange(NUM_FILMS))


@pytest.fixture(scope="module")
def phrases(cinema):
    return Phrases(cinema)


@pytest.mark.parametrize("num_films", [1000, 120_000])
def test_no_two_people_have_the_same_name(num_films):
    cinema = Cinema(0, num_films)
    people = np.arange(cinema.population.people_CR.sum())
    assert len(set(Phrases(cinema).names(people))) == len(people)


def test_initials_tell_people_apart_when_names_run_out():
    cinema = Cinema(0, 120_000)
    last_of_english = cinema.population.person_start_CR[4:5, 0] - 1
    assert re.fullmatch(r"\w+( [A-Z]\.)+ \w+", Phrases(cinema).names(last_of_english)[0])
    assert re.fullmatch(r"\w+, \w+( [A-Z]\.)+", Phrases(cinema).names(last_of_english, surname_first=True)[0])


def test_surnames_come_first_on_request(phrases):
    people = np.arange(50)
    inverted = [name.split(", ") for name in phrases.names(people, surname_first=True)]
    assert [f"{given} {surname}" for surname, given in inverted] == phrases.names(people)


@pytest.mark.parametrize("num_films", [1000, 2_000_000])
def test_no_two_studios_have_the_same_name(num_films):
    cinema = Cinema(0, num_films)
    studios = np.arange(cinema.population.studios_C.sum())
    assert len(set(Phrases(cinema).studios(studios))) == len(studios)


def test_most_titles_are_unique_in_a_small_world(phrases, films):
    assert len(set(phrases.titles(films))) > 0.85 * NUM_FILMS


def test_a_later_instalment_begins_like_its_series(phrases, films):
    named = zip(phrases.titles(films), phrases.series(films), films.instalment.tolist(), strict=True)
    members = [(title, series, place) for title, series, place in named if place]
    assert members
    for title, series, place in members:
        assert title == series if place == 1 else title.startswith((f"{series} ", f"{series}:"))


def test_a_film_alone_has_no_series(phrases, films):
    series = phrases.series(films)
    assert [name is None for name in series] == (films.instalment == 0).tolist()


def test_english_films_keep_their_title_and_others_have_their_own(phrases, films):
    titles = phrases.titles(films)
    kept = [a == b for a, b in zip(titles, phrases.original_titles(films, titles), strict=True)]
    assert kept == (films.language == 0).tolist()


def test_a_plot_plays_where_the_film_was_shot_and_is_of_its_genre(phrases, films):
    for plot, city, genre in zip(phrases.plots(films), phrases.cities(films), films.genre.tolist(), strict=True):
        assert f" in {city}, " in plot
        assert plot.startswith(GENRES[genre].heroes)


def test_a_film_has_three_different_tags_of_its_genre(phrases, films):
    for tags, genre in zip(phrases.keywords(films), films.genre.tolist(), strict=True):
        assert len(set(tags)) == 3
        assert set(tags) <= set(GENRES[genre].keywords)


def test_a_cast_is_named_lead_first(phrases, films):
    casts = phrases.casts(films)
    assert [cast[0] for cast in casts] == phrases.names(films.cast[:, 0])
    assert [len(cast) for cast in casts] == (films.cast >= 0).sum(axis=1).tolist()


def test_people_are_named_in_the_language_of_their_country(cinema, phrases):
    people = cinema.population.person_start_CR[:, 0]
    for name, country in zip(phrases.names(people), COUNTRIES, strict=True):
        assert name.split()[0] in LANGUAGES[country.language].given


def test_every_distributor_has_a_name_of_its_own(phrases):
    names = phrases.distributors(np.arange(4 * len(COUNTRIES)))
    assert len(set(names)) == len(names)
