"""Splits: which rows are trained on, which are held out, and which tables nobody sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from navi.corpus.config import PrepareConfig
from navi.corpus.hashing import hash_text, hash_texts, mix
from navi.errors import ConfigError

SPLITS = ("train", "validation", "test", "unseen")
"""Names of the split codes in `Corpus.row_split`."""
TRAIN, VALIDATION, TEST, UNSEEN = range(4)


def split_rows(row_hash: NDArray[np.uint64], config: PrepareConfig) -> NDArray[np.int8]:
    """Return the split of each row: a matter of its content and the seed alone, so copies of a row stay together."""
    drawn = mix(row_hash, hash_text(f"split {config.seed}")) / 2.0**64
    held_out = config.validation_share + config.test_share
    splits = np.full(len(row_hash), TRAIN, np.int8)
    splits[drawn < held_out] = TEST
    splits[drawn < config.validation_share] = VALIDATION
    return splits


def choose_unseen(tables: Sequence[str], config: PrepareConfig) -> frozenset[str]:
    """Return the names of the tables kept out of training: those named, or that many drawn by name and seed."""
    chosen = config.unseen_tables
    if isinstance(chosen, int):
        drawn = mix(hash_texts(tables), hash_text(f"unseen {config.seed}"))
        names = [tables[place] for place in np.argsort(drawn)[:chosen]]
    else:
        names = list(chosen)
    unknown = sorted(set(names) - set(tables))
    if unknown:
        raise ConfigError(
            f"unseen_tables names {', '.join(unknown)}, which no table kept is called. "
            f"The tables are {', '.join(sorted(tables))}."
        )
    if len(set(names)) >= len(tables):
        raise ConfigError(f"unseen_tables leaves no table to train on: {len(set(names))} of {len(tables)} are unseen.")
    return frozenset(names)


def choose_largest(rows: Mapping[str, int], num_tables: int | None) -> frozenset[str]:
    """Return the names of the tables with the most rows; among equals the first by name."""
    ranked = sorted(rows, key=lambda name: (-rows[name], name))
    return frozenset(ranked[:num_tables])


def share_rows(rows: Mapping[str, int], total: int | None) -> dict[str, int]:
    """Return how many rows each table keeps of `total`, in proportion to what it has.

    What rounding leaves over goes to the largest remainders, so the sum is `total` exactly.

    >>> share_rows({"a": 60, "b": 30, "c": 10}, 11)
    {'a': 7, 'b': 3, 'c': 1}
    """
    available = sum(rows.values())
    if total is None or total >= available:
        return dict(rows)
    quotas = {name: count * total // available for name, count in rows.items()}
    by_remainder = sorted(rows, key=lambda name: (-(rows[name] * total % available), name))
    for name in by_remainder[: total - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def sample_rows(row_hash: NDArray[np.uint64], num_rows: int, seed: int) -> NDArray[np.bool_]:
    """Tell which rows of a table stay when it is sampled down: a matter of their content and the seed."""
    drawn = mix(row_hash, hash_text(f"sample {seed}"))
    stay = np.zeros(len(row_hash), np.bool_)
    stay[np.argsort(drawn, kind="stable")[:num_rows]] = True
    return stay
