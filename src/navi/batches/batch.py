"""What the model takes: packed rows, what to predict in them, and what to align."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

# Shape suffixes: R rows, S segments, T tokens (packed), N sequences, A attributes, M targets, L low-entropy segments,
# K anchors, H high-entropy segments.

SLOT_NONE, SLOT_UNKNOWN, FIRST_SLOT = 0, 1, 2
"""Rows of the attribute table: no attribute ([CLS]), the unknown attribute, then the attributes of the batch."""

IGNORED = -100
"""Token of a target that only fills a batch up: cross-entropy leaves it out."""


@dataclass(frozen=True, kw_only=True)
class TensorGroup:
    """Tensors that travel together from device to device; groups may hold groups."""

    def to(self, device: torch.device | str) -> Self:
        """Return the group on another device; copies from pinned memory do not wait."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Self:
        """Return the group in pinned memory, from where copies to a GPU are fast."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {}
        for field in fields(self):
            member = getattr(self, field.name)
            if isinstance(member, Tensor):
                changed[field.name] = change(member)
            elif isinstance(member, TensorGroup):
                changed[field.name] = member._map(change)
        return replace(self, **changed)


@dataclass(frozen=True, kw_only=True)
class Sequences(TensorGroup):
    """Tokens of several sequences, one after the other, and where each begins."""

    token_ids: Tensor  # (T,)
    token_position: Tensor  # (T,) place of each token within its text
    starts: Tensor  # (N + 1,) first token of each sequence, and the end

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all sequences."""
        return len(self.token_ids)


@dataclass(frozen=True, kw_only=True)
class Rows(Sequences):
    """Packed rows, ready for the encoder."""

    token_slot: Tensor  # (T,) row of the attribute table that is added to each token
    token_span: Tensor  # (T,) 2s for the header of segment s, 2s + 1 for its value, 2S for everything else
    local_starts: Tensor  # (R + S + 1,) first token of each [CLS] and segment, within which local heads attend
    segment_slot: Tensor  # (S,) row of the attribute table for each segment
    segment_row: Tensor  # (S,) row of each segment
    attributes: Sequences  # the distinct attributes that the slots stand for
    attribute_ids: Tensor  # (A,) these attributes, as the corpus numbers them; -1 for filling

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def num_segments(self) -> int:
        """Number of segments in all rows."""
        return len(self.segment_slot)

    def find_value_rows(self) -> Tensor:
        """Return the row of each token that stands in a value, and the number of rows for all other tokens: (T,)."""
        if self.num_segments == 0:
            return torch.full_like(self.token_span, self.num_rows)
        is_value = (self.token_span % 2 == 1) & (self.token_span < 2 * self.num_segments)
        row = self.segment_row[(self.token_span // 2).clamp(max=self.num_segments - 1)]
        return torch.where(is_value, row, self.num_rows)


@dataclass(frozen=True, kw_only=True)
class Targets(TensorGroup):
    """The masked tokens: where they stand and what they were."""

    position: Tensor  # (M,) place on the token axis
    token: Tensor  # (M,) the token that stood there; IGNORED for filling
    kind: Tensor  # (M,) masking regime: header, value or vanilla; -1 for filling
    num_masked: Tensor  # () masked tokens: less than M in a filled batch, more in one of too little capacity


@dataclass(frozen=True, kw_only=True)
class Alignment(TensorGroup):
    """The segments that entropy-driven alignment pulls on, with everything that says who is whose negative.

    A table has one anchor for each of its low-entropy attributes. Tables are numbered from 0 in the batch.
    """

    low_segment: Tensor  # (L,) segments of low-entropy columns
    low_anchor: Tensor  # (L,) each one's own anchor
    low_table: Tensor  # (L,) each one's table; num_tables for filling
    anchor_slot: Tensor  # (K,) row of the attribute table of each anchor
    anchor_table: Tensor  # (K,) each anchor's table
    high_segment: Tensor  # (H,) segments of high-entropy columns
    high_column: Tensor  # (H,) each one's column: those of the same column are each other's negatives
    high_value: Tensor  # (H,) each one's value, to tell apart rows that hold the same
    high_table: Tensor  # (H,) each one's table; num_tables for filling
    num_tables: int  # tables in the batch; in a filled one, those it has capacity for


@dataclass(frozen=True, kw_only=True)
class Batch(TensorGroup):
    """One training batch: the masked copy of each row, then, if alignment is on, the plain copy."""

    rows: Rows  # all copies, packed
    targets: Targets  # what is masked in the masked copy
    alignment: Alignment | None  # what to align in the plain copy
    row_ids: Tensor  # (R,) the rows of one copy, as the corpus numbers them; -1 for filling
    row_table: Tensor  # (R,) their tables; -1 for filling
    plain_row: Tensor  # (R,) where the plain copy of each row stands among all rows; the row itself, if there is none


class BatchCapacity(NamedTuple):
    """How much of everything one copy of a batch's rows may hold, where sizes must be known beforehand."""

    rows: int
    segments: int
    tokens: int
    targets: int  # masked tokens
    tables: int
    attributes: int  # distinct ones
    attribute_tokens: int
    low: int  # segments of low-entropy columns
    high: int  # segments of high-entropy columns
    anchors: int

    def holds(self, needed: BatchCapacity) -> bool:
        """Return whether a batch that needs so much fits."""
        return all(have >= need for have, need in zip(self, needed, strict=True))
