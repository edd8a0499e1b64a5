"""A map of a review: its columns or rows as points in two dimensions, near each other where they are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from navi.errors import escape_controls
from navi.report import place_points

if TYPE_CHECKING:
    from navi.server.review import Review

COLOURS = {"columns": ("cluster", "table", "role"), "rows": ("table", "cluster")}
LIMITS = (1_000, 5_000, 20_000)
NUM_ROW_CLUSTERS = 10
CELLS_SHOWN, MAX_CELL = 8, 60


class PointMap:
    """The points of a review: placed once, in a thread, when they are first asked for."""

    def __init__(self, review: Review) -> None:
        self._review, self.status = review, "waiting"

    def start(self, of: str, limit: int) -> dict[str, Any] | str | None:
        """Return the points; None while they are being placed, and a text if that failed."""
        if of == "columns":
            return self._review.tasks.start("columns", self._place_columns)
        return self._review.tasks.start(("rows", limit), lambda: self._place_rows(limit))

    def colour(self, found: Mapping[str, Any], colour: str) -> dict[str, Any]:
        """Return the points as a page draws them, each with the number of its group."""
        labels = found["labels"].get(colour)
        if labels is None:  # the clusters of columns change with every decision
            name_of = {member.place: card.name for card in self._review.cards for member in card.members}
            labels = [name_of[place] for place in range(len(self._review.columns))]
        names, group = np.unique(labels, return_inverse=True)
        shown = {"names": [escape_controls(name) or "–" for name in names.tolist()], "group": group.tolist()}
        return {name: found[name] for name in ("x", "y", "text")} | shown

    def _place_columns(self) -> dict[str, Any]:
        review = self._review
        facts = [review.facts[column.table][column.header] for column in review.columns]
        text = [
            _write(str(column), each.examples[:CELLS_SHOWN]) for column, each in zip(review.columns, facts, strict=True)
        ]
        labels = {"table": [column.table for column in review.columns], "role": [each.role or "none" for each in facts]}
        return self._finish(review.profiles.vectors["column"], text, labels)

    def _place_rows(self, limit: int) -> dict[str, Any]:
        from sklearn.cluster import MiniBatchKMeans

        tables = self._review.tables
        share = min(1.0, limit / max(sum(table.num_rows for table in tables.values()), 1))
        text, labels, vectors = [], [], []
        for name, table in tables.items():
            places = np.linspace(0, table.num_rows - 1, int(np.ceil(share * table.num_rows))).astype(np.int64)
            frame = table.text.take(places)
            self.status = f"reading the rows of {name}"
            vectors.append(self._review.navi.embed_rows(frame))
            for number, row in zip(table.row_number[places].tolist(), frame.to_pylist(), strict=True):
                cells = [f"{header}: {cell[:MAX_CELL]}" for header, cell in row.items() if cell][:CELLS_SHOWN]
                text.append(_write(f"{name}:{number}", cells))
            labels += [name] * len(places)
        every = np.concatenate(vectors)
        clusters = MiniBatchKMeans(min(NUM_ROW_CLUSTERS, len(text)), random_state=0, n_init=3).fit_predict(every)
        return self._finish(every, text, {"table": labels, "cluster": [f"cluster {k + 1}" for k in clusters]})

    def _finish(self, vectors: Any, text: Sequence[str], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        self.status = f"{len(text):,} points"
        # The usual extras have no UMAP, and t-SNE of very many points takes minutes.
        method = "UMAP" if find_spec("umap") else "t-SNE" if len(text) <= LIMITS[1] else "PCA"
        points = place_points(np.asarray(vectors, np.float32), method=method)
        low, high = points.min(axis=0), points.max(axis=0)
        x, y = ((points - low) / np.maximum(high - low, 1e-9)).round(4).T.tolist()
        return {"x": x, "y": y, "text": text, "labels": labels, "method": method}


def _write(title: str, lines: Sequence[str]) -> str:
    return "\n".join(escape_controls(line[: 4 * MAX_CELL]) for line in (title, *lines))
