"""Roles: how diverse a column's values are, and whether that makes it low, mid or high in its table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, ROLE_MID

# Sums in different orders differ in their last bits; columns that are alike must tie all the same.
_DECIMALS = 12
_EVEN = 0.5


def measure_entropy(
    column: NDArray[Any], counts: NDArray[Any], num_columns: int, normalise: str = "rows"
) -> NDArray[np.float64]:
    """Return the normalised entropy of each column: 0 is one repeated value, 1 is all different.

    `counts` says how often each distinct value occurs and `column` where. A single cell has entropy 0, a column
    without cells has none (NaN). With `normalise="distinct"`, 1 means all values equally often.

    >>> measure_entropy(np.array([0, 1, 1, 2, 2]), np.array([4, 1, 1, 2, 2]), 3).tolist()
    [0.0, 1.0, 0.5]
    """
    column, counts = column[counts > 0], counts[counts > 0].astype(np.float64)
    cells = np.bincount(column, weights=counts, minlength=num_columns)
    distinct = np.bincount(column, minlength=num_columns)
    # H = -sum p log p, with p = count / cells, written so that both ends come out exact.
    repeated = np.bincount(column, weights=counts / cells[column] * np.log(counts), minlength=num_columns)
    entropy = np.log(np.maximum(cells, 1)) - repeated
    most = np.log(np.maximum(cells if normalise == "rows" else distinct, 1))
    normalised = np.divide(entropy, most, out=np.zeros(num_columns), where=most > 0)
    return np.where(cells > 0, np.clip(np.round(normalised, _DECIMALS), 0, 1), np.nan)


def assign_roles(entropy: NDArray[np.float64], theta_low: float, theta_high: float) -> NDArray[np.int8]:
    """Return the role of each column of one table by the quantiles of its entropies, ties included.

    Where both bounds hold, as in a table of one column, less than one half is low. A column without entropy is mid.

    >>> assign_roles(np.array([0.0, 0.0, 0.4, 0.9, 1.0, 1.0]), 0.05, 0.95).tolist()
    [1, 1, 0, 0, 2, 2]
    """
    roles = np.full(len(entropy), ROLE_MID, np.int8)
    known = ~np.isnan(entropy)
    if not known.any():
        return roles
    low, high = np.quantile(entropy[known], [theta_low, theta_high])
    is_low, is_high = known & (entropy <= low), known & (entropy >= high)
    both = is_low & is_high
    roles[is_low & ~(both & (entropy >= _EVEN))] = ROLE_LOW
    roles[is_high & ~(both & (entropy < _EVEN))] = ROLE_HIGH
    return roles
