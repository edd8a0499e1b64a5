"""The order in which an epoch visits the rows: every row once, a few tables a step, small tables spread evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError
from navi.randomness import fold, make_key, permute, uniform


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """How many rows of how many tables make a step."""

    rows_per_batch: int = 256
    """Rows of a step (the paper: 32)."""
    tables_per_batch: int = 16
    """Tables that a step draws from; each gives about rows_per_batch / tables_per_batch rows."""
    tokens_per_batch: int | None = None
    """Close a batch before it holds more tokens than this, one row alone excepted; None for no such limit."""

    def __post_init__(self) -> None:
        if self.rows_per_batch < 1 or self.tables_per_batch < 1:
            raise ConfigError(
                "rows_per_batch and tables_per_batch must be at least 1, "
                f"got {self.rows_per_batch} and {self.tables_per_batch}."
            )
        if self.tokens_per_batch is not None and self.tokens_per_batch < 1:
            raise ConfigError(f"tokens_per_batch must be at least 1 or None, got {self.tokens_per_batch}.")

    @property
    def rows_per_table(self) -> int:
        """Rows that one table gives to a step, at most."""
        return max(1, self.rows_per_batch // self.tables_per_batch)


def plan_epoch(
    rows: NDArray[np.int64],
    row_table: NDArray[np.int32],
    config: SamplerConfig,
    *,
    seed: int,
    epoch: int,
    row_tokens: NDArray[np.int64] | None = None,
) -> list[NDArray[np.int64]]:
    """Return the rows of each batch of an epoch, every row of `rows` exactly once.

    Each table's rows are shuffled and cut into nearly equal strata; stratum i of n gets a random place in the i-th
    n-th of the epoch, so that large and small tables alike are spread over all of it. `row_table` and `row_tokens`
    are those of the whole corpus, `rows` the ones to visit.
    """
    if config.tokens_per_batch is not None and row_tokens is None:
        raise ConfigError("tokens_per_batch needs the tokens of each row.")
    if len(rows) == 0:
        return []
    key = make_key(seed, epoch)
    strata: list[NDArray[np.int64]] = []
    places: list[NDArray[np.float64]] = []
    table_of_row = row_table[rows]
    by_table = np.argsort(table_of_row, kind="stable")
    tables, first = np.unique(table_of_row[by_table], return_index=True)
    for table, places_of_table in zip(tables, np.split(by_table, first[1:]), strict=True):
        table_key = int(fold(key, np.array([table], np.int64))[0])
        members = rows[places_of_table][permute(table_key, len(places_of_table))]
        count = -(-len(members) // config.rows_per_table)
        strata.extend(np.array_split(members, count))
        places.append((np.arange(count) + uniform(fold(table_key, np.arange(count) + len(members)))) / count)
    order = np.argsort(np.concatenate(places), kind="stable")
    return _group([strata[i] for i in order], config, row_tokens)


def _group(
    strata: list[NDArray[np.int64]], config: SamplerConfig, row_tokens: NDArray[np.int64] | None
) -> list[NDArray[np.int64]]:
    batches: list[NDArray[np.int64]] = []
    pending: list[NDArray[np.int64]] = []
    pending_tokens = 0
    limit = config.tokens_per_batch if row_tokens is not None else None
    if row_tokens is not None and limit is not None:
        strata = [piece for stratum in strata for piece in _cut(stratum, row_tokens, limit)]
    for stratum in strata:
        tokens = int(row_tokens[stratum].sum()) if row_tokens is not None else 0
        full = len(pending) == config.tables_per_batch
        if pending and (full or (limit is not None and pending_tokens + tokens > limit)):
            batches.append(np.concatenate(pending))
            pending, pending_tokens = [], 0
        pending.append(stratum)
        pending_tokens += tokens
    if pending:
        batches.append(np.concatenate(pending))
    return batches


def _cut(stratum: NDArray[np.int64], row_tokens: NDArray[np.int64], limit: int) -> list[NDArray[np.int64]]:
    """Cut a stratum that holds more tokens than the limit; a row beyond it stands alone."""
    pieces: list[NDArray[np.int64]] = []
    first = running = 0
    for place, tokens in enumerate(row_tokens[stratum].tolist()):
        if place > first and running + tokens > limit:
            pieces.append(stratum[first:place])
            first, running = place, 0
        running += tokens
    return [*pieces, stratum[first:]]
