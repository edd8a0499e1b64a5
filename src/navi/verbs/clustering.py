"""Clusters from the scores of pairs: the two with the best average score merge until none is left above 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Shape suffixes: K members.

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def cluster_scores(score: Floats, apart: NDArray[np.bool_]) -> Ints:
    """Return the cluster of each member, numbered from 0 in order of first members: (K,).

    `score` (K, K) is symmetric, above 0 where two members belong together. Members that `apart` (K, K) tells of never
    meet in a cluster. The number of clusters is what the scores make it.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # A merger needs a score above 0 between some members, so unconnected parts can be clustered by themselves.
    _, part = connected_components(csr_array(((score > 0) & ~apart).astype(np.int8)), directed=False)
    labels = np.arange(len(score))
    for number in np.flatnonzero(np.bincount(part, minlength=1) > 1):
        members = np.flatnonzero(part == number)
        inside = np.ix_(members, members)
        labels[members] = members[_merge(score[inside], apart[inside])]
    return np.unique(labels, return_inverse=True)[1]


def _merge(score: Floats, apart: NDArray[np.bool_]) -> Ints:
    """Return the first member of each member's cluster, after merging by average score while it is above 0."""
    sums = score.astype(np.float64)
    apart = apart.copy()
    np.fill_diagonal(apart, True)
    size = np.ones(len(sums))
    labels = np.arange(len(sums))
    average = np.where(apart, -np.inf, sums)
    best = average.argmax(axis=1)
    while True:
        rows = np.arange(len(sums))
        first = int(average[rows, best].argmax())
        second = int(best[first])
        if average[first, second] <= 0:
            return _lead(labels)
        labels[labels == second] = first
        sums[first] += sums[second]
        sums[:, first] += sums[:, second]
        size[first] += size[second]
        apart[first] |= apart[second]
        apart[:, first] = apart[first]
        apart[second], apart[:, second] = True, True
        average[second], average[:, second] = -np.inf, -np.inf
        average[first] = np.where(apart[first], -np.inf, sums[first] / (size[first] * size))
        average[:, first] = average[first]
        stale = np.flatnonzero((best == first) | (best == second) | (average[:, first] > average[rows, best]))
        best[stale] = average[stale].argmax(axis=1)
        best[first] = int(average[first].argmax())


def _lead(labels: Ints) -> Ints:
    """Return labels in which each cluster is called by its first member."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64)


def assign_one_to_one(score: Floats, group: Ints) -> NDArray[np.bool_]:
    """Tell for every pair of members of different groups whether the best one-to-one assignment joins them: (K, K)."""
    from scipy.optimize import linear_sum_assignment

    joined = np.zeros(score.shape, np.bool_)
    members = [np.flatnonzero(group == number) for number in np.unique(group)]
    for place, ours in enumerate(members):
        for theirs in members[place + 1 :]:
            rows, columns = linear_sum_assignment(score[np.ix_(ours, theirs)], maximize=True)
            joined[ours[rows], theirs[columns]] = True
            joined[theirs[columns], ours[rows]] = True
    return joined
