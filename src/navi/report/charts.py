"""Figures as Vega-Lite specifications, made with Altair; colours are the page's own, so that they follow its theme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from navi.errors import MissingExtraError
from navi.report.figures import Bars, Distribution, Figure, Lines, Map, Reliability
from navi.report.hulls import find_hull
from navi.report.numbers import list_numbers
from navi.report.tables import Table

NUM_COLOURS = 10
"""Colours that the page has; whatever is left when they are used up is grey."""
OTHERS = "others"
"""Stands on a map for what has no colour of its own."""
MAP_HEIGHT, LINES_HEIGHT, SQUARE_HEIGHT, BAR_STEP = 480, 300, 340, 20
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


def assign_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name, in their order.

    >>> assign_colours(["low", "high"])
    {'low': 'c1', 'high': 'c2'}
    """
    return {name: f"c{place}" if place <= NUM_COLOURS else "c0" for place, name in enumerate(names, start=1)}


def draw_map(figure: Map) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of a map; points tell their labels."""
    alt = import_altair()
    groups = list(figure.labels[figure.colour]) if figure.colour else [""] * len(figure.x)
    kept = [name for name, _ in Counter(groups).most_common(NUM_COLOURS)]
    ordered = [name for name in dict.fromkeys(groups) if name in kept]
    colours = assign_colours(ordered) | ({OTHERS: "c0"} if len(kept) < len(set(groups)) else {})
    texts = list(zip(*figure.labels.values(), strict=True)) or [()] * len(figure.x)
    records = [
        {"x": x, "y": y, "c": group if group in kept else OTHERS}
        | {f"label{place}": text[:LONGEST_LABEL] for place, text in enumerate(told)}
        for x, y, group, told in zip(figure.x, figure.y, groups, texts, strict=True)
    ]
    tooltip = [alt.Tooltip(f"label{place}:N", title=name) for place, name in enumerate(figure.labels)]
    size = 46 if len(records) < 400 else 26
    points = _make_chart(records).mark_circle(size=size, opacity=0.8, stroke="var(--panel)", strokeWidth=0.4)
    points = points.encode(x=_place("x", figure.x), y=_place("y", figure.y), color=_colour(colours), tooltip=tooltip)
    layers = [_draw_hulls(figure, colours), points] if figure.hulls else [points]
    return colours, _finish(layers, MAP_HEIGHT)


def draw_bars(figure: Bars) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of bars, one below the other."""
    alt = import_altair()
    colours = assign_colours(figure.series)
    deviations = figure.deviations or {}
    records = [
        _make_bar(category, name, value, deviations.get(name, values)[place] if name in deviations else None)
        for name, values in figure.series.items()
        for place, (category, value) in enumerate(zip(figure.categories, values, strict=True))
        if value is not None
    ]
    look, limits = (".1%" if figure.percent else ".3~f"), _find_limits(records)
    x = alt.X("v:Q", title=figure.title or None, scale=alt.Scale(domain=limits), axis=_axis(figure.percent))
    tooltip = _tell([("k:N", "of", None), ("c:N", "by", None), ("v:Q", figure.title or "value", look)])
    base = _make_chart(records).encode(y=alt.Y("k:N", title=None, sort=list(figure.categories)))
    base = base.encode(yOffset=alt.YOffset("c:N", sort=list(colours)), color=_colour(colours), tooltip=tooltip)
    plain = base.encode(color=alt.value("var(--ink)"))
    rules = [plain.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q")] if deviations else []
    told = plain.mark_text(align="left", dx=5).encode(x=alt.X("high:Q"), text=alt.Text("v:Q", format=look))
    layers = [base.mark_bar(cornerRadiusEnd=2).encode(x=x), *rules, told]
    return colours, _finish(layers, alt.Step(BAR_STEP))


def draw_lines(figure: Lines) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of lines; their points tell where they are."""
    alt = import_altair()
    colours = assign_colours(figure.series)
    records = [{"c": name, "x": x, "y": y} for name, line in figure.series.items() for x, y in line]
    look = ".1%" if figure.percent else ".4~f"
    x = alt.X("x:Q", title=figure.x_title, scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("y:Q", title=figure.y_title, scale=alt.Scale(zero=False), axis=_axis(figure.percent))
    told = [("c:N", "line", None), ("x:Q", figure.x_title, None), ("y:Q", figure.y_title, look)]
    chart = _make_chart(records).encode(x=x, y=y, color=_colour(colours), tooltip=_tell(told))
    layers = [chart.mark_line(strokeWidth=2), chart.mark_circle(size=42, opacity=1)]
    return colours, _finish(layers, LINES_HEIGHT)


def draw_distribution(figure: Distribution) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of distributions, one over the other."""
    alt = import_altair()
    colours = assign_colours(figure.shares)
    records = [
        {"c": name, "low": low, "high": high, "v": share}
        for name, shares in figure.shares.items()
        for low, high, share in zip(figure.edges, figure.edges[1:], shares, strict=False)
    ]
    told = [("c:N", "who", None), ("low:Q", "from", ".3~f"), ("high:Q", "to", ".3~f"), ("v:Q", "share", ".1%")]
    limits = alt.Scale(domain=[figure.edges[0], figure.edges[-1]], nice=False)
    chart = _make_chart(records).encode(color=_colour(colours), tooltip=_tell(told))
    bars = chart.mark_bar(opacity=0.45, binSpacing=0).encode(
        x=alt.X("low:Q", title=figure.title, scale=limits),
        x2="high:Q",
        y=alt.Y("v:Q", title="share", stack=None, axis=_axis(percent=True)),
    )
    return colours, _finish([bars], LINES_HEIGHT)


def draw_reliability(figure: Reliability) -> tuple[dict[str, str], Chart]:
    """Return the colours and the chart of a reliability diagram; the diagonal is where answers should be."""
    alt = import_altair()
    colours = assign_colours(figure.series)
    records = [
        {"c": name, "x": each.confidence, "y": each.accuracy, "n": each.count}
        for name, bins in figure.series.items()
        for each in bins
    ]
    told = [("c:N", "who", None), ("x:Q", "confidence", ".1%"), ("y:Q", "right", ".1%"), ("n:Q", "answers", ",")]
    whole = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("x:Q", title="confidence", scale=whole, axis=_axis(percent=True))
    y = alt.Y("y:Q", title="share that is right", scale=whole, axis=_axis(percent=True))
    chart = _make_chart(records).encode(x=x, y=y, color=_colour(colours), tooltip=_tell(told))
    diagonal = alt.Chart(alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(
        strokeDash=[5, 4], color="var(--muted)", strokeWidth=1.2
    )
    sized = chart.mark_circle(opacity=1).encode(size=alt.Size("n:Q", legend=None, scale=alt.Scale(range=[40, 240])))
    layers = [diagonal.encode(x=x, y=y), chart.mark_line(strokeWidth=2), sized]
    return colours, _finish(layers, SQUARE_HEIGHT)


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


def _finish(layers: Sequence[Chart], height: Any) -> Chart:
    alt = import_altair()
    hidden = alt.param(name="hidden", value=[])
    return alt.layer(*layers).add_params(hidden).properties(width="container", height=height)


def _colour(colours: dict[str, str]) -> Any:
    alt = import_altair()
    scale = alt.Scale(domain=list(colours), range=[f"var(--{colour})" for colour in colours.values()])
    return alt.Color("c:N", scale=scale, legend=None)


def _tell(told: Iterable[tuple[str, str, str | None]]) -> list[Any]:
    alt = import_altair()
    return [
        alt.Tooltip(field, title=title) if look is None else alt.Tooltip(field, title=title, format=look)
        for field, title, look in told
    ]


def _axis(percent: bool) -> Any:
    alt = import_altair()
    return alt.Axis(format=".0%") if percent else alt.Axis()


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


def _make_bar(category: str, name: str, value: float, deviation: float | None) -> dict[str, Any]:
    spread = deviation or 0.0
    return {"k": category, "c": name, "v": value, "low": value - spread, "high": value + spread}


def _find_limits(records: Records) -> list[float]:
    """Return the ends of the axis: zero, and the longest bar with room for its label."""
    high = max((record["high"] for record in records), default=1.0)
    low = min((record["low"] for record in records), default=0.0)
    return [min(low, 0.0), max(high, 0.0) * 1.12 or 1.0]
