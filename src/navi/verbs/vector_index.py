"""An index of vectors that were written to Parquet or Lance: compressed, memory-mapped, made in blocks, and added to.

faiss sorts vectors into lists and keeps a code of at most 48 bytes of each, and 8 for its number (IVF-PQ). A query goes
through the codes of a few lists; the best are compared again by their vectors, which stay on disk in half precision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from navi.errors import ConfigError, MissingExtraError, ModelError, TableError
from navi.files import lock, open_binary, read_json, remove_leftovers, write_json
from navi.model.runner import Floats, Ints
from navi.storage import is_remote
from navi.verbs.row_similarity import FIT_ROWS, Whitening
from navi.verbs.vector_files import VECTORS_KEY, is_folder, list_shards

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: N vectors, D hidden size, Q queries.

MAX_CODES = 48
"""Bytes of a vector's code, at most."""
MAX_LISTS = 8192
SAMPLE_PER_LIST = 40
"""Vectors for each list that the lists are found by."""
SAMPLE_ROWS = 4096
"""Vectors next to each other that a space is fitted to, a share of many."""
BLOCK = 65_536
"""Vectors that are in memory at a time."""
CANDIDATES = 200
"""Vectors that are compared exactly for each query, at least."""
RECALL, ASKED_ROWS = 0.97, 100
"""Share of the ten nearest that must be found, and the number of rows it is measured on when an index is made."""
FORMAT_VERSION = 2
INDEX_FILE, SPACE_FILE, VECTORS_FILE = "vectors.json", "space.npz", "vectors.f16"
REMEDY = "Remove the index and build it again."


def import_faiss() -> Any:
    """Return faiss, or say which extra brings it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("An index for large tables", "index") from error
    return faiss


def build_lists(vectors_ND: NDArray[Any]) -> Any:
    """Return a faiss index of unit vectors, by inner product, made block by block.

    As many lists are asked for each query as it takes to find `RECALL` of the nearest of some of these rows.
    """
    faiss = import_faiss()
    num, size = vectors_ND.shape
    num_lists = max(1, min(MAX_LISTS, num // SAMPLE_PER_LIST, int(2 * num**0.5)))
    sample = np.sort(np.random.default_rng(0).permutation(num)[: max(SAMPLE_PER_LIST * num_lists, 10_000)])
    codes = max(divisor for divisor in range(1, MAX_CODES + 1) if size % divisor == 0)
    # A code byte stands for 256 pieces, which need as many vectors to be learned from.
    bits = 8 if len(sample) >= 256 else max(1, int(np.log2(len(sample))))
    index = faiss.index_factory(size, f"IVF{num_lists},PQ{codes}x{bits}", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
    index.cp.niter = 10
    index.do_polysemous_training = False  # would order codes for filters that nothing uses: nine tenths of the time
    index.train(np.ascontiguousarray(vectors_ND[sample], np.float32))
    add_vectors(index, vectors_ND)
    index.nprobe = _choose_lists(index, vectors_ND)
    return index


def add_vectors(index: Any, vectors_ND: NDArray[Any]) -> None:
    """Add vectors to an index, block by block."""
    for start in range(0, len(vectors_ND), BLOCK):
        index.add(np.ascontiguousarray(vectors_ND[start : start + BLOCK], np.float32))


def find_nearest(vectors_ND: NDArray[Any], query_D: Floats, k: int) -> Ints:
    """Return the k nearest of all vectors, by comparing with each."""
    scores = np.concatenate(
        [vectors_ND[start : start + BLOCK].astype(np.float32) @ query_D for start in range(0, len(vectors_ND), BLOCK)]
    )
    nearest = np.argpartition(-scores, min(k, len(scores)) - 1)[:k]
    found: Ints = nearest[np.argsort(-scores[nearest], kind="stable")]
    return found


def _choose_lists(index: Any, vectors_ND: NDArray[Any]) -> int:
    """Return how many lists to ask: the fewest, doubling from 8, that find enough of the nearest of some rows."""
    asked = np.random.default_rng(1).permutation(len(vectors_ND))[:ASKED_ROWS]
    exact = [set(find_nearest(vectors_ND, vectors_ND[row].astype(np.float32), 11)) - {row} for row in asked]
    index.nprobe = 8
    while index.nprobe < index.nlist:
        found = [rerank(index, vectors_ND, vectors_ND[row].astype(np.float32), 11)[0] for row in asked]
        hits = sum(len(near & set(ids)) for near, ids in zip(exact, found, strict=True))
        if hits >= RECALL * sum(map(len, exact)):
            break
        index.nprobe *= 2
    return int(min(index.nprobe, index.nlist))


def rerank(index: Any, vectors_ND: NDArray[Any], query_D: Floats, k: int) -> tuple[Ints, Floats]:
    """Return the k nearest vectors that the index proposes, nearest first, and their inner products."""
    proposed = np.sort(index.search(query_D[None], min(max(CANDIDATES, 10 * k), len(vectors_ND)))[1][0])
    proposed = proposed[proposed >= 0]
    scores = vectors_ND[proposed].astype(np.float32) @ query_D
    best = np.argsort(-scores, kind="stable")[:k]
    return proposed[best], scores[best]


def read_lists(file: Path) -> Any:
    """Open a faiss index whose codes stay on disk, memory-mapped."""
    faiss = import_faiss()
    return faiss.read_index(str(file), faiss.IO_FLAG_MMAP)


class LanceFile:
    """A Lance dataset of vectors, read as a `ParquetFile` is."""

    def __init__(self, path: Path) -> None:
        try:
            import lance
        except ImportError as error:
            raise MissingExtraError("A Lance dataset", "lance") from error
        self._dataset = lance.dataset(str(path))
        self.schema_arrow: pa.Schema = self._dataset.schema
        self.metadata = SimpleNamespace(num_rows=self._dataset.count_rows())
        self.num_row_groups = -(-self.metadata.num_rows // SAMPLE_ROWS)

    def iter_batches(
        self, batch_size: int, row_groups: Sequence[int] | None = None, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, or those of some groups of `SAMPLE_ROWS`."""
        firsts = [None] if row_groups is None else [SAMPLE_ROWS * group for group in row_groups]
        for first in firsts:
            limit = None if first is None else SAMPLE_ROWS
            yield from self._dataset.to_batches(columns=columns, batch_size=batch_size, offset=first, limit=limit)


VectorFile: TypeAlias = pq.ParquetFile | LanceFile


@dataclass(frozen=True, kw_only=True)
class VectorIndex:
    """Vectors of Parquet files or Lance datasets, ready to be searched."""

    folder: Path
    facts: dict[str, Any]
    whitening: Whitening
    """The space that vectors are compared in."""
    vectors: Any
    """(N, D) unit vectors, on disk."""
    lists: Any
    """The faiss index."""
    rows: pa.Table
    """(N,) all other columns of the files, such as `table` and `row`."""

    @classmethod
    def build(cls, path: str | Path, folder: str | Path) -> Self:
        """Make an index of a Parquet file of vectors, a folder of shards or a Lance dataset, and open it."""
        folder = Path(folder)
        if folder.exists():
            raise ConfigError(f"{folder} exists. Remove it to build the index again, or search it as it is.")
        files, described = _find_vectors(Path(path))
        folder.mkdir()
        sample = np.concatenate([*_read_sample(files)])
        whitening = Whitening.fit(sample)
        np.savez(folder / SPACE_FILE, mean=whitening.mean, directions=whitening.directions)
        return cls._extend(folder, {**described, "format_version": FORMAT_VERSION, "parts": 0, "num_vectors": 0}, files)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open an index; codes, vectors and rows stay on disk, memory-mapped."""
        folder = Path(folder)
        facts = read_json(folder / INDEX_FILE, ConfigError, REMEDY)
        if facts.get("format_version") != FORMAT_VERSION:
            raise ConfigError(f"The index in {folder} has another format than this version reads. {REMEDY}")
        try:
            whitening = _open_space(folder)
            shape = (facts["num_vectors"], len(whitening.mean))
            vectors = np.memmap(folder / VECTORS_FILE, np.float16, "r", shape=shape)
            maps = [pa.memory_map(str(folder / f"rows-{part}.arrow")) for part in range(facts["parts"])]
            rows = pa.concat_tables([pa.ipc.open_file(each).read_all() for each in maps])
            lists = read_lists(folder / f"nearest-{facts['parts'] - 1}.faiss")
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, pa.ArrowException) as error:
            raise ConfigError(f"Cannot read the index in {folder}: {error}. {REMEDY}") from error
        if not lists.ntotal == len(rows) == len(vectors):
            raise ConfigError(f"The files of the index in {folder} do not fit together. {REMEDY}")
        return cls(folder=folder, facts=facts, whitening=whitening, vectors=vectors, lists=lists, rows=rows)

    def add(self, path: str | Path) -> VectorIndex:
        """Add the vectors of more files, and open the index again; what is there is not made again."""
        files, described = _find_vectors(Path(path))
        differs = [name for name in described if described[name] != self.facts.get(name)]
        if differs:
            raise ConfigError(f"The vectors of {path} have another {', '.join(differs)} than those of {self.folder}.")
        return self._extend(self.folder, self.facts, files)

    @classmethod
    def _extend(cls, folder: Path, facts: dict[str, Any], files: Sequence[VectorFile]) -> Self:
        """Write one more part, and a faiss index of all; the index counts as changed when its JSON file is."""
        with lock(folder, inside=True):
            remove_leftovers(folder)
            if facts["parts"]:  # others may have added to it since it was opened
                facts = read_json(folder / INDEX_FILE, ConfigError, REMEDY)
            number = facts["parts"]
            vectors = _append(folder, facts["num_vectors"], number, files)
            if number:
                lists = import_faiss().read_index(str(folder / f"nearest-{number - 1}.faiss"))
                add_vectors(lists, vectors)
            else:
                lists = build_lists(vectors)
            import_faiss().write_index(lists, str(folder / f"nearest-{number}.faiss"))
            changed = {**facts, "parts": number + 1, "num_vectors": lists.ntotal}
            write_json(folder / INDEX_FILE, changed, checksum=True)
            (folder / f"nearest-{number - 1}.faiss").unlink(missing_ok=True)
        return cls.open(folder)

    def search(self, vectors_QD: Floats, k: int = 10) -> list[pa.Table]:
        """Return for each vector a table of its k nearest: their columns in the files, and `similarity`."""
        if k < 1:
            raise ConfigError(f"k must be at least 1, got {k}.")
        answers = []
        for query in self.whitening.transform(vectors_QD):
            nearest, scores = rerank(self.lists, self.vectors, query, k)
            answers.append(self.rows.take(pa.array(nearest)).append_column("similarity", pa.array(scores)))
        return answers

    def search_like(self, navi: Navi, like: Any, k: int = 10) -> list[pa.Table]:
        """Return the k nearest rows for each row of a frame, embedded as those of the index were."""
        if navi.fingerprint != self.facts["model"]:
            raise ModelError(f"The vectors in {self.folder} were made with another model than {navi.folder}.")
        if self.facts["kind"] != "rows":
            raise ConfigError(f"{self.folder} has vectors of {self.facts['kind']}; rows are sought among rows.")
        chosen = {name: self.facts[name] for name in ("pooling", "normalize")}
        return self.search(np.asarray(navi.embed_rows(like, **chosen)), k)


def has_vectors(path: Path) -> bool:
    """Return whether a path is what `navi embed` wrote, or a Lance dataset of it."""
    try:
        return bool(_find_vectors(path)[0])
    except (ConfigError, TableError):
        return False


def _find_vectors(path: Path) -> tuple[list[VectorFile], dict[str, Any]]:
    """Return the files of vectors, and what is known of these."""
    files = list_shards(path)[1] if is_folder(path) else [path]
    try:
        opened = [_open_vectors(file) for file in files]
        described = json.loads((opened[0].schema_arrow.metadata or {})[VECTORS_KEY.encode()])
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise TableError(f"{path} is not a Parquet file of vectors that `navi embed` wrote: {error}.") from error
    return opened, described


def _open_vectors(file: Path) -> VectorFile:
    if file.suffix == ".lance":
        return LanceFile(file)
    return pq.ParquetFile(open_binary(file) if is_remote(file) else file)


def _to_numpy(batch: pa.RecordBatch) -> Floats:
    column = batch.column("embedding")
    flat: Floats = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return flat.reshape(len(column), -1)


def _read_sample(files: Sequence[VectorFile]) -> Iterator[Floats]:
    """Yield vectors of row groups all over the files, about as many as a whitening takes."""
    groups = [(file, group) for file in files for group in range(file.num_row_groups)]
    left = FIT_ROWS
    for place in np.random.default_rng(0).permutation(len(groups)):
        file, group = groups[place]
        for batch in file.iter_batches(SAMPLE_ROWS, row_groups=[group], columns=["embedding"]):
            if left <= 0:
                return
            left -= batch.num_rows
            yield _to_numpy(batch)


def _open_space(folder: Path) -> Whitening:
    space = np.load(folder / SPACE_FILE)
    return Whitening(space["mean"], space["directions"])


def _append(folder: Path, start: int, number: int, files: Sequence[VectorFile]) -> NDArray[np.float16]:
    """Write unit vectors in half precision behind the first `start`, and the columns beside them; return the new ones.

    What lies behind these is of a process that was killed.
    """
    whitening = _open_space(folder)
    size = len(whitening.mean)
    names = [name for name in files[0].schema_arrow.names if name != "embedding"]
    schema = pa.schema([files[0].schema_arrow.field(name) for name in names])
    target, num = folder / VECTORS_FILE, sum(file.metadata.num_rows for file in files)
    with (
        target.open("r+b" if start else "wb") as vectors,
        pa.OSFile(str(folder / f"rows-{number}.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        vectors.seek(start * size * np.dtype(np.float16).itemsize)
        vectors.truncate()
        for file in files:
            for batch in file.iter_batches(BLOCK):
                vectors.write(whitening.transform(_to_numpy(batch)).astype(np.float16).tobytes())
                writer.write_batch(batch.select(names).replace_schema_metadata(None).cast(schema))
    return np.memmap(target, np.float16, "r", shape=(start + num, size))[start:]
