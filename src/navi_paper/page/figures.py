"""The paper's figures: distributions, and maps of headers and segments."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.files import write_file
from navi.report import Chart, Item, place_points
from navi.report.charts import FEWEST_NEIGHBOURS
from navi_paper.page.tables import BERT, NAVI, PAPER, Averages, name_model
from navi_paper.results import Record

# Shape suffixes: N points, D hidden size.

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.floating[Any]]
NUM_COLOURS = 10
"""Colours that a page has; whatever is left when they are used up is grey."""
MAX_SEGMENTS, MAX_COLUMNS = 800, 1500
"""Points that a map has at most: more cannot be distinguished."""
REST = "other concepts"
OTHERS = "others"
"""Stands on a map for what has no colour of its own."""
PLACES_FOLDER = "places"
"""Where a folder of results keeps projections, so that a page is soon drawn again."""


def draw_similarities(averages: Averages, corpus: str) -> list[Item]:
    """Return how the cosines of hidden fields with whole ones are distributed, NAVI's beside CM2's."""
    kept = _load(averages, corpus, "reconstruction", (NAVI, PAPER, "cm2"))
    figures: list[Item] = []
    for key, what in (("test_value", ""), ("test_value_gain", ", less those with other fields")):
        values = {name_model(model): arrays[key].tolist() for model, arrays in kept.items() if key in arrays}
        if values:
            caption = f"{corpus}: cosines of fields whose value is hidden with the whole fields{what}."
            figures.append(histogram(caption, values, x_title="cosine"))
    return figures


def map_headers(averages: Averages, corpus: str) -> list[Item]:
    """Return a map of all columns for BERT and NAVI; the concept with the most headers is coloured, by header."""
    figures: list[Item] = []
    for model, arrays in _load_points(averages, corpus, "clustering", "test_headers", MAX_COLUMNS).items():
        projected = project(arrays["test_headers"], averages.folder, method="UMAP")
        labels = {key: arrays[f"test_{key}"].tolist() for key in ("table", "header", "concept")}
        concept = find_widest(labels["concept"], labels["header"])
        pairs = zip(labels["header"], labels["concept"], strict=True)
        labels["shown as"] = [header if each == concept else REST for header, each in pairs]
        caption = f"{corpus}, {name_model(model)}: the headers of the concept “{concept}” among all columns."
        figures.append(scatter_map(caption, projected, labels, colour="shown as", quiet=(REST,)))
    return figures


def map_segments(averages: Averages, corpus: str, *, by_table: bool = False) -> list[Item]:
    """Return maps of low and high segments of five tables for BERT and NAVI, coloured by role.

    With `by_table`, low and high segments have maps of their own, with a hull for each table.
    """
    figures: list[Item] = []
    for model, arrays in _load_points(averages, corpus, "geometry", "segments", MAX_SEGMENTS).items():
        for role in ("low", "high") if by_table else ("",):
            some = {name: each[arrays["role"] == role] for name, each in arrays.items()} if role else arrays
            if not len(some["role"]):
                continue
            projected = project(some["segments"], averages.folder, method="t-SNE")
            labels = {key: some[key].tolist() for key in ("table", "header", "value", "role")}
            what = f"{role}-entropy segments, a hull for each table"
            caption = f"{corpus}, {name_model(model)}: "
            caption += what if role else f"segments of {len(set(some['table']))} tables by role"
            colour = "table" if role else "role"
            figures.append(scatter_map(f"{caption}.", projected, labels, colour=colour, hulls=bool(role)))
    return figures


FIGURES: Mapping[str, Callable[[Averages, str], list[Item]]] = {
    "similarities": draw_similarities,
    "headers": map_headers,
    "segments": map_segments,
    "roles": partial(map_segments, by_table=True),
}
"""What draws each figure that `contents.toml` names."""


def project(
    embedded_ND: Floats, folder: Path, *, method: Literal["UMAP", "t-SNE"], seed: int = 0
) -> tuple[NDArray[np.float32], str]:
    """Return points in a plane (N, 2), near each other where directions are alike, and what projected them.

    What was projected before is taken from the folder. UMAP is not installed everywhere: t-SNE does where it is
    missing, and principal components for a few points.
    """
    from sklearn.preprocessing import normalize

    name = "UMAP" if method == "UMAP" and find_spec("umap") is not None else "t-SNE"
    if len(embedded_ND) < FEWEST_NEIGHBOURS:
        name = "PCA"
    unit_ND = np.ascontiguousarray(normalize(embedded_ND.astype(np.float32)), dtype=np.float32)
    key = hashlib.sha256(f"{name} {seed} {unit_ND.shape}".encode() + unit_ND.tobytes()).hexdigest()[:20]
    file = folder / PLACES_FOLDER / f"{key}.npy"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        points = np.asarray(place_points(unit_ND, seed, name), dtype=np.float32)
        with write_file(file) as aside, aside.open("wb") as opened:
            np.save(opened, points)
    return np.load(file), name


def find_widest(concepts: list[str], headers: list[str]) -> str:
    """Return the concept with the most different headers, of equals the first by name.

    >>> find_widest(["a", "b", "b"], ["x", "y", "z"])
    'b'
    """
    counts = Counter(concept for concept, _ in {*zip(concepts, headers, strict=True)})
    return min(counts, key=lambda concept: (-counts[concept], concept))


def find_drawn(averages: Averages, corpus: str, task: str, models: tuple[str, ...]) -> dict[str, Record]:
    """Return the cell that figures of each of these models show: that of its first seed that kept something."""
    found: dict[str, Record] = {}
    for model in models:
        for record in averages.list_records(corpus, task, model):
            if averages.results.keeps_arrays(record.cell):
                found.setdefault(model, record)
    return found


def _load(averages: Averages, corpus: str, task: str, models: tuple[str, ...]) -> dict[str, Arrays]:
    """Return what each of these models kept."""
    drawn = find_drawn(averages, corpus, task, models)
    return {model: averages.results.load_arrays(record.cell) or {} for model, record in drawn.items()}


def _load_points(averages: Averages, corpus: str, task: str, key: str, limit: int) -> dict[str, Arrays]:
    """Return some of the points that BERT, the paper's NAVI and ours kept, the same for each."""
    found = {model: each for model, each in _load(averages, corpus, task, (BERT, PAPER, NAVI)).items() if key in each}
    for model, arrays in found.items():
        count = len(arrays[key])
        if count > limit:
            chosen = np.sort(np.random.default_rng(0).permutation(count)[:limit])
            found[model] = {name: each[chosen] for name, each in arrays.items() if len(each) == count}
    return found


def histogram(caption: str, values: Mapping[str, Sequence[float]], *, x_title: str, bins: int = 40) -> Chart:
    """Return how often the values of each who is compared lie where, over bins that they share."""
    everything = np.concatenate([np.asarray(each, dtype=np.float64) for each in values.values()] or [np.zeros(0)])
    if not len(everything) or not np.isfinite(everything).all():
        raise ConfigError(f"The histogram '{caption}' needs values, all of them finite.")
    edges = np.histogram_bin_edges(everything, bins)
    records = [
        {"series": name, "x": low, "x2": high, "y": count / max(len(each), 1)}
        for name, each in values.items()
        for low, high, count in zip(edges[:-1], edges[1:], np.histogram(each, edges)[0], strict=True)
    ]
    tooltips = {"series": "series", "x": x_title, "x2": "to", "y": "share"}
    x = {"field": "x", "type": "quantitative", "title": x_title, "scale": {"zero": False, "nice": False}}
    y = {"field": "y", "type": "quantitative", "title": "share", "axis": {"format": ".0%"}, "stack": None}
    place = {"x": {**x, "bin": "binned"}, "x2": {"field": "x2"}, "y": y}
    mark = {"type": "bar", "fillOpacity": 0.6, "binSpacing": 0}
    return _make_chart("histogram", caption, records, mark, place, tooltips, height=300)


def scatter_map(
    caption: str,
    projected: tuple[NDArray[np.float32], str],
    labels: Mapping[str, list[str]],
    *,
    colour: str,
    quiet: Sequence[str] = (),
    hulls: bool = False,
) -> Chart:
    """Return projected points that say what they are when pointed at, coloured by one of their labels.

    Colours go by first appearance: records are sorted, so that the same name has the same colour on every map, and what
    is grey lies below the rest. With `hulls` a line goes round the points of each colour.
    """
    points, method = projected
    note = f"Placed by {method}. Near means alike, far means little. Point at one to read it."
    kept = [name for name, _ in Counter(labels[colour]).most_common(NUM_COLOURS)]
    texts = zip(*labels.values(), strict=True)
    records = [
        {"series": group if group in kept else OTHERS, "x": x, "y": y}
        | {name: text[:300] for name, text in zip(labels, each, strict=True)}
        for (x, y), group, each in zip(points.tolist(), labels[colour], texts, strict=True)
    ]
    records.sort(key=lambda record: (record["series"] not in (OTHERS, *quiet), record[colour]))
    outline = [corner for name in kept for corner in _find_hull(records, name)] if hulls else []
    # Without axes, which would mean nothing.
    free = {"type": "quantitative", "axis": None, "scale": {"zero": False, "nice": False, "padding": 12}}
    place = {axis: {"field": axis, **free} for axis in ("x", "y")}
    lines = {
        "data": {"values": outline},
        "mark": {"type": "line", "interpolate": "linear-closed", "strokeWidth": 1.2},
        "encoding": {**place, "order": {"field": "order"}, "color": {"field": "series"}},
    }
    tooltips, grey = dict(zip(labels, labels, strict=True)), (*quiet, OTHERS)
    mark, beside = {"type": "circle", "size": 30}, [lines] if outline else []
    return _make_chart("map", caption, records, mark, place, tooltips, beside, height=480, quiet=grey, note=note)


def _make_chart(
    kind: str,
    caption: str,
    records: list[dict[str, Any]],
    mark: dict[str, Any],
    place: dict[str, Any],
    tooltips: Mapping[str, str],
    beside: Sequence[dict[str, Any]] = (),
    *,
    height: int,
    quiet: Sequence[str] = (),
    note: str = "",
) -> Chart:
    """Return records as marks coloured by their series, in grey what is `quiet`; a click on the legend shows one."""
    series, colours = list(dict.fromkeys(record["series"] for record in records)), iter(range(1, NUM_COLOURS + 1))
    scale = {"domain": series, "range": [f"var(--c{0 if name in quiet else next(colours, 0)})" for name in series]}
    legend = {"title": None, "orient": "top"} if len(series) > 1 else None
    kinds = {True: {"type": "quantitative", "format": ",.4~g"}, False: {"type": "nominal"}}
    encoding = {
        "color": {"field": "series", "type": "nominal", "scale": scale, "legend": legend},
        "opacity": {"condition": {"param": "chosen", "value": 0.85}, "value": 0.08},
        "tooltip": [
            {"field": name, "title": title, **kinds[isinstance(records[0][name], float)]}
            for name, title in tooltips.items()
        ],
    }
    chosen = {"name": "chosen", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}
    layer = {"data": {"values": records}, "params": [chosen], "mark": mark, "encoding": place | encoding}
    spec = {"width": "container", "height": height, "layer": [layer, *beside]}
    return Chart(caption=caption, kind=kind, series=series, spec=spec, note=note)


def _find_hull(records: Sequence[Mapping[str, Any]], series: str) -> list[dict[str, Any]]:
    """Return the corners of the smallest convex polygon around a series; none where its points are in one line."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.array([(record["x"], record["y"]) for record in records if record["series"] == series])
    try:
        corners = points[ConvexHull(points).vertices] if len(points) > 2 else []
    except QhullError:
        corners = []
    return [{"series": series, "x": x, "y": y, "order": order} for order, (x, y) in enumerate(corners)]
