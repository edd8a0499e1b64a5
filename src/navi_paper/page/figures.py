"""The paper's figures: distributions, maps of headers and segments, learning curves, reliability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.report import Distribution, Item, Lines, Map, Reliability
from navi_paper.grid import MODELS_FOLDER
from navi_paper.page.averages import Averages
from navi_paper.page.layout import BERT, NAVI, PAPER, name_model
from navi_paper.page.placing import Placed, place
from navi_paper.page.runs import list_runs

Arrays = Mapping[str, NDArray[Any]]
MOST_SEGMENTS, MOST_COLUMNS = 800, 1500
"""Points that a map has at most: more are not told apart."""
MOST_STEPS = 100
"""Points that a line has at most."""
REST = "other concepts"
CHANCE = "Near means alike, far means little. Point at one to read it."


def draw_similarities(averages: Averages, corpus: str) -> list[Item]:
    """Return how the cosines of hidden fields with whole ones are distributed, NAVI's beside CM2's."""
    kept = _load(averages, corpus, "reconstruction", (NAVI, PAPER, "cm2"))
    figures: list[Item] = []
    for key, hidden in (("test_value", "value"), ("test_header_blind", "header")):
        values = {name_model(model): arrays[key].tolist() for model, arrays in kept.items() if key in arrays}
        if values:
            caption = f"{corpus}: cosines of fields whose {hidden} is hidden with the whole fields."
            figures.append(Distribution.from_values(values, caption=caption, title="cosine"))
    return figures


def map_headers(averages: Averages, corpus: str) -> list[Item]:
    """Return a map of all columns for BERT and NAVI, coloured by concept."""
    figures: list[Item] = []
    for model, arrays in _load_columns(averages, corpus).items():
        placed = place(arrays["test_headers"], averages.folder, method="umap")
        labels = {key: arrays[f"test_{key}"].tolist() for key in ("table", "header", "concept")}
        caption = f"{corpus}, {name_model(model)}: header embeddings of all columns, coloured by concept."
        figures.append(_map(placed, labels, caption, colour="concept"))
    return figures


def map_concept(averages: Averages, corpus: str) -> list[Item]:
    """Return the same maps with the columns of one concept coloured by header: that with the most headers."""
    figures: list[Item] = []
    for model, arrays in _load_columns(averages, corpus).items():
        placed = place(arrays["test_headers"], averages.folder, method="umap")
        labels = {key: arrays[f"test_{key}"].tolist() for key in ("table", "header", "concept")}
        concept = find_widest(labels["concept"], labels["header"])
        pairs = zip(labels["header"], labels["concept"], strict=True)
        shown = [header if each == concept else REST for header, each in pairs]
        caption = f"{corpus}, {name_model(model)}: the headers of the concept “{concept}” among all columns."
        figures.append(_map(placed, {**labels, "shown as": shown}, caption, colour="shown as", quiet=(REST,)))
    return figures


def map_segments(averages: Averages, corpus: str) -> list[Item]:
    """Return maps of low and high segments of five tables for BERT and NAVI, coloured by role."""
    figures: list[Item] = []
    for model, arrays in _load_segments(averages, corpus).items():
        placed = place(arrays["segments"], averages.folder, method="t-sne")
        caption = f"{corpus}, {name_model(model)}: segments of {len(set(arrays['table']))} tables by role."
        figures.append(_map(placed, _label_segments(arrays), caption, colour="role"))
    return figures


def map_roles(averages: Averages, corpus: str) -> list[Item]:
    """Return maps of the low and of the high segments alone, with a hull for each table."""
    figures: list[Item] = []
    for model, arrays in _load_segments(averages, corpus).items():
        for role in ("low", "high"):
            some = _take(arrays, np.flatnonzero(arrays["role"] == role))
            if not len(some["role"]):
                continue
            placed = place(some["segments"], averages.folder, method="t-sne")
            caption = f"{corpus}, {name_model(model)}: {role}-entropy segments, a hull for each table."
            figures.append(_map(placed, _label_segments(some), caption, colour="table", hulls="table"))
    return figures


def draw_curves(averages: Averages, corpus: str) -> list[Item]:
    """Return how training losses, and accuracies on validation rows, went for the models trained here."""
    runs = list_runs(averages.folder / MODELS_FOLDER / corpus, averages.models)
    asked = (
        ("train", "loss", "loss", "training loss", False),
        ("validation", "header_accuracy_blind", "right", "headers guessed blind, validation rows", True),
        ("validation", "value_accuracy", "right", "values guessed, validation rows", True),
    )
    figures: list[Item] = []
    for kind, name, title, said, percent in asked:
        lines = {name_model(model): thin(run.follow(kind, name)) for model, run in runs.items()}
        series = {model: line for model, line in lines.items() if line}
        if series:
            note = "" if percent else "Models learn different things: their losses are not to be compared."
            caption = f"{corpus}: {said}."
            figures.append(
                Lines(caption=caption, series=series, x_title="step", y_title=title, percent=percent, note=note)
            )
    return figures


def draw_reliability(averages: Averages, corpus: str) -> list[Item]:
    """Return whether values put into gaps are right as often as they are sure."""
    kept = _load(averages, corpus, "reliability", (NAVI, PAPER))
    outcomes = {
        name_model(model): (arrays["probability"].tolist(), arrays["right"].astype(bool).tolist())
        for model, arrays in kept.items()
        if len(arrays.get("probability", ()))
    }
    if not outcomes:
        return []
    caption = (
        f"{corpus}: values put into hidden cells of test rows are right as often as they are sure on the diagonal."
    )
    return [Reliability.from_outcomes(outcomes, caption=caption)]


FIGURES: Mapping[str, Callable[[Averages, str], list[Item]]] = {
    "similarities": draw_similarities,
    "headers": map_headers,
    "concept": map_concept,
    "segments": map_segments,
    "roles": map_roles,
    "curves": draw_curves,
    "reliability": draw_reliability,
}
"""What draws each figure of the page, by name."""


def find_widest(concepts: list[str], headers: list[str]) -> str:
    """Return the concept with the most different headers, of equals the first by name.

    >>> find_widest(["a", "b", "b"], ["x", "y", "z"])
    'b'
    """
    counts = Counter(concept for concept, _ in {*zip(concepts, headers, strict=True)})
    return min(counts, key=lambda concept: (-counts[concept], concept))


def thin(line: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Return a line with fewer points, its ends among them.

    >>> len(thin(tuple((step, 0.0) for step in range(1001))))
    100
    """
    if len(line) <= MOST_STEPS:
        return line
    return tuple(line[place] for place in np.linspace(0, len(line) - 1, MOST_STEPS).round().astype(int))


def _load(averages: Averages, corpus: str, task: str, models: tuple[str, ...]) -> dict[str, Arrays]:
    """Return what the first seed of each of these models kept, of those that kept something."""
    found: dict[str, Arrays] = {}
    for model in models:
        for record in averages.list_records(corpus, task, model)[:1]:
            arrays = averages.results.load_arrays(record.cell)
            if arrays is not None:
                found[model] = arrays
    return found


def _load_points(averages: Averages, corpus: str, task: str, key: str, most: int) -> dict[str, Arrays]:
    """Return some of the points that BERT and NAVI kept; the paper's NAVI where there is no other."""
    found = {model: each for model, each in _load(averages, corpus, task, (BERT, NAVI, PAPER)).items() if key in each}
    if NAVI in found:
        found.pop(PAPER, None)
    return {model: _sample(arrays, key, most) for model, arrays in found.items()}


def _load_columns(averages: Averages, corpus: str) -> dict[str, Arrays]:
    return _load_points(averages, corpus, "clustering", "test_headers", MOST_COLUMNS)


def _load_segments(averages: Averages, corpus: str) -> dict[str, Arrays]:
    return _load_points(averages, corpus, "geometry", "segments", MOST_SEGMENTS)


def _sample(arrays: Arrays, key: str, most: int) -> Arrays:
    """Return at most so many of the points, the same for every model."""
    count = len(arrays[key])
    if count <= most:
        return arrays
    chosen = np.sort(np.random.default_rng(0).permutation(count)[:most])
    return _take({name: each for name, each in arrays.items() if len(each) == count}, chosen)


def _take(arrays: Arrays, chosen: NDArray[np.int64]) -> Arrays:
    return {name: each[chosen] for name, each in arrays.items()}


def _label_segments(arrays: Arrays) -> dict[str, list[str]]:
    return {key: arrays[key].tolist() for key in ("table", "header", "value", "role")}


def _map(
    placed: Placed,
    labels: Mapping[str, list[str]],
    caption: str,
    *,
    colour: str,
    hulls: str | None = None,
    quiet: tuple[str, ...] = (),
) -> Map:
    # Colours go by first appearance: in this order the same name has the same colour on every map; grey lies below.
    order = sorted(
        range(len(placed.points)), key=lambda point: (labels[colour][point] not in quiet, labels[colour][point])
    )
    points = placed.points[order]
    return Map(
        caption=caption,
        x=tuple(points[:, 0].tolist()),
        y=tuple(points[:, 1].tolist()),
        labels={name: tuple(texts[point] for point in order) for name, texts in labels.items()},
        colour=colour,
        hulls=hulls,
        quiet=quiet,
        note=f"Placed by {placed.method}. {CHANCE}",
    )
