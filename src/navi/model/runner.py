"""Running a model over many rows: by length, in input order, equal rows once, in halves when memory ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import BatchBuilder, Layout, Masks, Rows, Sequences, SpecialTokens, is_worth_moving, prefetch
from navi.corpus.arrays import SegmentArrays
from navi.errors import ConfigError, ModelError
from navi.model.encoder import NaviModel, NaviOutput
from navi.model.quantized import quantize_layers

# Shape suffixes: R rows, S segments, D hidden size.

logger = logging.getLogger(__name__)
ROW_PARTS = ("rows", "cls", "means")
"""What has one vector a row: its embedding, its [CLS] alone, and the mean of its headers' and values' states."""
PARTS = (*ROW_PARTS, "headers", "header_states", "values", "segments")
"""What can be asked for: these, and of each segment its header, the states of header and value, and the whole."""
PRECISIONS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.float32,
}
"""Arithmetic of weights and states; with int8 only the layers' matrix products leave float32."""
TOKENS_PER_BATCH = {"cuda": 262144, "int8": 16384, "cpu": 4096}
"""Token budget of a batch, by precision or else by device; int8 makes its own groups of like length of it."""
Read = Callable[[NaviOutput, Rows, Layout], dict[str, Tensor]]
Mask = Callable[[Layout], Masks]
Found = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One batch on its way through the model."""

    places: NDArray[np.int64]
    """Where the batch's rows stand in the order asked for."""
    num_tokens: int
    """Their tokens."""
    layout: Layout | None
    """Where these stand, before masking; None where the device finds it out."""
    load: Callable[[], tuple[Rows, Tensor]]
    """Gives what the encoder takes, on the device: the rows, and their attribute table."""


Make = Callable[[NDArray[np.int64]], Pass]


@dataclass(frozen=True)
class Landing:
    """What was read from a batch, on its way from the device to the host."""

    tensors: dict[str, Tensor]
    """What was read, in memory of the host that is filled when the device comes to it."""
    landed: torch.cuda.Event | None
    """Tells when that is; None where nothing has to be waited for."""

    def fetch(self) -> Found:
        """Wait, and return what was read."""
        if self.landed is not None:
            self.landed.synchronize()
        return {name: tensor.numpy() for name, tensor in self.tensors.items()}


class Runner:
    """Sends rows through a model, a token budget at a time."""

    def __init__(
        self,
        model: NaviModel,
        special: SpecialTokens,
        *,
        device: str | torch.device | None = None,
        precision: str | None = None,
        tokens_per_batch: int | None = None,
        workers: int = 1,
    ) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.precision = precision or ("bfloat16" if self.device.type == "cuda" else "float32")
        if self.precision not in PRECISIONS:
            raise ConfigError(f"Unknown precision '{self.precision}'. Expected one of {', '.join(PRECISIONS)}.")
        self.model = model.to(self.device, PRECISIONS[self.precision]).eval()
        if self.precision == "int8":
            quantize_layers(self.model, special)
        self.special = special
        kind = "int8" if self.precision == "int8" else "cuda" if self.device.type == "cuda" else "cpu"
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH[kind]
        self.workers = workers
        self.packs_on_device = self.device.type == "cuda"
        """Whether the device packs rows of which the embeddings alone are asked for."""

    def run(
        self,
        arrays: SegmentArrays,
        rows: NDArray[np.int64],
        read: Read,
        *,
        mask: Mask | None = None,
        batch_size: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterable[tuple[NDArray[np.int64], Layout, Found]]:
        """Yield (places in `rows`, layout, what `read` took from the output) for batches of rows of like length.

        `mask` may mask a layout before it is encoded. A batch that does not fit in memory is tried again in halves.
        A GPU has begun the next batch before the host takes what came of the last.
        """
        for one, found in self._run(arrays, rows, read, mask, batch_size, progress):
            assert one.layout is not None, "rows that are read from are laid out on the host"
            yield one.places, one.layout, found

    def _run(
        self,
        arrays: SegmentArrays,
        rows: NDArray[np.int64],
        read: Read | None,
        mask: Mask | None,
        batch_size: int | None,
        progress: Callable[[int], None] | None,
    ) -> Iterable[tuple[Pass, Found]]:
        """Yield each batch and what was read from it; with None to read, the rows' own embeddings."""
        lengths = arrays.count_row_tokens()[rows]
        rows_alone = read is None and mask is None
        on_device = self.packs_on_device and rows_alone and is_worth_moving(arrays, int(lengths.sum()))
        make = self._make_there(arrays, rows, lengths) if on_device else self._make_here(arrays, rows, mask)

        def finish(one: Pass, landing: Landing) -> tuple[Pass, Found]:
            found = landing.fetch()
            if progress:
                progress(len(one.places))
            return one, found

        groups = group_by_length(lengths, self.tokens_per_batch, batch_size)
        last: tuple[Pass, Landing] | None = None
        for one in prefetch(groups, make, workers=0 if on_device else self.workers):
            for current in self._encode(one, make, read):
                if last is not None:
                    yield finish(*last)
                last = current
        if last is not None:
            yield finish(*last)

    def _make_here(self, arrays: SegmentArrays, rows: NDArray[np.int64], mask: Mask | None) -> Make:
        """Return what makes batches on the host."""
        builder = BatchBuilder(arrays, self.special, align=False)

        def make(places: NDArray[np.int64]) -> Pass:
            layout = builder.lay_out(rows[places])
            packed = builder.pack_layout(layout, mask(layout) if mask else None)
            packed = packed.pin() if self.device.type == "cuda" else packed

            def load() -> tuple[Rows, Tensor]:
                return packed.to(self.device), self._embed_attributes(packed.attributes)

            return Pass(places=places, num_tokens=packed.num_tokens, layout=layout, load=load)

        return make

    def _make_there(self, arrays: SegmentArrays, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> Make:
        """Return what makes batches on the device; they come to be when they are loaded, in the caller's thread."""
        builder = BatchBuilder(arrays, self.special, align=False).to(self.device)
        slots = builder.number_attributes(rows)
        find_table = cache(lambda: self._embed_attributes(slots.sequences))

        def make(places: NDArray[np.int64]) -> Pass:
            num_tokens = int(lengths[places].sum())

            def load() -> tuple[Rows, Tensor]:
                return builder.pack_rows(rows[places], num_tokens, slots), find_table()

            return Pass(places=places, num_tokens=num_tokens, layout=None, load=load)

        return make

    def _encode(self, one: Pass, make: Make, read: Read | None) -> Iterable[tuple[Pass, Landing]]:
        waiting = [one]
        while waiting:
            current = waiting.pop()
            try:
                found = self._forward(current, read)
            except torch.OutOfMemoryError as error:
                count = len(current.places)
                if count == 1:
                    raise ModelError(
                        f"One row of {current.num_tokens} tokens does not fit in the memory of {self.device}. "
                        "Lower max_tokens, or use another device."
                    ) from error
                logger.warning("Out of memory with %d rows; trying again with half as many.", count)
                self.tokens_per_batch = max(1, self.tokens_per_batch // 2)
                torch.cuda.empty_cache()
                waiting.extend(make(half) for half in np.array_split(current.places, 2)[::-1])
                continue
            yield current, found

    @torch.inference_mode()
    def _forward(self, one: Pass, read: Read | None) -> Landing:
        rows, attributes = one.load()
        if read is None:
            found = {"rows": self.model.embed_rows(rows, attributes)}
        else:
            assert one.layout is not None, "rows that are read from are laid out on the host"
            found = read(self.model(rows, attributes), rows, one.layout)
        if self.device.type != "cuda":
            return Landing({name: tensor.float().cpu() for name, tensor in found.items()}, None)
        tensors = {name: tensor.float().to("cpu", non_blocking=True) for name, tensor in found.items()}
        landed = torch.cuda.Event()  # type: ignore[no-untyped-call]
        landed.record(torch.cuda.current_stream(self.device))
        return Landing(tensors, landed)

    def _embed_attributes(self, attributes: Sequences) -> Tensor:
        """Return the attribute table of some packed attributes."""
        table: Tensor = self.model.embed_attributes(attributes.to(self.device))
        return table

    def embed(
        self,
        arrays: SegmentArrays,
        rows: NDArray[np.int64] | None = None,
        *,
        parts: Sequence[str] = ("rows",),
        row_hash: NDArray[np.uint64] | None = None,
        mask: Mask | None = None,
        batch_size: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, NDArray[np.float32]]:
        """Return the asked-for embeddings in the order of `rows`: (R, D) for `ROW_PARTS`, (S, D) for the others.

        With `row_hash`, equal rows are encoded once. Embeddings of segments stand row after row, in row order.
        """
        rows = np.arange(arrays.num_rows) if rows is None else rows
        distinct, inverse = _find_distinct(rows, row_hash if "rows" in parts and len(parts) == 1 else None)
        counts_R = np.diff(arrays.row_offsets)[distinct]
        first_R = np.cumsum(counts_R) - counts_R
        width = self.model.config.hidden_size
        sizes = {part: len(distinct) if part in ROW_PARTS else int(counts_R.sum()) for part in parts}
        gathered = {part: np.zeros((size, width), dtype=np.float32) for part, size in sizes.items()}
        read = None if tuple(parts) == ("rows",) else self._reader(parts)
        for one, found in self._run(arrays, distinct, read, mask, batch_size, progress):
            for part, embedded in found.items():
                gathered[part][one.places if part in ROW_PARTS else _place_segments(one, first_R)] = embedded
        return gathered if inverse is None else {part: array[inverse] for part, array in gathered.items()}

    def _reader(self, parts: Sequence[str]) -> Read:
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise ConfigError(f"Unknown part '{sorted(unknown)[0]}'. Expected some of {', '.join(PARTS)}.")

        def read(output: NaviOutput, rows: Rows, _: Layout) -> dict[str, Tensor]:
            found = {"cls": output.cls, "header_states": output.headers, "values": output.values}
            if "headers" in parts:
                found["headers"] = self.model.pool_headers(output, rows)
            if "segments" in parts or "means" in parts:
                found["segments"] = self.model.embed_segments(output, rows)
            if "means" in parts:
                joined = (output.headers + output.values) / 2
                sums = torch.zeros_like(output.cls).index_add(0, rows.segment_row, joined)
                counts = torch.bincount(rows.segment_row, minlength=rows.num_rows).clamp(min=1)
                found["means"] = sums / counts[:, None]
            if "rows" in parts:
                found["rows"] = self.model.pool_rows(output, rows)
            return {part: found[part] for part in parts}

        return read


def _place_segments(one: Pass, first_R: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the segments of a batch stand among those of all rows, given each row's first."""
    assert one.layout is not None, "segments are laid out on the host"
    places: NDArray[np.int64] = first_R[one.places][one.layout.segment_row.numpy()] + one.layout.segment_rank.numpy()
    return places


def group_by_length(
    lengths: NDArray[np.int64], tokens_per_batch: int, batch_size: int | None = None
) -> list[NDArray[np.int64]]:
    """Return groups of places with like lengths, each within the token budget (or with one row)."""
    order = np.argsort(lengths, kind="stable")
    groups: list[NDArray[np.int64]] = []
    start = 0
    running = np.concatenate([[0], np.cumsum(lengths[order])])
    while start < len(order):
        end = int(np.searchsorted(running, running[start] + tokens_per_batch, side="right")) - 1
        end = max(end, start + 1)
        if batch_size is not None:
            end = min(end, start + batch_size)
        groups.append(order[start:end])
        start = end
    return groups


def _find_distinct(
    rows: NDArray[np.int64], row_hash: NDArray[np.uint64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    if row_hash is None:
        return rows, None
    _, first, inverse = np.unique(row_hash[rows], return_index=True, return_inverse=True)
    return rows[first], inverse
