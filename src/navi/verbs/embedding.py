"""Embeddings of rows, segments, headers and attributes, in the order of what was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from navi.batches import prefetch
from navi.batches.batch import FIRST_SLOT
from navi.corpus import ROLES, Encoded, SegmentArrays
from navi.errors import ConfigError
from navi.tables import Chunk, stream_tables
from navi.verbs.caching import CachingRunner, pack_texts
from navi.verbs.pool import Floats, Ints, Progress, RunnerPool, find_distinct

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, S segments, A attributes, D hidden size.

KINDS = ("rows", "segments", "headers", "attributes")
"""What can be embedded."""
POOLINGS = ("row", "cls", "mean", "values")
"""How a row becomes one vector."""
DTYPES = ("float32", "float16")
OUTPUTS = ("numpy", "torch")
Chunks = dict[str, list[Chunk]]
"""Rows of some tables."""
ATTRIBUTES_AT_ONCE = 4096
ROWS_AT_ONCE = 2048
"""Rows whose cells are in memory at a time while they are averaged."""
BLOCK_ROWS, FIRST_ROWS = 16384, 2048
"""Rows that are tokenised at a time beside a GPU, and those of the first block: until it is done, the GPU waits."""


@dataclass(frozen=True, kw_only=True)
class EmbedConfig:
    """How embeddings are made and handed out; the pooling alone changes their direction."""

    batch_size: int | None = None
    """Most rows of a batch; None leaves it to the token budget."""
    tokens_per_batch: int | None = None
    """Token budget of a batch; None for the device's own (4,096 on a CPU, 16,384 in int8, 262,144 on a GPU)."""
    normalize: bool = False
    """Scale each vector to length 1."""
    dtype: str = "float32"
    """Numbers that come out: float32 or float16."""
    output: str = "numpy"
    """Arrays that come out: numpy or torch."""
    pooling: str = "row"
    """What stands for a row: `row`, the model's own embedding of it; `cls`, the state of [CLS]; `mean`, that of its
    headers and values; or `values` alone."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "tokens_per_batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}.")
        for name, known in (("dtype", DTYPES), ("output", OUTPUTS), ("pooling", POOLINGS)):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got '{getattr(self, name)}'.")

    def finish(self, array: Floats) -> Any:
        """Return vectors as they are to come out; one of zeros stays so."""
        if self.normalize:
            array = normalize_rows(array)
        finished: NDArray[Any] = array.astype(self.dtype, copy=False)
        return torch.from_numpy(finished) if self.output == "torch" else finished


def normalize_rows(array: Floats) -> Floats:
    """Return each vector scaled to length 1; one of zeros stays so.

    >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths: Floats = np.linalg.norm(array, axis=1, keepdims=True).astype(np.float32)
    scaled: Floats = np.divide(array, lengths, out=np.zeros_like(array), where=lengths > 0)
    return scaled


def embed_parts(
    navi: Navi, encoded: Encoded, parts: Sequence[str], config: EmbedConfig, progress: Progress | None = None
) -> dict[str, Floats]:
    """Return parts of the runner's output for all encoded rows."""
    return navi.pool.embed(
        encoded.arrays,
        parts=parts,
        batch_size=config.batch_size,
        tokens_per_batch=config.tokens_per_batch,
        progress=progress,
    )


def embed_rows(
    navi: Navi,
    frames: Any,
    columns: Sequence[str] | None,
    config: EmbedConfig,
    progress: Progress | None = None,
) -> Floats:
    """Return (R, D): a vector for each row of the frames, one after the other; of rows without cells, zeros.

    Beside a GPU, the next rows are read and tokenised while the model runs on the last; equal rows then run once in
    each block.
    """
    row_number, chunks = stream_tables(frames, navi.read_config, columns)
    if navi.runner.device.type == "cuda" and count_rows(row_number) > BLOCK_ROWS:
        return embed_blocks(navi, row_number, cut_blocks(chunks, BLOCK_ROWS), config, progress)
    whole: Chunks = {}
    for name, chunk in chunks:
        whole.setdefault(name, []).append(chunk)
    encoded = navi.make_encoder().encode(whole)
    array = np.zeros((count_rows(row_number), navi.hidden_size), np.float32)
    array[place_rows(row_number, encoded)] = pool_rows(navi, encoded, config, progress)
    return array


def embed_blocks(
    navi: Navi,
    row_number: dict[str, Ints],
    blocks: Iterable[Chunks],
    config: EmbedConfig,
    progress: Progress | None = None,
) -> Floats:
    """Return what `embed_rows` does, block by block: one is read and one tokenised while two are encoded.

    Two, because the GPU would wait while the vectors of one are collected and the next is sent.
    """
    array = np.zeros((count_rows(row_number), navi.hidden_size), np.float32)

    def embed(encoded: Encoded) -> int:
        array[place_rows(row_number, encoded)] = pool_rows(navi, encoded, config)
        return encoded.arrays.num_rows

    tokenised = prefetch(blocks, navi.make_encoder().encode, ahead=1)
    for done in prefetch(tokenised, embed, workers=2, ahead=1):
        if progress is not None:
            progress(done, len(array))
    return array


def cut_blocks(chunks: Iterable[tuple[str, Chunk]], num_rows: int, first_rows: int = FIRST_ROWS) -> Iterator[Chunks]:
    """Yield the chunks of tables in blocks of so many rows, or of one chunk, in their order.

    The first block has the first rows of the first chunk alone.
    """
    block: Chunks = {}
    room = 0
    for name, chunk in _cut_first(chunks, first_rows):
        if block and chunk.num_rows > room:
            yield block
            block, room = {}, num_rows
        block.setdefault(name, []).append(chunk)
        room -= chunk.num_rows
    if block:
        yield block


def _cut_first(chunks: Iterable[tuple[str, Chunk]], num_rows: int) -> Iterator[tuple[str, Chunk]]:
    """Yield the chunks, the first of them in two if it has more than so many rows."""
    whole = iter(chunks)
    for name, chunk in islice(whole, 1):
        parts = chunk.cut(num_rows) if chunk.num_rows > num_rows else (chunk,)
        yield from ((name, part) for part in parts)
    yield from whole


def pool_rows(navi: Navi, encoded: Encoded, config: EmbedConfig, progress: Progress | None = None) -> Floats:
    """Return (R, D): a vector for each encoded row."""
    if config.pooling == "values":
        return embed_value_means(navi.pool, encoded.arrays, config=config, progress=progress)
    part = {"row": "rows", "cls": "cls", "mean": "means"}[config.pooling]
    return embed_parts(navi, encoded, (part,), config, progress)[part]


def embed_value_means(
    pool: RunnerPool,
    arrays: SegmentArrays,
    rows: Ints | None = None,
    *,
    config: EmbedConfig | None = None,
    progress: Progress | None = None,
) -> Floats:
    """Return (R, D): the mean of the states of a row's values; rows with equal cells run once.

    Headers and [CLS] have no part in it: they say which table a row is from, and drown what it is about.
    """
    config = config or EmbedConfig()
    rows = np.arange(arrays.num_rows) if rows is None else rows
    distinct, inverse = find_distinct(arrays, rows)
    means = np.zeros((len(distinct), pool.runners[0].model.config.hidden_size), np.float32)
    for start in range(0, len(distinct), ROWS_AT_ONCE):
        part = distinct[start : start + ROWS_AT_ONCE]
        values_SD = pool.embed(
            arrays,
            part,
            parts=("values",),
            batch_size=config.batch_size,
            tokens_per_batch=config.tokens_per_batch,
            progress=progress and (lambda done, _: progress(done, len(distinct))),
        )["values"]
        means[start : start + len(part)] = average_cells(values_SD, np.diff(arrays.row_offsets)[part])
    return means[inverse]


def average_cells(cells_SD: Floats, num_cells_R: Ints) -> Floats:
    """Return the mean of each row's cells, which stand row after row; a row without cells has zeros."""
    sums = np.concatenate([np.zeros((1, cells_SD.shape[1])), np.cumsum(cells_SD, axis=0, dtype=np.float64)])
    ends = np.cumsum(num_cells_R)
    means: Floats = (sums[ends] - sums[ends - num_cells_R]) / np.maximum(num_cells_R, 1)[:, None]
    return means.astype(np.float32)


def count_rows(row_number: dict[str, Ints]) -> int:
    """Return how many rows some tables have together."""
    return sum(map(len, row_number.values()))


def place_rows(row_number: dict[str, Ints], encoded: Encoded) -> Ints:
    """Return where each encoded row stands among all rows of the tables, those without cells counted."""
    starts = dict(zip(row_number, accumulate(map(len, row_number.values()), initial=0), strict=False))
    places = np.zeros(encoded.arrays.num_rows, np.int64)
    for table, name in enumerate(encoded.tables):
        own = encoded.arrays.row_table == table
        places[own] = starts[name] + np.searchsorted(row_number[name], encoded.row_number[own])
    return places


def embed_cells(
    navi: Navi, encoded: Encoded, kind: str, config: EmbedConfig, progress: Progress | None = None
) -> Floats:
    """Return (S, D): a vector for each cell, row after row; `kind` is segments or headers."""
    return embed_parts(navi, encoded, (kind,), config, progress)[kind]


def embed_attributes(runner: CachingRunner, arrays: SegmentArrays, attributes: Ints | None = None) -> Floats:
    """Return (A, D): the context-free vector of each attribute, or of those chosen."""
    attributes = np.arange(len(arrays.attribute_offsets) - 1) if attributes is None else attributes
    parts = np.array_split(attributes, max(1, -(-len(attributes) // ATTRIBUTES_AT_ONCE)))
    return np.concatenate([_embed_attributes(runner, arrays, part) for part in parts])


@torch.inference_mode()
def _embed_attributes(runner: CachingRunner, arrays: SegmentArrays, attributes: Ints) -> Floats:
    table = runner.attributes.embed(pack_texts(arrays.attribute_offsets, arrays.attribute_tokens, attributes))
    embedded: Floats = table[FIRST_SLOT:].float().cpu().numpy()
    return embedded


def index_rows(encoded: Encoded) -> pa.Table:
    """Return the table and the row number, from 1, of each encoded row."""
    return pa.table({"table": _take(encoded.tables, encoded.arrays.row_table), "row": encoded.row_number})


def index_cells(encoded: Encoded) -> pa.Table:
    """Return table, row number, header and role of each cell, row after row."""
    arrays = encoded.arrays
    row_C = arrays.cell_row
    header_C = arrays.segment_header[arrays.row_segments]
    return pa.table(
        {
            "table": _take(encoded.tables, arrays.row_table[row_C]),
            "row": encoded.row_number[row_C],
            "header": pa.DictionaryArray.from_arrays(pa.array(header_C), encoded.headers.cast(pa.string())),
            "role": _take(ROLES, arrays.column_role[arrays.cell_column]),
        }
    )


def _take(names: Sequence[str], codes: NDArray[Any]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


@contextmanager
def progress_bar(label: str, *, show: bool) -> Iterator[Progress | None]:
    """Give a progress function that draws a bar on stderr, or None when none is to be shown."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task(label)
        yield lambda done, total: bar.update(task, advance=done, total=total)
