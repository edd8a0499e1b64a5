"""The values that a column may take: its own, and those that its attribute had in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from navi.verbs.guessing.gaps import Ints

# Shape suffixes: N values of a set.

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ValueSet:
    """Values of one column as token sequences; texts that a model cannot tell apart are one value.

    **Shape**: N values.
    """

    texts: tuple[str, ...]
    """(N,) the column's commonest spelling of each value."""
    tokens: tuple[tuple[int, ...], ...]
    """(N,) tokens of each value."""
    count: Floats
    """(N,) cells of the column that hold each value."""
    share: Floats
    """(N,) how likely each value is for its attribute in the training tables; 0 where it was not met there."""
    number: Mapping[int, int]
    """Number in this set of each value id of the column's cells."""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def num_cells(self) -> float:
        """Number of cells that the counts come from."""
        return float(self.count.sum())

    @cached_property
    def lengths(self) -> Ints:
        """(N,) number of tokens of each value."""
        return np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))

    @cached_property
    def unseen(self) -> float:
        """Chance that a further cell holds a value of no other cell (Good and Turing's estimate)."""
        return (float((self.count == 1).sum()) + 0.5) / (self.num_cells + 1.0)

    def weigh(self, training_cells: float) -> Floats:
        """Return how likely each value is before a row is looked at: (N,), summing to 1 where there is any.

        The training tables count as much as `training_cells` cells.
        """
        weights = self.count + training_cells * self.share
        return weights / max(float(weights.sum()), 1e-9)


def gather_values(
    own: Iterable[tuple[int, str, tuple[int, ...], int]],
    known: Iterable[tuple[str, tuple[int, ...], int]],
    max_values: int,
) -> ValueSet:
    """Put a column's own values (id, text, tokens, count) together with those of its attribute (text, tokens, count).

    Of more than `max_values` the most frequent are kept, the column's own first.
    """
    spelling: dict[tuple[int, ...], str] = {}
    count: Counter[tuple[int, ...]] = Counter()
    share: Counter[tuple[int, ...]] = Counter()
    ids: dict[int, tuple[int, ...]] = {}
    for value, text, tokens, cells in sorted(own, key=lambda entry: (-entry[3], entry[1])):
        spelling.setdefault(tokens, text)
        count[tokens] += cells
        ids[value] = tokens
    for text, tokens, cells in sorted(known, key=lambda entry: (-entry[2], entry[0])):
        spelling.setdefault(tokens, text)
        share[tokens] += cells
    kept = sorted(spelling, key=lambda tokens: (-count[tokens], -share[tokens], tokens))[:max_values]
    place = {tokens: number for number, tokens in enumerate(kept)}
    total = max(1, sum(share.values()))
    return ValueSet(
        texts=tuple(spelling[tokens] for tokens in kept),
        tokens=tuple(kept),
        count=np.array([count[tokens] for tokens in kept], np.float64),
        share=np.array([share[tokens] / total for tokens in kept], np.float64),
        number={value: place[tokens] for value, tokens in ids.items() if tokens in place},
    )
