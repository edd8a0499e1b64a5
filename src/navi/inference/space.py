"""The space that rows are compared in: means of value states, whitened over the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from navi.batches.layout import gather_ranges
from navi.inference.pool import Floats, Ints, Progress, find_distinct
from navi.segments import SegmentArrays

if TYPE_CHECKING:
    from navi.inference.navi import Navi

# Shape suffixes: R rows, S cells, D hidden size.

ROWS_AT_ONCE = 2048
"""Rows whose cells are in memory at a time."""
SAMPLE_ROWS = 20_000
"""Rows that a space is fitted on, at most."""
SHRINKAGE = 1e-2
"""Least variance of a direction, as a share of the largest: below it, whitening would amplify noise."""


def embed_value_means(
    navi: Navi, arrays: SegmentArrays, rows: Ints | None = None, progress: Progress | None = None
) -> Floats:
    """Return (R, D): the mean of the states of a row's values; rows with equal cells run once.

    Headers and [CLS] have no part in it: they say which table a row is from, and drown what it is about.
    """
    rows = np.arange(arrays.num_rows) if rows is None else rows
    distinct, inverse = find_distinct(arrays, rows)
    means = np.zeros((len(distinct), navi.hidden_size), np.float32)
    for start in range(0, len(distinct), ROWS_AT_ONCE):
        part = distinct[start : start + ROWS_AT_ONCE]
        values_SD = navi.pool.embed(arrays, part, parts=("values",))["values"]
        means[start : start + len(part)] = average_cells(values_SD, np.diff(arrays.row_offsets)[part])
        if progress is not None:
            progress(len(part), len(distinct))
    return means[inverse]


def average_cells(cells_SD: Floats, num_cells_R: Ints) -> Floats:
    """Return the mean of each row's cells, which stand row after row; a row without cells has zeros."""
    sums = np.concatenate([np.zeros((1, cells_SD.shape[1])), np.cumsum(cells_SD, axis=0, dtype=np.float64)])
    ends = np.cumsum(num_cells_R)
    means: Floats = (sums[ends] - sums[ends - num_cells_R]) / np.maximum(num_cells_R, 1)[:, None]
    return means.astype(np.float32)


@dataclass(frozen=True)
class Space:
    """Centres, whitens and scales vectors to length 1, so that their inner product is a similarity.

    All rows of a domain look alike to an encoder: without whitening, what they share outweighs what tells them apart.
    """

    mean: Floats
    """(D,) what all rows share."""
    transform: Floats
    """(D, D) from centred vectors to directions of equal variance."""

    @classmethod
    def fit(cls, vectors_RD: Floats) -> Self:
        """Return the space of some rows, or of a sample of them."""
        if len(vectors_RD) > SAMPLE_ROWS:
            chosen = np.sort(np.random.default_rng(0).choice(len(vectors_RD), SAMPLE_ROWS, replace=False))
            vectors_RD = vectors_RD[chosen]
        mean = vectors_RD.mean(axis=0, dtype=np.float64)
        centred = vectors_RD - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
        least = max(SHRINKAGE * variances[-1], np.finfo(np.float32).tiny)
        transform = directions / np.sqrt(np.maximum(variances, least))
        return cls(mean.astype(np.float32), transform.astype(np.float32))

    def apply(self, vectors_RD: Floats) -> Floats:
        """Return (R, D): unit vectors; of a vector that is the mean, zeros."""
        found: Floats = (vectors_RD - self.mean) @ self.transform
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(lengths > 0, lengths, 1).astype(np.float32)
        return found


def list_words(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the distinct tokens of each row's values: the row's place in `rows`, and the token, sorted by both."""
    num_cells_R, cells = gather_ranges(arrays.row_offsets, rows)
    values_S = arrays.segment_value[arrays.row_segments[cells]]
    lengths_S, tokens = gather_ranges(arrays.value_offsets, values_S)
    row = np.repeat(np.repeat(np.arange(len(rows)), num_cells_R), lengths_S)
    width = int(arrays.value_tokens.max(initial=0)) + 1
    pairs = np.unique(row * width + arrays.value_tokens[tokens])
    return pairs // width, pairs % width
