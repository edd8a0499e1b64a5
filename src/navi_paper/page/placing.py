"""Embeddings in a plane, near each other where their directions are alike."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from navi_paper.metrics import normalise

# Shape suffixes: N points, D hidden size.

Floats = NDArray[np.floating[Any]]
PLACES_FOLDER = "places"
"""Where a folder of results keeps what was placed, so that a page is soon drawn again."""
FEWEST = 12
"""Points below which there are no neighbourhoods to keep."""
PERPLEXITY, ITERATIONS, NEIGHBOURS = 30, 600, 15


@dataclass(frozen=True)
class Placed:
    """Points in a plane."""

    points: NDArray[np.float32]
    """(N, 2) where each stands."""
    method: str
    """What placed them."""


def place(embedded_ND: Floats, folder: Path, *, method: Literal["umap", "t-sne"], seed: int = 0) -> Placed:
    """Place embeddings in a plane; what was placed before is taken from the folder.

    UMAP is not installed everywhere: t-SNE does where it is missing, and principal components for a few points.
    """
    name, run = _choose(len(embedded_ND), method)
    unit_ND = np.ascontiguousarray(normalise(embedded_ND.astype(np.float32)), dtype=np.float32)
    key = hashlib.sha256(f"{name} {seed} {unit_ND.shape}".encode() + unit_ND.tobytes()).hexdigest()[:20]
    file = folder / PLACES_FOLDER / f"{key}.npy"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".tmp.npy")
        np.save(unfinished, np.asarray(run(unit_ND, seed), dtype=np.float32))
        unfinished.replace(file)
    return Placed(np.load(file), name)


def _choose(count: int, method: str) -> tuple[str, Any]:
    if count < FEWEST:
        return "principal components", _place_by_components
    if method == "umap" and find_spec("umap") is not None:
        return "UMAP", _place_by_umap
    return "t-SNE", _place_by_tsne


def _place_by_components(unit_ND: Floats, seed: int) -> Floats:
    centred = unit_ND - unit_ND.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    points: Floats = np.zeros((len(unit_ND), 2), dtype=np.float32)
    found = (left * scale)[:, :2]
    points[:, : found.shape[1]] = found
    return points


def _place_by_tsne(unit_ND: Floats, seed: int) -> Floats:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    perplexity = min(PERPLEXITY, (len(unit_ND) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", max_iter=ITERATIONS, random_state=seed)
    # So few points are placed faster by one thread than by several that wait for each other.
    with threadpool_limits(1):
        points: Floats = tsne.fit_transform(unit_ND)
    return points


def _place_by_umap(unit_ND: Floats, seed: int) -> Floats:
    with warnings.catch_warnings():
        # It says that other packages are missing, and that a seed forbids several threads, which is what a seed is for.
        warnings.simplefilter("ignore")
        from umap import UMAP

        neighbours = min(NEIGHBOURS, len(unit_ND) - 1)
        points: Floats = UMAP(n_neighbors=neighbours, metric="cosine", random_state=seed).fit_transform(unit_ND)
    return points
