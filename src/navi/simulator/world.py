"""Catalogues of a simulated world, in memory and as files, and what is true of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

from navi.errors import ConfigError, TableError
from navi.files import read_json, write_json
from navi.settings import check_bounds
from navi.simulator.films import Film, make_films
from navi.simulator.schema import CONCEPTS, FilmSchema, choose_schemas, flatten_cell, misspell, write_cell


@dataclass(frozen=True, kw_only=True)
class SimulatorConfig:
    """How many catalogues of how many films, and how messy they are."""

    num_catalogues: int = 14
    """Catalogues, each a table with a schema of its own."""
    rows_per_catalogue: int = 400
    """Rows of a catalogue on average; the largest have about three times those of the smallest."""
    num_rows: int | None = None
    """Rows of all catalogues together; None is `num_catalogues * rows_per_catalogue`."""
    width: float = 1.0
    """How many of the concepts that a catalogue could have it has, as a share of the usual: 0.5 halves its columns."""
    gap_rate: float = 0.06
    """Share of cells left out, of those that may be: titles, ids and constant columns are always there."""
    typo_rate: float = 0.01
    """Share of names and titles with a slip of the pen."""
    seed: int = 0
    """Everything follows from it."""

    def __post_init__(self) -> None:
        check_bounds(self, "num_catalogues", "rows_per_catalogue", "num_rows", least=1)
        check_bounds(self, "gap_rate", "typo_rate", least=0, most=0.5)
        check_bounds(self, "width", least=0.1, most=1)
        rows, tables = self.num_rows, self.num_catalogues
        if rows is not None and rows < tables:
            raise ConfigError(f"num_rows must give each catalogue a row, got {rows} for {tables} catalogues.")


@dataclass(frozen=True)
class Catalogue:
    """One table of a simulated world and what is true of it."""

    name: str
    """Name of the table."""
    concepts: dict[str, str]
    """The concept of each header, nested cells laid flat."""
    rows: list[dict[str, Any]]
    """The rows, nested where the catalogue is; absent cells are left out."""
    row_films: list[int]
    """The film each row is about."""
    gaps: dict[tuple[int, str], str]
    """The text that an absent cell (row, header laid flat) would have held."""


@dataclass(kw_only=True)
class Truth:
    """The truth about some catalogues; tables and headers are named as a reader of their files names them.

    A row is counted from 0 in the order of its file, the header of a text table not among the rows.
    """

    concepts: dict[tuple[str, str], str] = field(default_factory=dict)
    """What a header of a table means."""
    gaps: dict[tuple[str, int, str], str] = field(default_factory=dict)
    """The text that an empty cell (table, row, header) would have held."""
    films: dict[str, list[int]] = field(default_factory=dict)
    """For each table, the film each row is about."""
    first_place: dict[str, int] = field(default_factory=dict)
    """For each table, the line or record that its row 0 stands in: 2 below a line of headers, else 1."""

    def concept_of(self, table: str, header: str) -> str | None:
        """Return what a header means, None if the table has no such; cast.7.name means what cast.0.name does."""
        first_member = re.sub(r"(?<=\.)\d+(?=\.|$)", "0", header)
        return self.concepts.get((table, header)) or self.concepts.get((table, first_member))

    def shared_rows(self, table: str, other: str) -> list[tuple[int, int]]:
        """Return the pairs of rows, one of each table, that are about the same film."""
        places = {film: row for row, film in enumerate(self.films[other])}
        return [(row, places[film]) for row, film in enumerate(self.films[table]) if film in places]

    def save(self, path: str | Path) -> None:
        """Write the truth as JSON; keep it out of the catalogues' folder, or it is read as one more table."""
        lists = {name: [[*place, text] for place, text in getattr(self, name).items()] for name in ("concepts", "gaps")}
        write_json(Path(path), lists | {"films": self.films, "first_place": self.first_place})

    @classmethod
    def load(cls, path: str | Path) -> Truth:
        """Read what `save` wrote."""
        content = read_json(Path(path), TableError, "Expected what Truth.save writes.")
        try:
            concepts = {(table, header): concept for table, header, concept in content["concepts"]}
            gaps = {(table, row, header): text for table, row, header, text in content["gaps"]}
            return cls(concepts=concepts, gaps=gaps, films=content["films"], first_place=content["first_place"])
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"Cannot read {path}: {error}. Expected what Truth.save writes.") from error


@dataclass(frozen=True)
class World:
    """Every catalogue of a simulated world."""

    catalogues: tuple[Catalogue, ...]

    @cached_property
    def truth(self) -> Truth:
        """What is true of the catalogues, their rows given as a frame or a list."""
        truth = Truth()
        for table in self.catalogues:
            _add_truth(truth, table, first_place=1)
        return truth


def simulate(config: SimulatorConfig | None = None) -> World:
    """Return a world of film catalogues in memory, with its truth.

    >>> world = simulate(SimulatorConfig(num_catalogues=3, rows_per_catalogue=20))
    >>> [table.name for table in world.catalogues]
    ['reelbase', 'kinothek', 'screen_ledger']
    """
    return World(tuple(table for _, table in _make_catalogues(config or SimulatorConfig())))


def write_catalogues(folder: str | Path, config: SimulatorConfig | None = None) -> Truth:
    """Write the catalogues of a simulated world into a folder and return what is true of them.

    The same settings write the same bytes.
    """
    truth, folder = Truth(), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for schema, table in _make_catalogues(config or SimulatorConfig()):
        _add_truth(truth, table, first_place=2 if schema.delimiter else 1)
        _write(folder / f"{schema.name}{schema.suffix}", schema, table)
    return truth


def _add_truth(truth: Truth, table: Catalogue, *, first_place: int) -> None:
    truth.concepts.update({(table.name, header): concept for header, concept in table.concepts.items()})
    truth.gaps.update({(table.name, *place): text for place, text in table.gaps.items()})
    truth.films[table.name], truth.first_place[table.name] = table.row_films, first_place


def _make_catalogues(config: SimulatorConfig) -> Iterator[tuple[FilmSchema, Catalogue]]:
    rng, schemas = Random(f"films {config.seed}"), choose_schemas(config.num_catalogues, config.width, config.seed)
    total = config.num_rows or config.num_catalogues * config.rows_per_catalogue
    # Sizes are uneven, smaller for a special taste, none is empty, and they add up.
    weights = [(0.5 + rng.random()) * (0.7 if schema.taste else 1.0) for schema in schemas]
    edges = [round(edge / sum(weights) * (total - len(schemas))) for edge in accumulate(weights)]
    sizes = [1 + high - low for low, high in pairwise([0, *edges])]
    # A film is in two or three catalogues on average.
    num_films = max(60, round(0.4 * total), round(1.5 * max(sizes)))
    films = list(islice(make_films(num_films, rng), num_films))
    for schema, size in zip(schemas, sizes, strict=True):
        yield schema, _make_catalogue(schema, films, size, config, Random(f"{schema.name} {config.seed}"))


def _make_catalogue(
    schema: FilmSchema, films: list[Film], size: int, config: SimulatorConfig, rng: Random
) -> Catalogue:
    """Return a catalogue of the films to its taste first and then, if it needs more, the rest."""
    fact, low, high = schema.taste or ("number", 0, len(films))
    shuffled = rng.sample(range(len(films)), len(films))
    chosen = sorted(shuffled, key=lambda number: not low <= films[number][fact] <= high)[:size]
    table = Catalogue(schema.name, {}, [{} for _ in chosen], chosen, {})
    for column in schema.columns:
        known, header = CONCEPTS[column.concept], ".".join(column.path)
        for row, number in enumerate(chosen):
            cell = write_cell(column, films[number], schema, row, rng)
            leaves = dict(flatten_cell(header, cell)) if isinstance(cell, list) else {header: str(cell)}
            table.concepts.update(dict.fromkeys(leaves, column.concept))
            # Drawn whatever the rates are, so that they change nothing else.
            gap, slip, letter = rng.random(), rng.random(), rng.getrandbits(16)
            if cell is None:
                continue
            if gap < config.gap_rate and known.get("gaps", True):
                table.gaps.update({(row, leaf): text for leaf, text in leaves.items()})
                continue
            if slip < config.typo_rate and known.get("slips") and isinstance(cell, str):
                cell = misspell(cell, letter)
            holder = table.rows[row] if len(column.path) == 1 else table.rows[row].setdefault(column.path[0], {})
            holder[column.path[-1]] = cell
        if column.keys:
            characters = [leaf for leaf in table.concepts if leaf.startswith(header) and leaf.endswith(column.keys[1])]
            table.concepts.update(dict.fromkeys(characters, "character"))
    return table


def _write(path: Path, schema: FilmSchema, table: Catalogue) -> None:
    if schema.suffix == ".parquet":
        _write_parquet(path, schema, table)
        return
    text = io.StringIO(newline="")
    empty = {column.path[0]: None for column in schema.columns if len(column.path) == 1}
    if schema.delimiter:
        writer = csv.DictWriter(text, list(empty), delimiter=schema.delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table.rows)
    else:
        rows = [empty | row for row in table.rows] if schema.writes_null else table.rows
        text.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    raw = text.getvalue().encode()
    # Without the time, which would change the bytes.
    path.write_bytes(gzip.compress(raw, 3, mtime=0) if path.suffix == ".gz" else raw)


def _write_parquet(path: Path, schema: FilmSchema, table: Catalogue) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for column in schema.columns:
        array = pa.array([row.get(column.path[0]) for row in table.rows])
        is_date = column.concept == "release_date" and schema.ways["date"].startswith("{0}-")
        arrays[column.path[0]] = array.cast(pa.date32()) if is_date else array
    pq.write_table(pa.table(arrays), path)
