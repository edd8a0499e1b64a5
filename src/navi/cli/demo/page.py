"""The demo's page: what its steps found, each beside the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from navi.cli.demo.segments import Segments
from navi.cli.demo.tour import Score
from navi.report import Bars, Code, Column, Item, Map, Page, Reliability, Section, Table, Tile, Tiles

FEWEST_FOR_RELIABILITY = 20
"""Fills below which their reliability is chance."""
MOST_FILLS, MOST_PAIRS = 200, 50
"""Rows that the page's tables have at most."""
NEXT = """\
navi inspect FOLDER
navi prepare FOLDER -o corpus
navi pretrain corpus -o model
navi match --model model FOLDER"""
"""What to type for tables of one's own."""


@dataclass(frozen=True, kw_only=True)
class MatchedColumns:
    """Columns that were found to mean the same."""

    name: str
    """The name proposed for all of them."""
    columns: Mapping[tuple[str, str], str | None]
    """What each column (table, header) means in truth."""
    probability: float
    """How sure the match is."""


@dataclass(frozen=True, kw_only=True)
class NamedColumn:
    """A column whose header was hidden, with the names proposed for it."""

    table: str
    """Its table."""
    header: str
    """The header that was hidden."""
    values: tuple[str, ...]
    """Some of its values."""
    candidates: tuple[tuple[str, float], ...]
    """Proposed names with their probabilities, the likeliest first."""
    is_right: bool
    """Whether the likeliest name means what the column means."""


@dataclass(frozen=True, kw_only=True)
class FilledCell:
    """An empty cell that was filled."""

    table: str
    """Its table."""
    header: str
    """Its column."""
    value: str
    """What it was filled with."""
    confidence: float
    """How sure the fill is."""
    truth: str
    """What the cell would have held."""
    is_right: bool
    """Whether both are the same."""


@dataclass(frozen=True, kw_only=True)
class PairedRows:
    """Two rows of different tables that were found to be about the same."""

    left: Mapping[str, str]
    """The cells of the one."""
    right: Mapping[str, str]
    """The cells of the other."""
    confidence: float
    """How sure the pair is."""
    is_right: bool
    """Whether they are about the same in truth."""


@dataclass(kw_only=True)
class Findings:
    """What the steps of the demo found; steps add to it, and what no step found is left out of the page."""

    counts: dict[str, int] = field(default_factory=dict)
    """How many of what there is: tables, rows, headers …"""
    scores: list[Score] = field(default_factory=list)
    """How well each task went."""
    matched: list[MatchedColumns] = field(default_factory=list)
    """Columns that mean the same."""
    named: list[NamedColumn] = field(default_factory=list)
    """Columns that were named."""
    filled: list[FilledCell] = field(default_factory=list)
    """Cells that were filled."""
    paired_tables: tuple[str, str] = ("left", "right")
    """The tables whose rows were paired."""
    paired: list[PairedRows] = field(default_factory=list)
    """Rows that are about the same."""
    segments: Segments | None = None
    """Segments with their places on the map."""


def build_demo_page(findings: Findings) -> Page:
    """Return the page of what the demo found."""
    makers = (show_scores, show_matched, show_named, show_filled, show_paired, show_segments)
    sections = [section for section in (make(findings) for make in makers) if section is not None]
    lead = (
        "Film catalogues that a simulator made, no two with the same schema: headers, formats and order differ, cells "
        "are missing. NAVI learned one encoder from them, without any label, and was then asked. The simulator knows "
        "the truth, so every answer stands beside it and beside what a simple guess reaches."
    )
    text = "The same with a folder of your own tables: CSV, JSON lines, Parquet and others, compressed or not."
    return Page("What NAVI found", lead, (*sections, Section("Your own tables", text, (Code(NEXT),))))


def show_scores(findings: Findings) -> Section | None:
    """Return the scores beside those of a simple guess."""
    if not findings.scores:
        return None
    scores = findings.scores
    tiles = Tiles(tuple(Tile(label, f"{count:,}") for label, count in findings.counts.items()))
    bars = Bars(
        caption="Share of right answers.",
        categories=tuple(score.task for score in scores),
        series={"NAVI": tuple(score.navi for score in scores), "simple guess": tuple(score.guess for score in scores)},
        title="right",
        percent=True,
        quiet=("simple guess",),
    )
    table = Table(
        "The scores, and what the simple guess is.",
        ("task", Column("NAVI", percent=True), Column("guess", percent=True), "what the guess is"),
        tuple((score.task, score.navi, score.guess, score.guess_name) for score in scores),
    )
    items: tuple[Item, ...] = (bars, table)
    text = "Each task is scored against the simulator's truth, and so is a simple guess that needs no model."
    return Section("How well it went", text, (tiles, *items) if findings.counts else items)


def show_matched(findings: Findings) -> Section | None:
    """Return the groups of columns that mean the same."""
    groups = [group for group in findings.matched if len(group.columns) > 1]
    if not groups:
        return None
    columns = ("name", "columns", Column("tables"), Column("probability", bar=True, digits=2), "meaning", "agree")
    text = (
        "Columns of all catalogues, put together by what their headers and values say. The meaning is the simulator's; "
        "the last column tells how many of the group's columns have it."
    )
    rows = tuple(_describe_group(group) for group in groups)
    return Section("Columns that mean the same", text, (Table("Groups of matched columns.", columns, rows),))


def show_named(findings: Findings) -> Section | None:
    """Return the columns that were named from their values."""
    if not findings.named:
        return None
    columns = (
        "hidden header",
        "table",
        "values",
        "proposed",
        Column("probability", bar=True, digits=2),
        "next",
        "right",
    )
    rows = tuple(
        (
            column.header,
            *(column.candidates[0] if column.candidates else (None, None)),
            column.is_right,
            ", ".join(f"{name} {probability:.2f}" for name, probability in column.candidates[1:4]),
            ", ".join(column.values),
            column.table,
        )
        for column in findings.named
    )
    text = "Headers were hidden, and names proposed from the values alone. A name is right if it means the same."
    return Section("Unnamed columns, named", text, (Table("Columns with the names proposed for them.", columns, rows),))


def show_filled(findings: Findings) -> Section | None:
    """Return the cells that were filled, and whether their confidence can be trusted."""
    filled = findings.filled
    if not filled:
        return None
    columns = ("column", "filled with", "truth", "right", Column("confidence", bar=True, digits=2), "table")
    rows = tuple(
        (cell.header, cell.value, cell.truth, cell.is_right, cell.confidence, cell.table)
        for cell in filled[:MOST_FILLS]
    )
    items: list[Item] = [Table("Empty cells with what they were filled with.", columns, rows)]
    if len(filled) >= FEWEST_FOR_RELIABILITY:
        outcomes = [cell.confidence for cell in filled], [cell.is_right for cell in filled]
        caption = "Fills are right about as often as they are sure where the line is near the diagonal."
        items.append(Reliability.from_outcomes({"NAVI": outcomes}, bins=5, caption=caption))
    text = "Cells that the simulator left empty. It knows what they would have held."
    return Section("Empty cells, filled", text, tuple(items))


def show_paired(findings: Findings) -> Section | None:
    """Return the rows of two tables that are about the same."""
    if not findings.paired:
        return None
    left, right = findings.paired_tables
    columns = (left, right, "right", Column("confidence", bar=True, digits=2))
    rows = tuple(
        (_join_cells(pair.left), _join_cells(pair.right), pair.is_right, pair.confidence)
        for pair in findings.paired[:MOST_PAIRS]
    )
    text = "Rows of two catalogues that share no schema, paired with the row that is nearest."
    return Section("The same film in two catalogues", text, (Table("Pairs of rows, the surest first.", columns, rows),))


def show_segments(findings: Findings) -> Section | None:
    """Return the map of segments."""
    found = findings.segments
    if found is None or not found.x:
        return None
    labels = {"table": found.table, "header": found.header, "value": found.value, "role": found.role}
    drawn = Map(
        caption=f"Segments of {len(set(found.table))} catalogues, coloured by the role of their column.",
        x=found.x,
        y=found.y,
        labels=labels,
        colour="role",
        note="Placed by t-SNE: near means alike, far means little. Point at a segment to read it.",
    )
    text = (
        "A segment is a header with its value. Columns of few values (low) gather by what they mean, across "
        "catalogues; columns where all values differ (high) spread out, for they tell rows apart."
    )
    return Section("The map of segments", text, (drawn,))


def _describe_group(group: MatchedColumns) -> tuple[str | float | None, ...]:
    tables: dict[str, list[str]] = {}
    for table, header in group.columns:
        tables.setdefault(header, []).append(table)
    told = ", ".join(f"{header} ({', '.join(names)})" for header, names in tables.items())
    meaning, count = Counter(group.columns.values()).most_common(1)[0]
    num_tables = len({table for table, _ in group.columns})
    return group.name, told, num_tables, group.probability, meaning, f"{count} of {len(group.columns)}"


def _join_cells(cells: Mapping[str, str], most: int = 6) -> str:
    return ", ".join(f"{header}: {value}" for header, value in list(cells.items())[:most])
