"""Tables as segments and tokens, in memory: what a model reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays
from navi.corpus.summary import ColumnSummary


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Rows as lists of segments, with the text behind every number.

    **Shape**: R rows, H headers, V values, A attributes, K columns.
    """

    arrays: SegmentArrays
    """Rows, segments and tokens as integers."""
    tables: tuple[str, ...]
    """Name of each table."""
    headers: pa.LargeStringArray
    """(H,) text of each header."""
    values: pa.LargeStringArray
    """(V,) text of each value, whole even where its tokens were cut."""
    attributes: pa.LargeStringArray
    """(A,) text of each attribute."""
    row_number: NDArray[np.int64]
    """(R,) place of each row in its source, from 1."""
    row_hash: NDArray[np.uint64]
    """(R,) hash of each row's content: the same cells in any order give the same hash."""
    row_split: NDArray[np.int8]
    """(R,) split of each row, a place in `SPLITS`; all `train` where tables were not split."""
    columns: ColumnSummary
    """What is known of each column."""

    @property
    def column_entropy(self) -> NDArray[np.float64]:
        """(K,) normalised entropy of each column."""
        return self.columns.entropy

    @property
    def column_fill(self) -> NDArray[np.float64]:
        """(K,) share of the table's rows in which each column has a cell."""
        return self.columns.fill

    @property
    def column_distinct(self) -> NDArray[np.int64]:
        """(K,) number of distinct values of each column."""
        return self.columns.distinct
