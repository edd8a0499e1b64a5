"""The paper's figures: distributions, maps of headers and segments, learning curves, reliability."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from navi.files import write_file
from navi.report import Chart, Item, histogram, line_chart, place_points, reliability_chart, scatter_map
from navi.report.charts import FEWEST_NEIGHBOURS
from navi_paper.page.tables import BERT, NAVI, PAPER, Averages, name_model
from navi_paper.results import MODELS_FOLDER

# Shape suffixes: N points, D hidden size.

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.floating[Any]]
Setting = str | int | float | bool | None
MAX_SEGMENTS, MAX_COLUMNS = 800, 1500
"""Points that a map has at most: more cannot be distinguished."""
MAX_STEPS = 100
"""Points that a line has at most."""
REST = "other concepts"
PLACES_FOLDER = "places"
"""Where a folder of results keeps projections, so that a page is soon drawn again."""
NEIGHBOURS = 15
"""Points that UMAP keeps near each: the usual number."""
RECORDS = {"pretrain.json": "config", "training.json": "identity"}
"""What a model's folder holds of its run, NAVI's and a baseline's, and where the settings are in it."""
WITHOUT_MEANING = ("workers", "checkpoint_", "keep_checkpoints", "curves", "log_every", "sample_rows", "graphs")
"""Settings of a run that change nothing of what a model learns."""


def draw_similarities(averages: Averages, corpus: str) -> list[Item]:
    """Return how the cosines of hidden fields with whole ones are distributed, NAVI's beside CM2's."""
    kept = _load(averages, corpus, "reconstruction", (NAVI, PAPER, "cm2"))
    figures: list[Item] = []
    for key, hidden in (("test_value", "value"), ("test_header_blind", "header")):
        values = {name_model(model): arrays[key].tolist() for model, arrays in kept.items() if key in arrays}
        if values:
            caption = f"{corpus}: cosines of fields whose {hidden} is hidden with the whole fields."
            figures.append(histogram(caption, values, x_title="cosine"))
    return figures


def map_headers(averages: Averages, corpus: str, *, one_concept: bool = False) -> list[Item]:
    """Return a map of all columns for BERT and NAVI, coloured by concept.

    With `one_concept`, the concept with the most headers alone is coloured, by header.
    """
    figures: list[Item] = []
    for model, arrays in _load_points(averages, corpus, "clustering", "test_headers", MAX_COLUMNS).items():
        projected = project(arrays["test_headers"], averages.folder, method="umap")
        labels = {key: arrays[f"test_{key}"].tolist() for key in ("table", "header", "concept")}
        caption = f"{corpus}, {name_model(model)}: header embeddings of all columns, coloured by concept."
        if not one_concept:
            figures.append(_map(projected, labels, caption, colour="concept"))
            continue
        concept = find_widest(labels["concept"], labels["header"])
        pairs = zip(labels["header"], labels["concept"], strict=True)
        labels["shown as"] = [header if each == concept else REST for header, each in pairs]
        caption = f"{corpus}, {name_model(model)}: the headers of the concept “{concept}” among all columns."
        figures.append(_map(projected, labels, caption, colour="shown as", quiet=(REST,)))
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
            projected = project(some["segments"], averages.folder, method="t-sne")
            labels = {key: some[key].tolist() for key in ("table", "header", "value", "role")}
            what = f"{role}-entropy segments, a hull for each table"
            caption = f"{corpus}, {name_model(model)}: "
            caption += what if role else f"segments of {len(set(some['table']))} tables by role"
            figures.append(_map(projected, labels, f"{caption}.", colour="table" if role else "role", hulls=bool(role)))
    return figures


def draw_reliability(averages: Averages, corpus: str) -> list[Item]:
    """Return whether imputed values are right as often as they are sure."""
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
    return [reliability_chart(caption, outcomes)]


def draw_curves(averages: Averages, corpus: str) -> list[Item]:
    """Return how training losses, and accuracies on validation rows, went for the models trained here."""
    runs = list_runs(averages, corpus)
    asked = (
        ("train", "loss", "loss", "training loss", False),
        ("validation", "header_accuracy_blind", "right", "headers guessed blind, validation rows", True),
        ("validation", "value_accuracy", "right", "values guessed, validation rows", True),
    )
    figures: list[Item] = []
    for kind, name, title, said, percent in asked:
        lines = {name_model(model): run.follow(kind, name) for model, run in runs.items()}
        series = {model: line for model, line in lines.items() if line}
        if series:
            note = "" if percent else "Models learn different things: their losses are not to be compared."
            caption = f"{corpus}: {said}."
            figures.append(line_chart(caption, series, x_title="step", y_title=title, percent=percent, note=note))
    return figures


FIGURES: Mapping[str, Callable[[Averages, str], list[Item]]] = {
    "similarities": draw_similarities,
    "headers": map_headers,
    "concept": partial(map_headers, one_concept=True),
    "segments": map_segments,
    "roles": partial(map_segments, by_table=True),
    "reliability": draw_reliability,
}
"""What draws each figure that `contents.toml` names."""


@dataclass(frozen=True)
class TrainedModel:
    """How a model was trained."""

    settings: Mapping[str, Setting]
    """Its settings, those of a section behind the section's name and a point."""
    metrics: tuple[Mapping[str, Any], ...]
    """What was logged, line after line."""

    def follow(self, kind: str, name: str) -> tuple[tuple[float, float], ...]:
        """Return step and figure where a figure was logged; of many, some, the first and the last among them."""
        line = [(each["step"], each[name]) for each in self.metrics if each.get("kind") == kind and name in each]
        places = np.unique(np.linspace(0, len(line) - 1, min(len(line), MAX_STEPS)).round().astype(int))
        return tuple(line[place] for place in places)


def list_runs(averages: Averages, corpus: str) -> dict[str, TrainedModel]:
    """Return the run of each model trained in these results, the lowest seed's; models taken as they are have none."""
    found = {}
    for model in averages.models:
        folder = averages.folder / MODELS_FOLDER / corpus
        endings = [each.name.removeprefix(f"{model}-") for each in folder.glob(f"{model}-*")]
        for seed in sorted(int(ending) for ending in endings if ending.isdigit())[:1]:
            run = _read_run(folder / f"{model}-{seed}")
            if run.settings or run.metrics:
                found[model] = run
    return found


def _read_run(folder: Path) -> TrainedModel:
    settings: dict[str, Setting] = {}
    for name, key in RECORDS.items():
        if not settings and (folder / name).is_file():
            settings = flatten(json.loads((folder / name).read_text(encoding="utf-8")).get(key, {}))
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return TrainedModel(settings, tuple(json.loads(line) for line in lines if line.strip()))


def flatten(settings: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the settings that matter, one level deep.

    >>> flatten({"backbone": "minilm", "training": {"epochs": 2, "workers": 6}})
    {'backbone': 'minilm', 'training.epochs': 2}
    """
    flat = {"backbone": settings["backbone"]} if "backbone" in settings else {}
    for section in ("model", "masking", "sampler", "alignment", "training"):
        for name, value in settings.get(section, {}).items():
            if not name.startswith(WITHOUT_MEANING):
                flat[f"{section}.{name}"] = value
    return flat


def project(
    embedded_ND: Floats, folder: Path, *, method: Literal["umap", "t-sne"], seed: int = 0
) -> tuple[NDArray[np.float32], str]:
    """Return points in a plane (N, 2), near each other where directions are alike, and what projected them.

    What was projected before is taken from the folder. UMAP is not installed everywhere: t-SNE does where it is
    missing, and principal components for a few points.
    """
    from sklearn.preprocessing import normalize

    name = "t-SNE"
    run: Callable[[Floats, int], Floats] = place_points
    if len(embedded_ND) < FEWEST_NEIGHBOURS:
        name = "principal components"
    elif method == "umap" and find_spec("umap") is not None:
        name, run = "UMAP", _project_by_umap
    unit_ND = np.ascontiguousarray(normalize(embedded_ND.astype(np.float32)), dtype=np.float32)
    key = hashlib.sha256(f"{name} {seed} {unit_ND.shape}".encode() + unit_ND.tobytes()).hexdigest()[:20]
    file = folder / PLACES_FOLDER / f"{key}.npy"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        points = np.asarray(run(unit_ND, seed), dtype=np.float32)
        with write_file(file) as aside, aside.open("wb") as opened:
            np.save(opened, points)
    return np.load(file), name


def _project_by_umap(unit_ND: Floats, seed: int) -> Floats:
    with warnings.catch_warnings():
        # It says that other packages are missing, and that a seed forbids several threads, which is what a seed is for.
        warnings.simplefilter("ignore")
        from umap import UMAP

        neighbours = min(NEIGHBOURS, len(unit_ND) - 1)
        points: Floats = UMAP(n_neighbors=neighbours, metric="cosine", random_state=seed).fit_transform(unit_ND)
    return points


def find_widest(concepts: list[str], headers: list[str]) -> str:
    """Return the concept with the most different headers, of equals the first by name.

    >>> find_widest(["a", "b", "b"], ["x", "y", "z"])
    'b'
    """
    counts = Counter(concept for concept, _ in {*zip(concepts, headers, strict=True)})
    return min(counts, key=lambda concept: (-counts[concept], concept))


def _load(averages: Averages, corpus: str, task: str, models: tuple[str, ...]) -> dict[str, Arrays]:
    """Return what the first seed of each of these models kept, of those that kept something."""
    found: dict[str, Arrays] = {}
    for model in models:
        for record in averages.list_records(corpus, task, model)[:1]:
            arrays = averages.results.load_arrays(record.cell)
            if arrays is not None:
                found[model] = arrays
    return found


def _load_points(averages: Averages, corpus: str, task: str, key: str, limit: int) -> dict[str, Arrays]:
    """Return some of the points that BERT and NAVI kept, the same for each; the paper's NAVI if there is no other."""
    found = {model: each for model, each in _load(averages, corpus, task, (BERT, NAVI, PAPER)).items() if key in each}
    if NAVI in found:
        found.pop(PAPER, None)
    for model, arrays in found.items():
        count = len(arrays[key])
        if count > limit:
            chosen = np.sort(np.random.default_rng(0).permutation(count)[:limit])
            found[model] = {name: each[chosen] for name, each in arrays.items() if len(each) == count}
    return found


def _map(
    projected: tuple[NDArray[np.float32], str],
    labels: Mapping[str, list[str]],
    caption: str,
    *,
    colour: str,
    hulls: bool = False,
    quiet: tuple[str, ...] = (),
) -> Chart:
    # Colours go by first appearance: in this order the same name has the same colour on every map; grey lies below.
    points, method = projected
    shown = labels[colour]
    order = sorted(range(len(points)), key=lambda point: (shown[point] not in quiet, shown[point]))
    return scatter_map(
        caption,
        points[order].tolist(),
        {name: [texts[point] for point in order] for name, texts in labels.items()},
        colour=colour,
        hulls=hulls,
        quiet=quiet,
        note=f"Placed by {method}. Near means alike, far means little. Point at one to read it.",
    )
