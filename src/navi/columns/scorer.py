"""The pair scorer: from the features of two columns to the odds that both mean the same.

It was fitted once (scripts/fit_scorer.py), and comes with the package: on pairs fabricated from many tables, and on a
twentieth of the pairs of columns of hand-written schemas. One weight is set and not fitted, that of the model's own
reading of both columns, as the best of three on tables kept out. Nothing is fitted to the tables at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.columns.features import FEATURES, HEADER_FEATURES, VALUE_FEATURES, Background, FeatureBlocks
from navi.columns.profiles import ColumnProfiles
from navi.errors import ModelError
from navi.files import read_json, write_json

# Shape suffixes: K columns, L other columns, E features, H hidden units, C kinds of competition.

SCORER_FILE = "scorer.json"
PACKAGED = Path(__file__).parent / "data" / SCORER_FILE
BLOCK, PAIRS = 256, 1 << 21
"""Columns that are compared with all others at once, and pairs, at most: features take much memory."""
CACHED_COLUMNS = 64
"""Columns that compete at once: what is made of them stays in a cache."""
WITHOUT_HEADERS, WITHOUT_VALUES = (*HEADER_FEATURES, "named"), (*VALUE_FEATURES, "filled", "quantities", "few")
"""What is taken away to see what headers, or values, contribute."""

Scores = NDArray[np.float32]
_COLUMN_VECTOR = FEATURES.index("column_vector")
Names = Sequence[str] | NDArray[np.str_]


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """Scores of every pair of columns, as logarithms of odds: above 0 is for the same meaning."""

    total: Scores
    """(K, L) headers and values together."""
    headers: Scores
    """(K, L) what the headers contribute; little where one is missing or says nothing."""
    values: Scores
    """(K, L) what the values contribute; little where one column has none."""


@dataclass(frozen=True, kw_only=True)
class PairScorer:
    """A network of one hidden layer over the features, and what competition makes of its score."""

    hidden: Scores
    """(E + 1, H) weights of the hidden units, the bias last."""
    output: Scores
    """(H + 1,) weights of the score, the bias last."""
    reading: float
    """Weight of what the model reads in both columns, beside what the network makes of it: it holds for words that no
    fabricated pair had."""
    competition: Scores
    """(C + 1,) weights of the score itself, of the better and the worse of the leads that it has over its rivals in
    either table, and of the logarithm of the tables' widths; the bias last."""

    def score(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> PairScores:
        """Return the scores of every pair of columns, before they compete, with what headers and values contribute."""
        total, values, headers = self._weigh_blocks(first, second, background, (), WITHOUT_HEADERS, WITHOUT_VALUES)
        return PairScores(total=total, headers=total - values, values=total - headers)

    def score_total(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> Scores:
        """Return the score of every pair of columns alone: (K, L)."""
        (total,) = self._weigh_blocks(first, second, background, ())
        return total

    def score_values(self, first: ColumnProfiles, second: ColumnProfiles, background: Background) -> Scores:
        """Return the score of every pair of columns by their values alone, as if neither had a header: (K, L)."""
        (values,) = self._weigh_blocks(first, second, background, WITHOUT_HEADERS)
        return values

    def _weigh_blocks(
        self, first: ColumnProfiles, second: ColumnProfiles, background: Background, *absent: Sequence[str]
    ) -> list[Scores]:
        """Return the score of every pair of columns, once for each group of features that are left out: (K, L) each."""
        scores = [np.empty((len(first), len(second)), np.float32) for _ in absent]
        blocks, size = FeatureBlocks(first, second, background), max(1, min(BLOCK, PAIRS // max(1, len(second))))
        for start in range(0, len(first), size):
            rows, end = slice(start, start + size), start + size
            rest = slice(start if second is first else 0, None)
            features = blocks.measure(rows, rest)
            for names, found in zip(absent, scores, strict=True):
                found[rows, rest] = self.weigh(leave_out(features, names) if names else features)
                if second is first:  # a pair has the same score from either side
                    found[end:, rows] = found[rows, end:].T
        return scores

    def weigh(self, features: Scores) -> Scores:
        """Return the score of pairs with these features, (E, …) in and (…) out."""
        inner = np.tensordot(self.hidden[:-1].T, features, 1)
        inner += self.hidden[-1].reshape(-1, *[1] * (features.ndim - 1))
        score = np.tensordot(self.output[:-1], np.maximum(inner, 0, out=inner), 1) + self.output[-1]
        return np.asarray(score + self.reading * features[_COLUMN_VECTOR], np.float32)

    def compete(self, score: Scores, tables: Names, others: Names | None = None) -> Scores:
        """Return the logarithm of the odds that each pair of columns means the same, given all pairs: (K, L).

        `tables` are those of the rows, `others` of the columns; without these, rows and columns are the same, and so is
        the score of a pair from either side. A pair is less likely if
        either column has a better partner in the other's table. Columns of one table do not compete.
        """
        first, second = np.asarray(tables), np.asarray(tables if others is None else others)
        number = np.unique(np.concatenate([first, second]), return_inverse=True)[1]
        ours, theirs = number[: len(first)], number[len(first) :]
        odds = np.empty(score.shape, np.float32)
        if (np.diff(ours) < 0).any() or (np.diff(theirs) < 0).any():  # columns of one table side by side
            sides = np.argsort(ours, kind="stable"), np.argsort(theirs, kind="stable")
            sorted_others = None if others is None else second[sides[1]]
            odds[np.ix_(*sides)] = self.compete(score[np.ix_(*sides)], first[sides[0]], sorted_others)
            return odds
        own, better, worse, width, bias = self.competition
        wide, high = (width * _measure_width(each) + bias / 2 for each in (theirs, ours))
        block = np.cumsum(np.bincount(ours))[ours] // CACHED_COLUMNS
        starts = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
        # Some tables at a time, and in place: there are many steps, each quick on what a cache holds.
        for start, stop in pairwise([*starts, len(ours)]):
            rows, rest = slice(start, stop), slice(0 if others is not None else start, None)
            some = score[rows, rest]
            weighed, lower = _measure_leads(some, ours[rows], theirs[rest])
            weighed *= better
            weighed += np.multiply(lower, worse, out=lower)
            weighed += np.multiply(some, own, out=lower)
            weighed += np.add.outer(high[rows], wide[rest], out=lower)
            np.copyto(weighed, some, where=ours[rows, None] == theirs[None, rest])
            odds[rows, rest] = weighed
            if others is None:  # scores are the same from either side, so that half of them will do
                odds[rest, rows] = weighed.T
        return odds

    def save(self, folder: str | Path) -> None:
        """Write the weights into a directory."""
        weights = {name: np.round(weight, 6).tolist() for name, weight in vars(self).items()}
        write_json(Path(folder) / SCORER_FILE, {"features": list(FEATURES), **weights})

    @staticmethod
    def load(folder: str | Path) -> PairScorer:
        """Return the scorer of a model directory, or the one that comes with the package where it has none."""
        file = Path(folder) / SCORER_FILE
        return _read(file) if file.exists() else load_packaged()


@cache
def load_packaged() -> PairScorer:
    """Return the scorer that comes with the package."""
    return _read(PACKAGED)


def _read(file: Path) -> PairScorer:
    remedy = "Expected the scorer of a model that this version made. Pretrain again."
    found: dict[str, Any] = read_json(file, ModelError, remedy)
    if found.pop("features", None) != list(FEATURES):
        raise ModelError(f"{file} was made for other features of columns. {remedy}")
    try:
        reading = float(found.pop("reading"))
        return PairScorer(reading=reading, **{name: np.array(weight, np.float32) for name, weight in found.items()})
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"Cannot read {file}: {error}. {remedy}") from error


def leave_out(features: Scores, names: Sequence[str]) -> Scores:
    """Return features as if what they compare were not there."""
    left = features.copy()
    left[[FEATURES.index(name) for name in names]] = 0.0
    left[_COLUMN_VECTOR] = features[FEATURES.index("value_vector" if "named" in names else "header_vector")]
    return left


def measure_competition(score: Scores, first: NDArray[np.int64], second: NDArray[np.int64]) -> Scores:
    """Return what `PairScorer.competition` weighs of each pair, given the tables of its columns: (C, K, L)."""
    better, worse = _measure_leads(score, first, second)
    return np.stack([score, better, worse, _measure_width(first)[:, None] + _measure_width(second)[None, :]])


def _measure_width(table: NDArray[np.int64]) -> Scores:
    """Return the logarithm of the number of columns of each column's table: (K,)."""
    return np.log(np.bincount(table)[table]).astype(np.float32)


def _measure_leads(score: Scores, first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[Scores, Scores]:
    """Return the better and the worse of the leads of each pair over its rivals in either table: (K, L) each."""
    ahead, behind = _measure_lead(score, second, 1), _measure_lead(score, first, 0)
    return np.maximum(ahead, behind), np.minimum(ahead, behind, out=behind)


def _measure_lead(score: Scores, table: NDArray[np.int64], axis: int) -> Scores:
    """Return how far each pair is ahead of the best other one of the same table along an axis, or else of 0: (K, L).

    Columns of one table lie side by side.
    """
    starts = np.flatnonzero(np.diff(table, prepend=-1))
    widths = np.diff(starts, append=len(table))
    top = np.maximum.reduceat(score, starts, axis)
    rival = top.repeat(widths, axis)
    best = score == rival
    second = np.maximum.reduceat(np.where(best, np.float32(-np.inf), score), starts, axis)
    np.copyto(second, top, where=np.add.reduceat(best, starts, axis, np.int32) > 1)
    second[np.isneginf(second)] = 0
    np.copyto(rival, second.repeat(widths, axis), where=best)
    return np.subtract(score, rival, out=rival)
