"""The schema of each catalogue: its columns, their headers and order, and its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from navi.simulator.draws import Draws
from navi.simulator.formats import Formats, choose_formats
from navi.simulator.headers import GROUPS, HEADERS, STYLES, write_header

MAX_FAMILY = 3
"""The most members of a list a catalogue writes one by one."""
TYPO_CONCEPTS = frozenset(
    {"title", "original_title", "director", "writer", "composer", "actor", "studio", "distributor", "location"}
)
"""Concepts that are typed in by hand."""
CONSTANT_CONCEPTS = frozenset({"source", "title_type", "currency", "best_score"})
"""Concepts with one value for a whole catalogue."""
_ALWAYS_THERE = CONSTANT_CONCEPTS | {"id", "url", "title"}

_SHARES = {
    **{"id": 0.8, "url": 0.25, "source": 0.5, "title_type": 0.4, "title": 1.0, "original_title": 0.35, "series": 0.3},
    **{"release_year": 0.7, "release_date": 0.5, "runtime": 0.75, "genre": 0.95, "director": 0.9, "writer": 0.35},
    **{"director_nationality": 0.3, "director_birth_year": 0.2, "composer": 0.35, "actor": 0.75, "studio": 0.75},
    **{"distributor": 0.4, "country": 0.75, "language": 0.75, "location": 0.35, "certificate": 0.6, "budget": 0.4},
    **{"revenue": 0.5, "user_score": 0.7, "critic_score": 0.3, "vote_count": 0.4, "description": 0.45},
    **{"keywords": 0.4, "color": 0.35, "awards": 0.25},
}
_GROUPED = {
    "director": ("director", "director_nationality", "director_birth_year"),
    "production": ("studio", "country", "language"),
    "rating": ("user_score", "vote_count", "best_score"),
    "release": ("release_date", "release_year"),
    "money": ("budget", "revenue", "currency"),
}
_LEAVES = {"director": "name", "director_nationality": "nationality", "director_birth_year": "born"}
_SINGLES = ("actor", "star", "lead", "performer", "cast member")
_PRESETS = (
    "reelbase|.csv|,||",
    "kinothek|.jsonl||nested|europe",
    "screen_ledger|.tsv|\t||",
    "cinefolio|.parquet|||",
    "matinee_guide|.csv.gz|,||",
    "filmhaus_archive|.jsonl||flat|",
    "boxoffice_tracker|.csv|,||recent",
    "silverlist|.jsonl.gz||nested|",
    "arthouse_index|.csv|;||acclaimed",
    "streamdeck|.jsonl||flat|recent",
    "celluloid_register|.parquet|||",
    "classic_reels|.tsv.gz|\t||classic",
    "popcorn_db|.jsonl||nested|",
    "asia_screen|.csv|,||asia",
    "festival_dossier|.jsonl.gz||nested|acclaimed",
    "nightowl_rentals|.csv|,||",
)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a catalogue."""

    concept: str
    """What it means."""
    path: tuple[str, ...]
    """Its header, one key for each level of nesting."""
    shape: str = "plain"
    """`plain` text or number, `list` of them, `objects` with keys, or `part`: one member of a list."""
    keys: tuple[str, ...] = ()
    """Keys of an object in the list."""
    part: int = 0
    """Which member it holds."""
    gap_rate: float = 0.0
    """Share of its cells left out."""

    @property
    def header(self) -> str:
        """The header as it reads when nested cells are flattened, the members of a list apart."""
        return ".".join(self.path)

    def flat_headers(self) -> Iterator[tuple[str, str]]:
        """Each header the column has once flattened, with its concept."""
        if self.shape in ("plain", "part"):
            yield self.header, self.concept
            return
        for member in range(2 if self.concept == "genre" else MAX_FAMILY):
            if self.shape == "list":
                yield f"{self.header}.{member}", self.concept
            for key, concept in zip(self.keys, (self.concept, "character"), strict=False):
                yield f"{self.header}.{member}.{key}", concept


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a catalogue looks like."""

    name: str
    """Name of the table."""
    suffix: str
    """What its file's name ends in: the format and the compression."""
    delimiter: str
    """Between the cells of a text table."""
    taste: str
    """Which films it prefers; empty for no preference."""
    writes_null: bool
    """Whether an absent cell is written as null rather than left out."""
    formats: Formats
    """How it writes things."""
    columns: tuple[Column, ...]
    """Its columns, in order."""

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return self.name + self.suffix

    @property
    def concepts(self) -> dict[str, str]:
        """The concept of each header, nested cells flattened."""
        return dict(pair for column in self.columns for pair in column.flat_headers())


def choose_schemas(draws: Draws, num_catalogues: int, gap_rate: float, width: float = 1.0) -> tuple[Schema, ...]:
    """A schema for each catalogue; every concept is in its share of them, and its header words take turns."""
    holders = {
        concept: draws.order(f"holders of {concept}", num_catalogues)[: max(1, round(share * num_catalogues))]
        for concept, share in _narrow(width).items()
    }
    return tuple(_SchemaChoice(draws, place, holders, gap_rate).schema() for place in range(num_catalogues))


def _narrow(width: float) -> dict[str, float]:
    """The share of catalogues that hold each concept; the title stays in all of them."""
    return {concept: share if concept == "title" else share * width for concept, share in _SHARES.items()}


def _turn(place: int, holders: list[int]) -> int:
    """Which of a concept's holders a catalogue is, its own place where it is none; takes care that they differ."""
    return holders.index(place) if place in holders else place


class _SchemaChoice:
    """The choice of one catalogue's schema: holds which headers are taken so far."""

    def __init__(self, draws: Draws, place: int, holders: dict[str, list[int]], gap_rate: float) -> None:
        self.draws, self.place, self.holders, self.gap_rate = draws, place, holders, gap_rate
        preset = _PRESETS[place] if place < len(_PRESETS) else f"catalogue_{place + 1:02d}|.csv|,||"
        self.name, self.suffix, self.delimiter, self.nesting, self.taste = preset.split("|")
        self.style = STYLES[(place + draws.one("style", len(STYLES))) % len(STYLES)]
        self.turns = {concept: _turn(place, holders.get(concept, [])) for concept in HEADERS}
        self.formats = choose_formats(draws, self.turns)
        self.taken: set[tuple[str, ...]] = set()

    def schema(self) -> Schema:
        """The whole schema."""
        concepts = self._concepts()
        groups = self._groups(concepts)
        columns = [column for concept in concepts for column in self._columns(concept, groups.get(concept, ""))]
        return Schema(
            name=self.name,
            suffix=self.suffix,
            delimiter=self.delimiter,
            taste=self.taste,
            writes_null=self._chance("nulls") < 0.4,
            formats=self.formats,
            columns=tuple(sorted(columns, key=self._rank)),
        )

    def _chance(self, name: str) -> float:
        return self.draws.chance(f"{name} of {self.place}")

    def _concepts(self) -> list[str]:
        """The concepts this catalogue holds."""
        held = {concept for concept, holders in self.holders.items() if self.place in holders}
        if not held & {"release_year", "release_date"}:
            held.add("release_year")
        if held & {"budget", "revenue"} and self.formats.money in ("plain", "short"):
            held.add("currency")
        if self.nesting == "nested" and "user_score" in held:
            held.add("best_score")
        return [concept for concept in HEADERS if concept in held]

    def _groups(self, concepts: list[str]) -> dict[str, str]:
        """The key under which each grouped concept stands."""
        groups: dict[str, str] = {}
        if self.nesting != "nested":
            return groups
        for group, members in _GROUPED.items():
            held = [concept for concept in members if concept in concepts]
            if held[:1] == [members[0]] and len(held) > 1:
                words = GROUPS[group]
                key = write_header(words[self.draws.one(f"key {group} {self.place}", len(words))], self.style)
                self.taken.add((key,))
                groups.update(dict.fromkeys(held, key))
        return groups

    def _header(self, concept: str, group: str) -> tuple[str, ...]:
        """The first header in the concept's turn that is not taken."""
        if group and concept in _LEAVES:
            return group, write_header(_LEAVES[concept], self.style)
        words = HEADERS[concept]
        order = self.draws.order(f"words of {concept}", len(words))
        for step in range(len(words)):
            header = write_header(words[order[(self.turns[concept] + step) % len(words)]], self.style)
            path = (group, header) if group else (header,)
            if path not in self.taken:
                self.taken.add(path)
                return path
        raise AssertionError(f"every header of {concept} is taken in {self.name}")

    def _columns(self, concept: str, group: str) -> list[Column]:
        gap_rate = 0.0 if concept in _ALWAYS_THERE else self.gap_rate * (0.4 + 1.2 * self._chance(f"gaps {concept}"))
        if concept == "actor" and not self.nesting and self._chance("cast in parts") < 0.4:
            single = _SINGLES[self.draws.one(f"single {self.place}", len(_SINGLES))]
            return [
                Column(
                    concept=concept,
                    path=(write_header(f"{single} {part + 1}", self.style),),
                    shape="part",
                    part=part,
                    gap_rate=gap_rate,
                )
                for part in range(MAX_FAMILY)
            ]
        shape, keys = self._shape(concept)
        return [Column(concept=concept, path=self._header(concept, group), shape=shape, keys=keys, gap_rate=gap_rate)]

    def _shape(self, concept: str) -> tuple[str, tuple[str, ...]]:
        """How a concept with several values is laid out: joined in one text, or as JSON has it."""
        if concept == "actor" and self.nesting == "nested":
            role = HEADERS["character"][self.draws.one(f"role {self.place}", len(HEADERS["character"]))]
            return "objects", (write_header("name", self.style), write_header(role, self.style))
        many = concept == "keywords" or concept == "actor" or (concept == "genre" and self.formats.genre != "first")
        return ("list", ()) if many and self.nesting and self._chance(f"list {concept}") < 0.6 else ("plain", ())

    def _rank(self, column: Column) -> float:
        """Where a column stands: ids and titles early, the rest anywhere, cells of a group together."""
        early = {"id": 0.8, "title": 0.7}.get(column.concept, 0.0)
        key = column.path[0] if len(column.path) > 1 else column.concept
        return self._chance(f"rank of {key}") - early
