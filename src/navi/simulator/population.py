"""The people and studios of a simulated world, each made from its number alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.genres import GENRE_PLACE, GENRES

# Shape suffixes: N people or studios, C countries, R roles.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROLES = ("director", "actor", "writer", "composer")
"""What a person does in films; everybody does one thing."""
LAST_YEAR = 2024
"""Year in which the world ends."""
SHARE_C = np.array([country.share for country in COUNTRIES])
"""(C,) weight of each country."""
GENRE_SHARES = tuple(genre.share for genre in GENRES)
"""Weight of each genre."""
COMPANIONS = np.array([[GENRE_PLACE[name] for name in genre.companions] for genre in GENRES])
"""The three genres that go with each, likeliest first."""
_LANGUAGE_C = np.array([country.language for country in COUNTRIES])
_SECOND_LANGUAGE_C = np.array([country.second_language for country in COUNTRIES])
_SECOND_SHARE_C = np.array([country.second_share for country in COUNTRIES])


@dataclass(frozen=True)
class Directors:
    """What is known of some directors; everything has shape (N,)."""

    country: Ints
    first_year: Ints
    last_year: Ints
    birth_year: Ints
    genre: Ints
    second_genre: Ints
    studio: Ints
    skill: Floats
    pace: Floats


def _split(total: int, least: int) -> Ints:
    """`total` shared out among the countries by weight, `least` at least to each."""
    parts: Ints = np.round(total * SHARE_C / SHARE_C.sum()).astype(np.int64)
    return np.maximum(least, parts)


def _starts(counts: Ints) -> Ints:
    """Where each run begins when runs of these lengths follow one another, row by row."""
    flat = counts.ravel()
    return (np.cumsum(flat) - flat).reshape(counts.shape)


class Population:
    """Everybody who makes films; people and studios are numbered country by country.

    Nothing is kept but counts, so a world of a million films costs no more memory than one of a hundred.
    """

    def __init__(self, draws: Draws, num_films: int) -> None:
        self.draws = draws
        sizes = {"director": num_films // 9, "actor": num_films // 5, "writer": num_films // 10}
        sizes["composer"] = num_films // 25
        least = {"director": 3, "actor": 2 * len(GENRES), "writer": 3, "composer": 2}
        self.people_CR = np.stack([_split(sizes[role], least[role]) for role in ROLES], axis=1)
        self.person_start_CR = _starts(self.people_CR)
        self.studios_C = _split(min(1200, round(num_films**0.55)), 2)
        self.studio_start_C = _starts(self.studios_C)

    def country_of_person(self, people: Ints) -> Ints:
        """Country of each person."""
        places: Ints = np.searchsorted(self.person_start_CR[:, 0], people, side="right")
        return places - 1

    def country_of_studio(self, studios: Ints) -> Ints:
        """Country of each studio."""
        places: Ints = np.searchsorted(self.studio_start_C, studios, side="right")
        return places - 1

    def language_of_studio(self, studios: Ints) -> Ints:
        """Language each studio works in."""
        country = self.country_of_studio(studios)
        second = self.draws.uniform("studio language", studios) < _SECOND_SHARE_C[country]
        return np.where(second, _SECOND_LANGUAGE_C[country], _LANGUAGE_C[country])

    def directors(self, people: Ints) -> Directors:
        """What is known of these directors."""
        draws, country = self.draws, self.country_of_person(people)
        first_year = 1932 + (86 * draws.uniform("first year", people) ** 0.6).astype(np.int64)
        span = 10 + draws.below("career", people, 26)
        genre = draws.choice("director genre", people, GENRE_SHARES)
        return Directors(
            country=country,
            first_year=first_year,
            last_year=np.minimum(first_year + span, LAST_YEAR),
            birth_year=first_year - 24 - draws.below("birth", people, 14),
            genre=genre,
            second_genre=COMPANIONS[genre, draws.below("director second", people, 2)],
            studio=self.studio_in(country, "home studio", people),
            skill=draws.normal("skill", people),
            pace=draws.normal("pace", people),
        )

    def person_in(self, country: Ints, role: str, chance: Floats) -> Ints:
        """The person of this country and role that a number in [0, 1) points at."""
        place = ROLES.index(role)
        within = (chance * self.people_CR[country, place]).astype(np.int64)
        people: Ints = self.person_start_CR[country, place] + within
        return people

    def studio_in(self, country: Ints, name: str, index: Ints) -> Ints:
        """A studio of this country; a few studios get most of the films."""
        within: Ints = (self.draws.uniform(name, index) ** 1.5 * self.studios_C[country]).astype(np.int64)
        return self.studio_start_C[country] + within

    def actor_in(self, name: str, index: Ints, country: Ints, genre: Ints, year: Ints) -> Ints:
        """An actor of this country who plays in this genre and was active in this year: the better of two tries."""
        start, count = self.person_start_CR[country, 1], self.people_CR[country, 1]
        found, fit = np.zeros_like(index), np.full(len(index), -1)
        for attempt in range(2):
            actor = self.person_in(country, "actor", self.draws.uniform(f"{name} try {attempt}", index) ** 1.3)
            typed = (actor - start) // len(GENRES) * len(GENRES) + genre
            is_typed = self.draws.uniform(f"{name} typed {attempt}", index) < 0.7
            actor = np.where(is_typed, start + np.minimum(typed, count - 1), actor)
            active = self._was_active(actor, year)
            found, fit = np.where(active > fit, actor, found), np.maximum(active, fit)
        return found

    def _was_active(self, actors: Ints, year: Ints) -> Ints:
        """1 for each actor whose career covers the year, else 0."""
        first_year = 1930 + (84 * self.draws.uniform("actor first year", actors) ** 0.6).astype(np.int64)
        return ((year >= first_year) & (year <= first_year + 35)).astype(np.int64)
