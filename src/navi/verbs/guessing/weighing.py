"""All evidence for the values of a gap, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from navi.corpus.arrays import SegmentArrays
from navi.model.runner import Runner
from navi.verbs.guessing.blend import MODEL, NUM_EVIDENCE, Blend, Floats
from navi.verbs.guessing.columnvalues import Column, ColumnValues
from navi.verbs.guessing.companions import PRIOR_CELLS, Companions
from navi.verbs.guessing.config import GuessConfig
from navi.verbs.guessing.evidence import NearestRows, Votes
from navi.verbs.guessing.gaps import ColumnCells, Gaps, Ints
from navi.verbs.guessing.ranking import ValueScorer
from navi.verbs.guessing.valueset import ValueSet

# Shape suffixes: M gaps, E kinds of evidence, N values of a set.

FLOOR = 0.01
"""Share of votes that every value has, so that one without any is not ruled out."""
VALUES_AT_ONCE = 2_000_000
"""Values of all gaps that are weighed at a time, at most; it bounds the memory taken."""


class EvidenceCollector:
    """Collects what the column, the nearest rows, the companions and the model say of each value of a gap's column."""

    def __init__(
        self, runner: Runner, arrays: SegmentArrays, rows: Ints, cells: ColumnCells, columns: ColumnValues,
        config: GuessConfig,
    ) -> None:  # fmt: skip
        self._columns, self._config = columns, config
        self._nearest, self._companions = NearestRows(arrays, rows, cells), Companions(arrays, cells)
        self._scorer = ValueScorer(runner, arrays)

    def collect(self, gaps: Gaps, blend: Blend) -> Iterator[tuple[Ints, list[Floats]]]:
        """Yield places of some gaps and their evidence, (E, N) each; values the model was not asked for have -inf.

        The blend says, before the model is asked, which value lengths are worth asking for; a blend that gives the
        model no weight does without it.
        """
        for places in self._divide(gaps):
            some = gaps.take(places)
            evidence = self._gather(some)
            if blend.model > 0:
                self._ask(some, evidence, blend)
            yield places, evidence

    def _divide(self, gaps: Gaps) -> list[Ints]:
        """Return the gaps in parts, column after column, none with too many values."""
        order = np.lexsort((gaps.row, gaps.column))
        sizes = np.array([len(self._columns[column].values) for column in gaps.column[order].tolist()], np.int64)
        part = np.cumsum(sizes) // VALUES_AT_ONCE
        return [order[part == number] for number in np.unique(part)]

    def _gather(self, gaps: Gaps) -> list[Floats]:
        """Return the evidence of gaps sorted by column, that of the model still 0."""
        votes = self._nearest.vote(gaps, self._config.neighbours)
        evidence: list[Floats] = []
        starts = np.flatnonzero(np.diff(gaps.column, prepend=-1)).tolist()
        for begin, end in pairwise([*starts, len(gaps)]):
            column = self._columns[int(gaps.column[begin])]
            prior = column.values.weigh(self._config.training_cells)
            told, totals = self._companions.tell(gaps.take(np.arange(begin, end)), column.cells, prior)
            for place in range(begin, end):
                beside = _read_line(told, place - begin)
                companion = (beside + PRIOR_CELLS * prior) / (totals[place - begin] + PRIOR_CELLS)
                one = np.zeros((NUM_EVIDENCE, len(prior)))
                one[1:] = [_log(prior), *self._count_votes(column, votes, place), _log(companion)]
                evidence.append(one)
        return evidence

    def _count_votes(self, column: Column, votes: Votes, place: int) -> tuple[Floats, Floats]:
        weights, number = np.zeros(len(column.values)), column.values.number
        for value, cosine in zip(votes.value[place].tolist(), votes.weight[place].tolist(), strict=True):
            if value in number:
                weights[number[value]] += cosine**self._config.sharpness
        return np.log(FLOOR + weights / max(float(weights.sum()), FLOOR)), np.log(FLOOR + weights)

    def _choose_lengths(self, values: ValueSet, evidence: Floats, blend: Blend) -> Ints:
        """Return the value lengths that hold most of what the evidence so far expects."""
        if not len(values):
            return np.zeros(0, np.int64)
        expected = np.bincount(values.lengths, weights=blend.weigh(evidence, values.unseen))
        order = np.argsort(-expected, kind="stable")
        needed = int(np.searchsorted(np.cumsum(expected[order]), self._config.coverage * expected.sum())) + 1
        chosen = order[: min(needed, self._config.max_lengths)]
        return np.sort(chosen[expected[chosen] > 0])

    def _ask(self, gaps: Gaps, evidence: Sequence[Floats], blend: Blend) -> None:
        """Enter what the model says."""
        sets = [self._columns[column].values for column in gaps.column.tolist()]
        lengths = [self._choose_lengths(values, one, blend) for values, one in zip(sets, evidence, strict=True)]
        columns, set_M = np.unique(gaps.column, return_inverse=True)
        distinct = [self._columns[column].values for column in columns.tolist()]
        scored = self._scorer.score(gaps, distinct, set_M.astype(np.int64), lengths)
        for one, scores, values in zip(evidence, scored, sets, strict=True):
            one[MODEL] = scores / np.sqrt(np.maximum(values.lengths, 1))


def _read_line(counts: Any, line: int) -> Floats:
    dense: Floats = np.zeros(counts.shape[1])
    part = slice(counts.indptr[line], counts.indptr[line + 1])
    dense[counts.indices[part]] = counts.data[part]
    return dense


def _log(shares: Floats) -> Floats:
    return np.log(np.maximum(shares, 1e-9))
