"""The one way of many rows through a model: by length, in input order, equal rows once, in halves when memory ends."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import FIRST_SLOT, AttributeSlots, BatchBuilder, Layout, Rows, SpecialTokens, pack_texts, prefetch
from navi.batches.batch import TensorGroup
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.corpus.hashing import hash_rows, mix
from navi.corpus.tokens import TokenLists
from navi.errors import ConfigError, MissingExtraError, ModelError
from navi.model.encoder import NaviModel, NaviOutput

# Shape suffixes: R rows, S segments, A attributes, D hidden size.

logger = logging.getLogger(__name__)
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = Callable[[Layout], Layout]
"""Masks a layout before it is encoded."""
Read = Callable[[NaviOutput, Layout], None]
"""Takes what it wants from the output for a batch; the layout lies on the CPU."""
Take = Callable[[NaviModel, Rows, Tensor, Layout], dict[str, Tensor]]
Fetch = Callable[[], dict[str, Floats]]
"""Waits for the device, and returns what came of a batch."""
Group = TypeVar("Group", bound=TensorGroup)
Progress = Callable[[int, int], None]
"""Called with how many rows were just done, and of how many in all."""
ROW_PARTS = ("rows", "cls", "means", "value_means")
"""What has one vector a row: its embedding, its [CLS], and the mean of its headers' and values', or values', states."""
PARTS = (*ROW_PARTS, "headers", "header_states", "values", "segments")
"""What can be asked for: these, and of each segment its header, the states of header and value, and the whole."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "int8": torch.float32}
"""Arithmetic of weights and states; with int8 only the layers' matrix products leave float32."""
TOKENS_PER_BATCH = {"cuda": 262144, "int8": 16384, "cpu": 4096}
"""Token budget of a batch, by precision or else by device; int8 makes its own buckets of it."""
ATTRIBUTES_AT_ONCE = 4096


@dataclass(frozen=True)
class Replica:
    """What one device needs to encode the batches of a call."""

    model: NaviModel
    attribute_table: Tensor
    builder: BatchBuilder
    slots: AttributeSlots


class Runner:
    """Sends rows through a model on one device or several, a token budget at a time."""

    def __init__(
        self,
        model: NaviModel,
        special: SpecialTokens,
        *,
        devices: Sequence[str | torch.device] = (),
        precision: str | None = None,
        tokens_per_batch: int | None = None,
    ) -> None:
        """Without devices, the best there is; with several, the model is copied and batches are shared out."""
        self.devices = [torch.device(device) for device in devices or ["cuda" if torch.cuda.is_available() else "cpu"]]
        """The devices that rows are shared out among."""
        self.device = self.devices[0]
        self.precision = precision or ("bfloat16" if self.device.type == "cuda" else "float32")
        if self.precision not in PRECISIONS:
            raise ConfigError(f"Unknown precision '{self.precision}'. Expected one of {', '.join(PRECISIONS)}.")
        self.model = model
        self.special = special
        self._models = [model, *(copy.deepcopy(model) for _ in self.devices[1:])]
        for each, device in zip(self._models, self.devices, strict=True):
            each.to(device, PRECISIONS[self.precision]).eval()
            if self.precision == "int8":
                _quantize(each, special)
        kind = "int8" if self.precision == "int8" else "cuda" if self.device.type == "cuda" else "cpu"
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH[kind]

    def embed(
        self,
        arrays: SegmentArrays,
        rows: Ints | None = None,
        *,
        parts: Sequence[str] = ("rows",),
        mask: Mask | None = None,
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
        progress: Progress | None = None,
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings in the order of `rows`: (R, D) for `ROW_PARTS`, (S, D) for the others.

        Those of segments stand row after row. Where rows alone are asked for, those with equal cells run once, unless a
        mask may make them differ.
        """
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise ConfigError(f"Unknown part '{sorted(unknown)[0]}'. Expected some of {', '.join(PARTS)}.")
        rows = np.arange(arrays.num_rows) if rows is None else rows
        distinct, inverse = rows, np.arange(len(rows))
        if mask is None and not set(parts) - set(ROW_PARTS):
            distinct, inverse = find_distinct(arrays, rows)
        times = np.bincount(inverse, minlength=len(distinct))
        offsets = np.concatenate([[0], np.cumsum(np.diff(arrays.row_offsets)[distinct])])
        width = self.model.config.hidden_size
        sizes = {part: len(distinct) if part in ROW_PARTS else int(offsets[-1]) for part in parts}
        gathered = {part: np.zeros((size, width), np.float32) for part, size in sizes.items()}

        def take(model: NaviModel, packed: Rows, table: Tensor, _: Layout) -> dict[str, Tensor]:
            return take_parts(model, packed, table, parts)

        for places, found in self._encode(
            arrays, distinct, take, mask=mask, batch_size=batch_size, tokens_per_batch=tokens_per_batch
        ):
            cells = gather_ranges(offsets, places)[1]
            for part, embedded in found.items():
                gathered[part][places if part in ROW_PARTS else cells] = embedded
            if progress is not None:
                progress(int(times[places].sum()), len(rows))
        return gathered if len(distinct) == len(rows) else {part: array[inverse] for part, array in gathered.items()}

    def run(self, arrays: SegmentArrays, rows: Ints, read: Read, *, mask: Mask | None = None) -> None:
        """Encode rows, masked if so asked, and have `read` take what it wants from each batch, on the first device."""

        def take(model: NaviModel, packed: Rows, table: Tensor, layout: Layout) -> dict[str, Tensor]:
            read(model(packed, table), layout)
            return {}

        for _ in self._encode(arrays, rows, take, mask=mask, models=self._models[:1], on_host=True):
            pass

    def embed_attributes(self, arrays: SegmentArrays, attributes: Ints | None = None) -> Floats:
        """Return (A, D): the context-free vector of each attribute, or of those chosen."""
        ids_A = np.arange(len(arrays.attribute_offsets) - 1) if attributes is None else attributes
        embedded: Floats = embed_attributes(self.model, arrays, ids_A)[FIRST_SLOT:].float().cpu().numpy()
        return embedded

    @torch.inference_mode()
    def embed_texts(
        self,
        texts: TokenLists,
        chosen: Ints | None = None,
        *,
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
        progress: Progress | None = None,
    ) -> Floats:
        """Return (N, D): the mean state of each text, or of those chosen, read as a sentence, on the first device."""
        chosen = np.arange(len(texts.lengths)) if chosen is None else chosen
        vectors = np.zeros((len(chosen), self.model.config.hidden_size), np.float32)
        for group in group_by_length(texts.lengths[chosen], tokens_per_batch or self.tokens_per_batch, batch_size):
            packed = pack_texts(texts.offsets, texts.tokens, chosen[group], self.special)
            with activate(self.device):
                vectors[group] = self.model.embed_texts(send(packed, self.device)).float().cpu().numpy()
            if progress is not None:
                progress(len(group), len(chosen))
        return vectors

    def _encode(
        self,
        arrays: SegmentArrays,
        rows: Ints,
        take: Take,
        *,
        mask: Mask | None = None,
        models: Sequence[NaviModel] = (),
        on_host: bool = False,
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
    ) -> Iterator[tuple[Ints, dict[str, Floats]]]:
        """Yield where the rows of each batch stand among `rows`, and what `take` took from the model for it.

        Batches are laid out where the model is, if copying the arrays there pays, and else, or `on_host`, on the CPU.
        A GPU has begun its next batch before the host takes what came of the last.
        """
        lengths = arrays.count_row_tokens()[rows]
        models = models or self._models
        builder = BatchBuilder(arrays, self.special, align=False)
        slots = builder.number_attributes(rows)
        on_host = on_host or mask is not None or not builder.is_worth_moving(int(lengths.sum()))
        idle: SimpleQueue[Replica] = SimpleQueue()
        for model in models:
            table = embed_attributes(model, arrays, slots.ids.numpy())
            own = (builder, slots) if on_host else (builder.to(model.device), send(slots, model.device))
            idle.put(Replica(model, table, *own))

        def encode(places: Ints) -> list[tuple[Ints, Fetch]]:
            replica = idle.get()
            device = replica.model.device
            try:
                with torch.inference_mode(), activate(device):
                    layout = replica.builder.lay_out(rows[places], int(lengths[places].sum()))
                    layout = layout if mask is None else mask(layout)
                    packed = replica.builder.pack_layout(layout, replica.slots)
                    packed = packed if replica.builder.device.type == device.type else send(packed, device)
                    return [(places, fetch_later(take(replica.model, packed, replica.attribute_table, layout), device))]
            except torch.OutOfMemoryError as error:
                if len(places) == 1:
                    raise ModelError(
                        f"One row of {lengths[places[0]]} tokens does not fit in the memory of {device}. "
                        "Lower max_tokens, or use another device."
                    ) from error
                logger.warning("Out of memory with %d rows; trying again with half as many.", len(places))
                self.tokens_per_batch = max(1, self.tokens_per_batch // 2)
            finally:
                idle.put(replica)
            torch.cuda.empty_cache()
            return [batch for half in np.array_split(places, 2) for batch in encode(half)]

        groups = group_by_length(lengths, tokens_per_batch or self.tokens_per_batch, batch_size)
        workers = len(models) if len(models) > 1 else 0  # handing batches to one thread costs, and brings nothing
        last: tuple[Ints, Fetch] | None = None
        for batch in chain.from_iterable(prefetch(groups, encode, workers=workers, ahead=2 * workers)):
            if last is not None:
                yield last[0], last[1]()
            last = batch
        if last is not None:
            yield last[0], last[1]()


def activate(device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which a GPU is the one that is meant where none is named: Triton takes it for the one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def send(group: Group, device: torch.device) -> Group:
    """Return tensors on a device; from pinned memory, the host need not wait until a GPU has done all else."""
    return (group.pin() if device.type == "cuda" else group).to(device)


@torch.inference_mode()
def embed_attributes(model: NaviModel, arrays: SegmentArrays, ids_A: Ints) -> Tensor:
    """Return the attribute table of some attributes: (A + 2, D)."""
    tables = []
    for part in np.array_split(ids_A, max(1, -(-len(ids_A) // ATTRIBUTES_AT_ONCE))):
        packed = pack_texts(arrays.attribute_offsets, arrays.attribute_tokens, part)
        with activate(model.device):
            tables.append(model.embed_attributes(send(packed, model.device)))
    return torch.cat([tables[0], *(table[FIRST_SLOT:] for table in tables[1:])])


def fetch_later(taken: dict[str, Tensor], device: torch.device) -> Fetch:
    """Send what was taken from a model to the host; return what waits for it."""
    found = {name: tensor.float().to("cpu", non_blocking=True) for name, tensor in taken.items()}
    done = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]
    if done is not None:
        done.record()

    def fetch() -> dict[str, Floats]:
        if done is not None:
            done.synchronize()
        return {name: tensor.numpy() for name, tensor in found.items()}

    return fetch


def _quantize(model: NaviModel, special: SpecialTokens) -> None:
    try:
        from navi.model.int8 import quantize_layers
    except ImportError as error:
        raise MissingExtraError("Precision int8", "int8") from error
    quantize_layers(model, special)


def take_parts(model: NaviModel, rows: Rows, table: Tensor, parts: Sequence[str]) -> dict[str, Tensor]:
    """Return the asked-for embeddings of packed rows; where [CLS] is enough, the last layer is for it alone."""
    output = model(rows, table, read_tokens=None if set(parts) - {"rows", "cls"} else rows.starts[:-1])

    def average(states_SD: Tensor) -> Tensor:
        sums = torch.zeros_like(output.cls).index_add(0, rows.segment_row, states_SD)
        return sums / torch.bincount(rows.segment_row, minlength=rows.num_rows).clamp(min=1)[:, None]

    makers: dict[str, Callable[[], Tensor]] = {
        "rows": lambda: model.pool_rows(output),
        "cls": lambda: output.cls,
        "means": lambda: average((output.headers + output.values) / 2),
        "value_means": lambda: average(output.values),
        "headers": lambda: model.pool_headers(output),
        "header_states": lambda: output.headers,
        "values": lambda: output.values,
        "segments": lambda: model.embed_segments(output),
    }
    return {part: makers[part]() for part in parts}


def find_distinct(arrays: SegmentArrays, rows: Ints) -> tuple[Ints, Ints]:
    """Return the first row of each content, in order, and the place among them of every row's content."""
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Segments, not the corpus's row hashes: these do not know attributes, nor what max_tokens left out.
    content = hash_rows(mix(arrays.row_segments[cells].astype(np.uint64), np.uint64(0)), offsets)
    _, first, inverse = np.unique(content, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[first[order]], rank[inverse]


def group_by_length(lengths: Ints, tokens_per_batch: int, batch_size: int | None = None) -> list[Ints]:
    """Return groups of places with like lengths, each within the token budget (or with one row)."""
    order = np.argsort(lengths, kind="stable")
    groups: list[Ints] = []
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
