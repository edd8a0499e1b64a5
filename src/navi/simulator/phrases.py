"""The words of a film: names, titles, plots and tags, made from its numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from navi.simulator.countries import COUNTRIES
from navi.simulator.films import CAST, DISTRIBUTORS, Cinema, Films
from navi.simulator.genres import CHARACTERS, GENRES, TIMES
from navi.simulator.languages import LANGUAGES
from navi.simulator.population import Ints

_STRIDE = 7919  # a prime that divides no pool's size, so that counting in its steps meets every pair of names once
_LANGUAGE_C = np.array([country.language for country in COUNTRIES])
_FIRST_C = np.array([[c.language for c in COUNTRIES].index(country.language) for country in COUNTRIES])
_POOL_SIZE = np.array([len(language.given) * len(language.surnames) for language in LANGUAGES])
_POOL_START = np.cumsum(_POOL_SIZE) - _POOL_SIZE
_ROMAN = ("", "", "II", "III", "IV", "V")
_DISTRIBUTOR_WORDS = (
    *("Meridian", "Corvus", "Halcyon", "Beacon", "Tidewater", "Vesper"),
    *("Alder", "Pinnacle", "Rosewood", "Argent", "Solstice"),
)
_DISTRIBUTOR_KINDS = ("Releasing", "Distribution", "Screen Partners", "International", "Media Group", "Home Cinema")


class Phrases:
    """Everything of a world that is read rather than counted."""

    def __init__(self, cinema: Cinema) -> None:
        self.population = cinema.population
        self.draws = cinema.draws
        self._pool_start_C = cinema.population.person_start_CR[:, 0][_FIRST_C]
        self._brand_start_C = cinema.population.studio_start_C[_FIRST_C]

    def names(self, people: Ints, *, surname_first: bool = False) -> list[str]:
        """The name of each person; no two of one language are alike while its pool and initials last."""
        country = self.population.country_of_person(people)
        place = people - self._pool_start_C[country]
        language = _LANGUAGE_C[country]
        lap, place = np.divmod(place, _POOL_SIZE[language])
        pool = _name_pool(surname_first)
        names = [pool[index] for index in (_POOL_START[language] + place).tolist()]
        for index in np.flatnonzero(lap).tolist():
            names[index] = _with_initials(names[index], int(lap[index]), surname_first=surname_first)
        return names

    def studios(self, studios: Ints) -> list[str]:
        """The name of each studio."""
        country = self.population.country_of_studio(studios)
        place = studios - self._brand_start_C[country]
        columns = (_LANGUAGE_C[country].tolist(), place.tolist())
        return [_studio_name(language, place) for language, place in zip(*columns, strict=True)]

    def titles(self, films: Films) -> list[str]:
        """The title of each film; a series shares its stem."""
        root, number, draws = films.root, films.number, self.draws
        columns = (
            draws.choice("title pattern", root, (3, 3, 2, 1.5, 1.5, 2, 2, 2)),
            films.genre,
            films.language,
            films.country,
            draws.bits("title words", root) >> np.uint64(1),
            draws.bits("subtitle", number) >> np.uint64(1),
            films.instalment,
        )
        return [_title(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]

    def original_titles(self, films: Films, titles: list[str]) -> list[str]:
        """The title of each film in the language it was made in; English films keep theirs."""
        bits = (self.draws.bits("original title", films.root) >> np.uint64(1)).tolist()
        columns = (titles, films.language.tolist(), bits, films.instalment.tolist())
        return [_original_title(*values) for values in zip(*columns, strict=True)]

    def series(self, films: Films) -> list[str | None]:
        """The series of each film, None for one that stands alone."""
        members = films.take(np.flatnonzero(films.instalment))
        stems = iter(self.titles(replace(members, instalment=np.ones_like(members.instalment))))
        return [next(stems) if member else None for member in films.instalment.tolist()]

    def plots(self, films: Films) -> list[str]:
        """One sentence about each film."""
        bits = (self.draws.bits("plot", films.number) >> np.uint64(1)).tolist()
        columns = (films.genre.tolist(), films.country.tolist(), films.city.tolist(), bits)
        return [_plot(*values) for values in zip(*columns, strict=True)]

    def keywords(self, films: Films) -> list[list[str]]:
        """Three tags of each film."""
        bits = (self.draws.bits("keywords", films.number) >> np.uint64(1)).tolist()
        return [_keywords(genre, bit) for genre, bit in zip(films.genre.tolist(), bits, strict=True)]

    def casts(self, films: Films, *, surname_first: bool = False) -> list[list[str]]:
        """The names of each film's actors, lead first."""
        present = films.cast >= 0
        names = self.names(films.cast[present], surname_first=surname_first)
        ends = np.cumsum(present.sum(axis=1)).tolist()
        return [names[start:end] for start, end in pairwise([0, *ends])]

    def characters(self, films: Films) -> list[list[str]]:
        """What each of the first actors plays: a name or a kind of person."""
        bits = (self.draws.bits("characters", films.number) >> np.uint64(1)).tolist()
        return [_characters(language, bit) for language, bit in zip(films.language.tolist(), bits, strict=True)]

    def distributors(self, distributors: Ints) -> list[str]:
        """The name of each distributor."""
        return [_DISTRIBUTORS[place] for place in distributors.tolist()]

    def cities(self, films: Films) -> list[str]:
        """Where each film was shot."""
        places = zip(films.country.tolist(), films.city.tolist(), strict=True)
        return [COUNTRIES[country].cities[city] for country, city in places]


def _distributor_name(place: int) -> str:
    word = _DISTRIBUTOR_WORDS[place % len(_DISTRIBUTOR_WORDS)]
    return f"{word} {_DISTRIBUTOR_KINDS[place // len(_DISTRIBUTOR_WORDS)]}"


_DISTRIBUTORS = tuple(_distributor_name(place) for place in range(DISTRIBUTORS * len(COUNTRIES)))


@cache
def _name_pool(surname_first: bool) -> tuple[str, ...]:
    """Every plain name, language by language, in an order that mixes given and family names."""
    names = []
    for language in LANGUAGES:
        given, surnames = language.given, language.surnames
        size = len(given) * len(surnames)
        pairs = (divmod(place * _STRIDE % size, len(given)) for place in range(size))
        parts = ((given[first], surnames[last]) for last, first in pairs)
        names += [f"{last}, {first}" if surname_first else f"{first} {last}" for first, last in parts]
    return tuple(names)


def _with_initials(name: str, lap: int, *, surname_first: bool) -> str:
    """The name with the initials that tell its bearer of a later lap through the pool from the earlier ones."""
    initials = ""
    while lap:
        lap, letter = divmod(lap - 1, 26)
        initials += f" {chr(65 + letter)}."
    if surname_first:
        return name + initials
    first, last = name.split(" ", 1)
    return f"{first}{initials} {last}"


def _studio_name(language: int, place: int) -> str:
    words = LANGUAGES[language]
    pair = place * _STRIDE % (len(words.brands) * len(words.houses))
    return f"{words.brands[pair // len(words.houses)]} {words.houses[pair % len(words.houses)]}"


def _draw(words: tuple[str, ...], bits: int) -> tuple[int, str]:
    """One of the words, and the bits that are left."""
    bits, place = divmod(bits, len(words))
    return bits, words[place]


def _stem(pattern: int, genre: int, language: int, country: int, bits: int) -> str:
    """A title without a number: eight patterns over the words of its genre, country and language."""
    words, cities, given = GENRES[genre], COUNTRIES[country].cities, LANGUAGES[language].given
    thing, bits = words.things[bits % len(words.things)], bits // len(words.things)
    if pattern == 2 or pattern == 5:
        city = cities[bits % len(cities)]
        return f"{thing} in {city}" if pattern == 2 else f"The {thing} of {city}"
    if pattern == 3:
        return f"{given[bits % len(given)]}'s {thing}"
    if pattern == 4:
        other = words.things[bits % len(words.things)]
        return f"{thing} and {other}" if thing != other else f"The {thing}"
    quality, bits = words.qualities[bits % len(words.qualities)], bits // len(words.qualities)
    if pattern < 2:
        return f"{quality} {thing}" if pattern else f"The {quality} {thing}"
    if pattern == 6:
        return f"{given[bits % len(given)]} and the {quality} {thing}"
    return f"The {quality} {thing} of {cities[bits % len(cities)]}"


def _title(pattern: int, genre: int, language: int, country: int, bits: int, more: int, instalment: int) -> str:
    stem = _stem(pattern, genre, language, country, bits)
    if instalment < 2:
        return stem
    style = bits // 7 % 3
    if style == 2:
        return f"{stem}: {_stem(more % 2, genre, language, country, more)}"
    return f"{stem} {_ROMAN[instalment] if style else instalment}"


def _original_title(title: str, language: int, bits: int, instalment: int) -> str:
    if language == 0:
        return title
    bits, opener = _draw(LANGUAGES[language].openers, bits)
    stem = f"{opener} {_draw(LANGUAGES[language].closers, bits)[1]}"
    return stem if instalment < 2 else f"{stem} {instalment}"


_PLOTS = tuple(tuple(f"{hero} {quest}" for hero in genre.heroes for quest in genre.quests) for genre in GENRES)


def _plot(genre: int, country: int, city: int, bits: int) -> str:
    plots = _PLOTS[genre]
    time = TIMES[bits // len(plots) % len(TIMES)]
    return f"{plots[bits % len(plots)]} in {COUNTRIES[country].cities[city]}, {time}."


def _keywords(genre: int, bits: int) -> list[str]:
    words = GENRES[genre].keywords
    bits, start = divmod(bits, len(words))
    step = (1, 3)[bits % 2]
    return [words[(start + turn * step) % len(words)] for turn in range(3)]


def _characters(language: int, bits: int) -> list[str]:
    parts = []
    for _ in range(CAST):
        bits, kind = divmod(bits, 3)
        bits, part = _draw(LANGUAGES[language].given if kind else CHARACTERS, bits)
        parts.append(part)
    return parts
