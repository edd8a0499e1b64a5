"""Figures as Vega-Lite specifications, made with Altair; colours are the page's own, so that they follow its theme."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from navi.errors import MissingExtraError
from navi.report.cells import format_number
from navi.report.figures import Bars, Distribution, Figure, Lines, Map, Reliability
from navi.report.hulls import find_hull
from navi.report.numbers import list_numbers
from navi.report.tables import Column, Table

NUM_COLOURS = 10
"""Colours that the page has; whatever is left when they are used up is grey."""
OTHERS = "others"
"""Stands on a map for what has no colour of its own."""
MAP_HEIGHT, LINES_HEIGHT, SQUARE_HEIGHT, BAR_HEIGHT = 480, 300, 340, 20
ROOM_FOR_FIGURES = 1.35
"""How much longer than the longest bar its axis is."""
LINE_LENGTH = 24
"""Characters of a line of a bar's label."""
LONGEST_LABEL = 300
"""Characters told of a point."""
Records = list[dict[str, Any]]
Chart = Any


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure ready to be drawn."""

    spec: dict[str, Any]
    """The Vega-Lite specification; its signal `hidden` lists the names that are not shown."""
    colours: dict[str, str]
    """The names that are told apart, and the colour that the page gives to each."""
    alt: str
    """What a reader who cannot see it should know."""
    numbers: Table | None
    """The same as a table, where that is of use."""


def draw(figure: Figure) -> Drawing:
    """Return a figure ready to be drawn."""
    colours, chart = DRAWERS[type(figure)](figure)
    spec = chart.to_dict()
    # The page has one configuration for all figures, and the specification's address is of no use offline.
    for name in ("config", "$schema"):
        spec.pop(name, None)
    return Drawing(
        spec=spec, colours=colours, alt=figure.alt or describe(figure, colours), numbers=list_numbers(figure)
    )


def describe(figure: Figure, names: Iterable[str]) -> str:
    """Return what can be told of a figure by its data alone."""
    if not isinstance(figure, Map):
        return f"{type(figure).__name__}: {', '.join(names)}. {figure.caption}"
    by_colour = f", coloured by {figure.colour}: {', '.join(names)}" if figure.colour else ""
    return f"Map of {len(figure.x)} points{by_colour}. {figure.caption}"


def assign_colours(names: Iterable[str], quiet: Sequence[str] = ()) -> dict[str, str]:
    """Return a colour for each name, in their order; grey for quiet ones, and when the others are used up.

    >>> assign_colours(["low", "guess", "high"], quiet=["guess"])
    {'low': 'c1', 'guess': 'c0', 'high': 'c2'}
    """
    left = iter(range(1, NUM_COLOURS + 1))
    return {name: "c0" if name in quiet else f"c{next(left, 0)}" for name in names}


def draw_map(figure: Map) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of a map; points tell their labels."""
    groups = list(figure.labels[figure.colour]) if figure.colour else [""] * len(figure.x)
    kept = [name for name, _ in Counter(groups).most_common(NUM_COLOURS)]
    ordered = [name for name in dict.fromkeys(groups) if name in kept]
    colours = assign_colours(ordered, figure.quiet) | ({OTHERS: "c0"} if len(kept) < len(set(groups)) else {})
    texts = list(zip(*figure.labels.values(), strict=True)) or [()] * len(figure.x)
    records = [
        {"x": x, "y": y, "c": group if group in kept else OTHERS}
        | {f"label{place}": text[:LONGEST_LABEL] for place, text in enumerate(told)}
        for x, y, group, told in zip(figure.x, figure.y, groups, texts, strict=True)
    ]
    tooltip = _tell((f"label{place}", name) for place, name in enumerate(figure.labels))
    size = 46 if len(records) < 400 else 26
    points = _make_chart(records).mark_circle(size=size, opacity=0.8, stroke="var(--panel)", strokeWidth=0.4)
    points = points.encode(x=_place("x", figure.x), y=_place("y", figure.y), color=_colour(colours), tooltip=tooltip)
    layers = [_draw_hulls(figure, colours), points] if figure.hulls else [points]
    return colours, _finish(layers, MAP_HEIGHT)


def draw_bars(figure: Bars) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of bars, one below the other, each with its figure."""
    alt = import_altair()
    colours = assign_colours(figure.series, figure.quiet)
    records = _list_bars(figure)
    told = [("k", "of"), ("c", "by"), ("told", figure.title or "value")]
    limits = alt.Scale(domain=_find_limits(records), nice=False)
    bands = alt.Scale(domain=list(figure.categories), paddingInner=0.35, paddingOuter=0.1)
    base = _make_chart(records).encode(
        y=alt.Y("k:N", title=None, scale=bands, axis=_label_axis(figure.categories)),
        yOffset=alt.YOffset("c:N", sort=list(colours)),
        tooltip=_tell(told),
    )
    plain = base.encode(color=alt.value("var(--ink)"))
    bars = base.mark_bar(cornerRadiusEnd=2).encode(x=alt.X("v:Q", axis=None, scale=limits), color=_colour(colours))
    rules = plain.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    texts = plain.mark_text(align="left", dx=6).encode(x="high:Q", text="told:N")
    height = BAR_HEIGHT * len(figure.categories) * (len(colours) + 0.5)
    return colours, _finish([bars, *([rules] if figure.deviations else []), texts], height)


def draw_lines(figure: Lines) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of lines; their points tell where they are."""
    alt = import_altair()
    colours = assign_colours(figure.series, figure.quiet)
    shown = Column(figure.y_title, percent=figure.percent, digits=4)
    records = [
        {"c": name, "x": x, "y": y, "tx": f"{x:,.6g}", "ty": format_number(y, shown)}
        for name, line in figure.series.items()
        for x, y in line
    ]
    chart = _make_chart(records).encode(
        x=alt.X("x:Q", title=figure.x_title, scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("y:Q", title=figure.y_title, scale=alt.Scale(zero=False), axis=_axis(figure.percent)),
        color=_colour(colours),
        tooltip=_tell([("c", "line"), ("tx", figure.x_title), ("ty", figure.y_title)]),
    )
    return colours, _finish([chart.mark_line(strokeWidth=2), chart.mark_circle(size=42, opacity=1)], LINES_HEIGHT)


def draw_distribution(figure: Distribution) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of distributions, one over the other."""
    alt = import_altair()
    colours = assign_colours(figure.shares, figure.quiet)
    records = [
        {"c": name, "low": low, "high": high, "v": share, "where": f"{low:.4g} to {high:.4g}", "told": _percent(share)}
        for name, shares in figure.shares.items()
        for low, high, share in zip(figure.edges, figure.edges[1:], shares, strict=False)
    ]
    limits = alt.Scale(domain=[figure.edges[0], figure.edges[-1]], nice=False)
    bars = _make_chart(records).mark_bar(opacity=0.5, binSpacing=0)
    bars = bars.encode(
        x=alt.X("low:Q", bin="binned", title=figure.title, scale=limits),
        x2="high:Q",
        y=alt.Y("v:Q", title="share", stack=None, axis=_axis(percent=True)),
        color=_colour(colours),
        tooltip=_tell([("c", "of"), ("where", figure.title), ("told", "share")]),
    )
    return colours, _finish([bars], LINES_HEIGHT)


def draw_reliability(figure: Reliability) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of a reliability diagram; the diagonal is where answers should be."""
    alt = import_altair()
    colours = assign_colours(figure.series, figure.quiet)
    records = [
        {"c": name, "x": each.confidence, "y": each.accuracy, "n": each.count}
        | {"tx": _percent(each.confidence), "ty": _percent(each.accuracy)}
        for name, bins in figure.series.items()
        for each in bins
    ]
    whole = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("x:Q", title="confidence", scale=whole, axis=_axis(percent=True))
    y = alt.Y("y:Q", title="share that is right", scale=whole, axis=_axis(percent=True))
    told = _tell([("c", "by"), ("tx", "confidence"), ("ty", "right"), ("n", "answers")])
    chart = _make_chart(records).encode(x=x, y=y, color=_colour(colours), tooltip=told)
    ends = alt.Chart(alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])).encode(x=x, y=y)
    diagonal = ends.mark_line(strokeDash=[5, 4], color="var(--muted)", strokeWidth=1.2)
    sized = chart.mark_circle(opacity=1).encode(size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[40, 240])))
    return colours, _finish([diagonal, chart.mark_line(strokeWidth=2), sized], SQUARE_HEIGHT)


DRAWERS: dict[type[Figure], Callable[[Any], tuple[dict[str, str], Chart]]] = {
    Map: draw_map,
    Bars: draw_bars,
    Lines: draw_lines,
    Distribution: draw_distribution,
    Reliability: draw_reliability,
}
"""What draws each kind of figure; one more is one more entry here."""


def import_altair() -> Any:
    """Return Altair, or say how to get it."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtraError("Drawing the figures of a report", "report") from error
    return altair


def _make_chart(records: Records) -> Chart:
    alt = import_altair()
    return alt.Chart(alt.Data(values=records)).transform_filter("indexof(hidden, datum.c) < 0")


def _finish(layers: Sequence[Chart], height: float) -> Chart:
    alt = import_altair()
    hidden = alt.param(name="hidden", value=[])
    return alt.layer(*layers).add_params(hidden).properties(width="container", height=height)


def _colour(colours: dict[str, str]) -> Any:
    alt = import_altair()
    scale = alt.Scale(domain=list(colours), range=[f"var(--{colour})" for colour in colours.values()])
    return alt.Color("c:N", scale=scale, legend=None)


def _tell(told: Iterable[tuple[str, str]]) -> list[Any]:
    """Return what is told of a mark: fields, and what they are called."""
    alt = import_altair()
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in told]


def _axis(percent: bool) -> Any:
    alt = import_altair()
    return alt.Axis(labelExpr="format(100 * datum.value, '~f') + ' %'") if percent else alt.Axis()


def _label_axis(labels: Sequence[str]) -> Any:
    """Return an axis whose labels are broken into two lines: on a phone there is no room for long ones."""
    alt = import_altair()
    lines = {label: wrap(label, LINE_LENGTH, max_lines=2, placeholder=" …") or [""] for label in labels}
    broken = f"{json.dumps(lines)}[datum.label]"
    # Vega centres the first line alone; raised by half a line, both stand in the middle.
    raised = {"condition": {"test": f"length({broken}) > 1", "value": "bottom"}, "value": "middle"}
    return alt.Axis(labelExpr=broken, labelBaseline=raised)


def _percent(share: float) -> str:
    return format_number(share, Column("", percent=True))


def _place(field: str, values: Sequence[float]) -> Any:
    """Return a map's axis, which has no meaning of its own and so is not shown; hiding points must not move it."""
    alt = import_altair()
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = 0.04 * (high - low) or 1.0
    channel = alt.X if field == "x" else alt.Y
    return channel(f"{field}:Q", axis=None, scale=alt.Scale(domain=[low - room, high + room], nice=False, zero=False))


def _draw_hulls(figure: Map, colours: dict[str, str]) -> Chart:
    alt = import_altair()
    assert figure.hulls is not None
    is_coloured = figure.hulls == figure.colour
    members: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in zip(figure.labels[figure.hulls], figure.x, figure.y, strict=True):
        members.setdefault(name, []).append((x, y))
    records = [
        {
            "x": x,
            "y": y,
            "c": (name if name in colours else OTHERS) if is_coloured else "",
            "hull": name,
            "order": order,
        }
        for name, points in members.items()
        for order, (x, y) in enumerate(find_hull(points))
    ]
    chart = _make_chart(records).mark_line(interpolate="linear-closed", strokeWidth=1.2, strokeOpacity=0.7)
    colour = _colour(colours) if is_coloured else alt.value("var(--muted)")
    return chart.encode(
        x=_place("x", figure.x), y=_place("y", figure.y), detail="hull:N", order="order:Q", color=colour
    )


def _list_bars(figure: Bars) -> Records:
    deviations, shown = figure.deviations or {}, Column(figure.title, percent=figure.percent)
    records = []
    for name, values in figure.series.items():
        for category, value, spread in zip(figure.categories, values, deviations.get(name, values), strict=True):
            if value is not None:
                spread = (spread or 0.0) if name in deviations else 0.0
                ends = {"v": value, "low": value - spread, "high": value + spread}
                records.append({"k": category, "c": name, "told": format_number(value, shown), **ends})
    return records


def _find_limits(records: Records) -> list[float]:
    """Return the ends of the axis: zero, and the longest bar with room for its label."""
    high = max((record["high"] for record in records), default=1.0)
    low = min((record["low"] for record in records), default=0.0)
    return [min(low, 0.0), max(high, 0.0) * ROOM_FOR_FIGURES or 1.0]
