"""Cells hidden to measure with: their values are known, the model is asked for them all the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from navi.corpus.arrays import ROLES, SegmentArrays, count_up, gather_ranges
from navi.verbs.calibration import Answers
from navi.verbs.guessing.gaps import Gaps, Ints
from navi.verbs.guessing.guesser import Guesses

# Shape suffixes: M cells, C cells of the rows drawn from.

SHARE = 0.25
"""Share of a row's cells that are hidden, one at a time; at least one."""


@dataclass(frozen=True, kw_only=True)
class HiddenCells:
    """Cells to be guessed, and what they hold.

    **Shape**: M cells.
    """

    gaps: Gaps
    """The cells."""
    value: Ints
    """(M,) value of each."""
    truth: tuple[tuple[int, ...], ...]
    """(M,) tokens of each value."""
    role: np.ndarray[tuple[int], np.dtype[np.str_]]
    """(M,) role of each one's column."""

    def take(self, chosen: Ints) -> HiddenCells:
        """Return some of the cells."""
        truth = tuple(self.truth[cell] for cell in chosen.tolist())
        return HiddenCells(gaps=self.gaps.take(chosen), value=self.value[chosen], truth=truth, role=self.role[chosen])

    def judge(self, guesses: Guesses) -> Answers:
        """Return which of the guesses are right; gaps without a guess are left out."""
        made = np.flatnonzero([len(tokens) > 0 for tokens in guesses.tokens])
        return Answers(
            raw=guesses.raw[made],
            correct=np.array([guesses.tokens[cell] == self.truth[cell] for cell in made], dtype=bool),
            role=self.role[made],
            kind=np.full(len(made), guesses.kind),
        )


def hide_cells(arrays: SegmentArrays, rows: Ints, num_cells: int, *, seed: int, share: float = SHARE) -> HiddenCells:
    """Draw a share of the cells of some of the rows, until there are `num_cells`; rows with one cell are left out."""
    generator = np.random.default_rng(seed)
    sizes = np.diff(arrays.row_offsets)
    rows = generator.permutation(rows[sizes[rows] > 1])
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    rank = np.empty(len(cells), np.int64)
    row_C = np.repeat(np.arange(len(rows)), lengths)
    rank[np.lexsort((generator.random(len(cells)), row_C))] = count_up(lengths)
    drawn = np.flatnonzero(rank < np.maximum(1, np.floor(share * lengths))[row_C])[:num_cells]
    segment = arrays.row_segments[cells[drawn]]
    row = rows[row_C[drawn]]
    return _describe(arrays, row, segment)


def _describe(arrays: SegmentArrays, row: Ints, segment: np.ndarray[tuple[int], np.dtype[np.int32]]) -> HiddenCells:
    column = arrays.find_columns(arrays.row_table[row], arrays.segment_header[segment])
    value = arrays.segment_value[segment].astype(np.int64)
    bounds = zip(arrays.value_offsets[value].tolist(), arrays.value_offsets[value + 1].tolist(), strict=True)
    return HiddenCells(
        gaps=Gaps(row=row, column=column),
        value=value,
        truth=tuple(tuple(arrays.value_tokens[begin:end].tolist()) for begin, end in bounds),
        role=np.array(ROLES)[arrays.column_role[column]],
    )
