"""Embeddings of files of any size, streamed to Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from navi.corpus import ROLES, Encoded
from navi.errors import ConfigError, TableError
from navi.tables import Chunk, ReadReport, Source, find_sources, read_chunks
from navi.verbs.embedding import (
    KINDS,
    EmbedConfig,
    embed_attributes,
    embed_cells,
    index_cells,
    index_rows,
    pool_rows,
)

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

ROWS_AT_ONCE = {"rows": 8192, "segments": 2048, "headers": 2048, "attributes": 8192}
"""Rows that are in memory at a time; a row has many cells, each with a vector."""
ROLE_ROWS = 65_536
"""Rows of a table that tell the roles of its columns; a column first met after them has none."""
SUFFIX = ".parquet"
"""How the name of the file that is written ends."""
Item = TypeVar("Item")


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
) -> EmbeddedFiles:
    """Embed the rows, segments, headers or attributes of files and write them to Parquet, in the order of the files.

    Each line has the table, the row's number in its file, for segments and headers also the header and its role, and
    the vector as a list of fixed size; attributes come once each, with their text alone. Memory does not grow with the
    files. `progress` is told the table and how many of its rows were just done. The file appears when it is whole.
    """
    if kind not in KINDS:
        raise ConfigError(f"Cannot embed '{kind}'. Expected one of {', '.join(KINDS)}.")
    check_parquet(Path(out))
    found = find_sources(paths)
    embedder = FileEmbedder(navi, found.sources, kind, config or EmbedConfig())
    with write_parquet(Path(out)) as write:
        num_vectors = 0
        for encoded in read_ahead(embedder.read()):
            lines = embedder.embed(encoded)
            num_vectors += lines.num_rows
            write(lines)
            for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                if progress is not None:
                    progress(encoded.tables[table], int(count))
        if not num_vectors:
            raise TableError(f"No table in {', '.join(map(str, paths))} has any row.")
    return EmbeddedFiles(path=Path(out), num_vectors=num_vectors, reports=embedder.reports, skipped=found.skipped)


class FileEmbedder:
    """Reads files some rows at a time and embeds these."""

    def __init__(self, navi: Navi, sources: Sequence[Source], kind: str, config: EmbedConfig) -> None:
        self._navi, self._sources, self._kind = navi, sources, kind
        self._encoder = navi.make_encoder()
        self._config = replace(config, output="numpy")
        self._read_config = replace(navi.read_config, chunk_rows=ROWS_AT_ONCE[kind])
        self._roles: dict[tuple[str, str], str] = {}
        self._attributes: set[str] = set()
        self.reports = {source.name: ReadReport() for source in sources}

    def read(self) -> Iterator[Encoded]:
        """Yield the rows of all files, encoded; small tables come together."""
        group: dict[str, list[Chunk]] = {}
        num_rows = 0
        for source in self._sources:
            if self._kind in ("segments", "headers"):
                self._survey_roles(source)
            for chunk in read_chunks(source, self.reports[source.name], self._read_config):
                if group and num_rows + chunk.num_rows > ROWS_AT_ONCE[self._kind]:
                    yield self._encoder.encode(group)
                    group, num_rows = {}, 0
                group.setdefault(source.name, []).append(chunk)
                num_rows += chunk.num_rows
        if group:
            yield self._encoder.encode(group)

    def embed(self, encoded: Encoded) -> pa.Table:
        """Return the lines of some encoded rows: what they are of, and the vectors."""
        navi, config = self._navi, self._config
        if self._kind == "attributes":
            texts = encoded.attributes.to_pylist()
            new = np.flatnonzero([text not in self._attributes for text in texts])
            self._attributes.update(texts)
            lines = pa.table({"attribute": encoded.attributes.take(pa.array(new)).cast(pa.string())})
            vectors = embed_attributes(navi.runner, encoded.arrays, new)
        else:
            is_rows = self._kind == "rows"
            vectors = pool_rows(navi, encoded, config) if is_rows else embed_cells(navi, encoded, self._kind, config)
            lines = index_rows(encoded) if is_rows else self._index_cells(encoded)
        return lines.append_column("embedding", make_vectors(config.finish(vectors)))

    def _index_cells(self, encoded: Encoded) -> pa.Table:
        lines = index_cells(encoded)
        keys = zip(lines["table"].to_pylist(), lines["header"].to_pylist(), strict=True)
        return lines.set_column(3, "role", pa.array([self._roles.get(key) for key in keys], pa.string()))

    def _survey_roles(self, source: Source) -> None:
        """Tell the roles of a table's columns from its first rows: its cells are written before its end is read."""
        encoded = self._encoder.encode(
            {source.name: _take_rows(read_chunks(source, ReadReport(), self._read_config), ROLE_ROWS)}
        )
        arrays = encoded.arrays
        for header, role in zip(encoded.headers.take(pa.array(arrays.column_header)), arrays.column_role, strict=True):
            self._roles[source.name, header.as_py()] = ROLES[role]


def _take_rows(chunks: Iterator[Chunk], num_rows: int) -> list[Chunk]:
    taken: list[Chunk] = []
    for chunk in chunks:
        taken.append(chunk)
        num_rows -= chunk.num_rows
        if num_rows <= 0:
            break
    return taken


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items, each next one made in a thread while the present one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="navi-files") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def make_vectors(array: NDArray[Any]) -> pa.FixedSizeListArray:
    """Return (N, D) numbers as an Arrow column of N lists of size D."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])


def check_parquet(path: Path) -> None:
    """Refuse, before any work, a file that could not be written, or whose name promises another format."""
    if path.suffix.lower() != SUFFIX:
        raise ConfigError(f"Cannot write {path}: vectors go to Parquet, so its suffix must be {SUFFIX}.")
    if not path.parent.is_dir():
        raise ConfigError(f"Cannot write {path}: there is no folder {path.parent}. Make it first.")


@contextmanager
def write_parquet(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Give a function that appends tables of one schema; the file takes its place when all went well."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    writer: pq.ParquetWriter | None = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        plain = table.cast(pa.schema([_plain(field) for field in table.schema]))
        writer = writer or pq.ParquetWriter(unfinished, plain.schema, compression="zstd")
        writer.write_table(plain)

    try:
        yield write
        if writer is not None:
            writer.close()
            unfinished.replace(path)
    finally:
        if writer is not None:
            writer.close()
        unfinished.unlink(missing_ok=True)


def _plain(field: pa.Field) -> pa.Field:
    """Return the field without a dictionary, which would differ from one part of a file to the next."""
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field
