"""Charts: made of figures, and drawn by Altair in colours of the page, so that they follow its theme."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.errors import MissingExtraError
from navi.report.page import Chart

NUM_COLOURS = 10
"""Colours that the page has; whatever is left when they are used up is grey."""
STYLES: dict[str, tuple[dict[str, Any], int]] = {
    "histogram": ({"type": "bar", "fillOpacity": 0.6, "binSpacing": 0}, 300),
    "map": ({"type": "circle", "size": 30}, 480),
}
"""The mark that stands for a record of each kind of chart, and the chart's pixels."""
FEWEST_NEIGHBOURS = 12
"""Points from which t-SNE places them, not principal components."""


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
    layers = [marks.properties(mark=mark).add_params(chosen)]
    if chart.outline:  # around the points of a map
        line = alt.Chart(alt.Data(values=list(chart.outline))).mark_line(interpolate="linear-closed", strokeWidth=1.2)
        layers.append(line.encode(x="x:Q", y="y:Q", order="order:Q", color="series:N"))
    spec: dict[str, Any] = alt.layer(*layers).properties(width="container", height=height).to_dict()
    # The page has one configuration for all charts, and the specification's address is of no use offline.
    return {name: part for name, part in spec.items() if name not in ("config", "$schema")}


def _list_tooltips(alt: Any, chart: Chart) -> list[Any]:
    """Return what is shown of a mark that is pointed at; where a point of a map stands says nothing."""
    titles = {"x": chart.x_title or "value", "y": "share", "x2": "to"}
    number, text = {"type": "quantitative", "format": ",.4~g"}, {"type": "nominal"}
    return [
        alt.Tooltip(field=name, title=titles.get(name, name), **(number if isinstance(value, float) else text))
        for name, value in (chart.records[0] if chart.records else {}).items()
        if chart.kind != "map" or name not in ("series", "x", "y")
    ]


def _place(alt: Any, chart: Chart) -> dict[str, Any]:
    """Return where marks stand: points of a map without axes, which would mean nothing."""
    if chart.kind == "map":
        free = alt.Scale(zero=False, nice=False, padding=12)
        return {"x": alt.X("x:Q", axis=None, scale=free), "y": alt.Y("y:Q", axis=None, scale=free)}
    x = alt.X("x:Q", title=chart.x_title, scale=alt.Scale(zero=False, nice=False)).bin("binned")
    y = alt.Y("y:Q", title="share", axis=alt.Axis(format=".0%"), stack=None)
    return {"x": x, "x2": "x2:Q", "y": y}


def import_extra(name: str) -> Any:
    """Return a package that comes with the extra for charts."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError("Drawing the charts of a report", "report") from error
