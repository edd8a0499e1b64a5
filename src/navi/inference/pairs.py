"""Rows of two tables that are about the same thing: near-duplicates, for entity resolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from navi.errors import ConfigError
from navi.inference.pool import Floats, Ints, Progress
from navi.inference.search import SIMILARITY_WEIGHT
from navi.inference.space import Space, embed_value_means, list_words

if TYPE_CHECKING:
    from navi.inference.navi import Navi

# Shape suffixes: L left rows, R right rows, K candidates of a row, P pairs.

LEFT, RIGHT = "left", "right"
ROWS_AT_ONCE = 1024
CALIBRATION_ROWS = 2000
"""Rows that the confidence is fitted on, at most."""
_RIDGE = 1e-3


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """How pairs are found and how sure they must be."""

    k: int = 10
    """A pair must be among the k best of either of its rows."""
    threshold: float = 0.5
    """Pairs with less confidence are left out."""
    one_to_one: bool = False
    """Give each row to one pair at most, the best first."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"k must be at least 1, got {self.k}.")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold must lie between 0 and 1, got {self.threshold}.")


def find_pairs(
    navi: Navi, left: Any, right: Any, config: PairsConfig | None = None, *, progress: Progress | None = None
) -> pa.Table:
    """Return pairs of rows of two frames that are about the same thing, the surest first.

    Columns: `left` and `right`, row numbers from 1; `confidence`; and what it comes from, `similarity` of the vectors
    and `overlap` of the words, rare ones weighing more. Confidence grows with both alone; it is fitted to how well the
    best wrong row does for each row, so it is small where tables are full of rows that are alike.
    """
    config = config or PairsConfig()
    rows = Compared.read(navi, {LEFT: left, RIGHT: right}, progress)
    left_rows, right_rows = rows.of(0), rows.of(1)
    forward, best, second = rows.rank(left_rows, right_rows, config.k)
    backward, _, _ = rows.rank(right_rows, left_rows, config.k)
    mutual = set(zip(backward[1].tolist(), backward[0].tolist(), strict=True))
    pairs = np.array([pair for pair in zip(*(side.tolist() for side in forward), strict=True) if pair in mutual])
    pairs = pairs.reshape(-1, 2).astype(np.int64)
    similarity, overlap = rows.compare(pairs[:, 0], pairs[:, 1])
    score = _blend(similarity, overlap)
    wrong = np.maximum(second, rows.rank_within(left_rows))
    confidence = Confidence.fit(best, wrong).of(score)
    chosen = np.lexsort((pairs[:, 1], pairs[:, 0], -score))
    chosen = chosen[confidence[chosen] >= config.threshold]
    if config.one_to_one:
        chosen = _take_once(pairs, chosen)
    columns = {LEFT: rows.number[pairs[chosen, 0]], RIGHT: rows.number[pairs[chosen, 1]]}
    facts = {"confidence": confidence, "similarity": similarity, "overlap": overlap}
    return pa.table(columns | {name: fact[chosen] for name, fact in facts.items()})
