"""Embedding: vectors of rows, segments, headers and attributes, of frames in memory and of files of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from navi.batches import prefetch
from navi.corpus import ROLES, Encoded
from navi.errors import ConfigError, TableError
from navi.files import check_target, write_file
from navi.model.runner import Floats, Progress
from navi.tables import Chunk, ReadReport, Source, find_sources, read_chunks, stream_tables

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, S segments, A attributes, D hidden size.

Vectors = NDArray[np.float32] | NDArray[np.float16] | Tensor
"""Embeddings as they come out, one a line."""
KINDS = ("rows", "segments", "headers", "attributes")
"""What can be embedded."""
POOLINGS = {"row": "rows", "cls": "cls", "mean": "means", "values": "value_means"}
"""How a row becomes one vector, and what the runner calls that."""
DTYPES = ("float32", "float16")
OUTPUTS = ("numpy", "torch")
FIRST_ROWS, BLOCK_ROWS = 2048, 16384
"""Rows that are tokenised at a time beside a GPU, at first and later: until the first are done, the GPU waits."""
FILE_ROWS = {"rows": 8192, "segments": 2048, "headers": 2048, "attributes": 8192}
"""Rows of files that are in memory at a time; a row has many cells, each with a vector."""
ROLE_ROWS = 65_536
"""Rows of a file that decide on the roles of its columns; a column first met after them has none."""


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

    Beside a GPU, rows come in blocks: the next is read and tokenised while the model runs on two, so that it need not
    wait while the vectors of one are collected; equal rows then run once in each block. Beside a CPU that costs time.
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
        array[places] = embed_encoded(navi, encoded, "rows", config, report)

    if on_gpu and len(array) > BLOCK_ROWS:
        blocks = encode_ahead(navi, group_chunks(chunks, BLOCK_ROWS, FIRST_ROWS))
        for _ in prefetch(blocks, embed, workers=2, ahead=1):
            pass
    else:
        for group in group_chunks(chunks, len(array)):
            embed(navi.make_encoder().encode(group))
    return array


def embed_encoded(
    navi: Navi, encoded: Encoded, kind: str, config: EmbedConfig, progress: Progress | None = None
) -> Floats:
    """Return a vector for each encoded row, (R, D), or for the segment or header of each cell, (S, D)."""
    part = POOLINGS[config.pooling] if kind == "rows" else kind
    return navi.runner.embed(
        encoded.arrays,
        parts=(part,),
        batch_size=config.batch_size,
        tokens_per_batch=config.tokens_per_batch,
        progress=progress,
    )[part]


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
            "table": _take(encoded.tables, arrays.row_table[arrays.cell_row]),
            "row": encoded.row_number[arrays.cell_row],
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


@dataclass(frozen=True, kw_only=True)
class EmbeddedFiles:
    """What was written, and what was lost in reading."""

    path: Path
    """The Parquet file."""
    num_vectors: int
    """Vectors written."""
    reports: dict[str, ReadReport]
    """What reading lost of each table."""
    skipped: tuple[tuple[Path, str], ...]
    """Files that are no tables, each with the reason."""


def embed_files(
    navi: Navi,
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    kind: str = "rows",
    config: EmbedConfig | None = None,
    progress: Callable[[str, int], None] | None = None,
    overwrite: bool = False,
) -> EmbeddedFiles:
    """Embed the rows, segments, headers or attributes of files and write them to Parquet, in the order of the files.

    Each line has the table, the row's number in its file, for segments and headers also the header and its role, and
    the vector as a list of fixed size; attributes come once each, with their text alone. Memory does not grow with the
    files. `progress` is called with a table and how many of its rows were just done. The file appears when it is whole.
    """
    if kind not in KINDS:
        raise ConfigError(f"Cannot embed '{kind}'. Expected one of {', '.join(KINDS)}.")
    check_parquet(Path(out), paths, overwrite=overwrite)
    found = find_sources(paths)
    make_lines = _LineMaker(navi, kind, replace(config or EmbedConfig(), output="numpy"))
    reports = {source.name: ReadReport() for source in found.sources}
    num_vectors = 0
    with write_file(Path(out), overwrite=overwrite) as aside, ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for encoded in encode_files(navi, found.sources, FILE_ROWS[kind], reports, make_lines.survey):
            lines = make_lines(encoded)
            writer = writer or stack.enter_context(pq.ParquetWriter(aside, lines.schema, compression="zstd"))
            writer.write_table(lines)
            num_vectors += lines.num_rows
            for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                if progress is not None:
                    progress(encoded.tables[table], int(count))
        if not num_vectors:
            raise TableError(f"No table in {', '.join(map(str, paths))} has any row.")
    return EmbeddedFiles(path=Path(out), num_vectors=num_vectors, reports=reports, skipped=found.skipped)


def check_parquet(path: Path, inputs: Sequence[str | Path], *, overwrite: bool) -> None:
    """Refuse, before any work, a file that could or should not be written, or whose name promises another format."""
    if path.suffix.lower() != ".parquet":
        raise ConfigError(f"Cannot write {path}: vectors go to Parquet, so its suffix must be .parquet.")
    check_target(path, map(Path, inputs), overwrite=overwrite)


def encode_files(
    navi: Navi,
    sources: Sequence[Source],
    num_rows: int,
    reports: Mapping[str, ReadReport] | None = None,
    before: Callable[[Source], None] = lambda source: None,
) -> Iterator[Encoded]:
    """Yield the rows of files as the model sees them, so many at a time; small tables come together.

    What is lost goes into the table's report. `before` is called with each file before it is read.
    """
    config = replace(navi.read_config, chunk_rows=num_rows)

    def read() -> Iterator[tuple[str, Chunk]]:
        for source in sources:
            before(source)
            report = reports[source.name] if reports else ReadReport()
            yield from ((source.name, chunk) for chunk in read_chunks(source, report, config))

    return encode_ahead(navi, group_chunks(read(), num_rows))


class _LineMaker:
    """Makes the lines that are written of encoded rows: what they are of, and the vectors."""

    def __init__(self, navi: Navi, kind: str, config: EmbedConfig) -> None:
        self._navi, self._kind, self._config = navi, kind, config
        self._encoder = navi.make_encoder()
        self._roles: dict[tuple[str, str], str] = {}
        self._attributes: set[str] = set()

    def survey(self, source: Source) -> None:
        """Find the roles of a table's columns by its first rows: its cells are written before its end is read."""
        if self._kind not in ("segments", "headers"):
            return
        config = replace(self._navi.read_config, chunk_rows=FILE_ROWS[self._kind])
        chunks = ((source.name, chunk) for chunk in read_chunks(source, ReadReport(), config))
        for group in islice(group_chunks(chunks, ROLE_ROWS), 1):
            encoded = self._encoder.encode(group)
            headers = encoded.headers.take(pa.array(encoded.arrays.column_header)).to_pylist()
            roles = [ROLES[role] for role in encoded.arrays.column_role]
            self._roles.update(zip([(source.name, header) for header in headers], roles, strict=True))

    def __call__(self, encoded: Encoded) -> pa.Table:
        """Return the lines of some encoded rows."""
        if self._kind == "attributes":
            texts = encoded.attributes.to_pylist()
            new = np.flatnonzero([text not in self._attributes for text in texts])
            self._attributes.update(texts)
            lines = pa.table({"attribute": encoded.attributes.take(pa.array(new)).cast(pa.string())})
            vectors = self._navi.runner.embed_attributes(encoded.arrays, new)
        else:
            vectors = embed_encoded(self._navi, encoded, self._kind, self._config)
            lines = self._index(encoded)
        flat = pa.array(np.asarray(self._config.finish(vectors)).reshape(-1))
        return lines.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]))

    def _index(self, encoded: Encoded) -> pa.Table:
        if self._kind == "rows":
            lines = pa.table({"table": _take(encoded.tables, encoded.arrays.row_table), "row": encoded.row_number})
        else:
            lines = index_cells(encoded)
            keys = zip(lines["table"].to_pylist(), lines["header"].to_pylist(), strict=True)
            lines = lines.set_column(3, "role", pa.array([self._roles.get(key) for key in keys], pa.string()))
        # Dictionaries would differ from one part of a file to the next.
        plain = [
            pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in lines.schema
        ]
        return lines.cast(pa.schema(plain))
