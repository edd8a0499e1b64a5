"""What the model takes: packed rows, what to predict in them, and what to align."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

# Shape suffixes: R rows, S segments, T tokens (packed), A attributes, M targets.

SLOT_NONE, SLOT_UNKNOWN, FIRST_SLOT = 0, 1, 2
"""Rows of the attribute table: no attribute ([CLS]), the unknown attribute, then the attributes of the batch."""

IGNORED = -100
"""Token of a target that counts for nothing."""


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """A group of integer tensors that travel together, as one when they are pickled, pinned or recorded."""

    def to(self, device: torch.device | str) -> Self:
        """Return the group on another device; copies from pinned memory do not wait."""
        return self.rebuild(tensor.to(device, non_blocking=True) for tensor in self.list_tensors())

    def pin(self) -> Self:
        """Return the group in pinned memory, from where copies to a GPU are fast."""
        return self.spread(self.join().pin_memory())

    def list_tensors(self) -> list[Tensor]:
        """Return all tensors of the group and of the groups within it, in the order of their fields."""
        found: list[Tensor] = []
        for field in fields(self):
            member = getattr(self, field.name)
            if isinstance(member, Tensor):
                found.append(member)
            elif isinstance(member, Tensors):
                found.extend(member.list_tensors())
        return found

    def join(self) -> Tensor:
        """Return all tensors as one, end to end."""
        return torch.cat(self.list_tensors())

    def spread(self, joined: Tensor) -> Self:
        """Return a group like this one whose tensors are parts of `joined`."""
        return self.rebuild(torch.split(joined, [len(tensor) for tensor in self.list_tensors()]))

    def rebuild(self, tensors: Iterable[Tensor]) -> Self:
        """Return a group like this one with other tensors, given in the order of `list_tensors`."""
        remaining = iter(tensors)
        changed: dict[str, Any] = {}
        for field in fields(self):
            member = getattr(self, field.name)
            if isinstance(member, Tensor):
                changed[field.name] = next(remaining)
            elif isinstance(member, Tensors):
                changed[field.name] = member.rebuild(remaining)
        return replace(self, **changed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (_describe(self), self.join())


def _describe(group: Tensors) -> tuple[type[Tensors], dict[str, Any]]:
    """Return the class of a group and its members, a tensor as its length behind a mark."""
    members: dict[str, Any] = {}
    for field in fields(group):
        member = getattr(group, field.name)
        if isinstance(member, Tensor):
            member = _Length(len(member))
        members[field.name] = _describe(member) if isinstance(member, Tensors) else member
    return type(group), members


def _unpickle(described: tuple[type[Tensors], dict[str, Any]], joined: Tensor) -> Tensors:
    return _restore(described).spread(joined)


def _restore(described: tuple[type[Tensors], dict[str, Any]]) -> Tensors:
    group, members = described
    restored = {
        name: torch.empty(member, dtype=torch.int64, device="meta")
        if isinstance(member, _Length)
        else _restore(member)
        if isinstance(member, tuple)
        else member
        for name, member in members.items()
    }
    return group(**restored)


class _Length(int):
    """The length of a tensor that is not there yet."""


@dataclass(frozen=True, kw_only=True)
class Sequences(Tensors):
    """Tokens of several sequences, one after the other, and where each begins."""

    token_ids: Tensor
    """(T,) tokens."""
    token_position: Tensor
    """(T,) position of each token."""
    starts: Tensor
    """(N + 1,) first token of each sequence, and the end."""


@dataclass(frozen=True, kw_only=True)
class Rows(Sequences):
    """Packed rows, ready for the encoder."""

    token_slot: Tensor
    """(T,) row of the attribute table that is added to each token."""
    token_span: Tensor
    """(T,) 2s for the header of segment s, 2s + 1 for its value, 2S for everything else."""
    local_starts: Tensor
    """(R + S + 1,) first token of each [CLS] and of each segment."""
    segment_slot: Tensor
    """(S,) row of the attribute table for each segment."""
    segment_row: Tensor
    """(S,) row of each segment."""
    attributes: Sequences
    """The distinct attributes that the slots stand for, packed."""
    attribute_ids: Tensor
    """(A,) the attributes, as the corpus numbers them."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def num_segments(self) -> int:
        """Number of segments in all rows."""
        return len(self.segment_slot)

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all rows."""
        return len(self.token_ids)

    def find_value_rows(self) -> Tensor:
        """Return the row of each token that stands in a value, and the number of rows for all other tokens: (T,)."""
        if self.num_segments == 0:
            return torch.full_like(self.token_span, self.num_rows)
        is_value = (self.token_span % 2 == 1) & (self.token_span < 2 * self.num_segments)
        row = self.segment_row[(self.token_span // 2).clamp(max=self.num_segments - 1)]
        return torch.where(is_value, row, self.num_rows)


@dataclass(frozen=True, kw_only=True)
class Targets(Tensors):
    """The masked tokens: where they stand and what they were."""

    position: Tensor
    """(M,) place on the token axis."""
    token: Tensor
    """(M,) the token that stood there."""
    kind: Tensor
    """(M,) masking regime: header, value or vanilla."""


@dataclass(frozen=True, kw_only=True)
class Alignment(Tensors):
    """The segments that entropy-driven alignment pulls on, with everything that says who is whose negative."""

    low_segment: Tensor
    """(L,) segments of low-entropy columns."""
    low_anchor: Tensor
    """(L,) each one's own anchor."""
    low_table: Tensor
    """(L,) each one's table, from 0 in the batch."""
    anchor_slot: Tensor
    """(K,) row of the attribute table of each anchor: one for each low-entropy attribute of each table."""
    anchor_table: Tensor
    """(K,) each anchor's table."""
    anchor_first: Tensor
    """(K,) 1 for the first anchor of each attribute, 0 for those of other tables with the same one."""
    high_segment: Tensor
    """(H,) segments of high-entropy columns."""
    high_column: Tensor
    """(H,) each one's column: those of the same column are each other's negatives."""
    high_value: Tensor
    """(H,) each one's value, to tell apart rows that hold the same."""
    high_table: Tensor
    """(H,) each one's table, from 0 in the batch."""
    num_tables: int
    """Tables in the batch."""


@dataclass(frozen=True, kw_only=True)
class Columns(Tensors):
    """The columns of a batch whose likeness to columns of other tables is known, and their segments."""

    segment: Tensor
    """(S,) segments of these columns."""
    segment_column: Tensor
    """(S,) column of each of these segments, from 0 in the batch."""
    column: Tensor
    """(K,) place of each column among those with known affinities."""
    table: Tensor
    """(K,) table of each column."""
    attribute: Tensor
    """(K,) attribute of each column."""


@dataclass(frozen=True, kw_only=True)
class Batch(Tensors):
    """One training batch: the masked copy of each row, then, if alignment is on, the plain copy."""

    rows: Rows
    """All copies, packed."""
    targets: Targets
    """What is masked in the masked copy."""
    alignment: Alignment | None
    """What to align in the plain copy."""
    columns: Columns | None
    """What to compare across tables in the plain copy."""
    row_ids: Tensor
    """(R,) the rows of one copy, as the corpus numbers them."""
    row_table: Tensor
    """(R,) their tables."""
    row_twin: Tensor
    """(R,) where the other copy of each row stands among all rows; a row itself, if there is one copy."""
    num_tokens: int
    """Tokens of one copy."""

    @property
    def has_plain(self) -> bool:
        """Whether the plain copy of each row is there."""
        return self.alignment is not None
