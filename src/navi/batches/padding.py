"""Batches filled up to a set size, so that steps of like size can be replayed as one recorded program."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace

import torch
from torch import Tensor

from navi.batches.batch import IGNORED, SLOT_NONE, Alignment, Batch, Columns, Rows, Sequences, Targets

FILLER_LENGTH = 64
"""Tokens of a sequence of filling: short, so that attention over it costs little."""
SLACK = 1.06
"""How much room a new capacity leaves over the batch that it is made for, so that more batches fit."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How much of everything a filled-up batch holds."""

    tokens: int
    """Tokens of all copies of the rows."""
    rows: int
    """Rows, all copies."""
    segments: int
    """Segments, all copies."""
    attributes: int
    """Distinct attributes."""
    attribute_tokens: int
    """Their tokens."""
    targets: int
    """Masked tokens."""
    low: int = 0
    """Segments of low-entropy columns."""
    anchors: int = 0
    """Anchors of low-entropy columns."""
    high: int = 0
    """Segments of high-entropy columns."""
    tables: int = 0
    """Tables."""
    related: int = 0
    """Segments of columns that are compared across tables."""
    columns: int = 0
    """These columns."""

    def fits(self, need: Capacity) -> bool:
        """Tell whether a batch of the needed size can be filled up to this one without much waste."""
        enough = all(have >= wanted for have, wanted in zip(astuple(self), astuple(need), strict=True))
        return enough and self.tokens <= need.tokens * SLACK * SLACK

    def loosen(self) -> Capacity:
        """Return a capacity with room to spare, in round numbers."""
        return Capacity(**{field.name: _round_up(getattr(self, field.name)) for field in fields(self)})


def measure_batch(batch: Batch) -> Capacity:
    """Return the size of a batch, with one sequence each to hold what is filled in."""
    rows, alignment = batch.rows, batch.alignment
    aligned = {}
    if alignment is not None:
        aligned = {
            "low": len(alignment.low_segment),
            "anchors": len(alignment.anchor_slot),
            "high": len(alignment.high_segment),
            "tables": alignment.num_tables,
        }
    if batch.columns is not None:
        aligned |= {"related": len(batch.columns.segment), "columns": len(batch.columns.column) + 1}
    return Capacity(
        tokens=rows.num_tokens,
        rows=rows.num_rows + 1,
        segments=rows.num_segments,
        attributes=len(rows.attribute_ids) + 1,
        attribute_tokens=len(rows.attributes.token_ids),
        targets=len(batch.targets.position),
        **aligned,
    )


def pad_batch(batch: Batch, capacity: Capacity) -> Batch:
    """Return a batch filled up to a capacity with what changes no loss."""
    return replace(
        batch,
        rows=_pad_rows(batch.rows, capacity),
        targets=Targets(
            position=_fill(batch.targets.position, capacity.targets, 0),
            token=_fill(batch.targets.token, capacity.targets, IGNORED),
            kind=_fill(batch.targets.kind, capacity.targets, -1),
        ),
        row_ids=_fill(batch.row_ids, capacity.rows, -1),
        row_table=_fill(batch.row_table, capacity.rows, -1),
        row_twin=_fill(batch.row_twin, capacity.rows, 0),
        alignment=None if batch.alignment is None else _pad_alignment(batch.alignment, capacity),
        columns=None if batch.columns is None else _pad_columns(batch.columns, capacity),
    )


def _pad_rows(rows: Rows, capacity: Capacity) -> Rows:
    num_fillers = -(-capacity.tokens // FILLER_LENGTH)
    local = capacity.rows + capacity.segments + num_fillers
    none = 2 * capacity.segments
    spans = torch.where(rows.token_span == 2 * rows.num_segments, none, rows.token_span)
    return Rows(
        token_ids=_fill(rows.token_ids, capacity.tokens, 0),
        token_position=_fill(rows.token_position, capacity.tokens, 0),
        token_slot=_fill(rows.token_slot, capacity.tokens, SLOT_NONE),
        token_span=_fill(spans, capacity.tokens, none),
        starts=_fill_starts(rows.starts, capacity.rows + num_fillers, capacity.tokens),
        local_starts=_fill_starts(rows.local_starts, local, capacity.tokens),
        segment_slot=_fill(rows.segment_slot, capacity.segments, SLOT_NONE),
        segment_row=_fill(rows.segment_row, capacity.segments, 0),
        attributes=Sequences(
            token_ids=_fill(rows.attributes.token_ids, capacity.attribute_tokens, 0),
            token_position=_fill(rows.attributes.token_position, capacity.attribute_tokens, 0),
            starts=_fill_starts(rows.attributes.starts, capacity.attributes, capacity.attribute_tokens),
        ),
        attribute_ids=_fill(rows.attribute_ids, capacity.attributes, -1),
    )


def _pad_alignment(alignment: Alignment, capacity: Capacity) -> Alignment:
    return Alignment(
        low_segment=_fill(alignment.low_segment, capacity.low, 0),
        low_anchor=_fill(alignment.low_anchor, capacity.low, 0),
        low_table=_fill(alignment.low_table, capacity.low, capacity.tables),
        anchor_slot=_fill(alignment.anchor_slot, capacity.anchors, -1),
        anchor_table=_fill(alignment.anchor_table, capacity.anchors, -1),
        anchor_first=_fill(alignment.anchor_first, capacity.anchors, 0),
        high_segment=_fill(alignment.high_segment, capacity.high, 0),
        high_column=_fill(alignment.high_column, capacity.high, -1),
        high_value=_fill(alignment.high_value, capacity.high, -1),
        high_table=_fill(alignment.high_table, capacity.high, capacity.tables),
        num_tables=capacity.tables,
    )


def _pad_columns(columns: Columns, capacity: Capacity) -> Columns:
    return Columns(
        segment=_fill(columns.segment, capacity.related, 0),
        segment_column=_fill(columns.segment_column, capacity.related, capacity.columns - 1),
        column=_fill(columns.column, capacity.columns, -1),
        table=_fill(columns.table, capacity.columns, -1),
        attribute=_fill(columns.attribute, capacity.columns, -1),
    )


def _fill(tensor: Tensor, size: int, value: int) -> Tensor:
    filled = tensor.new_full((size,), value)
    filled[: len(tensor)] = tensor
    return filled


def _fill_starts(starts: Tensor, num_sequences: int, num_tokens: int) -> Tensor:
    """Cut the tokens that are filled in into short sequences; what sequences are left then are empty."""
    used = len(starts) - 1
    steps = torch.arange(1, num_sequences - used + 1, dtype=torch.int64) * FILLER_LENGTH
    added = (steps + int(starts[-1])).clamp(max=num_tokens).to(starts.dtype)
    added[-1:] = num_tokens
    return torch.cat([starts, added])


def _round_up(size: int) -> int:
    if size == 0:
        return 0
    wanted = int(size * SLACK) + 1
    grain = max(8, 1 << max(0, wanted.bit_length() - 6))
    return -(-wanted // grain) * grain
