"""What is shown of tables before anybody decides: facts of their columns, and a map of columns or rows as points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.columns import is_useless
from navi.corpus import ROLES, PrepareConfig
from navi.corpus.corpus import MOSTLY_EMPTY
from navi.corpus.roles import assign_roles, measure_entropy
from navi.errors import escape_controls
from navi.report import place_points
from navi.tables import Table

if TYPE_CHECKING:
    from navi.model.runner import Progress
    from navi.server.review import Review

NUM_EXAMPLES, NUM_BARS = 6, 24
MAX_EXAMPLE = 20_000
"""Characters of an example; no more are sent to a page."""
COLOURS = {"columns": ("cluster", "table", "role"), "rows": ("table", "cluster")}
LIMITS = (1_000, 5_000, 20_000)
NUM_ROW_CLUSTERS = 10
CELLS_SHOWN, MAX_CELL = 8, 60


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column as a person would look at it."""

    header: str
    fill: float
    distinct: int
    role: str
    examples: tuple[str, ...]
    """The most frequent values."""
    bars: tuple[float, ...]
    """How numbers are distributed over their range, or how frequent the most frequent values are; at most 1."""
    extent: str
    """The least and the greatest of a column of numbers."""
    repeats: str
    """How often the most frequent value is there."""
    trouble: str


def describe_columns(table: Table) -> dict[str, ColumnFacts]:
    """Return each column of a table as a person would look at it."""
    config, counted = PrepareConfig(), {}
    for header in table.headers:
        found = pc.value_counts(table.text[header].drop_null()).to_pylist()
        counted[header] = sorted(found, key=lambda each: -each["counts"])
    counts = {header: np.array([each["counts"] for each in found], np.int64) for header, found in counted.items()}
    column = np.repeat(np.arange(len(counts)), [len(each) for each in counts.values()])
    entropy = measure_entropy(column, np.concatenate([*counts.values()]), len(counts), config.normalise)
    roles = assign_roles(entropy, config.theta_low, config.theta_high)
    described = {}
    for header, role in zip(table.headers, roles.tolist(), strict=True):
        values, num_cells = [each["values"] for each in counted[header]], int(counts[header].sum())
        most = int(counts[header][0]) if values else 0
        bars, extent = _draw_bars(values, counts[header])
        trouble = {
            "never filled": not values,
            "mostly empty": 0 < num_cells < MOSTLY_EMPTY * table.num_rows,
            "always the same": len(values) == 1 < num_cells,
            "the header says nothing": is_useless(header),
        }
        described[header] = ColumnFacts(
            header=header,
            fill=num_cells / max(table.num_rows, 1),
            distinct=len(values),
            role=ROLES[role] if num_cells > 1 else "",
            examples=tuple(value[:MAX_EXAMPLE] for value in values[:NUM_EXAMPLES]),
            bars=bars,
            extent=extent,
            repeats="" if not most else "all different" if most == 1 else f"up to {most:,} times",
            trouble=", ".join(text for text, holds in trouble.items() if holds),
        )
    return described


def _draw_bars(values: Sequence[str], counts: NDArray[np.int64]) -> tuple[tuple[float, ...], str]:
    """Return a histogram and the extent where most values are plain numbers, else the counts of frequent values."""
    numbers, weights = [], []
    for value, count in zip(values, counts.tolist(), strict=True):
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number) and abs(number) < 1e15:
            numbers.append(number)
            weights.append(count)
    if len(numbers) > 3 and len(numbers) >= 0.9 * len(values):
        heights, edges = np.histogram(numbers, bins=min(NUM_BARS, len(numbers)), weights=weights)
        return tuple((heights / heights.max()).tolist()), f"{_show_number(edges[0])} to {_show_number(edges[-1])}"
    return tuple((counts[:NUM_BARS] / max(counts[:1], default=1)).tolist()), ""


def _show_number(number: float) -> str:
    """Return a number as a person writes it; years have no commas."""
    return f"{number:.4g}" if abs(number) < 10_000 else f"{number:,.0f}"


class PointMap:
    """Columns or rows of a review as points in two dimensions, near each other where they are alike.

    They are placed by principal components at once and, where it is installed, by UMAP when that is done: its first
    map takes a minute, most of it to compile itself.
    """

    def __init__(self, review: Review) -> None:
        self._review = review

    def start(self, of: str, limit: int) -> dict[str, Any] | str | None:
        """Return the points; None while they are being placed, and a text if that failed."""
        tasks, key = self._review.tasks, ("map", of, limit)
        read = self._read_columns if of == "columns" else lambda progress: self._read_rows(limit, progress)
        found: dict[str, Any] | str | None = tasks.start(key, read)
        if not isinstance(found, dict):
            return found
        # t-SNE of very many points takes minutes, too.
        better = "UMAP" if find_spec("umap") else "t-SNE" if len(found["text"]) <= LIMITS[1] else "PCA"
        placed = tasks.start((*key, better), lambda _: _place(found["vectors"], better)) if better != "PCA" else None
        if not isinstance(placed, dict):
            return found | {"next": "" if isinstance(placed, str) or better == "PCA" else better}
        return found | placed | {"next": ""}

    def colour(self, found: Mapping[str, Any], colour: str) -> dict[str, Any]:
        """Return the points as a page draws them, each with the number of its group."""
        labels = found["labels"].get(colour)
        if labels is None:  # the clusters of columns change with every decision
            name_of = {member.place: card.name for card in self._review.cards for member in card.members}
            labels = [name_of[place] for place in range(len(self._review.columns))]
        names, group = np.unique(labels, return_inverse=True)
        shown = {"names": [escape_controls(name) or "–" for name in names.tolist()], "group": group.tolist()}
        return {name: found[name] for name in ("x", "y", "text", "method", "next")} | shown

    def _read_columns(self, progress: Progress) -> dict[str, Any]:
        review = self._review
        facts = [review.facts[column.table][column.header] for column in review.columns]
        text = [_write(str(column), each.examples) for column, each in zip(review.columns, facts, strict=True)]
        labels = {"table": [column.table for column in review.columns], "role": [each.role or "none" for each in facts]}
        vectors = review.profiles.vectors["column"]
        return {"vectors": vectors, "text": text, "labels": labels, **_place(vectors, "PCA")}

    def _read_rows(self, limit: int, progress: Progress) -> dict[str, Any]:
        from sklearn.cluster import MiniBatchKMeans

        tables = self._review.tables
        total = sum(table.num_rows for table in tables.values())
        model = self._review.open_model(min(limit, total))
        text: list[str] = []
        names, vectors = [], []
        for name, table in tables.items():
            number = math.ceil(min(1.0, limit / max(total, 1)) * table.num_rows)
            places = np.linspace(0, table.num_rows - 1, number).astype(np.int64)
            frame = table.text.take(places)
            vectors.append(model.embed_rows(frame))
            progress(len(places), min(limit, total))
            for number, row in zip(table.row_number[places].tolist(), frame.to_pylist(), strict=True):
                cells = [f"{header}: {cell[:MAX_CELL]}" for header, cell in row.items() if cell]
                text.append(_write(f"{name}:{number}", cells[:CELLS_SHOWN]))
            names += [name] * len(places)
        every = np.concatenate(vectors)
        clusters = MiniBatchKMeans(min(NUM_ROW_CLUSTERS, len(text)), random_state=0, n_init=3).fit_predict(every)
        labels = {"table": names, "cluster": [f"cluster {k + 1}" for k in clusters]}
        return {"vectors": every, "text": text, "labels": labels, **_place(every, "PCA")}


def _place(vectors: Any, method: str) -> dict[str, Any]:
    points = place_points(np.asarray(vectors, np.float32), method=method)
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = ((points - low) / np.maximum(high - low, 1e-9)).round(4).T.tolist()
    return {"x": x, "y": y, "method": method}


def _write(title: str, lines: Sequence[str]) -> str:
    return "\n".join(escape_controls(line[: 4 * MAX_CELL]) for line in (title, *lines))
