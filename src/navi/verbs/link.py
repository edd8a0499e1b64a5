"""Rows of two tables that are about the same thing: near-duplicates, for entity resolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.hashing import inverse_document_frequency
from navi.errors import ConfigError
from navi.model.runner import Floats, Ints, Progress
from navi.verbs.result import TabularResult
from navi.verbs.row_similarity import Whitening, list_words, weigh_similarity

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from navi.verbs.navi import Navi

# Shape suffixes: L left rows, R right rows, P pairs, W distinct words, D hidden size.

ROWS_AT_ONCE = 1024
SHARPNESS = 1.5
"""Power of the odds: right rows stand out more than a logistic curve between best and wrong rows can show. Fitted on
simulated catalogues."""
FEW = 3
"""Rows that it takes to learn as much from them as was assumed before: that no row has a counterpart."""
LARGEST_LOGIT = 15.0
"""Beyond this, differences between scores say nothing more."""
RIDGE = 1e-2
"""Penalty that keeps the curve finite where scores tell the best rows from the wrong ones without fail."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Pairs(TabularResult):
    """Pairs of rows that are about the same thing, the surest first.

    **Shape**: P pairs.
    """

    left: Ints
    """(P,) number of the left row in its source, from 1."""
    right: Ints
    """(P,) number of the right row."""
    confidence: Floats
    """(P,) how sure each pair is, from 0 to 1."""
    similarity: Floats
    """(P,) similarity of the two rows' vectors."""
    overlap: Floats
    """(P,) share of the words of both that both have, rare ones weighing more."""

    def __len__(self) -> int:
        return len(self.left)

    def to_arrow(self) -> pa.Table:
        """Return a line for each pair."""
        return pa.table(dict(vars(self)))


def find_pairs(
    navi: Navi,
    left: Any,
    right: Any,
    *,
    k: int = 10,
    threshold: float = 0.5,
    one_to_one: bool = False,
    progress: Progress | None = None,
) -> Pairs:
    """Return pairs of rows of two tables that are about the same thing.

    A pair must be among the `k` best of each of its two rows. How sure it is depends on how well wrong rows do: where
    many rows of a table are alike, a high score says little. And it depends on whether either row has a better partner.
    Pairs with less confidence than `threshold` are left out; `one_to_one` gives each row to one pair at most, the
    surest first.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}.")
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold must lie between 0 and 1, got {threshold}.")
    rows = ComparedRows.read(navi, left, right, progress)
    pairs_P2, best, wrong = rows.find_candidates(k)
    similarity, overlap = rows.compare(pairs_P2[:, 0], pairs_P2[:, 1])
    score = rows.blend(similarity, overlap)
    odds = PairOdds.fit(best, wrong).of(score)
    confidence = share_odds(pairs_P2, odds, len(rows.number)).astype(np.float32)
    chosen = np.lexsort((pairs_P2[:, 1], pairs_P2[:, 0], -score, -confidence))
    chosen = chosen[confidence[chosen] >= threshold]
    if one_to_one:
        chosen = _take_once(pairs_P2, chosen)
    return Pairs(
        left=rows.number[pairs_P2[chosen, 0]],
        right=rows.number[pairs_P2[chosen, 1]],
        confidence=confidence[chosen],
        similarity=similarity[chosen],
        overlap=overlap[chosen],
    )


def _take_once(pairs_P2: Ints, order: Ints) -> Ints:
    """Return those of the pairs, in this order, whose rows no earlier one of them has."""
    taken: set[int] = set()
    chosen = []
    for place in order.tolist():
        rows = pairs_P2[place].tolist()
        if taken.isdisjoint(rows):
            chosen.append(place)
            taken.update(rows)
    return np.array(chosen, np.int64)


@dataclass(frozen=True)
class ComparedRows:
    """The rows of two tables, in one space."""

    vectors: Floats
    """(L + R, D) unit vectors."""
    words: csr_array
    """(L + R, W) square root of the rarity of each word that a row has."""
    weight: Floats
    """(L + R,) rarity of all words of each row, summed."""
    number: Ints
    """(L + R,) number of each row in its table, from 1."""
    left: Ints
    """(L,) the rows of the left table."""
    right: Ints
    """(R,) the rows of the right table."""
    similarity_weight: float
    """What the similarity of vectors weighs in a score; the words that rows share weigh the rest."""

    @classmethod
    def read(cls, navi: Navi, left: Any, right: Any, progress: Progress | None = None) -> Self:
        """Return the rows of two tables."""
        from scipy.sparse import csr_array

        encoded = navi.encode({"left": left, "right": right})
        arrays = encoded.arrays
        vectors = navi.runner.embed(arrays, parts=("value_means",), progress=progress)["value_means"]
        row, words = list_words(encoded)
        _, word, counts = np.unique(words, return_inverse=True, return_counts=True)
        rarity = inverse_document_frequency(arrays.num_rows, counts).astype(np.float32)
        shares = csr_array((np.sqrt(rarity[word]), (row, word)), (arrays.num_rows, len(rarity)))
        weight = np.bincount(row, rarity[word], arrays.num_rows).astype(np.float32)
        left, right = (np.flatnonzero(arrays.row_table == table) for table in (0, 1))
        vectors = Whitening.fit(vectors).transform(vectors)
        rows = cls(vectors, shares, weight, encoded.row_number, left, right, 0.5)
        chosen = left[:: max(1, len(left) // ROWS_AT_ONCE)]
        return replace(rows, similarity_weight=weigh_similarity(*rows.compare_all(chosen, right)))

    def find_candidates(self, k: int) -> tuple[Ints, Floats, Floats]:
        """Return (P, 2) the pairs of a left and a right row that are among the k best of each other.

        Besides, for each left row, the score of the best right row, and one that the best of the wrong rows may have. A
        row has one counterpart at most, so its second and third best are wrong. Where it has none, its best is wrong,
        too, and ahead of the second by chance alone: taken for as much as that is ahead of the third.
        """
        right_LK, score_LK = self._rank(self.left, self.right, max(k, 3))
        left_RK, _ = self._rank(self.right, self.left, k)
        right_LK, size = right_LK[:, :k], len(self.number)
        keys = np.intersect1d(self.left[:, None] * size + right_LK, left_RK * size + self.right[:, None])
        # Two empty rows stand in where the right table has fewer than three.
        top_L3 = np.pad(score_LK, ((0, 0), (0, 2)))[:, :3]
        return np.stack([keys // size, keys % size], axis=1), top_L3[:, 0], 2 * top_L3[:, 1] - top_L3[:, 2]

    def compare(self, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        """Return similarity and overlap of pairs of rows."""
        similarity = np.clip(np.einsum("pd,pd->p", self.vectors[first], self.vectors[second]), 0, 1)
        shared = np.asarray(self.words[first].multiply(self.words[second]).sum(axis=1)).reshape(-1)
        return similarity, _share_words(shared, self.weight[first], self.weight[second])

    def compare_all(self, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        """Return similarity and overlap of some rows with all of others: one line for each of the first."""
        similarity = np.clip(self.vectors[first] @ self.vectors[second].T, 0, 1)
        shared = (self.words[first] @ self.words[second].T).toarray()
        return similarity, _share_words(shared, self.weight[first][:, None], self.weight[second])

    def blend(self, similarity: Floats, overlap: Floats) -> Floats:
        """Return the score of pairs, from 0 to 1."""
        weight = np.float32(self.similarity_weight)
        return weight * similarity + (1 - weight) * overlap

    def _rank(self, rows: Ints, others: Ints, k: int) -> tuple[Ints, Floats]:
        """Return the k best others of each row, the best first, and their scores: (rows, k) each."""
        k = min(k, len(others))
        places, scores = [], []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            score = self.blend(*self.compare_all(rows[start : start + ROWS_AT_ONCE], others))
            best = np.argpartition(-score, k - 1, axis=1)[:, :k]
            found = np.take_along_axis(score, best, axis=1)
            order = np.argsort(-found, axis=1, kind="stable")
            places.append(others[np.take_along_axis(best, order, axis=1)])
            scores.append(np.take_along_axis(found, order, axis=1))
        return np.concatenate(places), np.concatenate(scores)


def _share_words(shared: Floats, weight: Floats, other: Floats) -> Floats:
    """Return how much of the weight of all words of two rows both have."""
    together = weight + other - shared
    share: Floats = np.where(together > 0, shared / np.where(together > 0, together, 1), 0).astype(np.float32)
    return np.clip(share, 0, 1)


def share_odds(pairs_P2: Ints, odds_P: Doubles, num_rows: int) -> Doubles:
    """Return the chance that each pair is right, given its odds and the best odds that either of its rows has.

    >>> share_odds(np.array([[0, 2], [0, 3], [1, 3]]), np.array([9.0, 1.0, 4.0]), 4).tolist()
    [0.9, 0.1, 0.8]
    """
    best_R = np.zeros(num_rows)
    np.maximum.at(best_R, pairs_P2, odds_P[:, None])
    confidence: Doubles = odds_P / (1 + best_R[pairs_P2].max(axis=1))
    return confidence


@dataclass(frozen=True)
class PairOdds:
    """From a score to the odds that the best right row of a left row is its counterpart: they rise with the score."""

    slope: float
    centre: float
    wrong_share: float
    """Share of the left rows that have no counterpart, so that their best row is a wrong one."""

    @classmethod
    def fit(cls, best: Floats, wrong: Floats) -> Self:
        """Tell the best scores from the wrong ones by a logistic curve.

        Low scores show how many of the best are wrong, since next to no right ones are as low (Storey's estimate). One
        made-up pair of each kind, a perfect and an empty one, keeps the curve finite for tables of a few rows.
        """
        from sklearn.linear_model import LogisticRegression

        low = np.median(wrong)
        wrong_share = min(1.0, float(((best <= low).sum() + FEW) / ((wrong <= low).sum() + FEW)))
        score = np.concatenate([best, wrong, [1.0, 0.0]]).astype(np.float64)
        is_best = np.concatenate([np.ones(len(best)), np.zeros(len(wrong)), [1.0, 0.0]])
        design = np.stack([np.ones_like(score), score], axis=1)
        fitted = LogisticRegression(C=1 / RIDGE, fit_intercept=False, tol=1e-6).fit(design, is_best)
        intercept, slope = fitted.coef_[0].tolist()
        return cls(slope, -intercept / slope, wrong_share) if slope > 0 else cls(0.0, 1.0, 1.0)

    def of(self, score: Floats) -> Doubles:
        """Return the odds of each score; 0 where wrong rows do as well.

        Where the best scores are n times as dense as the wrong ones, n / wrong_share - 1 right ones stand beside each
        wrong one.
        """
        dense = np.exp(np.minimum(self.slope * (score.astype(np.float64) - self.centre), LARGEST_LOGIT))
        odds: Doubles = np.maximum(dense / self.wrong_share - 1, 0) ** SHARPNESS
        return odds
