"""Embedding: vectors of rows, segments and headers of frames in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import prefetch
from navi.corpus import ROLES, Encoded
from navi.corpus.arrays import SegmentArrays
from navi.errors import ConfigError
from navi.model.runner import Floats, Progress
from navi.tables import Chunk, stream_tables

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, S segments, A attributes, D hidden size.

Vectors = NDArray[np.float32] | NDArray[np.float16] | Tensor
"""Embeddings as they come out, one a line."""
POOLINGS = {"text": "texts", "cls": "cls", "mean": "means", "values": "value_means"}
"""How a row becomes one vector, and what the runner calls that."""
DTYPES = ("float32", "float16")
OUTPUTS = ("numpy", "torch")
FIRST_ROWS, BLOCK_ROWS = 2048, 16384
"""Rows that are tokenised at a time: at first, beside a GPU, which waits until they are done, and later."""
BLOCKS_AT_ONCE = 2
"""Blocks that are on their way through a GPU: it would wait while the vectors of a single one are collected."""


@dataclass(frozen=True, kw_only=True)
class EmbedConfig:
    """How embeddings are made and handed out; the pooling alone changes their direction."""

    batch_size: int | None = None
    """Most rows of a batch; None leaves it to the model's token budget."""
    normalize: bool = False
    """Scale each vector to length 1."""
    dtype: str = "float32"
    """Numbers that come out: float32 or float16."""
    output: str = "numpy"
    """Arrays that come out: numpy or torch."""
    pooling: str | None = None
    """What stands for a row: `text`, the row read as a sentence, `header: value, header: value`; `cls`, the state of
    [CLS], as in the paper; `mean`, that of its headers and values; `values` alone. None for the model's own: `cls` in
    one of the paper's preset, else `text`."""

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {self.batch_size}.")
        for name, known in (("dtype", DTYPES), ("output", OUTPUTS), ("pooling", POOLINGS)):
            if getattr(self, name) not in (*known, *([None] if name == "pooling" else [])):
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got '{getattr(self, name)}'.")

    def finish(self, array: Floats) -> Vectors:
        """Return vectors as they are to come out; one of zeros stays so."""
        if self.normalize:
            array = normalize_rows(array)
        finished: NDArray[np.float32] = array.astype(self.dtype, copy=False)
        return torch.from_numpy(finished) if self.output == "torch" else finished


def normalize_rows(array: Floats) -> Floats:
    """Return each vector scaled to length 1; one of zeros stays so.

    >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths: Floats = np.linalg.norm(array, axis=1, keepdims=True).astype(np.float32)
    scaled: Floats = np.divide(array, lengths, out=np.zeros_like(array), where=lengths > 0)
    return scaled


def embed_frames(
    navi: Navi, frames: Any, columns: Sequence[str] | None, config: EmbedConfig, progress: Progress | None = None
) -> Floats:
    """Return (R, D): a vector for each row of the frames, one after the other; of rows without cells, zeros.

    Rows come in blocks, so that the vectors alone grow with the frames: the next is read and tokenised while the model
    runs. Beside a GPU it runs on two, so that it need not wait while the vectors of one are collected.
    """
    on_gpu = navi.runner.device.type == "cuda"
    row_number, chunks = stream_tables(frames, navi.read_config, columns)
    ends = np.cumsum([len(numbers) for numbers in row_number.values()])
    starts = dict(zip(row_number, [0, *ends[:-1]], strict=True))
    array = np.zeros((ends[-1], navi.hidden_size), np.float32)

    def embed(encoded: Encoded) -> None:
        places = np.zeros(encoded.arrays.num_rows, np.int64)
        for table, name in enumerate(encoded.tables):
            own = encoded.arrays.row_table == table
            places[own] = starts[name] + np.searchsorted(row_number[name], encoded.row_number[own])
        report = progress and (lambda done, _: progress(done, len(array)))
        array[places] = embed_arrays(navi, encoded.arrays, "rows", config, report)

    groups = group_chunks(chunks, BLOCK_ROWS, FIRST_ROWS if on_gpu and len(array) > BLOCK_ROWS else None)
    blocks = encode_ahead(navi, groups)
    for _ in prefetch(blocks, embed, workers=BLOCKS_AT_ONCE if on_gpu else 0, ahead=BLOCKS_AT_ONCE - 1):
        pass
    return array


def embed_arrays(
    navi: Navi, arrays: SegmentArrays, kind: str, config: EmbedConfig, progress: Progress | None = None
) -> Floats:
    """Return a vector for each encoded row, (R, D), or for the segment or header of each cell, (S, D)."""
    part = POOLINGS[config.pooling or navi.pooling] if kind == "rows" else kind
    return navi.runner.embed(arrays, parts=(part,), batch_size=config.batch_size, progress=progress)[part]


def group_chunks(
    chunks: Iterable[tuple[str, Chunk]], num_rows: int, first_rows: int | None = None
) -> Iterator[dict[str, list[Chunk]]]:
    """Yield the chunks of tables, in their order, together up to so many rows; first of all, `first_rows` alone."""
    group: dict[str, list[Chunk]] = {}
    left = num_rows
    for name, chunk in chunks:
        if first_rows is not None and chunk.num_rows > first_rows:
            begun, chunk = chunk.cut(first_rows)
            yield {name: [begun]}
        first_rows = None
        if group and chunk.num_rows > left:
            yield group
            group, left = {}, num_rows
        group.setdefault(name, []).append(chunk)
        left -= chunk.num_rows
    if group:
        yield group


def encode_ahead(navi: Navi, groups: Iterable[Mapping[str, list[Chunk]]]) -> Iterator[Encoded]:
    """Yield rows of tables as the model sees them, each next group tokenised in a thread meanwhile."""
    return prefetch(groups, navi.make_encoder().encode, ahead=1)


def index_cells(encoded: Encoded) -> pa.Table:
    """Return table, row number, header and role of each cell, row after row."""
    arrays = encoded.arrays
    header_C = arrays.segment_header[arrays.row_segments]
    return pa.table(
        {
            "table": take_names(encoded.tables, arrays.row_table[arrays.cell_row]),
            "row": encoded.row_number[arrays.cell_row],
            "header": pa.DictionaryArray.from_arrays(pa.array(header_C), encoded.headers.cast(pa.string())),
            "role": take_names(ROLES, arrays.column_role[arrays.cell_column]),
        }
    )


def take_names(names: Sequence[str], codes: NDArray[Any]) -> pa.DictionaryArray:
    """Return the name that each code stands for."""
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
