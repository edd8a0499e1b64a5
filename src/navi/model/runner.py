"""The one way of many rows or texts through a model: by length, in input order, in halves when memory ends."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import (
    FIRST_SLOT,
    BatchBuilder,
    Layout,
    Rows,
    Sequences,
    SpecialTokens,
    pack_texts,
    prefetch,
)
from navi.batches.batch import TensorGroup
from navi.batches.layout import lay_end_to_end
from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges
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
Compute = Callable[[NaviModel, Ints], dict[str, Tensor]]
"""Returns what a model makes of the rows or texts at some places."""
Batches = Iterator[tuple[Ints, dict[str, Floats]]]
"""Where the rows or texts of a batch stand among those asked for, and what came of them."""
Fetch = Callable[[], dict[str, Floats]]
"""Waits for the device, and returns what came of a batch."""
Group = TypeVar("Group", bound=TensorGroup)
Progress = Callable[[int, int], None]
"""Called with how many rows were just done, and of how many in all."""
ROW_PARTS = ("texts", "rows", "cls", "means", "value_means")
"""What has one vector a row: the row read as a text; [CLS], and words if so set; [CLS] alone; and the mean of its
headers' and values', or values', states."""
PARTS = (*ROW_PARTS, "headers", "header_states", "values", "segments")
"""What can be asked for: these, and of each segment its header, the states of header and value, and the whole."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "int8": torch.float32}
"""Arithmetic of weights and states; with int8 only the layers' matrix products leave float32."""
TOKENS_PER_BATCH = {"cuda": 262144, "int8": 16384, "cpu": 4096}
"""Token budget of a batch, by precision or else by device; int8 makes its own buckets of it."""
ATTRIBUTES_AT_ONCE = 4096
MAX_TEXT_TOKENS = 258
"""Tokens that are read of a row as a text, [CLS] and [SEP] among them."""


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

        batches: list[Batches] = []
        if "texts" in parts:
            batches.append(self._read_rows(arrays, distinct, batch_size))
        if encoded := [part for part in parts if part != "texts"]:
            take = partial(take_parts, encoded)
            batches.append(self._encode(arrays, distinct, take, mask=mask, batch_size=batch_size))
        for places, found in chain(*batches):
            cells = gather_ranges(offsets, places)[1]
            for part, embedded in found.items():
                gathered[part][places if part in ROW_PARTS else cells] = embedded
            if progress is not None and parts[0] in found:
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

    def embed_texts(self, texts: TokenLists, chosen: Ints | None = None) -> Floats:
        """Return (N, D): the mean state of each text, or of those chosen, read as a sentence."""
        chosen = np.arange(len(texts.lengths)) if chosen is None else chosen
        vectors = np.zeros((len(chosen), self.model.config.hidden_size), np.float32)

        def compute(model: NaviModel, places: Ints) -> dict[str, Tensor]:
            packed = pack_texts(texts.offsets, texts.tokens, chosen[places], self.special)
            return {"texts": model.embed_texts(send(packed, model.device))}

        for places, found in self._share_out(texts.lengths[chosen] + 2, compute):
            vectors[places] = found["texts"]
        return vectors

    def _read_rows(self, arrays: SegmentArrays, rows: Ints, batch_size: int | None) -> Batches:
        """Yield the mean states of rows read as texts, `header: value, header: value`."""
        builder = BatchBuilder(sort_cells(arrays), self.special, align=False)
        whole = arrays.count_row_tokens()[rows]
        lengths = np.minimum(whole, min(MAX_TEXT_TOKENS, self.model.config.max_position_embeddings))
        on_host = not builder.is_worth_moving(int(whole.sum()))
        builders = {model: builder if on_host else builder.to(model.device) for model in self._models}

        def compute(model: NaviModel, places: Ints) -> dict[str, Tensor]:
            layout = builders[model].lay_out(rows[places], int(whole[places].sum()))
            texts = write_texts(layout, self.special, int(lengths[places].max()), int(lengths[places].sum()))
            return {"texts": model.embed_texts(send(texts, model.device) if on_host else texts)}

        return self._share_out(lengths, compute, batch_size=batch_size)

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
    ) -> Batches:
        """Yield what `take` took from the model for each batch of rows.

        Batches are laid out where the model is, if copying the arrays there pays, and else, or `on_host`, on the CPU.
        """
        lengths = arrays.count_row_tokens()[rows]
        models = models or self._models
        builder = BatchBuilder(arrays, self.special, align=False)
        slots = builder.number_attributes(rows)
        on_host = on_host or mask is not None or not builder.is_worth_moving(int(lengths.sum()))
        tables = {model: embed_attributes(model, arrays, slots.ids.numpy()) for model in models}
        own = {model: (builder.to(model.device), send(slots, model.device)) for model in models if not on_host}

        def compute(model: NaviModel, places: Ints) -> dict[str, Tensor]:
            maker, numbered = own.get(model, (builder, slots))
            layout = maker.lay_out(rows[places], int(lengths[places].sum()))
            layout = layout if mask is None else mask(layout)
            packed = maker.pack_layout(layout, numbered)
            return take(model, send(packed, model.device) if on_host else packed, tables[model], layout)

        return self._share_out(lengths, compute, models, batch_size)

    def _share_out(
        self,
        lengths: Ints,
        compute: Compute,
        models: Sequence[NaviModel] = (),
        batch_size: int | None = None,
    ) -> Batches:
        """Yield what `compute` makes of rows or texts of these lengths, batch by batch, on all devices.

        A batch that does not fit in memory is tried again in halves. A GPU has begun its next batch before the host
        takes what came of the last.
        """
        models = models or self._models
        idle: SimpleQueue[NaviModel] = SimpleQueue()
        for model in models:
            idle.put(model)

        def encode(places: Ints) -> list[tuple[Ints, Fetch]]:
            model = idle.get()
            device = model.device
            try:
                with torch.inference_mode(), activate(device):
                    return [(places, fetch_later(compute(model, places), device))]
            except torch.OutOfMemoryError as error:
                if len(places) == 1:
                    raise ModelError(
                        f"One row of {lengths[places[0]]} tokens does not fit in the memory of {device}. "
                        "Lower max_tokens, or use another device."
                    ) from error
                logger.warning("Out of memory with %d rows; trying again with half as many.", len(places))
                self.tokens_per_batch = max(1, self.tokens_per_batch // 2)
            finally:
                idle.put(model)
            torch.cuda.empty_cache()
            return [batch for half in np.array_split(places, 2) for batch in encode(half)]

        groups = group_by_length(lengths, self.tokens_per_batch, batch_size)
        workers = len(models) if len(models) > 1 else 0  # handing batches to one thread costs, and brings nothing
        last: tuple[Ints, Fetch] | None = None
        for batch in chain.from_iterable(prefetch(groups, encode, workers=workers, ahead=2 * workers)):
            if last is not None:
                yield last[0], last[1]()
            last = batch
        if last is not None:
            yield last[0], last[1]()


def sort_cells(arrays: SegmentArrays) -> SegmentArrays:
    """Return rows with their cells in an order that headers and values give, whatever the order of columns was."""
    hashes = []
    for offsets, tokens in (
        (arrays.header_offsets, arrays.header_tokens),
        (arrays.value_offsets, arrays.value_tokens),
    ):
        places = count_up(np.diff(offsets)).astype(np.uint64)
        hashes.append(hash_rows(mix(tokens.astype(np.uint64), places), offsets))
    segments = arrays.row_segments
    header, value = hashes[0][arrays.segment_header[segments]], hashes[1][arrays.segment_value[segments]]
    return replace(arrays, row_segments=segments[np.lexsort((value, header, arrays.cell_row))])


def write_texts(layout: Layout, special: SpecialTokens, max_length: int, num_tokens: int | None = None) -> Sequences:
    """Return packed rows as texts, `header: value, header: value`, cut to a length.

    A GPU is not waited for if the number of their tokens is given.
    """
    length_R = layout.starts.diff().clamp(max=max_length)
    begin_R, row_T, within_T = lay_end_to_end(length_R, num_tokens, False)
    ids_T = layout.token_ids[layout.starts[row_T] + within_T]
    ids_T = torch.where(ids_T == special.sep, special.comma, ids_T)
    is_last_T = (within_T > 0) & (within_T == length_R[row_T] - 1)
    return Sequences(
        token_ids=torch.where(is_last_T, special.sep, ids_T),
        token_position=within_T,
        starts=torch.cat([begin_R, begin_R.new_full((1,), len(row_T))]),
    )


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


def take_parts(parts: Sequence[str], model: NaviModel, rows: Rows, table: Tensor, _: Layout) -> dict[str, Tensor]:
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
