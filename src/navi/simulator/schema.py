"""The schema of each catalogue: its columns, their headers and order, its file, and how it writes a film's facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from navi.simulator.films import GENRES, WORDS, Film, load_data

MAX_FAMILY = 3
"""The most members of a list that a catalogue writes one by one."""
STYLES = ("lower _", "camel", "title  ", "lower  ", "lower _", "title ", "lower -", "upper _")
"""Ways of writing a header, as the case of its words and what stands between them; the commonest stands twice."""
SCHEMAS = load_data("schemas")
CONCEPTS: dict[str, dict[str, Any]] = SCHEMAS["concepts"]
"""What columns may mean: in which share of catalogues each is found, the words of its headers, gaps and slips."""

Cell = str | int | float | list[str] | list[dict[str, str]] | None
"""What a column holds in a row; None where it holds nothing."""


@dataclass(frozen=True, kw_only=True)
class FilmColumn:
    """A column of a catalogue."""

    concept: str
    """What it means."""
    path: tuple[str, ...]
    """Its header, one key for each level of nesting."""
    shape: str = "plain"
    """`plain` text or number, `list` of them, or `objects` with keys."""
    keys: tuple[str, ...] = ()
    """Keys of an object in the list."""


@dataclass(frozen=True, kw_only=True)
class FilmSchema:
    """What a catalogue looks like."""

    name: str
    """Name of the table."""
    suffix: str
    """What its file's name ends in: the format and the compression."""
    delimiter: str
    """Between the cells of a text table; empty for other formats."""
    taste: tuple[str, Any, Any] | None
    """Which films it prefers: a fact with its lowest and highest value; None for no preference."""
    writes_null: bool
    """Whether an absent cell is written as null rather than left out."""
    ways: dict[str, Any]
    """How it writes dates, money, names …: its choice of those in the data file."""
    columns: tuple[FilmColumn, ...]
    """Its columns, in order."""
    constants: dict[str, Any]
    """What its columns of one value hold, by concept."""


def choose_schemas(num_catalogues: int, width: float, seed: int) -> list[FilmSchema]:
    """Return a schema for each catalogue; every concept is in its share of them, and words and ways take turns."""
    rng = Random(f"schemas {seed}")
    first_style, holders, words = rng.randrange(len(STYLES)), {}, {}
    for concept, known in CONCEPTS.items():
        share = known["share"] * (1.0 if concept == "title" else width)
        count = max(1, round(share * num_catalogues)) if share else 0
        holders[concept] = rng.sample(range(num_catalogues), count)
        words[concept] = rng.sample(known["words"], len(known["words"]))
    choices = {name: rng.sample(way["choices"], len(way["choices"])) for name, way in SCHEMAS["ways"].items()}
    schemas = []
    for place in range(num_catalogues):
        turns = {concept: held.index(place) if place in held else place for concept, held in holders.items()}
        ways: dict[str, Any] = {
            name: each[turns[SCHEMAS["ways"][name]["turn"]] % len(each)] for name, each in choices.items()
        }
        headers = {concept: each[turns[concept] % len(each) :] + each for concept, each in words.items()}
        if ways["person"] == "{1}" and ways["separator"] == ", ":
            ways["separator"] = "; "
        held = {concept for concept, places in holders.items() if place in places}
        lap, number = divmod(place, len(SCHEMAS["catalogues"]))
        preset = dict(SCHEMAS["catalogues"][number])
        preset["name"] += f"_{lap + 1}" if lap else ""
        style = STYLES[(place + first_style) % len(STYLES)]
        columns = _choose_columns(held, headers, ways, style, preset.pop("nesting"), rng)
        constants = {"source": preset["name"].replace("_", " ").title(), "currency": "USD"}
        constants |= {"title_type": rng.choice(SCHEMAS["title_types"]), "best_score": ways["score"][0]}
        schemas.append(FilmSchema(**preset, ways=ways, columns=tuple(columns), constants=constants))
    return schemas


def _choose_columns(
    held: set[str], words: dict[str, list[str]], ways: dict[str, Any], style: str, nesting: str, rng: Random
) -> list[FilmColumn]:
    """Return the columns of a catalogue that holds these concepts, in some order: ids and titles early."""
    held |= set() if "release_date" in held else {"release_year"}
    held |= {"currency"} if held & {"budget", "revenue"} and "$" not in (ways["money"] or "") else set()
    held |= {"best_score"} if nesting == "nested" and "user_score" in held else set()
    concepts = [concept for concept in CONCEPTS if concept in held]
    groups = _group(concepts, style, rng) if nesting == "nested" else {}
    taken: set[tuple[str, ...]] = {(group,) for group in groups.values()}
    columns = []
    for concept in concepts:
        shape, keys, group = "plain", [], groups.get(concept)
        if concept == "actor" and nesting == "nested":
            shape, keys = "objects", ["name", rng.choice(CONCEPTS["character"]["words"])]
        elif concept in ("actor", "keywords", "genre") and nesting and rng.random() < 0.6:
            shape = "plain" if concept == "genre" and ways["genre"] == "first" else "list"
        leaves = SCHEMAS["leaves"].get(concept) if group else None
        headers = [write_header(each, style) for each in leaves or words[concept]]
        path = next(path for header in headers if (path := (*([group] if group else []), header)) not in taken)
        taken.add(path)
        written = tuple(write_header(key, style) for key in keys)
        columns.append(FilmColumn(concept=concept, path=path, shape=shape, keys=written))
    places = {concept: rng.random() for concept in concepts}
    rank = {groups.get(each, each): place for each, place in places.items()} | {"id": -2.0, "title": -1.0}
    return sorted(columns, key=lambda column: rank[groups.get(column.concept, column.concept)])


def _group(concepts: list[str], style: str, rng: Random) -> dict[str, str]:
    """Return the key under which each concept of a nested catalogue stands, of those that have company."""
    groups: dict[str, str] = {}
    for group in SCHEMAS["groups"].values():
        held = [concept for concept in group["members"] if concept in concepts]
        if held[:1] == group["members"][:1] and len(held) > 1:
            groups.update(dict.fromkeys(held, write_header(rng.choice(group["words"]), style)))
    return groups


def write_header(words: str, style: str) -> str:
    """Return the words of a header written in a style.

    >>> write_header("release year", "camel"), write_header("release year", "upper _")
    ('releaseYear', 'RELEASE_YEAR')
    """
    if style == "camel":
        first, _, rest = words.partition(" ")
        return first + rest.title().replace(" ", "")
    case, _, separator = style.partition(" ")
    return str(getattr(words, case)()).replace(" ", separator)


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
