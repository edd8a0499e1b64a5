"""The ways catalogues write dates, money, durations, scores, certificates, places and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from navi.simulator.countries import COUNTRIES
from navi.simulator.draws import Draws
from navi.simulator.languages import LANGUAGES

Scalar = str | int | float
"""What one cell holds."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _millions(amount: int) -> str:
    return f"{amount / 1e6:.1f}".rstrip("0").rstrip(".")


DATES: dict[str, Callable[[int, int, int], str]] = {
    "iso": lambda year, month, day: f"{year}-{month:02d}-{day:02d}",
    "us": lambda year, month, day: f"{month:02d}/{day:02d}/{year}",
    "dotted": lambda year, month, day: f"{day:02d}.{month:02d}.{year}",
    "long": lambda year, month, day: f"{_MONTHS[month - 1]} {day}, {year}",
    "short": lambda year, month, day: f"{day} {_MONTHS[month - 1][:3]} {year}",
    "month": lambda year, month, day: f"{_MONTHS[month - 1]} {year}",
}
"""A release date, from year, month and day."""

MONEY: dict[str, Callable[[int], Scalar]] = {
    "plain": lambda amount: amount,
    "dollars": lambda amount: f"${amount:,}",
    "short": lambda amount: f"{_millions(amount)}M",
    "code": lambda amount: f"USD {amount:,}",
    "words": lambda amount: f"${_millions(amount)} million",
}
"""A sum of dollars."""

DURATIONS: dict[str, Callable[[int], Scalar]] = {
    "plain": lambda minutes: minutes,
    "min": lambda minutes: f"{minutes} min",
    "hours": lambda minutes: f"{minutes // 60}h {minutes % 60}m",
    "iso": lambda minutes: f"PT{minutes // 60}H{minutes % 60}M",
    "clock": lambda minutes: f"{minutes // 60}:{minutes % 60:02d}",
    "minutes": lambda minutes: f"{minutes} minutes",
}
"""A length, from minutes."""

SCORES: dict[str, Callable[[int], Scalar]] = {
    "ten": lambda tenths: tenths / 10,
    "hundred": lambda tenths: tenths,
    "stars": lambda tenths: f"{round(tenths / 10) / 2:g} stars",
    "of ten": lambda tenths: f"{tenths / 10}/10",
    "percent": lambda tenths: f"{tenths}%",
    "five": lambda tenths: round(tenths / 10) / 2,
}
"""A score, from tenths of a point out of ten."""

BEST: dict[str, int] = {"ten": 10, "hundred": 100, "stars": 5, "of ten": 10, "percent": 100, "five": 5}
"""The best score of each way."""

COUNTS: dict[str, Callable[[int], Scalar]] = {
    "plain": lambda count: count,
    "commas": lambda count: f"{count:,}",
    "short": lambda count: f"{count / 1000:.1f}K" if count >= 1000 else str(count),
}
"""A number of votes."""

CERTIFICATES: dict[str, tuple[str, ...]] = {
    "us": ("G", "PG", "PG-13", "R", "NC-17"),
    "uk": ("U", "PG", "12A", "15", "18"),
    "ages": ("0+", "6+", "12+", "16+", "18+"),
    "rated": ("Rated G", "Rated PG", "Rated PG-13", "Rated R", "Rated NC-17"),
}
"""The five certificates, mildest first."""

COUNTRY_WORDS: dict[str, tuple[str, ...]] = {
    "name": tuple(country.name for country in COUNTRIES),
    "code": tuple(country.code for country in COUNTRIES),
    "short": tuple(country.short for country in COUNTRIES),
}
"""How each country is written."""

LANGUAGE_WORDS: dict[str, tuple[str, ...]] = {
    "name": tuple(language.name for language in LANGUAGES),
    "code": tuple(language.code for language in LANGUAGES),
    "lower": tuple(language.name.lower() for language in LANGUAGES),
}
"""How each language is written."""

COLORS: dict[str, tuple[str, str]] = {
    "words": ("Color", "Black and White"),
    "british": ("Colour", "B&W"),
    "lower": ("color", "monochrome"),
}
"""How a film in colour and one without are written."""


@dataclass(frozen=True, kw_only=True)
class Formats:
    """The ways one catalogue writes things; each field names an entry of the mapping of that kind."""

    date: str
    money: str
    duration: str
    score: str
    count: str
    certificate: str
    country: str
    language: str
    color: str
    title: str
    """`plain`, `article last` (Canyon, The) or `with year` (Dusty Canyon (1961))."""
    genre: str
    """`name`, `alias`, `lower`, or `first` for the main genre alone."""
    person: str
    """`plain`, or `surname first`."""
    id: str
    """`number`, `prefixed`, `padded` or `hex`."""
    separator: str
    """What stands between the members of a joined list."""


_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "date": ("release_date", tuple(DATES)),
    "money": ("revenue", tuple(MONEY)),
    "duration": ("runtime", tuple(DURATIONS)),
    "score": ("user_score", tuple(SCORES)),
    "count": ("vote_count", tuple(COUNTS)),
    "certificate": ("certificate", tuple(CERTIFICATES)),
    "country": ("country", ("name", "code", "short", "name")),
    "language": ("language", ("name", "code", "name", "lower")),
    "color": ("color", tuple(COLORS)),
    "title": ("title", ("plain", "plain", "article last", "plain", "with year", "plain")),
    "genre": ("genre", ("name", "alias", "first", "lower")),
    "person": ("director", ("plain", "plain", "plain", "surname first", "plain")),
    "id": ("id", ("number", "prefixed", "padded", "hex")),
    "separator": ("actor", (", ", "|", "; ", " / ")),
}


def choose_formats(draws: Draws, turns: dict[str, int]) -> Formats:
    """The formats of a catalogue, from its turn among those that hold each concept: together they show every way."""
    chosen = {}
    for field, (concept, ways) in _CHOICES.items():
        order = draws.order(f"ways of {field}", len(ways))
        chosen[field] = ways[order[turns[concept] % len(ways)]]
    if chosen["person"] == "surname first" and chosen["separator"] == ", ":
        chosen["separator"] = "; "
    return Formats(**chosen)
