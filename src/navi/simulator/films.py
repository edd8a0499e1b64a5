"""The films of a simulated world, each made from its number alone, and the people and studios they depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.genres import GENRE_PLACE, GENRES

# Shape suffixes: N films (or people), C countries, K members of a cast.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROLES = ("director", "actor", "writer", "composer")
"""What a person does in films; everybody does one thing."""
CAST = 4
"""The most actors a film names."""
DISTRIBUTORS = 4
"""Distributors in each country."""
LAST_YEAR = 2024
"""Year in which the world ends."""
_BLOCK = 12
_SHARE_C = np.array([country.share for country in COUNTRIES])
_LANGUAGE_C = np.array([country.language for country in COUNTRIES])
_SECOND_LANGUAGE_C = np.array([country.second_language for country in COUNTRIES])
_SECOND_SHARE_C = np.array([country.second_share for country in COUNTRIES])
_CITIES_C = np.array([len(country.cities) for country in COUNTRIES])
_COMPANIONS = np.array([[GENRE_PLACE[name] for name in genre.companions] for genre in GENRES])
_CERTIFICATE_EDGES = np.array([np.cumsum(genre.certificates) / sum(genre.certificates) for genre in GENRES])
_GENRE_SHARE = [genre.share for genre in GENRES]
_RUNTIME = np.array([genre.runtime for genre in GENRES])
_COST = np.array([genre.cost for genre in GENRES])
_APPEAL = np.array([genre.appeal for genre in GENRES])
_SEASON = np.array([genre.season for genre in GENRES])


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


@dataclass(frozen=True)
class Films:
    """Some films, a column an array; people, studios, places and genres are numbers."""

    number: Ints
    """(N,) number of the film in its world."""
    root: Ints
    """(N,) number of the first film of its series, its own where it stands alone."""
    instalment: Ints
    """(N,) place in its series from 1; 0 for a film that stands alone."""
    director: Ints
    birth_year: Ints
    """(N,) of the director."""
    writer: Ints
    composer: Ints
    cast: Ints
    """(N, K) actors, lead first; -1 where there is none."""
    studio: Ints
    distributor: Ints
    country: Ints
    language: Ints
    city: Ints
    """(N,) place in the cities of the country."""
    genre: Ints
    second_genre: Ints
    """(N,) -1 where there is none."""
    year: Ints
    month: Ints
    day: Ints
    runtime: Ints
    certificate: Ints
    monochrome: NDArray[np.bool_]
    budget: Ints
    revenue: Ints
    score: Ints
    """(N,) tenths of a point, 10 to 95."""
    critic_score: Ints
    """(N,) of 100."""
    votes: Ints
    wins: Ints
    nominations: Ints

    def take(self, mask: NDArray[np.bool_]) -> Films:
        """The films where `mask` is true."""
        return Films(**{name: column[mask] for name, column in self.__dict__.items()})


def _split(total: int, least: int) -> Ints:
    """`total` shared out among the countries by weight, `least` at least to each."""
    return np.maximum(least, np.round(total * _SHARE_C / _SHARE_C.sum())).astype(np.int64)


def _starts(counts: Ints) -> Ints:
    """Where each run begins when runs of these lengths follow one another, row by row."""
    flat = counts.ravel()
    return (np.cumsum(flat) - flat).reshape(counts.shape)


class Cinema:
    """A world of films: `films(numbers)` makes any of them, alike whatever else was made before.

    Nothing is kept but counts, so a world of a million films costs no more memory than one of a hundred.
    """

    def __init__(self, seed: int, num_films: int) -> None:
        self.num_films = num_films
        self.draws = Draws(seed)
        sizes = {"director": num_films // 9, "actor": num_films // 5, "writer": num_films // 10}
        sizes["composer"] = num_films // 25
        least = {"director": 3, "actor": 2 * len(GENRES), "writer": 3, "composer": 2}
        self.people_CR = np.stack([_split(sizes[role], least[role]) for role in ROLES], axis=1)
        self.person_start_CR = _starts(self.people_CR)
        self.studios_C = _split(min(1200, round(num_films**0.55)), 2)
        self.studio_start_C = _starts(self.studios_C)

    @cached_property
    def _person_ends(self) -> Ints:
        return np.cumsum(self.people_CR.sum(axis=1))

    def country_of_person(self, people: Ints) -> Ints:
        """Country of each person."""
        return np.searchsorted(self._person_ends, people, side="right").astype(np.int64)

    def country_of_studio(self, studios: Ints) -> Ints:
        """Country of each studio."""
        return np.searchsorted(np.cumsum(self.studios_C), studios, side="right").astype(np.int64)

    def language_of_studio(self, studios: Ints) -> Ints:
        """Language each studio works in."""
        country = self.country_of_studio(studios)
        second = self.draws.uniform("studio language", studios) < _SECOND_SHARE_C[country]
        return np.where(second, _SECOND_LANGUAGE_C[country], _LANGUAGE_C[country])

    def directors(self, people: Ints) -> Directors:
        """What is known of these directors."""
        draws, country = self.draws, self.country_of_person(people)
        first_year = 1948 + (70 * np.sqrt(draws.uniform("first year", people))).astype(np.int64)
        span = 10 + draws.below("career", people, 26)
        genre = draws.choice("director genre", people, _GENRE_SHARE)
        return Directors(
            country=country,
            first_year=first_year,
            last_year=np.minimum(first_year + span, LAST_YEAR),
            birth_year=first_year - 24 - draws.below("birth", people, 14),
            genre=genre,
            second_genre=_COMPANIONS[genre, draws.below("director second", people, 2)],
            studio=self._studio_in(country, "home studio", people),
            skill=draws.normal("skill", people),
            pace=draws.normal("pace", people),
        )

    def _person_in(self, country: Ints, role: str, chance: Floats) -> Ints:
        """The person of this country and role that a number in [0, 1) points at."""
        place = ROLES.index(role)
        counts = self.people_CR[country, place]
        return self.person_start_CR[country, place] + (chance * counts).astype(np.int64)

    def _studio_in(self, country: Ints, name: str, index: Ints) -> Ints:
        """A studio of this country; a few studios get most of the films."""
        chance = self.draws.uniform(name, index) ** 1.5
        return self.studio_start_C[country] + (chance * self.studios_C[country]).astype(np.int64)

    def _series(self, number: Ints) -> tuple[Ints, Ints]:
        """Root and instalment: some runs of up to five numbers are one series."""
        first = number // _BLOCK * _BLOCK
        length = np.array([0, 2, 3, 3, 4, 5])[self.draws.below("series length", first, 6)]
        member = number - first < length
        return np.where(member, first, number), np.where(member, number - first + 1, 0)

    def _studio(self, root: Ints, directors: Directors) -> Ints:
        """Mostly the director's home studio, now and then another at home, seldom one abroad."""
        way = self.draws.uniform("studio way", root)
        abroad = self.draws.choice("abroad", root, _SHARE_C)
        country = np.where(way < 0.94, directors.country, abroad)
        return np.where(way < 0.82, directors.studio, self._studio_in(country, "studio", root))

    def _genres(self, root: Ints, studio: Ints, directors: Directors) -> tuple[Ints, Ints]:
        """First and second genre: the director's, else the studio's, else any."""
        way = self.draws.uniform("genre way", root)
        house = self.draws.choice("studio genre", studio, _GENRE_SHARE)
        free = self.draws.choice("free genre", root, _GENRE_SHARE)
        genre = np.select([way < 0.66, way < 0.84, way < 0.95], [directors.genre, directors.second_genre, house], free)
        rank = self.draws.choice("second genre", root, (0.5, 0.2, 0.1, 0.2))
        return genre, np.where(rank < 3, _COMPANIONS[genre, np.minimum(rank, 2)], -1)

    def _dates(self, number: Ints, root: Ints, instalment: Ints, genre: Ints, directors: Directors) -> tuple[Ints, ...]:
        draws = self.draws
        year = directors.first_year + draws.below("year", root, directors.last_year - directors.first_year + 1)
        year = np.minimum(year + np.maximum(instalment - 1, 0) * (2 + root % 2), LAST_YEAR)
        in_season = draws.uniform("in season", number) < 0.5
        month = np.where(in_season, _SEASON[genre], 1 + draws.below("month", number, 12))
        return year, month, 1 + draws.below("day", number, 28)

    def _actor(self, slot: int, root: Ints, country: Ints, genre: Ints, year: Ints) -> Ints:
        """An actor of the country who plays in this genre and was active: the best of three tries."""
        found = np.zeros_like(root)
        fit = np.full(len(root), -1)
        for attempt in range(3):
            name = f"actor {slot} {attempt}"
            actor = self._person_in(country, "actor", self.draws.uniform(name, root) ** 1.3)
            start = self.person_start_CR[country, 1]
            typed = start + np.minimum((actor - start) // len(GENRES) * len(GENRES) + genre, self.people_CR[country, 1] - 1)
            actor = np.where(self.draws.uniform(f"{name} typed", root) < 0.7, typed, actor)
            first_year = 1946 + (68 * np.sqrt(self.draws.uniform("actor first year", actor))).astype(np.int64)
            active = ((year >= first_year) & (year <= first_year + 35)).astype(np.int64)
            found, fit = np.where(active > fit, actor, found), np.maximum(active, fit)
        return found

    def _cast(self, number: Ints, root: Ints, director: Ints, directors: Directors, genre: Ints, year: Ints) -> Ints:
        """The director's standing company in the first two places more often than not, the rest by genre and time."""
        middle = (directors.first_year + directors.last_year) // 2
        cast = np.empty((len(number), CAST), dtype=np.int64)
        for slot in range(CAST):
            own = self._actor(slot, director, directors.country, directors.genre, middle)
            other = self._actor(slot + CAST, root if slot == 0 else number, directors.country, genre, year)
            loyal = self.draws.uniform(f"loyal {slot}", root if slot == 0 else number) < (0.6, 0.5, 0.2, 0.1)[slot]
            actor = np.where(loyal, own, other)
            repeated = (cast[:, :slot] == actor[:, None]).any(axis=1)
            absent = self.draws.uniform(f"absent {slot}", number) < (0.0, 0.0, 0.1, 0.4)[slot]
            cast[:, slot] = np.where(repeated | absent, -1, actor)
        return cast

    def _money(self, number: Ints, root: Ints, studio: Ints, genre: Ints, score: Floats, country: Ints) -> tuple[Ints, Ints]:
        """Budget, round as announced budgets are, and revenue, which follows budget and score."""
        draws = self.draws
        home = 0.5 + 3.0 * _SHARE_C[country]
        scale = draws.normal("studio scale", studio) * 0.5 + draws.normal("budget", root) * 0.35
        millions = 9.0 * _COST[genre] * home * np.exp(scale)
        step = np.where(millions >= 10, 1_000_000, 100_000)
        budget = np.maximum(np.round(millions * 1e6 / step), 1) * step
        growth = 0.55 * (score - 6.2) + 0.35 * draws.normal("revenue", number) + 0.7
        return budget.astype(np.int64), np.round(budget * np.exp(growth)).astype(np.int64)

    def _reception(self, number: Ints, genre: Ints, instalment: Ints, skill: Floats) -> tuple[Floats, Ints]:
        """User and critic score: a director's gift, the genre's appeal, and sequels that tire."""
        draws = self.draws
        score = 6.2 + _APPEAL[genre] + 0.8 * skill + 0.35 * draws.normal("score", number)
        score = np.clip(score - 0.25 * np.maximum(instalment - 1, 0), 1.0, 9.5)
        critic = np.clip(10.5 * score - 6 + 6 * draws.normal("critic", number), 4, 99)
        return score, np.round(critic).astype(np.int64)

    def films(self, number: Ints) -> Films:
        """The films of these numbers."""
        draws = self.draws
        root, instalment = self._series(number)
        home = draws.choice("home country", root, _SHARE_C)
        director = self._person_in(home, "director", draws.uniform("director", root) ** 1.4)
        directors = self.directors(director)
        studio = self._studio(root, directors)
        country = self.country_of_studio(studio)
        genre, second_genre = self._genres(root, studio, directors)
        year, month, day = self._dates(number, root, instalment, genre, directors)
        score, critic = self._reception(number, genre, instalment, directors.skill)
        budget, revenue = self._money(number, root, studio, genre, score, country)
        wins = np.maximum(0, np.round((score - 6.8) * 3 + draws.normal("wins", number))).astype(np.int64)
        certificate_chance = draws.uniform("certificate", root)[:, None]
        length = _RUNTIME[genre] + 8 * directors.pace + 5 * draws.normal("runtime", number)
        return Films(
            number=number,
            root=root,
            instalment=instalment,
            director=director,
            birth_year=directors.birth_year,
            writer=self._crew("writer", 0.55, root, director, directors),
            composer=self._crew("composer", 0.75, root, director, directors),
            cast=self._cast(number, root, director, directors, genre, year),
            studio=studio,
            distributor=self._distributor(root, studio, country),
            country=country,
            language=self.language_of_studio(studio),
            city=draws.below("city", root, _CITIES_C[country]),
            genre=genre,
            second_genre=second_genre,
            year=year,
            month=month,
            day=day,
            runtime=np.maximum(62, np.round(length)).astype(np.int64),
            certificate=(certificate_chance > _CERTIFICATE_EDGES[genre][:, :-1]).sum(axis=1),
            monochrome=year + 3 * draws.normal("monochrome", number) < 1966,
            budget=budget,
            revenue=revenue,
            score=np.round(score * 10).astype(np.int64),
            critic_score=critic,
            votes=np.round(revenue**0.75 / 40 * np.exp(0.3 * draws.normal("votes", number))).astype(np.int64) + 12,
            wins=wins,
            nominations=wins * 2 + draws.below("nominations", number, 4),
        )

    def _crew(self, role: str, loyalty: float, root: Ints, director: Ints, directors: Directors) -> Ints:
        """The director's usual writer or composer, or another of the country."""
        usual = self._person_in(directors.country, role, self.draws.uniform(f"usual {role}", director))
        other = self._person_in(directors.country, role, self.draws.uniform(f"other {role}", root))
        return np.where(self.draws.uniform(f"loyal {role}", root) < loyalty, usual, other)

    def _distributor(self, root: Ints, studio: Ints, country: Ints) -> Ints:
        """The distributor the studio has a contract with, seldom another of the country."""
        usual = self.draws.below("contract", studio, DISTRIBUTORS)
        other = self.draws.below("other distributor", root, DISTRIBUTORS)
        return country * DISTRIBUTORS + np.where(self.draws.uniform("contract kept", root) < 0.87, usual, other)
