"""The words of a film: names, titles, plots and tags, made from its numbers."""

from __future__ import annotations

import numpy as np

from navi.simulator.countries import COUNTRIES
from navi.simulator.films import CAST, DISTRIBUTORS, Cinema, Films, Ints
from navi.simulator.genres import CHARACTERS, GENRES, TIMES
from navi.simulator.languages import LANGUAGES

_STRIDE = 7919  # a prime that divides no pool's size, so that counting in its steps meets every pair of names once
_LANGUAGE_C = np.array([country.language for country in COUNTRIES])
_FIRST_C = np.array([[c.language for c in COUNTRIES].index(country.language) for country in COUNTRIES])
_ROMAN = ("", "", "II", "III", "IV", "V")
_DISTRIBUTOR_WORDS = tuple("Meridian Corvus Halcyon Beacon Tidewater Vesper Alder Pinnacle Rosewood Argent Solstice".split())
_DISTRIBUTOR_KINDS = ("Releasing", "Distribution", "Screen Partners", "International", "Media Group", "Home Cinema")
_GIVEN_IN_TITLES = tuple(tuple(name for name in language.given if "-" not in name) for language in LANGUAGES)


class Phrases:
    """Everything of a world that is read rather than counted."""

    def __init__(self, cinema: Cinema) -> None:
        self.cinema = cinema
        self.draws = cinema.draws
        self._pool_start_C = cinema.person_start_CR[:, 0][_FIRST_C]
        self._brand_start_C = cinema.studio_start_C[_FIRST_C]

    def names(self, people: Ints, *, surname_first: bool = False) -> list[str]:
        """The name of each person; no two of one language are alike while its pool and initials last."""
        country = self.cinema.country_of_person(people)
        place = people - self._pool_start_C[country]
        columns = (_LANGUAGE_C[country].tolist(), place.tolist())
        make = _catalogued_name if surname_first else _name
        return [make(language, place) for language, place in zip(*columns, strict=True)]

    def studios(self, studios: Ints) -> list[str]:
        """The name of each studio."""
        country = self.cinema.country_of_studio(studios)
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

    def original_titles(self, films: Films) -> list[str]:
        """The title of each film in the language it was made in; English films keep theirs."""
        bits = (self.draws.bits("original title", films.root) >> np.uint64(1)).tolist()
        columns = (self.titles(films), films.language.tolist(), bits, films.instalment.tolist())
        return [_original_title(*values) for values in zip(*columns, strict=True)]

    def series(self, films: Films) -> list[str | None]:
        """The series of each film, None for one that stands alone."""
        first = Films(**{**films.__dict__, "instalment": np.zeros_like(films.instalment)})
        stems = self.titles(first)
        return [stem if member else None for stem, member in zip(stems, films.instalment.tolist(), strict=True)]

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
        flat = iter(self.names(films.cast[films.cast >= 0], surname_first=surname_first))
        return [[next(flat) for _ in range(size)] for size in (films.cast >= 0).sum(axis=1).tolist()]

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


def _name_parts(language: int, place: int) -> tuple[str, str]:
    """Given name (with initials, once the plain pairs are used up) and family name."""
    words = LANGUAGES[language]
    given, surnames = words.given, words.surnames
    lap, place = divmod(place, len(given) * len(surnames))
    pair = place * _STRIDE % (len(given) * len(surnames))
    first = given[pair % len(given)]
    while lap:
        lap, letter = divmod(lap - 1, 26)
        first = f"{first} {chr(65 + letter)}."
    return first, surnames[pair // len(given)]


def _name(language: int, place: int) -> str:
    first, last = _name_parts(language, place)
    return f"{first} {last}"


def _catalogued_name(language: int, place: int) -> str:
    first, last = _name_parts(language, place)
    return f"{last}, {first}"


def _studio_name(language: int, place: int) -> str:
    words = LANGUAGES[language]
    pair = place * _STRIDE % (len(words.brands) * len(words.houses))
    return f"{words.brands[pair // len(words.houses)]} {words.houses[pair % len(words.houses)]}"


def _stem(pattern: int, genre: int, language: int, country: int, bits: int) -> str:
    """A title without a number: eight patterns over the words of its genre, country and language."""
    words, cities, given = GENRES[genre], COUNTRIES[country].cities, _GIVEN_IN_TITLES[language]
    quality, thing = words.qualities[bits % 10], words.things[bits // 10 % 12]
    other, city, name = words.things[bits // 120 % 12], cities[bits // 1440 % len(cities)], given[bits // 9000 % len(given)]
    if pattern == 0:
        return f"The {quality} {thing}"
    if pattern == 1:
        return f"{quality} {thing}"
    if pattern == 2:
        return f"{thing} in {city}"
    if pattern == 3:
        return f"{name}'s {thing}"
    if pattern == 4:
        return f"The {thing} of {city}" if thing == other else f"{thing} and {other}"
    if pattern == 5:
        return f"The {thing} of {city}"
    return f"{name} and the {quality} {thing}" if pattern == 6 else f"The {quality} {thing} of {city}"


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
    words = LANGUAGES[language]
    stem = f"{words.openers[bits % len(words.openers)]} {words.closers[bits // 16 % len(words.closers)]}"
    return stem if instalment < 2 else f"{stem} {instalment}"


def _plot(genre: int, country: int, city: int, bits: int) -> str:
    words = GENRES[genre]
    hero, quest = words.heroes[bits % len(words.heroes)], words.quests[bits // 8 % len(words.quests)]
    return f"{hero} {quest} in {COUNTRIES[country].cities[city]}, {TIMES[bits // 64 % len(TIMES)]}."


def _keywords(genre: int, bits: int) -> list[str]:
    words = GENRES[genre].keywords
    start, step = bits % 8, (1, 3, 5)[bits // 8 % 3]
    return [words[start], words[(start + step) % 8], words[(start + 2 * step) % 8]]


def _characters(language: int, bits: int) -> list[str]:
    given = LANGUAGES[language].given
    parts = []
    for _ in range(CAST):
        bits, kind = divmod(bits, 3)
        bits, place = divmod(bits, len(CHARACTERS) * len(given))
        parts.append(given[place % len(given)] if kind else CHARACTERS[place % len(CHARACTERS)].capitalize())
    return parts
