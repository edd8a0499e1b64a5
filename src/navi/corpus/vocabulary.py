"""The vocabulary check: whether the tokenizer knows the language of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus.tokens import TokenLists

MIN_CHARACTERS = 3
"""A field shorter than this says nothing about the language."""
_URL = r"(?i)^\s*([a-z][a-z0-9+.-]*://|www\.|mailto:)"
# What holds no letter is a number, a date, a price, a code: digits and signs alone.
_LETTER = r"\pL"


class FieldCount(NamedTuple):
    """Cells of meaningful text, and the bad ones among them."""

    text: int
    bad: int


def find_text(values: pa.StringArray) -> NDArray[np.bool_]:
    """Tell which values are meaningful text: no URL, no pure number, not very short.

    >>> find_text(pa.array(["drama", "https://a.org/drama", "$ 12.50", "uk"])).tolist()
    [True, False, False, False]
    """
    is_long = pc.greater_equal(pc.utf8_length(values), MIN_CHARACTERS)
    has_letter = pc.match_substring_regex(values, _LETTER)
    is_url = pc.match_substring_regex(values, _URL)
    found: NDArray[np.bool_] = pc.and_not(pc.and_(is_long, has_letter), is_url).to_numpy(zero_copy_only=False)
    return found


def count_fields(
    values: pa.StringArray, cell_value: NDArray[np.int32], tokens: TokenLists, max_unknown_share: float | None
) -> FieldCount:
    """Return how many cells hold meaningful text and how many of them hold too much [UNK] among the tokens kept."""
    if max_unknown_share is None:
        return FieldCount(0, 0)
    cells = np.bincount(cell_value, minlength=len(values))
    is_text = find_text(values)
    is_bad = is_text & (tokens.unknown > max_unknown_share * tokens.lengths)
    return FieldCount(int(cells[is_text].sum()), int(cells[is_bad].sum()))
