"""The one way of many rows through a model: by length, in input order, equal rows once, in halves when memory ends."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import (
    FIRST_SLOT,
    AttributeSlots,
    BatchBuilder,
    Layout,
    Masks,
    Rows,
    Sequences,
    SpecialTokens,
    is_worth_moving,
    pack_texts,
    prefetch,
)
from navi.batches.batch import TensorGroup
from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges
from navi.corpus.hashing import hash_rows, mix
from navi.corpus.tokens import TokenLists
from navi.errors import ConfigError, MissingExtraError, ModelError
from navi.model.encoder import NaviModel, NaviOutput

# Shape suffixes: R rows, S segments, A attributes, D hidden size.

logger = logging.getLogger(__name__)
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = Callable[[Layout], Masks]
"""Masks a layout before it is encoded."""
Read = Callable[[NaviOutput, Rows, Layout], None]
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


class Replica:
    """A model on one device."""

    def __init__(self, model: NaviModel, device: torch.device) -> None:
        self.model, self.device = model, device

    @torch.inference_mode()
    def embed_attributes(self, arrays: SegmentArrays, ids_A: Ints) -> Tensor:
        """Return the attribute table of some attributes: (A + 2, D)."""
        tables = []
        for part in np.array_split(ids_A, max(1, -(-len(ids_A) // ATTRIBUTES_AT_ONCE))):
            lengths, index = gather_ranges(arrays.attribute_offsets, part)
            packed = Sequences(
                token_ids=torch.from_numpy(arrays.attribute_tokens[index].astype(np.int64)),
                token_position=torch.from_numpy(count_up(lengths)),
                starts=torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)])),
            )
            tables.append(self.model.embed_attributes(send(packed, self.device)))
        return torch.cat([tables[0], *(table[FIRST_SLOT:] for table in tables[1:])])

    def active(self) -> AbstractContextManager[object]:
        """Return the context in which a GPU is the one that is meant where none is named."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def fetch_later(self, taken: dict[str, Tensor]) -> Fetch:
        """Send what was taken from the model to the host; return what waits for it."""
        found = {name: tensor.float().to("cpu", non_blocking=True) for name, tensor in taken.items()}
        done = torch.cuda.Event() if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if done is not None:
            done.record()

        def fetch() -> dict[str, Floats]:
            if done is not None:
                done.synchronize()
            return {name: tensor.numpy() for name, tensor in found.items()}

        return fetch


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
        places = [torch.device(device) for device in devices or ["cuda" if torch.cuda.is_available() else "cpu"]]
        self.device = places[0]
        self.precision = precision or ("bfloat16" if self.device.type == "cuda" else "float32")
        if self.precision not in PRECISIONS:
            raise ConfigError(f"Unknown precision '{self.precision}'. Expected one of {', '.join(PRECISIONS)}.")
        self.model = model
        self.special = special
        models = [model, *(copy.deepcopy(model) for _ in places[1:])]
        self._replicas = [Replica(*pair) for pair in zip(models, places, strict=True)]
        for replica in self._replicas:
            replica.model.to(replica.device, PRECISIONS[self.precision]).eval()
            if self.precision == "int8":
                _quantize(replica.model, special)
        kind = "int8" if self.precision == "int8" else "cuda" if self.device.type == "cuda" else "cpu"
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH[kind]

    @property
    def devices(self) -> list[torch.device]:
        """The devices that rows are shared out among."""
        return [replica.device for replica in self._replicas]

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
            read(model(packed, table), packed, layout)
            return {}

        for _ in self._encode(arrays, rows, take, mask=mask, replicas=self._replicas[:1], on_host=True):
            pass

    def embed_attributes(self, arrays: SegmentArrays, attributes: Ints | None = None) -> Floats:
        """Return (A, D): the context-free vector of each attribute, or of those chosen."""
        ids_A = np.arange(len(arrays.attribute_offsets) - 1) if attributes is None else attributes
        table = self._replicas[0].embed_attributes(arrays, ids_A)
        embedded: Floats = table[FIRST_SLOT:].float().cpu().numpy()
        return embedded

    @torch.inference_mode()
    def embed_texts(self, texts: TokenLists) -> Floats:
        """Return (N, D): the mean state of each text, read as a sentence."""
        lengths = texts.lengths
        vectors = np.zeros((len(lengths), self.model.config.hidden_size), np.float32)
        for group in group_by_length(lengths, self.tokens_per_batch):
            packed = send(pack_texts(texts, group, self.special), self.device)
            vectors[group] = self.model.embed_texts(packed).float().cpu().numpy()
        return vectors

    def _encode(
        self,
        arrays: SegmentArrays,
        rows: Ints,
        take: Take,
        *,
        mask: Mask | None = None,
        replicas: Sequence[Replica] | None = None,
        on_host: bool = False,
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
    ) -> Iterator[tuple[Ints, dict[str, Floats]]]:
        """Yield where the rows of each batch stand among `rows`, and what `take` took from the model for it.

        Batches are laid out where the model is, if copying the arrays there pays, and else, or `on_host`, on the CPU.
        A GPU has begun its next batch before the host takes what came of the last.
        """
        lengths = arrays.count_row_tokens()[rows]
        replicas = replicas or self._replicas
        builder = BatchBuilder(arrays, self.special, align=False)
        slots = builder.number_attributes(rows)
        on_host = on_host or mask is not None or not is_worth_moving(arrays, int(lengths.sum()))
        idle: SimpleQueue[tuple[Replica, Tensor, BatchBuilder, AttributeSlots]] = SimpleQueue()
        for replica in replicas:
            table = replica.embed_attributes(arrays, slots.ids.numpy())
            own = (builder, slots) if on_host else (builder.to(replica.device), send(slots, replica.device))
            idle.put((replica, table, *own))

        def encode(places: Ints) -> list[tuple[Ints, Fetch]]:
            lane = idle.get()
            replica, table, builder, slots = lane
            try:
                with torch.inference_mode(), replica.active():
                    layout = builder.lay_out(rows[places], int(lengths[places].sum()))
                    packed = builder.pack_layout(layout, mask(layout) if mask else None, slots)
                    packed = packed if builder.device.type == replica.device.type else send(packed, replica.device)
                    return [(places, replica.fetch_later(take(replica.model, packed, table, layout)))]
            except torch.OutOfMemoryError as error:
                if len(places) == 1:
                    raise ModelError(
                        f"One row of {lengths[places[0]]} tokens does not fit in the memory of {replica.device}. "
                        "Lower max_tokens, or use another device."
                    ) from error
                logger.warning("Out of memory with %d rows; trying again with half as many.", len(places))
                self.tokens_per_batch = max(1, self.tokens_per_batch // 2)
            finally:
                idle.put(lane)
            torch.cuda.empty_cache()
            return [batch for half in np.array_split(places, 2) for batch in encode(half)]

        groups = group_by_length(lengths, tokens_per_batch or self.tokens_per_batch, batch_size)
        workers = len(replicas) if len(replicas) > 1 else 0  # handing batches to one thread costs, and brings nothing
        last: tuple[Ints, Fetch] | None = None
        for batch in chain.from_iterable(prefetch(groups, encode, workers=workers, ahead=2 * workers)):
            if last is not None:
                yield last[0], last[1]()
            last = batch
        if last is not None:
            yield last[0], last[1]()


def send(group: Group, device: torch.device) -> Group:
    """Return tensors on a device; from pinned memory, the host need not wait until a GPU has done all else."""
    return (group.pin() if device.type == "cuda" else group).to(device)


def _quantize(model: NaviModel, special: SpecialTokens) -> None:
    try:
        from navi.model.int8 import quantize_layers
    except ImportError as error:
        raise MissingExtraError("Precision int8", "int8") from error
    quantize_layers(model, special)


def take_parts(model: NaviModel, rows: Rows, table: Tensor, parts: Sequence[str]) -> dict[str, Tensor]:
    """Return the asked-for embeddings of packed rows; of rows alone, the last layer is for [CLS] alone."""
    if tuple(parts) == ("rows",):
        return {"rows": model.embed_rows(rows, table)}
    output = model(rows, table)

    def average(states_SD: Tensor) -> Tensor:
        sums = torch.zeros_like(output.cls).index_add(0, rows.segment_row, states_SD)
        return sums / torch.bincount(rows.segment_row, minlength=rows.num_rows).clamp(min=1)[:, None]

    makers: dict[str, Callable[[], Tensor]] = {
        "rows": lambda: model.pool_rows(output, rows),
        "cls": lambda: output.cls,
        "means": lambda: average((output.headers + output.values) / 2),
        "value_means": lambda: average(output.values),
        "headers": lambda: model.pool_headers(output, rows),
        "header_states": lambda: output.headers,
        "values": lambda: output.values,
        "segments": lambda: model.embed_segments(output, rows),
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
