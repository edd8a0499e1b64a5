"""Charts: made of figures, and drawn by Altair in colours of the page, so that they follow its theme."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import MissingExtraError
from navi.report.page import Chart

NUM_COLOURS = 10
"""Colours that the page has; whatever is left when they are used up is grey."""
STYLES: dict[str, tuple[dict[str, Any], int | None]] = {
    "bars": ({"type": "bar", "cornerRadiusEnd": 2}, None),
    "histogram": ({"type": "bar", "fillOpacity": 0.6, "binSpacing": 0}, 300),
    "map": ({"type": "circle", "size": 30}, 480),
}
"""The mark that stands for a record of each kind of chart, and the chart's pixels; bars have as many as they need."""
LABEL_WIDTH = 22
"""Characters of a line of a bar's label."""
FEWEST_NEIGHBOURS = 12
"""Points from which t-SNE places them, not principal components."""


def bar_chart(
    caption: str, series: Mapping[str, Mapping[str, float]], *, percent: bool = False, quiet: Sequence[str] = ()
) -> Chart:
    """Return figures side by side: for each who is compared one a category."""
    records = [
        {"series": name, "x": value, "y": category}
        for name, values in series.items()
        for category, value in values.items()
    ]
    return Chart(caption=caption, kind="bars", records=records, percent=percent, quiet=quiet)


def place_points(vectors: NDArray[np.floating[Any]], seed: int = 0, method: str = "t-SNE") -> NDArray[np.floating[Any]]:
    """Return (N, 2): vectors placed in a plane, near each other where their directions are alike.

    `method` is t-SNE, UMAP, which is quicker and a package of its own, or PCA, which is quickest and coarse.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    unit = normalize(vectors)
    # A few points have no neighbourhoods to keep.
    if len(unit) < FEWEST_NEIGHBOURS or method == "PCA":
        return PCA(2).fit_transform(unit) if len(unit) > 1 else np.zeros((len(unit), 2))
    if method == "UMAP":
        with warnings.catch_warnings(action="ignore"):
            from umap import UMAP

            placed = UMAP(n_neighbors=min(15, len(unit) - 1), metric="cosine", random_state=seed, n_jobs=1)
            return np.asarray(placed.fit_transform(unit))
    tsne = TSNE(perplexity=min(30, (len(unit) - 1) / 3), init="pca", max_iter=600, random_state=seed)
    # So few points are placed faster by one thread than by several that wait for each other on a busy machine.
    with threadpool_limits(1):
        points: NDArray[np.floating[Any]] = tsne.fit_transform(unit)
    return points


def draw_chart(chart: Chart) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart; a click on the legend shows one series alone."""
    alt = import_extra("altair")
    colours = iter(range(1, NUM_COLOURS + 1))
    named = {name: 0 if name in chart.quiet else next(colours, 0) for name in chart.series}
    scale = alt.Scale(domain=list(named), range=[f"var(--c{number})" for number in named.values()])
    legend = alt.Legend(title=None, orient="top") if len(named) > 1 else None
    chosen = alt.selection_point(fields=["series"], bind="legend")
    marks = alt.Chart(alt.Data(values=list(chart.records))).encode(
        color=alt.Color("series:N", scale=scale, legend=legend),
        opacity=alt.when(chosen).then(alt.value(0.85)).otherwise(alt.value(0.08)),
        tooltip=_list_tooltips(alt, chart),
        **_place(alt, chart),
    )
    mark, height = STYLES[chart.kind]
    first = marks.properties(mark=mark).add_params(chosen)
    if height is None:  # room for the bars of each category, and for the lines of its label
        labels = {record["y"] for record in chart.records}
        lines = max((len(wrap(label, LABEL_WIDTH)) for label in labels), default=1)
        height = round(len(labels) * max(20 * (len(named) + 0.5), 20 * lines))
    layers = [first, *_add_layers(alt, chart, marks)]
    spec: dict[str, Any] = alt.layer(*layers).properties(width="container", height=height).to_dict()
    # The page has one configuration for all charts, and the specification's address is of no use offline.
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def _list_tooltips(alt: Any, chart: Chart) -> list[Any]:
    """Return what is shown of a mark that is pointed at; where a point of a map stands says nothing."""
    titles = {"x": chart.x_title or "value", "y": "share" if chart.x_title else "of", "x2": "to"}
    number, text = {"type": "quantitative", "format": ",.4~g"}, {"type": "nominal"}
    return [
        alt.Tooltip(field=name, title=titles.get(name, name), **(number if isinstance(value, float) else text))
        for name, value in (chart.records[0] if chart.records else {}).items()
        if chart.kind != "map" or name not in ("series", "x", "y")
    ]


def _place(alt: Any, chart: Chart) -> dict[str, Any]:
    """Return where marks stand: bars below each other, points of a map without axes, which would mean nothing."""
    if chart.kind == "bars":
        room = alt.Scale(domain=[0, 1.5 * max(record["x"] for record in chart.records)])
        # Labels break where they are long.
        lines = {record["y"]: wrap(record["y"], LABEL_WIDTH) for record in chart.records}
        axis = alt.Axis(labelExpr=f"{json.dumps(lines, ensure_ascii=False)}[datum.value]")
        y = alt.Y("y:N", title=None, sort=None, scale=alt.Scale(paddingInner=0.35), axis=axis)
        return {"x": alt.X("x:Q", axis=None, scale=room), "y": y, "yOffset": alt.YOffset("series:N", sort=chart.series)}
    if chart.kind == "map":
        free = alt.Scale(zero=False, nice=False, padding=12)
        return {"x": alt.X("x:Q", axis=None, scale=free), "y": alt.Y("y:Q", axis=None, scale=free)}
    x = alt.X("x:Q", title=chart.x_title, scale=alt.Scale(zero=False, nice=False)).bin("binned")
    y = alt.Y("y:Q", title="share", axis=alt.Axis(format=".0%"), stack=None)
    return {"x": x, "x2": "x2:Q", "y": y}


def _add_layers(alt: Any, chart: Chart, marks: Any) -> list[Any]:
    """Return what is drawn beside the marks: the figures of bars, lines around the points of a map."""
    if chart.kind == "bars":
        text = alt.Text("x:Q", format=".1%" if chart.percent else ",.3f")
        return [marks.mark_text(align="left", dx=6).encode(text=text, color=alt.value("var(--ink)"))]
    if not chart.outline:
        return []
    line = alt.Chart(alt.Data(values=list(chart.outline))).mark_line(interpolate="linear-closed", strokeWidth=1.2)
    return [line.encode(x="x:Q", y="y:Q", order="order:Q", color="series:N")]


def import_extra(name: str) -> Any:
    """Return a package that comes with the extra for charts."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError("Drawing the charts of a report", "report") from error
