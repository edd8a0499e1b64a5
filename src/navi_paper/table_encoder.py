"""What a model must be able to do to be evaluated, and NAVI doing it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from navi.batches import Layout, SpecialTokens
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.errors import ModelError
from navi.model.runner import Runner
from navi.verbs.loading import open_model, parse_devices

if TYPE_CHECKING:
    from torch import Tensor

    from navi.model.encoder import NaviOutput

# Shape suffixes: R rows, C cells of these rows, H hidden cells, T hidden tokens, D hidden size, V vocabulary.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]
PARTS = ("rows", "means", "headers", "values", "segments")
"""What can be asked for: the embedding of a row, the mean of its segments, and three vectors a cell."""
PREDICTS_TOKENS, EMBEDS_TEXTS, IN_VARIANTS = "predicts tokens", "embeds texts", "in variants"
"""Abilities: predicting hidden tokens; texts beside numbers as features; being measured without some columns, too."""


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Which headers, or which values, of some rows an encoder does not get to see."""

    part: Literal["header", "value"]
    cells: Bools
    """(C,) whether the cell is hidden; cells stand row after row, as the rows are asked for."""
    blind: bool = False
    """Whether the attribute of a hidden header is hidden too, for encoders that are given attributes."""


class TableEncoder(ABC):
    """Embeds rows and their cells, and predicts what is hidden in them; every model and baseline is one.

    Rows are numbers of rows in `arrays`, which may be a corpus's own or changed ones: columns in another order, headers
    spelled otherwise, columns left out. Every method answers in the order of the rows asked for.
    """

    name: str
    """What the encoder is called in tables."""
    abilities: frozenset[str] = frozenset({PREDICTS_TOKENS})
    """What can be asked of it beyond embeddings."""

    @abstractmethod
    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings: (R, D) for rows and means, (C, D) for headers, values and segments."""

    def embed_states(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None = None) -> tuple[Floats, Floats]:
        """Return the states in context of each cell's header and value, and nothing else of it: (C, D) each."""
        found = self.embed(arrays, rows, parts=("headers", "values"), hidden=hidden)
        return found["headers"], found["values"]

    def predict(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Ints:
        """Return the likeliest token at each token of the hidden headers or values, cell after cell: (T,).

        It is -1 where the encoder had no room for the cell.
        """
        likeliest = self.read_logits(arrays, rows, hidden, lambda logits_TV: logits_TV.argmax(dim=1, keepdim=True))
        return np.where(np.isnan(likeliest[:, 0]), -1, likeliest[:, 0]).astype(np.int64)

    def read_logits(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, read: Callable[[Tensor], Tensor]
    ) -> Floats:
        """Return what `read` makes of the logits at each hidden token: (T, …), NaN where the cell had no room."""
        raise ModelError(f"{self.name} cannot predict tokens.")

    def reconstruct(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> tuple[Floats, Floats]:
        """Return each hidden field, header and value, as predicted and as it is: (H, D) each."""
        predicted, true = (self._embed_fields(arrays, rows, each)[hidden.cells] for each in (hidden, None))
        return predicted, true

    def _embed_fields(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Floats:
        """Return the mean over each cell's header and value tokens: (C, D)."""
        headers_CD, values_CD = self.embed_states(arrays, rows, hidden)
        _, segments = list_cells(arrays, rows)
        headers_C = np.diff(arrays.header_offsets)[arrays.segment_header[segments], None].astype(np.float32)
        values_C = np.diff(arrays.value_offsets)[arrays.segment_value[segments], None].astype(np.float32)
        fields: Floats = (headers_CD * headers_C + values_CD * values_C) / (headers_C + values_C)
        return fields


def list_cells(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the row, from 0, and the segment of each cell of these rows: (C,) each."""
    counts_R, cells = gather_ranges(arrays.row_offsets, rows)
    return np.repeat(np.arange(len(rows)), counts_R), arrays.row_segments[cells].astype(np.int64)


def list_hidden_tokens(arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> tuple[Ints, Ints]:
    """Return the true tokens of the hidden headers or values, cell after cell, and how many each cell has."""
    part, segments = hidden.part, list_cells(arrays, rows)[1][hidden.cells]
    lengths, places = gather_ranges(getattr(arrays, f"{part}_offsets"), getattr(arrays, f"segment_{part}")[segments])
    return getattr(arrays, f"{part}_tokens")[places].astype(np.int64), lengths


def offset_hidden(arrays: SegmentArrays, rows: Ints, hidden: Hidden) -> Ints:
    """Return where the tokens of each cell begin among the hidden tokens of all, and how many they are: (C + 1,)."""
    lengths_C = np.zeros(len(hidden.cells), dtype=np.int64)
    lengths_C[hidden.cells] = list_hidden_tokens(arrays, rows, hidden)[1]
    return np.concatenate([[0], np.cumsum(lengths_C)])


def scatter(count: int, pieces: Sequence[tuple[Ints, NDArray[Any]]]) -> Floats:
    """Return what was found at some of `count` places, piece after piece, in the order of the places; NaN elsewhere."""
    if not pieces:
        return np.zeros((count, 1), dtype=np.float32)
    places, found = (np.concatenate(each) for each in zip(*pieces, strict=True))
    gathered: Floats = np.full((count, found.shape[1]), np.nan, dtype=np.float32)
    gathered[places] = found
    return gathered


class NaviTableEncoder(TableEncoder):
    """A NAVI model; it is given attributes, except those of headers hidden blind."""

    abilities = frozenset({PREDICTS_TOKENS, EMBEDS_TEXTS, IN_VARIANTS})

    def __init__(self, runner: Runner, *, name: str = "navi") -> None:
        self.name, self.runner = name, runner

    @classmethod
    def from_folder(cls, path: str | Path, *, device: str | None = None, plain: bool = False) -> Self:
        """Open a model directory that `navi pretrain` wrote; `plain` adds nothing to the states of headers and rows."""
        model, tokenizer = open_model(Path(path))
        if plain:
            model.config.header_attribute = model.config.row_words = False
        return cls(Runner(model, SpecialTokens.of(tokenizer), devices=parse_devices(device)))

    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings: (R, D) for rows and means, (C, D) for headers, values and segments."""
        # Numbered from 0 as they are asked for, rows know their places, and one may be asked for twice.
        mask = None if hidden is None else partial(mask_hidden, hidden, self.runner.special.mask)
        return self.runner.embed(arrays.take_rows(rows), parts=parts, mask=mask)

    def embed_states(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None = None) -> tuple[Floats, Floats]:
        """Return the states in context of each cell's header and value: (C, D) each."""
        found = self.embed(arrays, rows, parts=("header_states", "values"), hidden=hidden)
        return found["header_states"], found["values"]

    def read_logits(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden, read: Callable[[Tensor], Tensor]
    ) -> Floats:
        """Return what `read` makes of the logits at each hidden token: (T, …)."""
        taken = arrays.take_rows(rows)
        offsets = offset_hidden(taken, np.arange(len(rows)), hidden)
        found: list[tuple[Ints, Floats]] = []

        def read_hidden(output: NaviOutput, layout: Layout) -> None:
            cells = layout.segment_cell.numpy()
            places = mark_hidden(hidden, layout).nonzero().squeeze(1).to(output.tokens.device)
            logits = self.runner.model.predict_tokens(output, places).float()
            found.append((gather_ranges(offsets, cells[hidden.cells[cells]])[1], read(logits).cpu().numpy()))

        mask = partial(mask_hidden, hidden, self.runner.special.mask)
        self.runner.run(taken, np.arange(len(rows)), read_hidden, mask=mask)
        return scatter(int(offsets[-1]), found)


def mark_hidden(hidden: Hidden, layout: Layout) -> Tensor:
    """Return which tokens of a batch of rows numbered from 0 are in the hidden part of a hidden cell: (T,)."""
    hidden_S = torch.from_numpy(hidden.cells[layout.segment_cell.numpy()])
    part = torch.tensor([hidden.part == "header", hidden.part == "value"])
    hidden_P = torch.cat([(hidden_S[:, None] & part).view(-1), torch.zeros(1, dtype=torch.bool)])
    return hidden_P[layout.token_span]


def mask_hidden(hidden: Hidden, mask_token: int, layout: Layout) -> Layout:
    """Put [MASK] in the place of what is hidden, and make the attributes of headers hidden blind unknown."""
    hidden_S = hidden.cells[layout.segment_cell.numpy()]
    return replace(
        layout,
        token_ids=torch.where(mark_hidden(hidden, layout), mask_token, layout.token_ids),
        segment_unknown=torch.from_numpy(hidden_S & (hidden.part == "header" and hidden.blind)),
    )
