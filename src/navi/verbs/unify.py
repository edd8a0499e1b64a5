"""Many tables made one: a specification of its columns, written for a person to edit, and the table that it gives."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from navi.errors import ConfigError, TableError
from navi.files import write_file
from navi.report import Page, ReportColumn, ReportTable, Section, Tiles
from navi.settings import override
from navi.tables import ReadConfig, Table, find_members, read_tables, to_arrow
from navi.verbs.cell_formats import (
    ARROW_TYPES,
    DATE_TYPES,
    NUMBER_TYPES,
    CellFormat,
    CellType,
    check_format,
    drop_missing,
    join_types,
    learn_cell_formats,
    read_cells,
    read_header,
)
from navi.verbs.column_groups import ColumnRef
from navi.verbs.match import Matches
from navi.verbs.result import TabularResult

TABLE_COLUMN, ROW_COLUMN, UNREAD_COLUMN = "_table", "_row", "_unread"
"""Where each row comes from: its table, and its place in it (the line of a text file, else from 1); and the cells that
are not of their column's type, as they were, where there are any."""
MERGED_COLUMN, CONFLICTS_COLUMN = "_merged", "_conflicts"
"""Of a row that was made of several: which they were, and the cells of theirs that gave way to others."""
RESERVED = (TABLE_COLUMN, ROW_COLUMN, UNREAD_COLUMN, MERGED_COLUMN, CONFLICTS_COLUMN)
VERSION = 1
TITLE = """\
# How `navi unify` makes one table of many. A person may edit it: names, types, formats, which columns are joined.
# Run it: navi unify FOLDER --spec THIS -o OUT. `table` may be a pattern, such as "shop_*".
# Types: text, integer, number, date, partial date (some are a year alone), datetime, boolean. The format of a date is
# %d.%m.%Y or the like, of a number how 1234.5 is written, or "duration". `currency` and `unit` of a source hold for
# cells that name none.
"""
DUPLICATES_TITLE = """\
# Rows about the same thing are merged. Of different values, the one that most rows have is taken; of those that as many
# have, the one of the table that comes first in `prefer`. The others stand in `_conflicts`, the rows in `_merged`.
"""
Part = TypeVar("Part", "UnifiedColumn", "SourceColumn")


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """A column of a table that goes into a unified one, and how its cells are written."""

    table: str
    """Name of the table, or a pattern of names."""
    header: str
    format: str = ""
    """See `CellFormat`."""
    currency: str = ""
    """Currency of the cells that name none, or only a sign such as `$`."""
    unit: str = ""
    """Unit of the cells that name none."""


@dataclass(frozen=True, kw_only=True)
class UnifiedColumn:
    """A column of the unified table."""

    name: str
    type: CellType = "text"
    currency_column: str = ""
    """Name of the column that holds each cell's currency; empty for none."""
    unit_column: str = ""
    """Name of the column that holds each cell's unit; empty for none."""
    original_column: str = ""
    """Name of the column that holds each cell's text as it was; empty for none."""
    header_column: str = ""
    """Name of the column that holds the header that each cell stood under; empty for none."""
    sources: tuple[SourceColumn, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        beside = (self.currency_column, self.unit_column, self.original_column, self.header_column)
        return (self.name, *filter(None, beside))


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """How rows about the same thing are merged."""

    threshold: float = 0.5
    """Probability from which rows are linked."""
    prefer: tuple[str, ...] = ()
    """Tables whose values are taken before those of others where as many rows have each."""

    def __post_init__(self) -> None:
        if not 0.0 < self.threshold < 1.0:
            raise ConfigError(f"threshold of duplicates must lie between 0 and 1, got {self.threshold}.")


@dataclass(frozen=True, kw_only=True)
class UnifySpec:
    """How tables become one; the same tables under the same specification give the same bytes."""

    columns: tuple[UnifiedColumn, ...]
    duplicates: Duplicates | None = None
    """How duplicates are merged; None leaves them as they are."""

    def __post_init__(self) -> None:
        counts = Counter(name for column in self.columns for name in column.names)
        for name, count in counts.items():
            if count > 1 or name in RESERVED:
                reason = "is kept for where rows come from" if name in RESERVED else f"is given {count} times"
                raise ConfigError(f"The column name '{name}' {reason}. Give every column a name of its own.")
        for column in self.columns:
            for source in column.sources:
                if wrong := check_format(column.type, source.format):
                    where = f"{source.table}/{source.header} in '{column.name}'"
                    raise ConfigError(f"The format '{source.format}' of {where} will not do: {wrong}.")

    def save(self, file: str | Path) -> None:
        """Write it as TOML, for a person to edit."""
        parts = [f"{TITLE}version = {VERSION}"]
        if self.duplicates is not None:
            prefer = json.dumps(self.duplicates.prefer, ensure_ascii=False)
            lines = ["[duplicates]", f"threshold = {self.duplicates.threshold!r}", f"prefer = {prefer}"]
            parts.append(DUPLICATES_TITLE + "\n".join(lines))
        for column in self.columns:
            lines = ["[[columns]]", *_write_fields(column, skip="sources"), "sources = ["]
            lines += [f"    {{ {', '.join(_write_fields(source))} }}," for source in column.sources]
            parts.append("\n".join([*lines, "]"]))
        with write_file(Path(file)) as aside:
            aside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: str | Path) -> UnifySpec:
        """Return what such a file holds."""
        try:
            found = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"Cannot read the specification {file}: {error}.") from error
        if found.pop("version", None) != VERSION:
            raise ConfigError(f"{file} is no specification of this version: expected version = {VERSION}.")
        try:
            columns = []
            for given in _take_list(found, "columns"):
                listed = _take_list(given, "sources") if isinstance(given, dict) else ()
                sources = tuple(_make(SourceColumn(table="", header=""), each, "table", "header") for each in listed)
                columns.append(replace(_make(UnifiedColumn(name=""), given, "name"), sources=sources))
            duplicates = (
                override(Duplicates(), found.pop("duplicates"), "duplicates.") if "duplicates" in found else None
            )
            if found:
                raise ConfigError(f"Unknown setting '{next(iter(found))}'. Expected columns or duplicates.")
            return cls(columns=tuple(columns), duplicates=duplicates)
        except ConfigError as error:
            raise ConfigError(f"Cannot read the specification {file}: {error}") from error


def _write_fields(part: UnifiedColumn | SourceColumn, skip: str = "") -> list[str]:
    # A text of JSON is one of TOML, too.
    pairs = ((each.name, getattr(part, each.name)) for each in fields(part) if each.name != skip)
    return [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in pairs if text]


def _take_list(settings: dict[str, Any], name: str) -> list[Any]:
    """Take a list out of what a file gives; nothing where there is none."""
    listed = settings.pop(name, [])
    if not isinstance(listed, list):
        raise ConfigError(f"{name} must be a list, got {listed!r}.")
    return listed


def _make(base: Part, settings: Any, *needed: str) -> Part:
    """Return a part of a specification with the settings that a file gives it; some it must give."""
    if not isinstance(settings, dict):
        raise ConfigError(f"expected a table with {', '.join(needed)}, got {settings!r}.")
    made = override(base, settings)
    for name in needed:
        if not getattr(made, name):
            raise ConfigError(f"{name} is missing in {settings}.")
    return made


EXAMPLE_ROWS, NUM_EXAMPLES, MAX_EXAMPLE = 1_000, 3, 60
"""Values that are looked at for examples of a column, how many are shown, and their characters."""


@dataclass(frozen=True, kw_only=True)
class Unified(TabularResult):
    """One table made of many."""

    table: pa.Table
    """All rows, with `_table` and `_row` before the columns."""
    spec: UnifySpec
    """What it was made by."""
    notes: tuple[str, ...] = field(default=())
    """What a person should know: what is new, missing, open, or not of its type."""

    def to_arrow(self) -> pa.Table:
        """Return the table."""
        return self.table

    def list_examples(self, name: str) -> list[str]:
        """Return some values of a column, each once."""
        some = self.table[name].drop_null().slice(0, EXAMPLE_ROWS).to_pylist()
        return [str(value) for value in dict.fromkeys(map(str, some))][:NUM_EXAMPLES]

    def measure_fill(self, name: str) -> float:
        """Return the share of rows that have a value in a column."""
        return float(1 - self.table[name].null_count / max(self.table.num_rows, 1))

    def to_page(self) -> Page:
        """Return what came out as a page, for `navi.report.write_html`: each column, and what it is made of."""
        rows = [
            (
                column.name,
                column.type,
                self.measure_fill(column.name),
                ", ".join(f"{source.table}/{source.header}" for source in column.sources),
                ", ".join(text[:MAX_EXAMPLE] for text in self.list_examples(column.name)),
            )
            for column in self.spec.columns
        ]
        filled = ReportColumn("filled", percent=True, bar=True, digits=0)
        columns = ReportTable(
            "The columns, and where their cells come from.", ("column", "type", filled, "made of", "values"), rows
        )
        sources = {source.table for column in self.spec.columns for source in column.sources}
        counts = {"rows": self.table.num_rows, "columns": len(rows), "tables": len(sources)}
        tiles = Tiles({name: f"{count:,}" for name, count in counts.items()})
        sections = [Section("Columns", items=(tiles, columns))]
        if self.notes:
            sections.append(
                Section("Notes", items=(ReportTable("What to know.", ("note",), [(note,) for note in self.notes]),))
            )
        return Page("One table made of many", "What `navi unify` wrote.", sections)


def plan_unify(
    frames: Any,
    matches: Matches,
    config: ReadConfig | None = None,
    *,
    originals: bool = False,
    source_headers: bool = False,
    duplicates: Duplicates | None = None,
) -> tuple[UnifySpec, tuple[str, ...]]:
    """Return the specification that follows from matches, and what was open.

    A cluster is a column. Where it has several of a table, the first ones are joined, and the others stay beside them
    under their own names. With `originals` and `source_headers`, columns for these come along.
    """
    tables = _read(frames, config)
    taken, notes, columns = set(RESERVED), [], []
    learned = {
        name: learn_cell_formats({header: _count_texts(table, header) for header in table.headers})
        for name, table in tables.items()
    }
    for name, refs in _list_groups(tables, matches):
        counts = {ref: _count_texts(tables[ref.table], ref.header) for ref in refs}
        formats = {ref: learned[ref.table][ref.header] for ref in refs}
        notes += [f"{ref}: {each.doubt}." for ref, each in formats.items() if each.doubt]
        type = join_types((formats[ref], counts[ref]) for ref in refs)
        if type == "text" and {each.type for each in formats.values()} != {"text"}:
            shown = (f"{ref} {each.type}, '{next(iter(counts[ref]))}'" for ref, each in formats.items() if counts[ref])
            notes.append(f"'{name}' stays text, its columns are of different types: {'; '.join(shown)}.")
        columns.append(_make_column(_choose(name, taken), type, formats, taken, originals, source_headers))
    if duplicates is not None:
        if unknown := [name for name in duplicates.prefer if name not in tables]:
            raise ConfigError(f"There is no table '{unknown[0]}' to prefer. Expected some of {', '.join(tables)}.")
        duplicates = replace(duplicates, prefer=tuple(dict.fromkeys((*duplicates.prefer, *tables))))
    return UnifySpec(columns=tuple(columns), duplicates=duplicates), tuple(notes)


def leave_out_members(table: Table, limit: int) -> Table:
    """Return a table with the first members of each list alone, `cast.0`, `cast.1` …, as matching compares them."""
    members = find_members(table.headers)
    kept = [header for header in table.headers if members.get(header, 0) < limit]
    return table if len(kept) == len(table.headers) else table.select(kept)


def _list_groups(tables: Mapping[str, Table], matches: Matches) -> Iterator[tuple[str, list[ColumnRef]]]:
    """Yield the columns that become one, and their name.

    The first of each table in a cluster have its name; then come all second ones, under the header that most have.
    """
    place = {ColumnRef(name, header): k for name, table in tables.items() for k, header in enumerate(table.headers)}
    matched: set[ColumnRef] = set()
    for cluster in matches.clusters:
        members: dict[str, list[ColumnRef]] = {}
        for ref in sorted((each for each in cluster.columns if each in place), key=lambda each: _order(each, place)):
            members.setdefault(ref.table, []).append(ref)
            matched.add(ref)
        for rank in range(max(map(len, members.values()), default=0)):
            refs = [members[name][rank] for name in tables if len(members.get(name, ())) > rank]
            yield cluster.name if rank == 0 else Counter(ref.header for ref in refs).most_common(1)[0][0], refs
    rest: dict[str, list[ColumnRef]] = {}
    for ref in place:
        if ref not in matched:
            rest.setdefault(ref.header, []).append(ref)
    yield from rest.items()


def _order(ref: ColumnRef, place: Mapping[ColumnRef, int]) -> tuple[list[int], int]:
    """Return what columns of a cluster are sorted by: their numbers in a list, then their places in the table."""
    return [int(number) for number in re.findall(r"\d+", ref.header)], place[ref]


def _choose(name: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, and take it."""
    numbers = (f"{name} {number}" for number in range(2, len(taken) + 3))
    chosen = name if name not in taken else next(each for each in numbers if each not in taken)
    taken.add(chosen)
    return chosen


def _make_column(
    name: str,
    type: CellType,
    formats: Mapping[ColumnRef, CellFormat],
    taken: set[str],
    originals: bool,
    source_headers: bool,
) -> UnifiedColumn:
    is_number, every = type in NUMBER_TYPES, formats.values()
    currencies, units = ({ref: read_header(ref.header)[place] for ref in formats} for place in (0, 1))
    # What all headers name alike need not stand in each row.
    has_currency = is_number and (any(each.has_currency for each in every) or len({*currencies.values()}) > 1)
    has_unit = is_number and (any(each.has_unit for each in every) or len({*units.values()}) > 1)
    beside = {
        "currency": has_currency,
        "unit": has_unit,
        "original": originals and type != "text",
        "header": source_headers,
    }
    family = next((each for each in (NUMBER_TYPES, DATE_TYPES) if type in each), ())
    default = next((each.format for each in every if each.type in family), "")
    return UnifiedColumn(
        name=name,
        type=type,
        **{f"{what}_column": _choose(f"{name} {what}", taken) for what, wanted in beside.items() if wanted},
        sources=tuple(
            SourceColumn(
                table=ref.table,
                header=ref.header,
                format=each.format if each.type in family else default,
                currency=(currencies[ref] or each.currency) if has_currency else "",
                unit=units[ref] if has_unit else "",
            )
            for ref, each in formats.items()
        ),
    )


def unify(frames: Any, spec: UnifySpec, config: ReadConfig | None = None) -> Unified:
    """Return the rows of all tables as one, as a specification says; see `Unified.notes` for what it does not say.

    A column that the specification does not name stays beside the others under its own name. A cell that is not of its
    column's type is empty there, and stands in `_unread` as it was. A row without any cell is left out.
    """
    tables = _read(frames, config)
    sources = {name: _find_sources(name, spec) for name in tables}
    notes = [
        f"The table '{each}' is in the specification, and no table is called so."
        for each in _list_named(spec)
        if each not in tables and not any(fnmatchcase(name, each) for name in tables)
    ]
    columns, new = list(spec.columns), dict[str, list[str]]()
    taken = {*RESERVED, *(name for column in spec.columns for name in column.names)}
    for name, table in tables.items():
        named = dict.fromkeys(source.header for source in sources[name].values())
        missing = [header for header in named if header not in table.headers]
        notes += [f"{name}/{header} is in the specification, and not in the table." for header in missing]
        for header in table.headers:
            if header not in named:
                new.setdefault(header, []).append(name)
    for header, names in new.items():
        column = UnifiedColumn(
            name=_choose(header, taken), sources=tuple(SourceColumn(table=name, header=header) for name in names)
        )
        columns.append(column)
        for source in column.sources:
            sources[source.table][column.name] = source
            notes.append(f"{source.table}/{header} is not in the specification, and stays as '{column.name}'.")
    unread = Counter[str]()
    parts = [_unify_table(table, columns, sources[name], unread) for name, table in tables.items()]
    for name, count in unread.items():
        cells, are, them = ("cell", "is", "it") if count == 1 else ("cells", "are", "them")
        notes.append(f"{count} {cells} of '{name}' {are} not of its type; {UNREAD_COLUMN} has {them}.")
    joined = pa.concat_tables(parts)
    return Unified(table=joined if unread else joined.drop([UNREAD_COLUMN]), spec=spec, notes=tuple(notes))


def _read(frames: Any, config: ReadConfig | None) -> dict[str, Table]:
    """Return tables with every member of their lists: nothing is left out."""
    return read_tables(frames, config or ReadConfig(max_family=None), keep_empty=True)


def _list_named(spec: UnifySpec) -> list[str]:
    """Return the tables, or patterns of them, that a specification names."""
    return list(dict.fromkeys(source.table for column in spec.columns for source in column.sources))


def _find_sources(table: str, spec: UnifySpec) -> dict[str, SourceColumn]:
    """Return what of a table goes into each column: by its name or, where that is not there, by a pattern of it."""
    named = _list_named(spec)
    pattern = table if table in named else next((each for each in named if fnmatchcase(table, each)), None)
    if pattern is None:
        raise TableError(
            f"The specification does not name the table '{table}'. Add its columns, or make a name a pattern, "
            "such as 'shop_*'."
        )
    found: dict[str, SourceColumn] = {}
    for column in spec.columns:
        here = [source for source in column.sources if source.table == pattern]
        if len(here) > 1:
            headers = ", ".join(source.header for source in here)
            raise ConfigError(f"'{column.name}' takes {len(here)} columns of '{pattern}': {headers}. It can take one.")
        if here:
            found[column.name] = here[0]
    return found


def _count_texts(table: Table, header: str) -> dict[str, int]:
    """Return the texts of a column that say something, and how many cells have each."""
    counts = pc.value_counts(_get_column(table.text, header).drop_null()).to_pylist()
    return drop_missing({each["values"]: each["counts"] for each in counts})


def _get_column(wide: pa.Table, header: str) -> pa.ChunkedArray:
    if header in wide.column_names:
        return cast("pa.ChunkedArray", wide[header])
    return pa.chunked_array([pa.nulls(wide.num_rows, pa.string())])


def _unify_table(
    table: Table, columns: Sequence[UnifiedColumn], sources: Mapping[str, SourceColumn], unread: Counter[str]
) -> pa.Table:
    """Return the rows of one table under the columns; how many cells are not of their type is counted in `unread`."""
    wide = to_arrow(table.chunks)
    rows = np.concatenate([np.zeros(0, np.int64), *(chunk.row_number for chunk in table.chunks)])
    found: dict[str, Any] = {TABLE_COLUMN: pa.array([table.name] * len(rows), pa.string()), ROW_COLUMN: pa.array(rows)}
    left: list[dict[str, str]] = [{} for _ in rows]
    nothing = pa.nulls(len(rows), pa.string())
    for column in columns:
        source = sources.get(column.name)
        if source is None:
            found |= dict.fromkeys(column.names, nothing) | {column.name: nothing.cast(ARROW_TYPES[column.type])}
            continue
        texts = _get_column(wide, source.header)
        how = CellFormat(
            type=column.type,
            format=source.format,
            currency=source.currency,
            unit=source.unit,
            has_currency=bool(column.currency_column),
            has_unit=bool(column.unit_column),
        )
        cells = read_cells(texts, how)
        found |= dict.fromkeys(column.names, nothing) | {column.name: cells.values}
        header = pc.if_else(texts.is_valid(), pa.scalar(source.header), pa.scalar(None, pa.string()))
        for name, values in (
            (column.currency_column, cells.currencies),
            (column.unit_column, cells.units),
            (column.original_column, texts),
            (column.header_column, header),
        ):
            found |= {name: values} if name else {}
        for row in np.flatnonzero(cells.unread).tolist():
            left[row][column.name] = texts[row].as_py()
            unread[column.name] += 1
    dumped = [json.dumps(each, ensure_ascii=False) if each else None for each in left]
    return pa.table({**found, UNREAD_COLUMN: pa.array(dumped, pa.string())})


def merge_rows(found: Unified, clusters: Iterable[Iterable[tuple[str, int]]]) -> Unified:
    """Return a unified table in which the rows of each cluster, given as (table, row), are one.

    A cell comes with its currency, unit and text from one row: of the value that most of them have and, of those that
    as many have, the one of the table preferred, then of the first row. `_merged` names the rows, `_conflicts` has the
    cells that gave way.
    """
    table, rule = found.table, found.spec.duplicates or Duplicates()
    rank = {name: place for place, name in enumerate(rule.prefer)}
    names, numbers = (table[name].to_pylist() for name in (TABLE_COLUMN, ROW_COLUMN))
    place = {row: k for k, row in enumerate(zip(names, numbers, strict=True))}
    groups = []
    for cluster in clusters:
        rows = {place[row] for row in cluster if row in place}
        groups.append(sorted(rows, key=lambda k: (rank.get(names[k], len(rank)), k)))
    groups = [group for group in groups if len(group) > 1]
    inner = {k for group in groups for k in group}
    lines = sorted([*groups, *([k] for k in range(table.num_rows) if k not in inner)], key=min)
    conflicts: list[dict[str, Any]] = [{} for _ in lines]
    first = np.array([line[0] for line in lines], np.int64)
    merged: dict[str, Any] = {name: table[name].take(first) for name in (TABLE_COLUMN, ROW_COLUMN)}
    for column in _list_columns(found):
        chosen = first.copy()
        compared = [name for name in column.names if name != column.header_column]
        cells = list(zip(*(table[name].to_pylist() for name in compared), strict=True))
        for at, line in enumerate(lines):
            if len(line) > 1:
                chosen[at], lost = _choose_row(cells, line, len(compared) - bool(column.original_column))
                given = [
                    {"row": f"{names[k]}:{numbers[k]}", "cells": dict(zip(compared, cells[k], strict=True))}
                    for k in lost
                ]
                conflicts[at] |= {column.name: given} if given else {}
        merged |= {name: table[name].take(chosen) for name in column.names}
    dumped = [json.dumps(each, ensure_ascii=False, default=str) if each else None for each in conflicts]
    made_of = [[f"{names[k]}:{numbers[k]}" for k in line] if len(line) > 1 else None for line in lines]
    merged[MERGED_COLUMN] = pa.array(made_of, pa.list_(pa.string()))
    merged[CONFLICTS_COLUMN] = pa.array(dumped, pa.string())
    count = table.num_rows - len(lines)
    merges = "1 row was merged into another" if count == 1 else f"{count} rows were merged into others"
    note = f"{merges}; {CONFLICTS_COLUMN} has what gave way."
    return Unified(table=pa.table(merged), spec=found.spec, notes=(*found.notes, note))


def _list_columns(found: Unified) -> list[UnifiedColumn]:
    """Return the columns of the specification, and those beside it."""
    known = {TABLE_COLUMN, ROW_COLUMN, *(name for column in found.spec.columns for name in column.names)}
    beside = (UnifiedColumn(name=name) for name in found.table.column_names if name not in known)
    return [*found.spec.columns, *beside]


def _choose_row(cells: Sequence[tuple[Any, ...]], rows: Sequence[int], num_counted: int) -> tuple[int, list[int]]:
    """Return the row whose cell is taken, and the rows of the cells that differ from it, one for each.

    The first `num_counted` parts of a cell make its value; the others are how it was written.
    """
    filled = [k for k in rows if cells[k][0] is not None]
    if not filled:
        return rows[0], []
    counts = Counter(cells[k][:num_counted] for k in filled)
    best = max(filled, key=lambda k: counts[cells[k][:num_counted]])
    others = {cells[k]: k for k in reversed(filled) if cells[k] != cells[best]}
    return best, sorted(others.values())
