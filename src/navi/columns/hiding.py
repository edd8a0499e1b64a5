"""Columns without their headers: some rows with [MASK] in the place of chosen columns' headers, attributes unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from navi.batches.layout import Layout
from navi.batches.masking import REGIME_HEADER, Masks
from navi.corpus.arrays import SegmentArrays

# Shape suffixes: R rows, C cells, S distinct segments, K columns, T tokens.

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Some rows in which the headers of some columns are hidden; `mask` goes with them to `Runner.run`."""

    arrays: SegmentArrays
    """The rows alone, numbered from 0; a hidden cell's segment stands after all that are not hidden."""
    num_shown: int
    """Segments that are not hidden."""

    @property
    def rows(self) -> Ints:
        """(R,) the rows' numbers."""
        return np.arange(self.arrays.num_rows)

    def mask(self, layout: Layout) -> Masks:
        """Make the attribute of every hidden segment unknown; its header is [MASK] already."""
        num_tokens = len(layout.token_ids)
        return Masks(
            token_ids=layout.token_ids,
            masked=np.zeros(num_tokens, np.bool_),
            kind=np.full(num_tokens, REGIME_HEADER, np.int8),
            unknown=layout.segment_id >= self.num_shown,
        )

    def find_masks(self, layout: Layout, num_masks: int) -> tuple[Ints, Ints]:
        """Return the hidden segments of a layout, and the places of their [MASK] tokens: (S,) and (S, num_masks)."""
        segments = np.flatnonzero(layout.segment_id >= self.num_shown)
        return segments, layout.segment_starts[segments][:, None] + np.arange(num_masks)


def hide_headers(arrays: SegmentArrays, hidden_C: NDArray[np.bool_], mask_token: int, num_masks: int = 1) -> Hidden:
    """Put `num_masks` [MASK] tokens in the place of the headers of some cells."""
    num_segments = arrays.num_segments
    num_headers = len(arrays.header_offsets) - 1
    masks = np.full(num_masks, mask_token, dtype=arrays.header_tokens.dtype)
    return Hidden(
        arrays=replace(
            arrays,
            row_segments=(arrays.row_segments + num_segments * hidden_C).astype(np.int32),
            segment_header=np.r_[arrays.segment_header, np.full(num_segments, num_headers, np.int32)],
            segment_attribute=np.tile(arrays.segment_attribute, 2),
            segment_value=np.tile(arrays.segment_value, 2),
            header_offsets=np.r_[arrays.header_offsets, arrays.header_offsets[-1] + num_masks],
            header_tokens=np.r_[arrays.header_tokens, masks],
        ),
        num_shown=num_segments,
    )
