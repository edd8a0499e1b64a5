"""The cells of a catalogue's columns: facts about films, written its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.films import Films
from navi.simulator.formats import (
    BEST,
    CERTIFICATES,
    COLORS,
    COUNTRY_WORDS,
    COUNTS,
    DATES,
    DURATIONS,
    LANGUAGE_WORDS,
    MONEY,
    SCORES,
    Formats,
    Scalar,
)
from navi.simulator.genres import GENRES
from navi.simulator.phrases import Phrases
from navi.simulator.population import Ints
from navi.simulator.schema import MAX_FAMILY, Column, Schema

Cell = Scalar | list[str] | list[dict[str, str]] | None
"""What a column holds in a row; None where it holds nothing."""

_PEOPLE_WORDS = tuple(country.people for country in COUNTRIES)
_NOT_IN_ADDRESS = str.maketrans({" ": "-", ":": None, "'": None, ",": None, ".": None, "(": None, ")": None})


def flatten(header: str, cell: Cell) -> Iterator[tuple[str, str]]:
    """Header and text of each leaf of a cell, as a reader that flattens nested cells sees them.

    >>> list(flatten("cast", [{"name": "Ada Kelford"}]))
    [('cast.0.name', 'Ada Kelford')]
    """
    if cell is None:
        return
    if not isinstance(cell, list):
        yield header, str(cell)
        return
    members: list[str | dict[str, str]] = [*cell]
    for place, member in enumerate(members):
        if isinstance(member, dict):
            for key, text in member.items():
                yield f"{header}.{place}.{key}", text
        else:
            yield f"{header}.{place}", member


@dataclass(frozen=True)
class Page:
    """Some films about to be written into a catalogue."""

    films: Films
    schema: Schema
    phrases: Phrases
    draws: Draws
    row: Ints
    """(N,) row of each film in the catalogue, from 0."""

    @property
    def formats(self) -> Formats:
        """How the catalogue writes things."""
        return self.schema.formats

    @cached_property
    def titles(self) -> list[str]:
        """Titles as the world knows them."""
        return self.phrases.titles(self.films)

    @property
    def surname_first(self) -> bool:
        """Whether people are sorted by family name."""
        return self.formats.person == "surname first"

    def drift(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """How this catalogue departs from the others in a number that everybody measures anew."""
        return self.draws.normal(f"{name} in {self.schema.name}", self.films.number)

    def cells(self, column: Column) -> list[Cell]:
        """The cells of a column."""
        if column.concept in _LISTS:
            return _lay_out(_LISTS[column.concept](self), column, self)
        return list(_CELLS[column.concept](self))


def _lay_out(members: list[list[str]], column: Column, page: Page) -> list[Cell]:
    """Lists as the column's shape wants them."""
    if column.shape == "part":
        return [names[column.part] if len(names) > column.part else None for names in members]
    if column.shape == "list":
        return [names[:MAX_FAMILY] for names in members]
    if column.shape == "objects":
        roles = page.phrases.characters(page.films)
        name, role = column.keys
        pairs = zip(members, roles, strict=True)
        return [[{name: n, role: r} for n, r in zip(names[:MAX_FAMILY], parts, strict=False)] for names, parts in pairs]
    return [page.formats.separator.join(names) for names in members]


def _titles(page: Page) -> list[str]:
    titles = page.titles
    if page.formats.title == "with year":
        return [f"{title} ({year})" for title, year in zip(titles, page.films.year.tolist(), strict=True)]
    if page.formats.title == "article last":
        return [f"{title[4:]}, The" if title.startswith("The ") else title for title in titles]
    return titles


def _ids(page: Page) -> list[Scalar]:
    way, name = page.formats.id, page.schema.name
    numbers = (
        page.draws.one(f"first id of {name}", 9000) + 1 + page.row * (1 + page.draws.one(f"step of {name}", 5))
    ).tolist()
    if way == "number":
        return list(numbers)
    if way == "hex":
        return [f"{bits >> 16:012x}" for bits in page.draws.bits(f"ids of {name}", page.row).tolist()]
    prefix = "tt" if way == "padded" else name[:2] + "-"
    return [f"{prefix}{number:07d}" if way == "padded" else f"{prefix}{number}" for number in numbers]


def _urls(page: Page) -> list[str]:
    site = f"https://{page.schema.name.replace('_', '-')}.example/film"
    pairs = zip(page.titles, page.films.number.tolist(), strict=True)
    return [f"{site}/{title.lower().translate(_NOT_IN_ADDRESS)}-{number}" for title, number in pairs]


def _dates(page: Page) -> list[str]:
    write, films = DATES[page.formats.date], page.films
    return [write(*date) for date in zip(films.year.tolist(), films.month.tolist(), films.day.tolist(), strict=True)]


def _scores(page: Page) -> list[Scalar]:
    score = np.clip(np.round(page.films.score + 1.2 * page.drift("score")), 10, 99).astype(np.int64)
    return list(map(SCORES[page.formats.score], score.tolist()))


def _votes(page: Page) -> list[Scalar]:
    votes = np.round(page.films.votes * (1 + 0.1 * page.drift("votes"))).astype(np.int64)
    return list(map(COUNTS[page.formats.count], votes.tolist()))


def _awards(page: Page) -> list[str | None]:
    pairs = zip(page.films.wins.tolist(), page.films.nominations.tolist(), strict=True)
    return [_prizes(wins, tries) for wins, tries in pairs]


def _prizes(wins: int, tries: int) -> str | None:
    counts = ((wins, "win"), (tries, "nomination"))
    return " & ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count) or None


def _genres(page: Page) -> list[list[str]]:
    way = page.formats.genre
    words = [
        genre.alias if way == "alias" else genre.name.lower() if way == "lower" else genre.name for genre in GENRES
    ]
    pairs = zip(page.films.genre.tolist(), page.films.second_genre.tolist(), strict=True)
    if way == "first":
        return [[words[first]] for first, _ in pairs]
    return [[words[first], words[second]] if second >= 0 else [words[first]] for first, second in pairs]


def _pick(words: tuple[str, ...], places: Ints) -> list[str]:
    return [words[place] for place in places.tolist()]


def _nationalities(page: Page) -> list[str]:
    country = page.phrases.population.country_of_person(page.films.director)
    return _pick(_PEOPLE_WORDS, country)


_TITLE_TYPES = ("Movie", "Feature film", "movie", "Film")

_LISTS: dict[str, Callable[[Page], list[list[str]]]] = {
    "genre": _genres,
    "actor": lambda page: page.phrases.casts(page.films, surname_first=page.surname_first),
    "keywords": lambda page: page.phrases.keywords(page.films),
}

_CELLS: dict[str, Callable[[Page], list[Scalar] | list[str] | list[int] | list[str | None]]] = {
    "id": _ids,
    "url": _urls,
    "source": lambda page: [page.schema.name.replace("_", " ").title()] * len(page.row),
    "title_type": lambda page: [_TITLE_TYPES[len(page.schema.name) % 4]] * len(page.row),
    "title": _titles,
    "original_title": lambda page: page.phrases.original_titles(page.films, page.titles),
    "series": lambda page: page.phrases.series(page.films),
    "release_year": lambda page: page.films.year.tolist(),
    "release_date": _dates,
    "runtime": lambda page: list(map(DURATIONS[page.formats.duration], page.films.runtime.tolist())),
    "director": lambda page: page.phrases.names(page.films.director, surname_first=page.surname_first),
    "director_nationality": _nationalities,
    "director_birth_year": lambda page: page.films.birth_year.tolist(),
    "writer": lambda page: page.phrases.names(page.films.writer, surname_first=page.surname_first),
    "composer": lambda page: page.phrases.names(page.films.composer, surname_first=page.surname_first),
    "studio": lambda page: page.phrases.studios(page.films.studio),
    "distributor": lambda page: page.phrases.distributors(page.films.distributor),
    "country": lambda page: _pick(COUNTRY_WORDS[page.formats.country], page.films.country),
    "language": lambda page: _pick(LANGUAGE_WORDS[page.formats.language], page.films.language),
    "location": lambda page: page.phrases.cities(page.films),
    "certificate": lambda page: _pick(CERTIFICATES[page.formats.certificate], page.films.certificate),
    "budget": lambda page: list(map(MONEY[page.formats.money], page.films.budget.tolist())),
    "revenue": lambda page: list(map(MONEY[page.formats.money], page.films.revenue.tolist())),
    "user_score": _scores,
    "critic_score": lambda page: page.films.critic_score.tolist(),
    "vote_count": _votes,
    "best_score": lambda page: [BEST[page.formats.score]] * len(page.row),
    "currency": lambda page: ["USD"] * len(page.row),
    "description": lambda page: page.phrases.plots(page.films),
    "color": lambda page: _pick(COLORS[page.formats.color], page.films.monochrome.astype(np.int64)),
    "awards": _awards,
}
