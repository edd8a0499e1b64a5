"""What every task is measured on: a corpus, what is known of it, and the rows drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.randomness import fold, make_key, order_keys
from navi_paper.gold import Gold

if TYPE_CHECKING:
    from navi.corpus import Corpus

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """How much each task looks at."""

    rows: int = 1000
    """Rows of one run of a task."""
    runs: int = 8
    """Runs of row classification, each with other rows."""
    column_rows: int = 200
    """Rows that a column's embedding is averaged over, at most."""
    hidden_share: float = 0.25
    """Share of a row's headers, or values, hidden for a prediction; at least one."""
    max_tokens: int = 512
    """Rows that any encoder writes out in more tokens than this are not drawn: every one must see them whole."""
    seed: int = 0
    """Decides every draw."""

    def __post_init__(self) -> None:
        for name in ("rows", "runs", "column_rows", "max_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0.0 < self.hidden_share <= 1.0:
            raise ConfigError(f"hidden_share must be more than 0 and at most 1, got {self.hidden_share}.")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A corpus with its gold, and how much of it is looked at."""

    corpus: Corpus
    """The corpus; models saw its training rows alone."""
    gold: Gold = field(default_factory=Gold)
    """What people know of it; any part may be missing."""
    config: BenchConfig = field(default_factory=BenchConfig)
    """How much each task looks at."""

    def draw_rows(self, split: str, count: int | None, *purpose: int) -> Ints:
        """Return at most `count` rows of a split that fit every encoder, ascending; None for all.

        The same seed and purpose draw the same rows, whatever else is drawn.
        """
        rows = self.corpus.rows_of(split)
        rows = rows[self.row_tokens[rows] <= self.config.max_tokens]
        if count is None or len(rows) <= count:
            return rows
        keys = order_keys(fold(make_key(self.config.seed, *purpose), rows))
        return np.sort(rows[np.argsort(keys, kind="stable")[:count]])

    @cached_property
    def row_tokens(self) -> Ints:
        """Tokens of each row of the corpus as the wordiest encoder writes it, with quotes and braces."""
        arrays = self.corpus.arrays
        tokens: Ints = arrays.count_row_tokens() + 4 * np.diff(arrays.row_offsets) + 2
        return tokens
