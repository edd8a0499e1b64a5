"""A page of a report: sections of text, tables, tiles, code and charts; kept as JSON beside the HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from navi.errors import ConfigError
from navi.files import read_json, write_json
from navi.settings import construct

PAGE_FILE = "page.json"
"""The file of a results folder that holds its page."""
FORMAT = 5
"""The format of that file; goes up when old ones cannot be read any more."""

MOST_DIGITS = 15
"""Digits behind the point that a figure of 64 bits may have."""


@dataclass(frozen=True)
class Measurement:
    """A figure with what belongs to it."""

    value: float
    """The figure."""
    deviation: float | None = None
    """Its standard deviation, shown behind ±."""
    change: float | None = None
    """Its relative change against a reference, shown in percent: -0.071 as (−7.1 %)."""

    def __post_init__(self) -> None:
        for name in ("value", "deviation", "change"):
            object.__setattr__(self, name, make_plain(getattr(self, name)))
        if self.value is None:
            raise ConfigError("A measurement needs a finite value; use None for a cell that has none.")


Cell = str | bool | int | float | Measurement | None
"""What a cell of a table may hold."""


@dataclass(frozen=True)
class ReportColumn:
    """A column of a table, and how it is shown."""

    name: str
    """Its header."""
    group: str = ""
    """The header above the header, shared by neighbours."""
    digits: int = 3
    """Digits behind the point."""
    percent: bool = False
    """Shows shares in percent."""
    best: str | None = None
    """Marks the best and second-best figure: the `highest` or the `lowest`; None marks nothing."""
    bar: bool = False
    """Draws shares, from 0 to 1, as bars beside the figure."""
    best_change: bool = False
    """Marks the best relative change too: the highest, that is the smallest loss."""

    def __post_init__(self) -> None:
        if self.best not in (None, "highest", "lowest"):
            raise ConfigError(f"best of column '{self.name}' must be one of highest, lowest, got '{self.best}'.")
        if not 0 <= self.digits <= MOST_DIGITS:
            raise ConfigError(f"digits of column '{self.name}' must be at most {MOST_DIGITS}, got {self.digits}.")


@dataclass(frozen=True)
class ReportTable:
    """A table that a reader can sort; the first column names the rows."""

    caption: str
    """What it shows, in one sentence."""
    columns: Sequence[ReportColumn | str]
    """Its columns; a name alone stands for a column shown plainly."""
    rows: Sequence[Sequence[Cell]]
    """Its cells, row after row."""
    note: str = ""
    """What is to be said below it."""
    highlight: Sequence[str] = ()
    """First cells of the rows that stand out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.described_columns))
        object.__setattr__(self, "rows", tuple(tuple(map(make_plain, row)) for row in self.rows))
        object.__setattr__(self, "highlight", tuple(self.highlight))
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise ConfigError(
                    f"Table '{self.caption}': row {number} has {len(row)} cells for {len(self.columns)} columns."
                )

    @property
    def described_columns(self) -> list[ReportColumn]:
        """The columns, none of them a name alone."""
        return [column if isinstance(column, ReportColumn) else ReportColumn(column) for column in self.columns]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart in Vega-Lite; its colours are the page's, `var(--c0)`, which is grey, to `var(--c10)`."""

    caption: str
    """What it shows, in one sentence."""
    kind: str
    """What it is: `histogram` or `map`."""
    series: Sequence[str]
    """What is told apart."""
    spec: Mapping[str, Any]
    """The specification, without a configuration: that is the page's."""
    note: str = ""
    """What is to be said below it."""


@dataclass(frozen=True)
class Tiles:
    """A few large figures side by side."""

    figures: Mapping[str, str]
    """What was measured, and the figure as it is to be read."""


@dataclass(frozen=True)
class Code:
    """Commands to type, or other text to be shown as it is."""

    text: str
    """The lines."""


Item = ReportTable | Tiles | Code | Chart
"""What a section may hold."""
KINDS = {kind.__name__: kind for kind in (ReportTable, Tiles, Code, Chart)}


@dataclass(frozen=True)
class Section:
    """A part of a page under its own heading."""

    title: str
    """The heading."""
    text: str = ""
    """What is to be said first: paragraphs between empty lines, code between backticks."""
    items: Sequence[Item] = ()
    """What is shown."""


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    """What it is called."""
    lead: str
    """What it is about, in a few sentences; written like a section's text."""
    sections: Sequence[Section] = ()
    """Its parts."""


def make_plain(value: Any) -> Any:
    """Return a value as JSON knows it: NumPy's scalars as Python's, and None for figures that are not finite.

    >>> make_plain(float("nan")), make_plain(2)
    (None, 2)
    """
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is not None and not isinstance(value, str | int | float | Measurement):
        raise ConfigError(f"A cell must be a text, a figure, true, false or None, got {type(value).__name__}.")
    return value


def save_page(page: Page, folder: str | Path) -> Path:
    """Write a page into a folder, which is made if need be, and return its file."""
    file = Path(folder) / PAGE_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"format": FORMAT} | asdict(page)
    for section, written in zip(page.sections, content["sections"], strict=True):
        named = zip(section.items, written["items"], strict=True)
        written["items"] = [{"kind": type(item).__name__, "content": fields} for item, fields in named]
    write_json(file, content, checksum=True)
    return file


def load_page(folder: str | Path) -> Page:
    """Return the page that a results folder holds."""
    file = Path(folder) / PAGE_FILE
    if not file.is_file():
        raise ConfigError(
            f"{folder} holds no {PAGE_FILE}. Expected a folder that `navi demo` or `navi evaluate` wrote."
        )
    content = read_json(file, ConfigError, "Make the results again.")
    if content.get("format") != FORMAT:
        raise ConfigError(f"Cannot read {file}: its format is {content.get('format')}, this version reads {FORMAT}.")
    try:
        del content["format"]
        for section in content["sections"]:
            section["items"] = tuple(_load_item(item) for item in section["items"])
        sections = tuple(construct(Section, section) for section in content["sections"])
        return construct(Page, {**content, "sections": sections})
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise ConfigError(f"Cannot read {file}: {error}. Make the results again.") from error


def _load_item(written: dict[str, Any]) -> Item:
    content = written["content"]
    if written["kind"] == "ReportTable":
        content["columns"] = [construct(ReportColumn, column) for column in content["columns"]]
        content["rows"] = [[_load_cell(cell) for cell in row] for row in content["rows"]]
    return cast("Item", construct(KINDS[written["kind"]], content))


def _load_cell(written: Any) -> Any:
    return construct(Measurement, written) if isinstance(written, dict) else written
