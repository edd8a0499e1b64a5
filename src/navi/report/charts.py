"""Figures as Vega-Lite specifications, made with Altair; colours are the page's own, so that they follow its theme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from navi.errors import MissingExtraError
from navi.report.figures import Bars, Distribution, Figure, Lines, Map, Reliability
from navi.report.hulls import find_hull

if TYPE_CHECKING:
    import altair as alt

NUM_COLOURS = 8
"""Colours of the page; whatever is left when they are used up is grey."""
OTHERS = "others"
"""The name of what is left."""
MAP_HEIGHT, LINES_HEIGHT, SQUARE = 480, 300, 340
BAR_STEP = 20
LONGEST_LABEL = 300
"""Characters told of a point."""
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure ready to be drawn."""

    spec: dict[str, Any]
    """The Vega-Lite specification; its signal `hidden` lists the entries of the legend that are not shown."""
    legend: tuple[tuple[str, str], ...]
    """Names that have a colour, and the colour's name on the page."""
    alt: str
    """What a reader who cannot see it should know."""


def draw(figure: Figure) -> Drawing:
    """Return a figure ready to be drawn."""
    names, chart, told = DRAWERS[type(figure)](figure)
    colours = assign_colours(names)
    spec = chart.to_dict()
    # The page has one configuration for all figures.
    spec.pop("config", None)
    legend = tuple(dict(zip(colours.values(), colours, strict=True)).items()) if len(colours) > 1 else ()
    return Drawing(spec=spec, legend=tuple((name, colour) for colour, name in legend), alt=figure.alt or told)


def assign_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each name, in their order.

    >>> assign_colours(["low", "high"])
    {'low': 'c1', 'high': 'c2'}
    """
    colours = {name: f"c{place}" for place, name in enumerate(names, start=1)}
    return {name: "other" if name == OTHERS and len(names) > NUM_COLOURS else colours[name] for name in names}
