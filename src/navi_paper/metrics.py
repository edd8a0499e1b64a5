"""Figures that tasks are measured by: clusters against gold, probabilities against outcomes, classes against labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.verbs.calibration import Reliability as Reliability
from navi.verbs.calibration import measure_reliability as measure_reliability

# Shape suffixes: N items, D hidden size.

Labels = NDArray[np.generic]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class BCubed:
    """B³ (Bagga and Baldwin): precision and recall of each item's own cluster, averaged over the items."""

    precision: float
    """Share of an item's cluster that is of its class."""
    recall: float
    """Share of an item's class that is in its cluster."""

    @property
    def f1(self) -> float:
        """Harmonic mean of the averages."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def measure_b_cubed(gold: Labels, clusters: Labels) -> BCubed:
    """Return B³ of a clustering; each item is counted as a member of its own cluster and class.

    >>> measure_b_cubed(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 5]))
    BCubed(precision=0.5, recall=1.0)
    """
    assert len(gold) == len(clusters) > 0, "there is one cluster for each item"
    _, gold_N = np.unique(gold, return_inverse=True)
    _, cluster_N = np.unique(clusters, return_inverse=True)
    _, both_N = np.unique(np.stack([gold_N, cluster_N]), axis=1, return_inverse=True)
    together, of_gold, of_cluster = (np.bincount(each.reshape(-1)) for each in (both_N, gold_N, cluster_N))
    common_N = together[both_N.reshape(-1)]
    return BCubed(
        precision=float((common_N / of_cluster[cluster_N]).mean()),
        recall=float((common_N / of_gold[gold_N]).mean()),
    )


def measure_nmi(gold: Labels, clusters: Labels) -> float:
    """Return mutual information, normalised by the arithmetic mean of the two entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(gold, clusters, average_method="arithmetic"))


def measure_silhouette(embeddings_ND: Floats, gold: Labels) -> float | None:
    """Return the silhouette of the gold classes by cosine distance, over the classes with two items or more.

    None where fewer than two classes are left, or as many as items.
    """
    from sklearn.metrics import silhouette_score

    _, gold_N, counts = np.unique(gold, return_inverse=True, return_counts=True)
    several = counts[gold_N] > 1
    if not 2 <= (counts > 1).sum() < several.sum():
        return None
    return float(silhouette_score(embeddings_ND[several], gold_N[several], metric="cosine"))


def measure_macro_f1(labels: Labels, predicted: Labels) -> float:
    """Return F1 averaged over the classes that the labels or the predictions have."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, average="macro", zero_division=0))


def measure_variants(embeddings_ND: Floats, gold: Labels, texts: Labels) -> dict[str, float]:
    """Return the mean distance of pairs that mean the same under different texts: `cosine`, and `l2` at unit length.

    Nothing comes back where there is no such pair.
    """
    unit = normalise(embeddings_ND)
    similarity = unit @ unit.T
    pair = (gold[:, None] == gold[None, :]) & (texts[:, None] != texts[None, :])
    pair &= np.tri(len(gold), k=-1, dtype=np.bool_)
    if not pair.any():
        return {}
    apart = np.clip(1.0 - similarity[pair], 0.0, 2.0)
    return {"cosine": float(apart.mean()), "l2": float(np.sqrt(2 * apart).mean())}


def normalise(embeddings_ND: Floats) -> NDArray[np.float64]:
    """Return the embeddings at unit length; zeros stay zeros."""
    lengths = np.linalg.norm(embeddings_ND, axis=1, keepdims=True)
    unit: NDArray[np.float64] = embeddings_ND / np.maximum(lengths, 1e-12)
    return unit
