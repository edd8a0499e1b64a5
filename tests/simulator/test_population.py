"""Population: people and studios by number."""

import numpy as np
import pytest

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.population import ROLES, Population


@pytest.fixture(scope="module")
def population():
    return Population(Draws(0), 3000)


def test_a_director_is_the_same_whoever_is_asked_for_beside(population):
    start = population.person_start_CR[4, 0]
    both = population.directors(np.array([start, start + 1]))
    alone = population.directors(np.array([start + 1]))
    assert (both.birth_year[1], both.studio[1]) == (alone.birth_year[0], alone.studio[0])


@pytest.mark.parametrize("role", ROLES)
def test_a_person_picked_in_a_country_is_of_that_country(population, role):
    country = np.arange(len(COUNTRIES)).repeat(2)
    chance = np.tile([0.0, 0.999999], len(COUNTRIES))
    assert np.array_equal(population.country_of_person(population.person_in(country, role, chance)), country)


def test_a_director_works_at_home_within_a_lifetime(population):
    country = np.arange(len(COUNTRIES))
    directors = population.directors(population.person_in(country, "director", np.full(len(country), 0.5)))
    assert np.array_equal(population.country_of_studio(directors.studio), country)
    assert np.all(directors.birth_year + 24 <= directors.first_year)
    assert np.all(directors.first_year < directors.last_year)


def test_a_studio_speaks_a_language_of_its_country(population):
    studios = np.arange(population.studios_C.sum())
    spoken = population.language_of_studio(studios).tolist()
    for country, language in zip(population.country_of_studio(studios).tolist(), spoken, strict=True):
        assert language in (COUNTRIES[country].language, COUNTRIES[country].second_language)


def test_actors_are_typed_by_genre(population):
    index = np.arange(2000)
    genre = np.full_like(index, 7)
    actors = population.actor_in("lead", index, np.zeros_like(index), genre, np.full_like(index, 2000))
    of_genre = (actors - population.person_start_CR[0, 1]) % 12 == 7
    assert 0.6 < of_genre.mean() < 0.85


def test_the_population_grows_with_the_films():
    small, large = Population(Draws(0), 3000), Population(Draws(0), 300_000)
    assert large.people_CR.sum() > 50 * small.people_CR.sum()
    assert 3 * small.studios_C.sum() < large.studios_C.sum() < 20 * small.studios_C.sum()
