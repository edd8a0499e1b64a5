"""Catalogues of a simulated world, rendered a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.simulator.cells import Cell, Page, flatten
from navi.simulator.config import SimulatorConfig
from navi.simulator.countries import ASIA, EUROPE
from navi.simulator.draws import Draws
from navi.simulator.films import Cinema, Films
from navi.simulator.phrases import Phrases
from navi.simulator.schema import TYPO_CONCEPTS, Column, Schema, choose_schemas
from navi.simulator.truth import Truth

_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Catalogue:
    """One table of a simulated world and what is true of it."""

    name: str
    """Name of the table."""
    concepts: dict[str, str]
    """The concept of each header, nested cells flattened."""
    rows: list[dict[str, Any]]
    """The rows, nested where the catalogue is; absent cells are left out."""
    row_films: list[int]
    """The film each row is about."""
    gaps: dict[tuple[int, str], str]
    """The text that an absent cell (row, flattened header) would have held."""


@dataclass(frozen=True)
class World:
    """Every catalogue of a simulated world."""

    config: SimulatorConfig
    catalogues: tuple[Catalogue, ...]

    @cached_property
    def truth(self) -> Truth:
        """What is true of the catalogues, their rows given as a frame or a list."""
        tables = self.catalogues
        return Truth(
            concepts={(table.name, header): c for table in tables for header, c in table.concepts.items()},
            gaps={(table.name, *place): text for table in tables for place, text in table.gaps.items()},
            films={table.name: table.row_films for table in tables},
            first_place={table.name: 1 for table in tables},
        )


@dataclass(frozen=True)
class Block:
    """Some consecutive rows of a catalogue, column by column."""

    schema: Schema
    films: list[int]
    """The film of each row."""
    columns: list[list[Cell]]
    """The cells of each column of the schema, None where absent."""
    gaps: dict[tuple[int, str], str]
    """The text of each gap by its row in the catalogue and its flattened header."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as nested dictionaries, absent cells left out."""
        paths = [column.path for column in self.schema.columns]
        if max(map(len, paths)) == 1:
            headers = [path[0] for path in paths]
            for cells in zip(*self.columns, strict=True):
                yield {header: cell for header, cell in zip(headers, cells, strict=True) if cell is not None}
            return
        keys = [(path[0] if len(path) > 1 else None, path[-1]) for path in paths]
        for cells in zip(*self.columns, strict=True):
            row: dict[str, Any] = {}
            for (group, key), cell in zip(keys, cells, strict=True):
                if cell is not None:
                    holder = row.setdefault(group, {}) if group else row
                    holder[key] = cell
            yield row


class Simulation:
    """A world and its schemas, ready to be rendered."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.draws = Draws(config.seed)
        self.schemas = choose_schemas(self.draws, config.num_catalogues, config.gap_rate, config.width)
        self.sizes = self._sizes()
        self.cinema = Cinema(config.seed, self._num_films())
        self.phrases = Phrases(self.cinema)

    def _sizes(self) -> list[int]:
        """Rows of each catalogue: uneven, smaller for a special taste, none empty, the configured total."""
        weights = 0.5 + self.draws.uniform("size", np.arange(self.config.num_catalogues))
        weights *= [0.7 if schema.taste else 1.0 for schema in self.schemas]
        spare = self.config.total_rows - self.config.num_catalogues
        edges = np.round(np.cumsum(weights) / weights.sum() * spare).astype(np.int64)
        return [int(size) for size in 1 + np.diff(edges, prepend=0)]

    def _num_films(self) -> int:
        largest = max(self.sizes)
        if self.config.num_films is None:
            return max(60, round(0.4 * self.config.total_rows), round(1.5 * largest))
        if self.config.num_films < largest:
            raise ConfigError(
                f"num_films must be at least the rows of the largest catalogue, got {self.config.num_films} films "
                f"for {largest} rows. Ask for more films or fewer rows."
            )
        return self.config.num_films

    def blocks(self, place: int) -> Iterator[Block]:
        """The rows of one catalogue, a block at a time."""
        schema, row = self.schemas[place], 0
        for films in self._films_of(schema, self.sizes[place]):
            rows = np.arange(row, row + len(films.number))
            yield self._render(Page(films, schema, self.phrases, self.draws, rows))
            row += len(rows)

    def _films_of(self, schema: Schema, num_rows: int) -> Iterator[Films]:
        """The films of a catalogue in a random order: first those to its taste, then, if it needs more, the rest."""
        left = num_rows
        for wanted in (True, False):
            for start in range(0, self.cinema.num_films, _BLOCK_ROWS):
                index = np.arange(start, min(start + _BLOCK_ROWS, self.cinema.num_films))
                films = self.cinema.films(self.draws.shuffle(f"rows of {schema.name}", index, self.cinema.num_films))
                fit = np.flatnonzero(_suits(schema.taste, films) == wanted)[:left]
                if len(fit):
                    left -= len(fit)
                    yield films.take(fit)
                if not left:
                    return

    def _render(self, page: Page) -> Block:
        columns, gaps = [], {}
        for column in page.schema.columns:
            cells = page.cells(column)
            gaps.update(self._leave_gaps(column, cells, page))
            self._slip(column, cells, page)
            columns.append(cells)
        return Block(page.schema, page.films.number.tolist(), columns, gaps)

    def _leave_gaps(self, column: Column, cells: list[Cell], page: Page) -> dict[tuple[int, str], str]:
        """Empty some cells and return what they held."""
        chance = self.draws.uniform(f"gap {page.schema.name} {column.header}", page.row)
        gaps = {}
        first_row = int(page.row[0])
        for place in np.flatnonzero(chance < column.gap_rate).tolist():
            for header, text in flatten(column.header, cells[place]):
                gaps[first_row + place, header] = text
            cells[place] = None
        return gaps

    def _slip(self, column: Column, cells: list[Cell], page: Page) -> None:
        """Misspell some cells."""
        if column.concept not in TYPO_CONCEPTS:
            return
        name = f"{page.schema.name} {column.header}"
        chance = self.draws.uniform(f"typo {name}", page.row)
        for place in np.flatnonzero(chance < self.config.typo_rate).tolist():
            cell = cells[place]
            if isinstance(cell, str):
                cells[place] = misspell(cell, int(self.draws.bits(f"slip {name}", page.row[place])[0]))


def misspell(text: str, bits: int) -> str:
    """The text with one letter dropped, doubled or swapped with the next; a word's first letter stays.

    >>> misspell("Harbour", 2)
    'Hrabour'
    """
    places = [place for place in range(1, len(text) - 1) if text[place - 1 : place + 2].isalpha()]
    if not places:
        return text
    kind, bits = bits % 3, bits // 3
    place = places[bits % len(places)]
    before, letter, after = text[:place], text[place], text[place + 1 :]
    if kind == 0:
        return before + after
    if kind == 1:
        return before + letter + letter + after
    return before + after[0] + letter + after[1:]


def _suits(taste: str, films: Films) -> NDArray[np.bool_]:
    """Which films a catalogue of this taste prefers."""
    if taste == "recent":
        return films.year >= 1995
    if taste == "classic":
        return films.year < 1992
    if taste == "acclaimed":
        return films.score >= 62
    if taste in ("europe", "asia"):
        return np.isin(films.country, EUROPE if taste == "europe" else ASIA)
    return np.ones(len(films.number), dtype=bool)


def simulate(config: SimulatorConfig | None = None) -> World:
    """A world of film catalogues in memory, with its truth.

    >>> world = simulate(SimulatorConfig(num_catalogues=3, rows_per_catalogue=20))
    >>> [table.name for table in world.catalogues]
    ['reelbase', 'kinothek', 'screen_ledger']
    """
    config = config or SimulatorConfig()
    simulation = Simulation(config)
    return World(config, tuple(_catalogue(simulation, place) for place in range(config.num_catalogues)))


def _catalogue(simulation: Simulation, place: int) -> Catalogue:
    schema, blocks = simulation.schemas[place], list(simulation.blocks(place))
    return Catalogue(
        name=schema.name,
        concepts=schema.concepts,
        rows=[row for block in blocks for row in block.rows()],
        row_films=[film for block in blocks for film in block.films],
        gaps={place: text for block in blocks for place, text in block.gaps.items()},
    )
