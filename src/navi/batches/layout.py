"""The token sequence of rows, packed on one axis: [CLS], then header, colon, value and [SEP] of each segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges

# Shape suffixes: R rows, S segments, T tokens (packed).

PART_NONE, PART_HEADER, PART_VALUE = 0, 1, 2
"""What a token is part of: neither ([CLS], colon, [SEP]), its segment's header, or its value."""


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of the tokens that a row is put together with."""

    cls: int
    """Begins each row."""
    sep: int
    """Ends each segment."""
    colon: int
    """Stands between header and value."""
    mask: int
    """Takes the place of a masked token."""
    regular: NDArray[np.int64]
    """Every id that may stand in for a masked token at random: the vocabulary without its special tokens."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where every token of some packed rows stands and what it belongs to."""

    rows: NDArray[np.int64]
    """(R,) the rows, as the corpus numbers them."""
    row_starts: NDArray[np.int32]
    """(R + 1,) first token of each row."""
    segment_row: NDArray[np.int64]
    """(S,) row of each segment, from 0 in this layout."""
    segment_rank: NDArray[np.int64]
    """(S,) place of the segment within its row."""
    segment_id: NDArray[np.int64]
    """(S,) the segment, as the corpus numbers them."""
    segment_starts: NDArray[np.int64]
    """(S,) first token of each segment."""
    segment_lengths: NDArray[np.int64]
    """(S,) tokens of each segment, colon and [SEP] among them."""
    token_ids: NDArray[np.int64]
    """(T,) the tokens, unmasked."""
    token_position: NDArray[np.int64]
    """(T,) position within the segment; 0 for [CLS]."""
    token_segment: NDArray[np.int64]
    """(T,) segment of each token, from 0 in this layout; -1 for [CLS]."""
    token_part: NDArray[np.int8]
    """(T,) PART_NONE, PART_HEADER or PART_VALUE."""

    @property
    def local_starts(self) -> NDArray[np.int32]:
        """(R + S + 1,) first token of each [CLS] and of each segment: what local heads attend within."""
        starts = np.concatenate([self.row_starts[:-1], self.segment_starts.astype(np.int32), self.row_starts[-1:]])
        return np.sort(starts)


def lay_out(arrays: SegmentArrays, rows: NDArray[np.int64], special: SpecialTokens) -> Layout:
    """Return the packed token sequence of `rows`; each segment's positions start at 0."""
    num_segments_R, cell_S = gather_ranges(arrays.row_offsets, rows)
    id_S = arrays.row_segments[cell_S].astype(np.int64)
    header_length_S, header_index = gather_ranges(arrays.header_offsets, arrays.segment_header[id_S])
    value_length_S, value_index = gather_ranges(arrays.value_offsets, arrays.segment_value[id_S])
    length_S = header_length_S + value_length_S + 2
    row_S = np.repeat(np.arange(len(rows)), num_segments_R)
    before_S = np.cumsum(length_S) - length_S
    start_S = before_S + row_S + 1
    running = np.concatenate([[0], np.cumsum(num_segments_R)])
    tokens_before_R = np.concatenate([before_S, [length_S.sum()]])[running]
    row_starts = (tokens_before_R + np.arange(len(rows) + 1)).astype(np.int32)

    num_tokens = int(row_starts[-1])
    token_ids = np.full(num_tokens, special.cls, dtype=np.int64)
    position = np.zeros(num_tokens, dtype=np.int64)
    segment = np.full(num_tokens, -1, dtype=np.int64)
    part = np.full(num_tokens, PART_NONE, dtype=np.int8)

    within = count_up(length_S)
    place = np.repeat(start_S, length_S) + within
    position[place] = within
    segment[place] = np.repeat(np.arange(len(id_S)), length_S)
    colon_S = start_S + header_length_S
    token_ids[colon_S] = special.colon
    token_ids[start_S + length_S - 1] = special.sep
    header_place = np.repeat(start_S, header_length_S) + count_up(header_length_S)
    token_ids[header_place] = arrays.header_tokens[header_index]
    part[header_place] = PART_HEADER
    value_place = np.repeat(colon_S + 1, value_length_S) + count_up(value_length_S)
    token_ids[value_place] = arrays.value_tokens[value_index]
    part[value_place] = PART_VALUE
    return Layout(
        rows=rows,
        row_starts=row_starts,
        segment_row=row_S,
        segment_rank=count_up(num_segments_R),
        segment_id=id_S,
        segment_starts=start_S,
        segment_lengths=length_S,
        token_ids=token_ids,
        token_position=position,
        token_segment=segment,
        token_part=part,
    )
