"""How much room the batches of a run need, known before any of them is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.batches.builder import BatchBuilder
from navi.batches.masking import MaskingConfig
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW, gather_ranges

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DEVIATIONS = 8.0
"""Room for masked tokens beyond the mean, in standard deviations: enough for every batch that will ever be drawn."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much of everything one copy of a batch's rows may hold."""

    rows: int
    """Rows."""
    segments: int
    """Segments of all rows."""
    tokens: int
    """Tokens of all rows."""
    targets: int
    """Masked tokens."""
    tables: int
    """Tables."""
    attributes: int
    """Distinct attributes."""
    attribute_tokens: int
    """Their tokens."""
    low: int
    """Segments of low-entropy columns."""
    high: int
    """Segments of high-entropy columns."""
    anchors: int
    """Anchors of low-entropy columns."""
    related: int
    """Segments of columns that are compared across tables."""
    columns: int
    """These columns."""

    def holds(self, needs: Ints) -> bool:
        """Tell whether a batch with these `NEEDS` fits."""
        return all(getattr(self, name) >= need for name, need in zip(NEEDS, needs, strict=True))


NEEDS = tuple(field.name for field in fields(Room))


def measure_needs(builder: BatchBuilder, steps: Sequence[Ints]) -> Ints:
    """Return what the batch of each list of rows needs, at most: (steps, `NEEDS`)."""
    arrays = builder.arrays
    step_R = np.repeat(np.arange(len(steps)), [len(rows) for rows in steps])
    row_R = np.concatenate([*steps, np.zeros(0, np.int64)]).astype(np.int64)
    counts, cells = gather_ranges(arrays.row_offsets, row_R)
    step_C, segment_C = np.repeat(step_R, counts), arrays.row_segments[cells].astype(np.int64)
    header_C = np.diff(arrays.header_offsets)[arrays.segment_header[segment_C]]
    value_C = np.diff(arrays.value_offsets)[arrays.segment_value[segment_C]]
    column_C = arrays.find_columns(np.repeat(arrays.row_table[row_R], counts), arrays.segment_header[segment_C])

    def add_up(step: Ints, amount: NDArray[Any] | None = None) -> Floats:
        return np.bincount(step, amount, minlength=len(steps)).astype(np.float64)

    mean, square = _expect_targets(builder.masking, header_C, value_C)
    role_C = builder.column_role[column_C]
    needs = {
        "rows": add_up(step_R),
        "segments": add_up(step_C),
        "tokens": add_up(step_R) + add_up(step_C, header_C + value_C + 2),
        "targets": add_up(step_C, mean) + DEVIATIONS * np.sqrt(add_up(step_C, square)) + 1,
        "low": add_up(step_C, role_C == ROLE_LOW),
        "high": add_up(step_C, role_C == ROLE_HIGH),
        "related": add_up(step_C, _mark_related(builder)[column_C]),
    }
    tables = _survey_tables(builder)
    num_tables = len(tables["tables"])
    step_P, table_P = np.divmod(np.unique(step_R * num_tables + arrays.row_table[row_R]), max(num_tables, 1))
    needs |= {name: add_up(step_P, amount[table_P]) for name, amount in tables.items()}
    return np.stack([np.ceil(needs[name]) for name in NEEDS], axis=1).astype(np.int64)


def _expect_targets(config: MaskingConfig, header_C: Ints, value_C: Ints) -> tuple[Floats, Floats]:
    """Return the mean number of masked tokens of each cell, and of its square, which is more than its variance."""
    headers, values = (config.header_share, config.value_share) if config.whole_spans else (0.0, 0.0)
    vanilla = (1 - headers - values) * config.token_share
    both_C = header_C + value_C
    mean = headers * header_C + values * value_C + vanilla * both_C
    return mean, headers * header_C**2 + values * value_C**2 + vanilla * both_C**2


def _survey_tables(builder: BatchBuilder) -> dict[str, Floats]:
    """Return what each table brings into a batch beside its rows."""
    arrays = builder.arrays
    num_tables = int(max(arrays.row_table.max(initial=-1), arrays.column_table.max(initial=-1))) + 1
    num_attributes = len(arrays.attribute_offsets) - 1
    pair_K = arrays.column_table.astype(np.int64) * num_attributes + arrays.column_attribute

    def count(pairs: Ints, amount: Ints | None = None) -> Floats:
        table, attribute = np.divmod(np.unique(pairs), max(num_attributes, 1))
        weights = None if amount is None else amount[attribute]
        return np.bincount(table, weights, minlength=num_tables).astype(np.float64)

    return {
        "tables": np.ones(num_tables),
        "attributes": count(pair_K),
        "attribute_tokens": count(pair_K, np.diff(arrays.attribute_offsets)),
        "anchors": count(pair_K[builder.column_role == ROLE_LOW]),
        "columns": np.bincount(arrays.column_table, _mark_related(builder), minlength=num_tables).astype(np.float64),
    }


def _mark_related(builder: BatchBuilder) -> NDArray[np.bool_]:
    if builder.related_place is None:
        return np.zeros(len(builder.column_role), np.bool_)
    return builder.related_place >= 0


def choose_rooms(needs: Ints, count: int) -> tuple[list[Room], Ints]:
    """Return at most `count` rooms, small to large, and which of them each step takes.

    Steps are parted by their tokens such that little is filled up in all; each room holds all steps of its part.
    """
    tokens = needs[:, NEEDS.index("tokens")]
    limits = _part(np.unique(tokens), tokens, count)
    place = np.searchsorted(limits, tokens)
    rooms = [_round_up(needs[place == number].max(axis=0)) for number in range(len(limits))]
    return rooms, place


def _part(levels: Ints, tokens: Ints, count: int) -> Ints:
    """Return the largest number of tokens of each part: those at even shares of the steps, and the most of all."""
    shares = np.linspace(0, 1, count + 1)[1:]
    # Most steps are alike and a few are large: later parts are smaller, so that these cost the others little.
    limits = np.quantile(tokens, 1 - (1 - shares) ** 2, method="higher")
    return np.unique(np.append(limits, levels[-1]))


def _round_up(needs: Ints) -> Room:
    return Room(**{name: -(-max(int(need), 1) // 8) * 8 for name, need in zip(NEEDS, needs, strict=True)})
