"""Countries of the simulated world, in the order of their languages, with their weight, speech and places."""

from __future__ import annotations

from dataclasses import dataclass

from navi.simulator.languages import LANGUAGES


@dataclass(frozen=True)
class Country:
    """A country that makes films."""

    name: str
    """Its English name."""
    code: str
    """Its two-letter code."""
    short: str
    """What a hurried cataloguer writes."""
    people: str
    """The nationality of its people."""
    share: float
    """Weight among the countries of the world."""
    language: int
    """Place of its main language, which also names its people."""
    second_language: int
    """Place of the language that some of its studios work in; the main one where there is no other."""
    second_share: float
    """Share of its studios that work in the second language."""
    cities: tuple[str, ...]
    """Where its films are shot."""


_PLACE = {language.code: place for place, language in enumerate(LANGUAGES)}


def _country(line: str) -> Country:
    name, code, short, people, share, language, second, second_share, cities = line.split("|")
    return Country(
        name=name,
        code=code,
        short=short,
        people=people,
        share=float(share),
        language=_PLACE[language],
        second_language=_PLACE[second],
        second_share=float(second_share),
        cities=tuple(cities.split(", ")),
    )


COUNTRIES = tuple(
    _country(line)
    for line in (
        "United States|US|USA|American|0.30|en|es|0.05|Chicago, Baltimore, Santa Fe, Portland, New Orleans, Duluth",
        "United Kingdom|GB|UK|British|0.10|en|en|0|London, Bristol, Glasgow, Whitby, Cardiff, Leeds",
        "Canada|CA|Canada|Canadian|0.05|en|fr|0.35|Montreal, Halifax, Winnipeg, Vancouver, Quebec City",
        "Australia|AU|Australia|Australian|0.04|en|en|0|Melbourne, Hobart, Broken Hill, Fremantle",
        "France|FR|France|French|0.10|fr|fr|0|Paris, Marseille, Lyon, Brest, Lille",
        "Germany|DE|Germany|German|0.07|de|de|0|Berlin, Hamburg, Leipzig, Bremen, Görlitz",
        "Italy|IT|Italy|Italian|0.06|it|it|0|Rome, Turin, Trieste, Palermo, Bologna",
        "Spain|ES|Spain|Spanish|0.04|es|es|0|Madrid, Seville, Bilbao, Cadiz",
        "Mexico|MX|Mexico|Mexican|0.04|es|es|0|Mexico City, Oaxaca, Puebla, Veracruz",
        "Brazil|BR|Brazil|Brazilian|0.03|pt|pt|0|Recife, Salvador, Porto Alegre, Belo Horizonte",
        "Japan|JP|Japan|Japanese|0.06|ja|ja|0|Tokyo, Kyoto, Hakodate, Onomichi, Kobe",
        "India|IN|India|Indian|0.08|hi|ta|0.3|Mumbai, Jaipur, Chennai, Kolkata, Madurai",
        "South Korea|KR|Korea|South Korean|0.04|ko|ko|0|Seoul, Busan, Incheon, Jeonju",
        "China|CN|PRC|Chinese|0.04|zh|zh|0|Shanghai, Chengdu, Harbin, Xiamen",
        "Sweden|SE|Sweden|Swedish|0.03|sv|sv|0|Stockholm, Malmö, Visby, Umeå",
    )
)
"""Every country; neighbours in this order share a language where they share one at all."""

EUROPE = tuple(place for place, country in enumerate(COUNTRIES) if country.code in {"GB", "FR", "DE", "IT", "ES", "SE"})
"""Places of the European countries."""
ASIA = tuple(place for place, country in enumerate(COUNTRIES) if country.code in {"JP", "IN", "KR", "CN"})
"""Places of the Asian countries."""
