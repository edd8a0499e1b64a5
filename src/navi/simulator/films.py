"""The films of a simulated world: facts that depend on one another as they do in real catalogues."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import chain, count, product
from random import Random
from string import ascii_uppercase
from typing import Any

Words = dict[str, Any]
Film = dict[str, Any]
"""What is known of a film, by concept."""
FIRST_YEAR, LAST_YEAR = 1932, 2024
"""When the first directors begin, and when the world ends."""


def load_data(name: str) -> Any:
    """Return the content of one of the simulator's data files."""
    return json.loads((resources.files("navi.simulator") / "data" / f"{name}.json").read_text(encoding="utf-8"))


WORDS: Words = load_data("words")
GENRES: dict[str, Words] = {genre["name"]: genre for genre in WORDS["genres"]}
LANGUAGES: dict[str, Words] = {language["code"]: language for language in WORDS["languages"]}


def make_films(num_films: int, rng: Random) -> Iterator[Film]:
    """Yield films without end, of a world with people for so many; some are a series of up to five."""
    numbers = count()
    industries = _make_industries(num_films, rng)
    while True:
        home = _draw_share(industries, rng)
        director, colleague = _draw_early(home["directors"], 1.4, rng), rng.choice(home["directors"])
        elsewhere = home if rng.random() < 0.65 else _draw_share(industries, rng)
        studio = director["studio"] if rng.random() < 0.82 else _draw_early(elsewhere["studios"], 1.5, rng)
        series = _start_series(director, colleague, studio, rng)
        series["length"] = rng.choice((2, 3, 3, 4, 5)) if rng.random() < 0.1 else 1
        year = director["first_year"] + rng.randrange(max(director["span"] - 2 * series["length"], 1))
        for instalment in range(series["length"]):
            film = series | {"number": next(numbers), "release_year": min(year + 2 * instalment, LAST_YEAR)}
            film["actor"] = _choose_cast(film, director, home["actors"], rng)
            yield film | _write_texts(film, instalment, rng) | _measure(film, director, instalment, rng)


def _make_industries(num_films: int, rng: Random) -> list[Words]:
    """Return the studios, actors and directors of each country; their numbers grow with the films."""
    names, brands = {}, {}
    for code, words in LANGUAGES.items():
        surnames = [stem + ending for stem, ending in product(words["stems"], words["endings"])]
        firsts = [" ".join(pair) for pair in product(*words["brands"])] if "brands" in words else surnames
        names[code] = make_names(words["given"], surnames, rng)
        brands[code] = make_names(firsts, words["houses"], rng)
    distributors = make_names(WORDS["distributors"][0], WORDS["distributors"][1], rng)
    industries = []
    for country in WORDS["countries"]:
        people, num = names[country["language"]], num_films * country["share"]
        contracts = [next(distributors) for _ in range(4)]
        num_studios = max(2, round(min(1200, num_films**0.55) * country["share"]))
        studios = [_make_studio(country, brands[country["language"]], contracts, rng) for _ in range(num_studios)]
        actors, writers, composers = (
            [next(people) for _ in range(max(least, round(num / films)))]
            for least, films in ((2 * len(GENRES), 5), (3, 10), (2, 25))
        )
        crew = {"studios": studios, "actors": actors, "writers": writers, "composers": composers}
        directors = [_make_director(country, next(people), crew, rng) for _ in range(max(3, round(num / 9)))]
        industries.append(crew | {"directors": directors, "share": country["share"]})
    return industries


def _make_studio(country: Words, names: Iterator[str], contracts: list[str], rng: Random) -> Words:
    language = "second_language" if rng.random() < country["second_share"] else "language"
    return {
        "name": next(names),
        "country": country,
        "language": LANGUAGES[country[language]],
        "distributor": rng.choice(contracts),
        "scale": rng.gauss(0, 0.5),
    }


def _make_director(country: Words, name: str, crew: Words, rng: Random) -> Words:
    return {
        "name": name,
        "country": country,
        "first_year": FIRST_YEAR + int(86 * rng.random() ** 0.6),
        "span": 10 + rng.randrange(26),
        "age": 24 + rng.randrange(14),
        "studio": _draw_early(crew["studios"], 1.5, rng),
        "genre": _draw_share(WORDS["genres"], rng),
        "skill": rng.gauss(),
        "pace": rng.gauss(),
        "writer": rng.choice(crew["writers"]),
        "composer": rng.choice(crew["composers"]),
        "actors": (rng.choice(crew["actors"]), rng.choice(crew["actors"])),
    }


def _start_series(director: Words, colleague: Words, studio: Words, rng: Random) -> Film:
    """Return what the films of a series share; a director's usual people are now and then a colleague's."""
    genre = director["genre"] if rng.random() < 0.8 else _draw_share(WORDS["genres"], rng)
    language, country = studio["language"], studio["country"]
    second = rng.choices((*genre["companions"], None), (0.5, 0.2, 0.1, 0.2))[0]
    thing, other = rng.sample(genre["things"], 2)
    words = {"thing": thing, "other": other, "quality": rng.choice(genre["qualities"])}
    words |= {"given": rng.choice(language["given"]), "city": rng.choice(country["cities"])}
    return {
        "director": director["name"],
        "director_nationality": director["country"]["people"],
        "director_birth_year": director["first_year"] - director["age"],
        "writer": (director if rng.random() < 0.55 else colleague)["writer"],
        "composer": (director if rng.random() < 0.75 else colleague)["composer"],
        "studio": studio["name"],
        "distributor": (studio if rng.random() < 0.87 else colleague["studio"])["distributor"],
        "country": country,
        "region": country["region"],
        "language": language,
        "genre": [genre["name"], *([second] if second else [])],
        "certificate": rng.choices(range(5), genre["certificates"])[0],
        "location": rng.choice(country["cities"]),
        "scale": studio["scale"] + rng.gauss(0, 0.35),
        "stem": rng.choice(WORDS["titles"]).format(**words),
        "original_title": f"{rng.choice(language['openers'])} {rng.choice(language['closers'])}",
        "sequels": rng.randrange(3),
    }


def _choose_cast(film: Film, director: Words, actors: list[str], rng: Random) -> list[str]:
    """Return up to four actors of the country, time and genre; more often than not the director's own first."""
    career, cast = (film["release_year"] - FIRST_YEAR) / (LAST_YEAR + 1 - FIRST_YEAR), []
    for slot, present in enumerate((1.0, 1.0, 0.9, 0.6)):
        place = int(min(max(career + rng.gauss(0, 0.08), 0), 0.999) * len(actors))
        if rng.random() < 0.7:
            place = min(place // len(GENRES) * len(GENRES) + list(GENRES).index(film["genre"][0]), len(actors) - 1)
        actor = director["actors"][slot] if slot < 2 and rng.random() < 0.6 else actors[place]
        if rng.random() < present and actor not in cast:
            cast.append(actor)
    return cast


def _write_texts(film: Film, instalment: int, rng: Random) -> Film:
    genre, language, title = GENRES[film["genre"][0]], film["language"], film["stem"]
    number = f" {instalment + 1}" if instalment else ""
    if instalment:
        subtitle = f": {rng.choice(genre['qualities'])} {rng.choice(genre['things'])}"
        title += (number, f" {WORDS['roman'][instalment]}", subtitle)[film["sequels"]]
    hero, quest, time = rng.choice(genre["heroes"]), rng.choice(genre["quests"]), rng.choice(WORDS["times"])
    parts = [rng.choice(language["given"] if rng.random() < 0.67 else WORDS["characters"]) for _ in film["actor"]]
    return {
        "title": title,
        "original_title": title if language["code"] == "en" else film["original_title"] + number,
        "series": film["stem"] if film["length"] > 1 else None,
        "description": f"{hero} {quest} in {film['location']}, {time}.",
        "keywords": rng.sample(genre["keywords"], 3),
        "character": parts,
    }


def _measure(film: Film, director: Words, instalment: int, rng: Random) -> Film:
    """Return dates, length, money and reception of a film: by director, genre and studio; sequels tire."""
    genre = GENRES[film["genre"][0]]
    liking = 6.2 + genre["appeal"] + 0.8 * director["skill"] - 0.25 * instalment
    score = min(max(rng.gauss(liking, 0.35), 1.0), 9.5)
    millions = 9 * genre["cost"] * (0.5 + 3 * film["country"]["share"]) * math.exp(film["scale"])
    # Budgets are round, as those that are announced.
    budget = max(round(millions, 0 if millions >= 10 else 1), 0.1)
    revenue = budget * 1e6 * math.exp(0.55 * (score - 6.2) + rng.gauss(0, 0.35) + 0.7)
    wins = max(0, round((score - 6.8) * 3 + rng.gauss()))
    prizes = [f"{won} {what}" for won, what in ((wins, "wins"), (wins * 2 + rng.randrange(4), "nominations")) if won]
    return {
        "month": genre["season"] if rng.random() < 0.5 else 1 + rng.randrange(12),
        "day": 1 + rng.randrange(28),
        "color": int(film["release_year"] + rng.gauss(0, 3) < 1967),
        "runtime": max(62, round(genre["runtime"] + 8 * director["pace"] + rng.gauss(0, 5))),
        "budget": round(budget * 1e6),
        "revenue": round(revenue),
        "score": round(score * 10),
        "critic_score": round(min(max(10.5 * score - 6 + rng.gauss(0, 6), 4), 99)),
        "votes": round(revenue**0.75 / 40 * math.exp(rng.gauss(0, 0.3))) + 12,
        "awards": " & ".join(prizes) or None,
    }


def _draw_share(records: list[Words], rng: Random) -> Words:
    """Return one of some records, as likely as its share."""
    return rng.choices(records, [record["share"] for record in records])[0]


def _draw_early(things: list[Words], power: float, rng: Random) -> Words:
    """Return one of some things; the higher the power, the likelier the first."""
    return things[int(rng.random() ** power * len(things))]


def make_names(first: Sequence[str], last: Sequence[str], rng: Random) -> Iterator[str]:
    """Yield names without end; those of later rounds through all pairs have initials: Ada A. Kelford."""
    pool = list(product(first, last))
    for letters in chain.from_iterable(product(ascii_uppercase, repeat=size) for size in count()):
        initials = "".join(f" {letter}." for letter in letters)
        rng.shuffle(pool)
        for one, other in pool:
            yield f"{one}{initials} {other}"
