"""The films of a simulated world, each made from its number alone and from the people and studios behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.genres import GENRES
from navi.simulator.population import COMPANIONS, GENRE_SHARES, LAST_YEAR, SHARE_C, Directors, Floats, Ints, Population

# Shape suffixes: N films, C countries, K members of a cast.

CAST = 4
"""The most actors a film names."""
DISTRIBUTORS = 4
"""Distributors in each country."""
_BLOCK = 12
_SERIES_LENGTHS = np.array([0, 2, 3, 3, 4, 5])
_CITIES_C = np.array([len(country.cities) for country in COUNTRIES])
_CERTIFICATE_EDGES = np.array([np.cumsum(genre.certificates) / sum(genre.certificates) for genre in GENRES])
_RUNTIME = np.array([genre.runtime for genre in GENRES])
_COST = np.array([genre.cost for genre in GENRES])
_APPEAL = np.array([genre.appeal for genre in GENRES])
_SEASON = np.array([genre.season for genre in GENRES])


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

    def take(self, places: Ints) -> Films:
        """The films at these places."""
        return Films(**{name: column[places] for name, column in self.__dict__.items()})


class Cinema:
    """A world of films: `films(numbers)` makes any of them, alike whatever else was made before."""

    def __init__(self, seed: int, num_films: int) -> None:
        self.num_films = num_films
        self.draws = Draws(seed)
        self.population = Population(self.draws, num_films)

    def _series(self, number: Ints) -> tuple[Ints, Ints]:
        """Root and instalment: some runs of up to five numbers are one series."""
        first = number // _BLOCK * _BLOCK
        length = _SERIES_LENGTHS[self.draws.below("series length", first, 6)]
        member = number - first < length
        return np.where(member, first, number), np.where(member, number - first + 1, 0)

    def _studio(self, root: Ints, directors: Directors) -> Ints:
        """Mostly the director's home studio, now and then another at home, seldom one abroad."""
        way = self.draws.uniform("studio way", root)
        abroad = self.draws.choice("abroad", root, SHARE_C)
        country = np.where(way < 0.94, directors.country, abroad)
        return np.where(way < 0.82, directors.studio, self.population.studio_in(country, "studio", root))

    def _genres(self, root: Ints, studio: Ints, directors: Directors) -> tuple[Ints, Ints]:
        """First and second genre: the director's, else the studio's, else any."""
        way = self.draws.uniform("genre way", root)
        house = self.draws.choice("studio genre", studio, GENRE_SHARES)
        free = self.draws.choice("free genre", root, GENRE_SHARES)
        genre = np.select([way < 0.66, way < 0.84, way < 0.95], [directors.genre, directors.second_genre, house], free)
        rank = self.draws.choice("second genre", root, (0.5, 0.2, 0.1, 0.2))
        return genre, np.where(rank < 3, COMPANIONS[genre, np.minimum(rank, 2)], -1)

    def _dates(self, number: Ints, root: Ints, instalment: Ints, genre: Ints, directors: Directors) -> tuple[Ints, ...]:
        draws = self.draws
        room = directors.last_year - directors.first_year + 1
        room = np.maximum(np.where(instalment > 0, room - 10, room), 1)
        year = directors.first_year + draws.below("year", root, room)
        year = np.minimum(year + np.maximum(instalment - 1, 0) * (2 + root // _BLOCK % 2), LAST_YEAR)
        in_season = draws.uniform("in season", number) < 0.5
        month = np.where(in_season, _SEASON[genre], 1 + draws.below("month", number, 12))
        return year, month, 1 + draws.below("day", number, 28)

    def _cast(self, number: Ints, root: Ints, director: Ints, directors: Directors, genre: Ints, year: Ints) -> Ints:
        """The director's standing company in the first two places more often than not, the rest by genre and time."""
        draws, country = self.draws, directors.country
        middle = (directors.first_year + directors.last_year) // 2
        cast = np.empty((len(number), CAST), dtype=np.int64)
        for slot in range(CAST):
            index = number if slot else root
            actor = self.population.actor_in(f"actor {slot}", index, country, genre, year)
            if slot < 2:
                own = self.population.actor_in(f"own actor {slot}", director, country, directors.genre, middle)
                actor = np.where(draws.uniform(f"loyal {slot}", index) < 0.6, own, actor)
            repeated = (cast[:, :slot] == actor[:, None]).any(axis=1)
            absent = draws.uniform(f"absent {slot}", number) < (0.0, 0.0, 0.1, 0.4)[slot]
            cast[:, slot] = np.where(repeated | absent, -1, actor)
        return cast

    def _money(
        self, number: Ints, root: Ints, studio: Ints, genre: Ints, score: Floats, country: Ints
    ) -> tuple[Ints, Ints]:
        """Budget, round as announced budgets are, and revenue, which follows budget and score."""
        draws = self.draws
        home = 0.5 + 3.0 * SHARE_C[country]
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
        home = draws.choice("home country", root, SHARE_C)
        director = self.population.person_in(home, "director", draws.uniform("director", root) ** 1.4)
        directors = self.population.directors(director)
        studio = self._studio(root, directors)
        country = self.population.country_of_studio(studio)
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
            language=self.population.language_of_studio(studio),
            city=draws.below("city", root, _CITIES_C[country]),
            genre=genre,
            second_genre=second_genre,
            year=year,
            month=month,
            day=day,
            runtime=np.maximum(62, np.round(length)).astype(np.int64),
            certificate=(certificate_chance > _CERTIFICATE_EDGES[genre][:, :-1]).sum(axis=1),
            monochrome=year + 3 * draws.normal("monochrome", number) < 1967,
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
        usual = self.population.person_in(directors.country, role, self.draws.uniform(f"usual {role}", director))
        other = self.population.person_in(directors.country, role, self.draws.uniform(f"other {role}", root))
        return np.where(self.draws.uniform(f"loyal {role}", root) < loyalty, usual, other)

    def _distributor(self, root: Ints, studio: Ints, country: Ints) -> Ints:
        """The distributor the studio has a contract with, seldom another of the country."""
        usual = self.draws.below("contract", studio, DISTRIBUTORS)
        other = self.draws.below("other distributor", root, DISTRIBUTORS)
        return country * DISTRIBUTORS + np.where(self.draws.uniform("contract kept", root) < 0.87, usual, other)
