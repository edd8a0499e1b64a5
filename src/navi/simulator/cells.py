"""The cells of a catalogue: facts about films, written its way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from navi.simulator.films import GENRES, WORDS, Film
from navi.simulator.schema import MAX_FAMILY, FilmColumn, FilmSchema

Cell = str | int | float | list[str] | list[dict[str, str]] | None
"""What a column holds in a row; None where it holds nothing."""


def write_cell(column: FilmColumn, film: Film, schema: FilmSchema, row: int, rng: Random) -> Cell:
    """Return the cell of a film; what everybody measures again comes out a little different each time."""
    cell: Cell = _write_fact(column.concept, film, schema, row, rng)
    if not isinstance(cell, list):
        return cell
    if column.shape == "objects":
        pairs = zip(cell[:MAX_FAMILY], film["character"], strict=False)
        return [dict(zip(column.keys, pair, strict=True)) for pair in pairs]
    return cell[:MAX_FAMILY] if column.shape == "list" else schema.ways["separator"].join(cell)


def _write_fact(concept: str, film: Film, schema: FilmSchema, row: int, rng: Random) -> Any:
    """Return what a catalogue has to say: a fact as it is, or in its way of writing such facts."""
    ways = schema.ways
    fact: Any = schema.constants.get(concept, film.get(concept))
    match concept:
        case "id":
            number = 100 * len(schema.name) + 3 * row
            # The odd factor mixes the digits and keeps the numbers apart.
            return _fill(ways["id"], number, schema.name[:2], number * 0x9E3779B97F4B % 2**48)
        case "url":
            title = re.sub(r"\W+", "-", film["title"].lower())
            return f"https://{schema.name.replace('_', '-')}.example/film/{title}-{film['number']}"
        case "user_score":
            score, (best, way) = min(max(round(rng.gauss(film["score"], 1.2)), 10), 99), ways["score"]
            return _fill(way, {5: round(score / 10) / 2, 10: score / 10, 100: score}[best])
        case "title":
            return _fill(ways["title"], fact, f"{fact[4:]}, The" if fact[:4] == "The " else fact, film["release_year"])
        case "release_date":
            name = WORDS["months"][film["month"] - 1]
            return _fill(ways["date"], film["release_year"], film["month"], film["day"], name, name[:3])
        case "runtime":
            return _fill(ways["duration"], fact, fact // 60, fact % 60)
        case "budget" | "revenue":
            return _fill(ways["money"], fact, f"{fact / 1e6:.1f}".removesuffix(".0"))
        case "vote_count":
            votes = round(film["votes"] * rng.gauss(1, 0.1))
            return _fill(ways["count"], votes, f"{votes / 1000:.1f}")
        case "country":
            return _fill(ways["country"], fact["name"], fact["code"], fact["short"])
        case "language":
            return _fill(ways["language"], fact["name"], fact["code"], fact["name"].lower())
        case "certificate" | "color":
            return ways[concept][fact]
        case "genre":
            words = [GENRES[each]["alias" if ways["genre"] == "alias" else "name"] for each in fact]
            return (
                words[:1] if ways["genre"] == "first" else [w.lower() if ways["genre"] == "lower" else w for w in words]
            )
        case "actor":
            return [_write_person(name, ways) for name in fact]
        case "director" | "writer" | "composer":
            return _write_person(fact, ways)
    return fact


def _fill(way: str | None, *values: Any) -> Any:
    return values[0] if way is None else way.format(*values)


def _write_person(name: str, ways: dict[str, Any]) -> str:
    first, _, last = name.rpartition(" ")
    return str(_fill(ways["person"], name, f"{last}, {first}"))


def flatten_cell(header: str, cell: Cell | dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield header and text of each leaf of a cell, as a reader that lays nested cells flat sees it: cast.0.name."""
    if isinstance(cell, list | dict):
        members: Any = cell.items() if isinstance(cell, dict) else enumerate(cell)
        for key, member in members:
            yield from flatten_cell(f"{header}.{key}", member)
    elif cell is not None:
        yield header, str(cell)


def misspell(text: str, draw: int) -> str:
    """Return the text with one letter dropped, doubled or swapped with the next; a word's first letter stays."""
    places = [place for place in range(1, len(text) - 1) if text[place - 1 : place + 2].isalpha()]
    if not places:
        return text
    place = places[draw // 3 % len(places)]
    before, letter, after = text[:place], text[place], text[place + 1 :]
    return before + (after, letter + letter + after, after[0] + letter + after[1:])[draw % 3]
