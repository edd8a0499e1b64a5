"""A page of a report: sections of text, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass

from navi.errors import ConfigError
from navi.report.figures import Bars, Distribution, Lines, Map, Reliability
from navi.report.tables import Table


@dataclass(frozen=True)
class Tile:
    """One thing worth a large figure."""

    label: str
    """What was measured."""
    value: str
    """The figure, as it is to be read."""
    note: str = ""
    """What to compare it with."""


@dataclass(frozen=True)
class Tiles:
    """A few large figures side by side."""

    tiles: tuple[Tile, ...]
    """The figures."""


@dataclass(frozen=True)
class Code:
    """Commands to type, or other text to be shown as it is."""

    text: str
    """The lines."""


Item = Table | Tiles | Code | Map | Bars | Lines | Distribution | Reliability
"""What a section may hold."""


@dataclass(frozen=True)
class Section:
    """A part of a page under its own heading."""

    title: str
    """The heading."""
    text: str = ""
    """What is to be said first: paragraphs between empty lines, code between backticks."""
    items: tuple[Item, ...] = ()
    """What is shown."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))
        for item in self.items:
            if not isinstance(item, Item):
                raise ConfigError(f"Section '{self.title}' cannot show a {type(item).__name__}.")


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    """What it is called."""
    lead: str
    """What it is about, in a few sentences; written like a section's text."""
    sections: tuple[Section, ...] = ()
    """Its parts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", tuple(self.sections))
