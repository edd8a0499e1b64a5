"""Rows as one text of tokens each: where every token stands and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.batches import SpecialTokens
from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges
from navi.randomness import choose_below, fold, make_key, uniform
from navi_paper.encoder import Hidden

# Shape suffixes: R rows, C cells, T tokens (packed), M masked tokens.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOKEN_SHARE, MASK_RATE, RANDOM_RATE = 0.15, 0.8, 0.1
"""BERT's own masking: of the tokens that are to be predicted, most become [MASK], some another word."""
_CHOOSE, _REPLACE, _RANDOM = range(3)


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of some rows, row after row."""

    rows: Ints
    """(R,) the rows, as the corpus numbers them."""
    row: Ints
    """(C,) row of each cell, from 0."""
    header: Ints
    """(C,) header of each cell."""
    value: Ints
    """(C,) value of each cell."""
    header_length: Ints
    """(C,) tokens of the header."""
    value_length: Ints
    """(C,) tokens of the value."""

    @property
    def rank(self) -> Ints:
        """(C,) place of the cell in its row."""
        return count_up(np.bincount(self.row, minlength=len(self.rows)))

    def sum_before(self, lengths_C: Ints) -> Ints:
        """Return the sum of the lengths of the cells before each one in its row: (C,)."""
        before_C = np.cumsum(lengths_C) - lengths_C
        return before_C - before_C[np.searchsorted(self.row, self.row)]

    def sum_rows(self, lengths_C: Ints) -> Ints:
        """Return the sum of the lengths over each row: (R,)."""
        return np.bincount(self.row, weights=lengths_C, minlength=len(self.rows)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Text:
    """The tokens of some rows on one axis, row after row."""

    cells: Cells
    """The cells of the rows; those that were cut have no tokens here."""
    row_starts: Ints
    """(R + 1,) first token of each row."""
    token_ids: Ints
    """(T,) the tokens."""
    token_span: Ints
    """(T,) 2c for the header of cell c, 2c + 1 for its value, 2C for what belongs to neither."""

    @property
    def token_row(self) -> Ints:
        """(T,) row of each token, from 0."""
        return np.repeat(np.arange(len(self.row_starts) - 1), np.diff(self.row_starts))

    @property
    def token_position(self) -> Ints:
        """(T,) place of each token in its row."""
        return count_up(np.diff(self.row_starts))

    @property
    def is_word(self) -> Bools:
        """(T,) whether the token is part of a header or a value."""
        found: Bools = self.token_span < 2 * len(self.cells.row)
        return found

    @property
    def is_header(self) -> Bools:
        """(T,) whether the token is part of a header."""
        found: Bools = self.is_word & (self.token_span % 2 == 0)
        return found


@dataclass(frozen=True, kw_only=True)
class Template:
    """What stands around the headers and values of a row."""

    begin: tuple[int, ...]
    """Begins the row."""
    before: tuple[int, ...] = ()
    """Stands before each header."""
    between: tuple[int, ...]
    """Stands between a header and its value."""
    after: tuple[int, ...] = ()
    """Stands after each value."""
    separator: tuple[int, ...]
    """Stands between two cells."""
    end: tuple[int, ...]
    """Ends the row."""


def list_row_cells(arrays: SegmentArrays, rows: Ints) -> Cells:
    """Return the cells of these rows."""
    counts_R, cells = gather_ranges(arrays.row_offsets, rows)
    segments = arrays.row_segments[cells]
    header, value = arrays.segment_header[segments].astype(np.int64), arrays.segment_value[segments].astype(np.int64)
    return Cells(
        rows=rows,
        row=np.repeat(np.arange(len(rows)), counts_R),
        header=header,
        value=value,
        header_length=arrays.header_offsets[header + 1] - arrays.header_offsets[header],
        value_length=arrays.value_offsets[value + 1] - arrays.value_offsets[value],
    )


def write_text(arrays: SegmentArrays, rows: Ints, template: Template, limit: int) -> Text:
    """Return rows written after a template, none of more than `limit` tokens: what is too long loses its last cells."""
    cells = list_row_cells(arrays, rows)
    around = sum(map(len, (template.before, template.between, template.after, template.separator)))
    length_C = cells.header_length + cells.value_length + around
    room = limit - len(template.begin) - len(template.end) + len(template.separator)
    kept = cells.sum_before(length_C) + length_C <= room
    length_C = np.where(kept, length_C, 0)
    row_starts = _count_rows(cells, length_C, kept, template)
    start_C = row_starts[cells.row] + len(template.begin) + cells.sum_before(length_C)
    header_C = start_C + len(template.before)
    value_C = header_C + cells.header_length + len(template.between)
    text = place_words(arrays, cells, kept, row_starts, header_C, value_C)
    end_C = (value_C + cells.value_length)[kept]
    _fill(text.token_ids, row_starts[:-1], template.begin)
    _fill(text.token_ids, start_C[kept], template.before)
    _fill(text.token_ids, value_C[kept] - len(template.between), template.between)
    _fill(text.token_ids, end_C, template.after)
    # After a row's last cell this stands where the row ends, and is written over.
    _fill(text.token_ids, end_C + len(template.after), template.separator)
    _fill(text.token_ids, row_starts[1:] - len(template.end), template.end)
    return text


def place_words(
    arrays: SegmentArrays, cells: Cells, kept: Bools, row_starts: Ints, header_C: Ints, value_C: Ints
) -> Text:
    """Return a text with the headers and values of the kept cells where they are said to begin, and nothing else."""
    num_tokens, num_cells = int(row_starts[-1]), len(cells.row)
    token_ids = np.zeros(num_tokens, dtype=np.int64)
    span_T = np.full(num_tokens, 2 * num_cells, dtype=np.int64)
    number_C = np.flatnonzero(kept)
    for part, offsets, words, ids, begin in (
        (0, arrays.header_offsets, arrays.header_tokens, cells.header, header_C),
        (1, arrays.value_offsets, arrays.value_tokens, cells.value, value_C),
    ):
        lengths, index = gather_ranges(offsets, ids[kept])
        place = np.repeat(begin[kept], lengths) + count_up(lengths)
        token_ids[place] = words[index]
        span_T[place] = np.repeat(2 * number_C + part, lengths)
    return Text(cells=cells, row_starts=row_starts, token_ids=token_ids, token_span=span_T)


def mask_tokens(text: Text, special: SpecialTokens, *, seed: int, epoch: int) -> tuple[Ints, Ints]:
    """Return the tokens after masking some words, and where those stand: (T,) and (M,).

    The outcome for a row depends on (seed, epoch, row) alone, not on the rows beside it.
    """
    row_keys = fold(make_key(seed, epoch), text.cells.rows)
    keys = fold(row_keys[text.token_row], text.token_position)
    chosen = text.is_word & (uniform(fold(keys, _CHOOSE)) < TOKEN_SHARE)
    draw = uniform(fold(keys, _REPLACE))
    random_ids = special.regular[choose_below(fold(keys, _RANDOM), len(special.regular))]
    token_ids = np.where(chosen & (draw < MASK_RATE), special.mask, text.token_ids)
    swapped = chosen & (draw >= MASK_RATE) & (draw < MASK_RATE + RANDOM_RATE)
    return np.where(swapped, random_ids, token_ids), np.flatnonzero(chosen)


def find_hidden(text: Text, hidden: Hidden | None) -> Ints:
    """Return where the tokens of the hidden headers or values stand, cell after cell."""
    if hidden is None:
        return np.zeros(0, dtype=np.int64)
    spans = np.zeros(2 * len(text.cells.row) + 1, dtype=bool)
    spans[:-1][int(hidden.part == "value") :: 2] = hidden.cells
    return np.flatnonzero(spans[text.token_span])


def _count_rows(cells: Cells, length_C: Ints, kept: Bools, template: Template) -> Ints:
    """Return where each row begins; the last cell has no separator."""
    length_R = cells.sum_rows(length_C) + len(template.begin) + len(template.end)
    length_R -= len(template.separator) * (cells.sum_rows(kept.astype(np.int64)) > 0)
    return np.concatenate([[0], np.cumsum(length_R)])


def _fill(token_ids: Ints, places: Ints, tokens: tuple[int, ...]) -> None:
    for offset, token in enumerate(tokens):
        token_ids[places + offset] = token
