"""Nearest rows across tables with different schemas, in memory or by an index on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.errors import ConfigError, ModelError, TableError
from navi.files import check_target, digest_sample, lock, read_json, remove_leftovers, sync, write_folder, write_json
from navi.model.runner import Floats, Ints, Progress
from navi.settings import find_misfit
from navi.tables import Paths, Source, find_sources, join_reasons, list_paths
from navi.verbs.embed import EmbedConfig, embed_arrays
from navi.verbs.result import TabularResult
from navi.verbs.row_similarity import FIT_ROWS, Whitening, WordIndex, Words, list_words, weigh_similarity
from navi.verbs.vector_files import (
    FILE_ROWS,
    VECTORS_KEY,
    LineMaker,
    encode_files,
    open_vectors,
    read_batches,
    read_floats,
    write_vectors,
)
from navi.verbs.vector_lists import BLOCK, CANDIDATES, add_vectors, build_lists, import_faiss, propose, read_lists
from navi.version import VERSION

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, D hidden size.

Method = Literal["auto", "exact", "lists"]
METHODS = get_args(Method)
"""How rows are found: `exact` compares with all, `lists` with those of a compressed index; `auto` is one of them."""
EXACT_ROWS = 100_000
"""Rows up to which `auto` compares with all; beyond, it takes lists."""
NO_ROW = "No row to search in: these tables have none with any cell."
INDEX_FILE, VECTORS_FILE, SPACE_FILE, SCRATCH_FILE = "index.json", "vectors.f16", "space.npy", "scratch.parquet"
WORD_FILES = {"words": "words.npy", "offsets": "word_offsets.npy", "rows": "word_rows.npy"}
FORMAT_VERSION = 3
"""Raised whenever an index can no longer be read by an older version."""
REMEDY = "Remove the index and build it again."
WEIGHT_ROWS = 64
"""Rows whose likeness to all others decides what similarity and overlap weigh."""
CHECKED_ROWS = 8192
"""Vectors all over an index whose checksum is compared when it is opened."""


class IndexFacts(TypedDict):
    """What `index.json` holds, which is written last."""

    model: str
    kind: str
    pooling: str
    normalize: bool
    method: Method
    num_rows: int
    num_parts: int
    """Times that rows were added."""
    similarity_weight: float
    sources: list[dict[str, Any]]
    """The tables that it was made of; none of one of vectors."""
    left_out: list[str]
    """Why files are not in it."""
    files: dict[str, str]
    """The checksum of each."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A row that is like the one asked for."""

    table: str
    """Its table."""
    row: int
    """Its number in the table, from 1; in a text file, its line."""
    confidence: float
    """How alike, from 0 to 1: the weighted mean of the next two."""
    similarity: float
    """Cosine of the two rows' vectors; 0 where they are opposed."""
    overlap: float
    """Share of the asked row's words that this row has, rare ones weighing more."""
    cells: dict[str, str]
    """What the row holds; in an index of vectors, what else stands beside them."""


@dataclass(frozen=True)
class Neighbours(TabularResult):
    """The rows nearest to one, nearest first."""

    rows: tuple[Neighbour, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> Neighbour:
        return self.rows[place]

    def to_arrow(self) -> pa.Table:
        """Return a line for each row: its place, how alike it is, and its cells as JSON."""
        lines = [vars(row) | {"cells": json.dumps(row.cells, ensure_ascii=False)} for row in self.rows]
        types = (pa.string(), pa.int64(), pa.float64(), pa.float64(), pa.float64(), pa.string())
        names = Neighbour.__dataclass_fields__
        return pa.Table.from_pylist(lines, pa.schema(list(zip(names, types, strict=True))))


@dataclass(frozen=True, kw_only=True)
class SearchIndex:
    """Rows of any tables, ready to be searched."""

    navi: Navi
    """The model."""
    facts: IndexFacts
    whitening: Whitening
    """The space that rows are compared in."""
    vectors: NDArray[np.float16]
    """(R, D) unit vectors of the rows."""
    rows: pa.Table
    """(R,) `table`, `row` and `cells`, as JSON, of each row; or what stood beside the vectors."""
    words: WordIndex | None
    """The words of the rows; None in an index of vectors."""
    lists: Any
    """The faiss index, by inner product; None where all rows are compared."""
    folder: Path | None = None
    """Where it lies; None for in memory."""

    @property
    def method(self) -> str:
        """How rows are found: exact or lists."""
        return "exact" if self.lists is None else "lists"

    @property
    def similarity_weight(self) -> float:
        """What the similarity of vectors weighs in a confidence; the words that rows share weigh the rest."""
        return self.facts["similarity_weight"]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files that could not be read, each with the reason."""
        return tuple(self.facts["left_out"])

    def search(self, like: Any, k: int = 10) -> list[Neighbours]:
        """Return the k nearest rows for each row of `like`: a frame, a list of rows, one row, or the text of one.

        A row may have cells for a few headers alone, and headers that no table has.
        """
        if k < 1:
            raise ConfigError(f"k must be at least 1, got {k}.")
        tables = self.navi.read(parse_like(like) if isinstance(like, str) else like)
        encoded = self.navi.encode(tables)
        if encoded.arrays.num_rows < sum(table.num_rows for table in tables.values()):
            raise TableError("A row to search for has no cells. Give it at least one, such as title=Alien.")
        config = EmbedConfig(pooling=self.facts["pooling"], normalize=self.facts["normalize"])
        embedded = config.finish(embed_arrays(self.navi, encoded.arrays, "rows", config))
        rows, words = list_words(encoded)
        vectors = self.whitening.transform(np.asarray(embedded))
        return [self._find(vector, words[rows == place], k) for place, vector in enumerate(vectors)]

    def search_row(self, table: str, row: int, k: int = 10) -> Neighbours:
        """Return the k rows nearest to one of the index's own, which is not among them."""
        names = self.rows["table"].unique().to_pylist()
        if table not in names:
            raise TableError(f"The index has no table '{table}'. It has {', '.join(names)}.")
        asked = pc.index(pc.and_(pc.equal(self.rows["table"], table), pc.equal(self.rows["row"], row)), True).as_py()
        if asked < 0:
            raise TableError(
                f"The table '{table}' has no row {row}, or one without cells. "
                "Rows are named by their line in a text file, else by their record, from 1."
            )
        if self.words is None:
            found = self._find(self.vectors[asked].astype(np.float32), np.zeros(0, np.uint64), k + 1)
        else:
            found = self.search(json.loads(self.rows["cells"][asked].as_py()), k + 1)[0]
        return Neighbours(tuple(each for each in found if (each.table, each.row) != (table, row))[:k])

    def add(self, path: str | Path) -> SearchIndex:
        """Add the vectors of more files, and open the index again; what is there is not made again."""
        if self.folder is None or self.words is not None:
            raise ConfigError(f"Only to an index of vectors on disk can more be added. {REMEDY}")
        described, dataset = open_vectors(Path(path))
        differs = [name for name, each in described.items() if self.facts.get(name) != each]
        if differs:
            raise ConfigError(f"The vectors of {path} have another {', '.join(differs)} than those of {self.folder}.")
        with lock(self.folder, inside=True):
            remove_leftovers(self.folder)
            _write_part(self.folder, _read_facts(self.folder), dataset)  # others may have added to it meanwhile
        return open_index(self.navi, self.folder)

    @cached_property
    def _held(self) -> Floats:
        """(R, D) all vectors, to be compared with."""
        return self.vectors.astype(np.float32)

    def _find(self, vector: Floats, words: Words, k: int) -> Neighbours:
        overlap = None if self.words is None else self.words.measure_overlap(words)
        if self.lists is None:
            proposed, compared = np.arange(len(self.vectors)), self._held
        else:  # those that faiss finds near, and those that share the most words
            count = min(max(CANDIDATES, 20 * k), len(self.vectors))
            proposed = propose(self.lists, vector, count)
            if overlap is not None:
                shared = np.argpartition(-overlap, count - 1)[:count]
                proposed = np.union1d(proposed, shared[overlap[shared] > 0])
            compared = self.vectors[proposed].astype(np.float32)
        similarity = np.clip(compared @ vector, 0, 1)
        overlap = np.zeros_like(similarity) if overlap is None else overlap[proposed]
        confidence = self.similarity_weight * similarity + (1 - self.similarity_weight) * overlap
        best = np.argsort(-confidence, kind="stable")[:k]
        scores = np.stack([confidence, similarity, overlap], axis=1)[best].tolist()
        found = []
        for fact, scored in zip(self.rows.take(pa.array(proposed[best])).to_pylist(), scores, strict=True):
            place = fact.pop("table"), fact.pop("row")
            cells = {header: str(cell) for header, cell in fact.items() if cell is not None}
            fields = (*place, *scored, cells if self.words is None else json.loads(fact["cells"]))
            found.append(Neighbour(**dict(zip(Neighbour.__dataclass_fields__, fields, strict=True))))
        return Neighbours(tuple(found))


def index_frames(navi: Navi, frames: Any, *, method: Method = "auto", progress: Progress | None = None) -> SearchIndex:
    """Return an index, in memory, of the rows of one frame or several; `method` is one of `METHODS`."""
    _check_method(method)
    encoded = navi.encode(frames)
    if not encoded.arrays.num_rows:
        raise TableError(NO_ROW)
    make_rows = RowMaker(navi)
    lines = make_rows(encoded, progress)
    raw = read_floats(lines)
    whitening = Whitening.fit(raw)
    vectors = whitening.transform(raw).astype(np.float16)
    facts = _make_facts(json.loads(lines.schema.metadata[VECTORS_KEY.encode()]), method)
    words, facts["similarity_weight"] = make_rows.index_words(vectors)
    return SearchIndex(
        navi=navi,
        facts=facts,
        whitening=whitening,
        vectors=vectors,
        rows=lines.drop(["embedding"]),
        words=words,
        lists=build_lists(vectors) if _wants_lists(method, len(vectors)) else None,
    )


def build_index(
    navi: Navi,
    paths: Paths,
    folder: str | Path,
    *,
    method: Method = "auto",
    progress: Callable[[str, int], None] | None = None,
) -> SearchIndex:
    """Index the rows of files in a folder, and open it; vectors and rows go to the disk as they are made.

    `progress` is called with the table and how many of its rows were just done. The folder appears when it is whole. A
    file that cannot be read is left out, and an error if all are.
    """
    sources, left_out, make_rows = find_sources(paths).sources, list[str](), RowMaker(navi)
    with _write_index(folder, method, paths) as aside:
        measured = _describe_sources(sources)
        blocks = encode_files(navi, sources, FILE_ROWS["rows"], unreadable=left_out)
        if not write_vectors(aside / SCRATCH_FILE, blocks, make_rows, progress):
            raise TableError(join_reasons(left_out) if len(left_out) == len(sources) else NO_ROW)
        described, dataset = open_vectors(aside / SCRATCH_FILE)
        _write_part(aside, _make_facts(described, method, measured, left_out), dataset, make_rows)
        (aside / SCRATCH_FILE).unlink()
    return open_index(navi, folder, paths)


def index_vectors(navi: Navi, path: str | Path, folder: str | Path, *, method: Method = "auto") -> SearchIndex:
    """Index the vectors of rows in a Parquet file, a folder of shards or a Lance dataset, and open it."""
    with _write_index(folder, method, path) as aside:
        described, dataset = open_vectors(Path(path))
        if described["model"] != navi.fingerprint:
            raise ModelError(f"The vectors in {path} were made with another model than {navi.folder}.")
        if described["kind"] != "rows":
            raise ConfigError(f"{path} has vectors of {described['kind']}; rows are sought among rows.")
        _write_part(aside, _make_facts(described, method), dataset)
    return open_index(navi, folder)


class RowMaker(LineMaker):
    """Makes lines of encoded rows that have their cells, too, and keeps their words."""

    def __init__(self, navi: Navi) -> None:
        super().__init__(navi, "rows", EmbedConfig(pooling="values"))
        self._words: list[tuple[NDArray[np.int32], Words]] = []
        self._num_rows = 0

    def __call__(self, encoded: Encoded, progress: Progress | None = None) -> pa.Table:
        """Return table, row, vector and cells of each row."""
        rows, words = list_words(encoded)
        self._words.append(((rows + self._num_rows).astype(np.int32), words))
        self._num_rows += encoded.arrays.num_rows
        lines = super().__call__(encoded, progress)
        return lines.append_column("cells", pa.array(_write_cells(encoded), pa.string()))

    def index_words(self, vectors: NDArray[np.float16]) -> tuple[WordIndex, float]:
        """Return the words of all rows, whose vectors are given, and what similarity weighs beside these."""
        rows, words = (np.concatenate(each) for each in zip(*self._words, strict=True))
        index = WordIndex.build(rows, words, self._num_rows)
        chosen = _spread(self._num_rows, WEIGHT_ROWS)
        asked = vectors[chosen].astype(np.float32).T
        blocks = (vectors[start : start + BLOCK].astype(np.float32) for start in range(0, len(vectors), BLOCK))
        similarity = np.concatenate([np.clip(block @ asked, 0, 1) for block in blocks])
        ranges = (slice(*np.searchsorted(rows, [row, row + 1])) for row in chosen)
        overlap = np.concatenate([index.measure_overlap(words[each]) for each in ranges])
        return index, weigh_similarity(similarity, overlap)


def _write_cells(encoded: Encoded) -> Iterator[str]:
    """Yield each row's headers and values as a JSON object."""
    arrays = encoded.arrays
    headers = encoded.headers.take(pa.array(arrays.segment_header[arrays.row_segments])).to_pylist()
    values = encoded.values.take(pa.array(arrays.segment_value[arrays.row_segments])).to_pylist()
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        yield json.dumps(dict(zip(headers[begin:end], values[begin:end], strict=True)), ensure_ascii=False)


@contextmanager
def _write_index(folder: str | Path, method: Method, inputs: Paths) -> Iterator[Path]:
    """Give a new folder for an index; of several that make the same one at once the first one's stays."""
    folder = Path(folder)
    _check_method(method)
    if folder.exists():
        raise ConfigError(f"{folder} exists. Remove it to build the index again, or search it as it is.")
    check_target(folder, map(Path, list_paths(inputs)), overwrite=True)
    with suppress(FileExistsError), write_folder(folder, overwrite=False) as aside:
        yield aside


def _check_method(method: Method) -> None:
    if method not in METHODS:
        raise ConfigError(f"Unknown method '{method}'. Expected one of {', '.join(METHODS)}.")


def _make_facts(
    described: dict[str, Any], method: Method, sources: Sequence[Any] = (), left_out: Sequence[str] = ()
) -> IndexFacts:
    """Return what is known of an index without any row yet."""
    empty: Any = {"num_rows": 0, "num_parts": 0, "similarity_weight": 1.0, "files": {}}
    return cast("IndexFacts", {**described, **empty, "method": method, "sources": [*sources], "left_out": [*left_out]})


def _write_part(folder: Path, facts: IndexFacts, dataset: Any, make_rows: RowMaker | None = None) -> None:
    """Write more rows to an index, and lists of all; it counts as changed when its JSON file is.

    What lies behind the rows that it knows is of a process that was killed.
    """
    start, part = facts["num_rows"], facts["num_parts"]
    if not part:
        fitted = Whitening.fit(_sample(dataset, FIT_ROWS))
        np.save(folder / SPACE_FILE, np.vstack([fitted.mean, fitted.directions]))
    whitening, num_rows = _open_space(folder), start
    names = [name for name in dataset.schema.names if name != "embedding"]
    schema = pa.schema([dataset.schema.field(name) for name in names])
    with (
        (folder / VECTORS_FILE).open("r+b" if part else "wb") as vectors,
        pa.OSFile(str(folder / f"rows-{part}.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        vectors.seek(start * len(whitening.mean) * np.dtype(np.float16).itemsize)
        vectors.truncate()
        for batch in read_batches(dataset):
            vectors.write(whitening.transform(read_floats(batch)).astype(np.float16).tobytes())
            writer.write_batch(batch.select(names).replace_schema_metadata(None))
            num_rows += batch.num_rows
    every = _map_vectors(folder, num_rows, whitening)
    if make_rows is not None:
        index, facts["similarity_weight"] = make_rows.index_words(every)
        for part_of_index, name in WORD_FILES.items():
            np.save(folder / name, getattr(index, part_of_index))
    before, now = (folder / f"nearest-{each}.faiss" for each in (part - 1, part))
    if _wants_lists(facts["method"], num_rows):
        if before.is_file():
            lists = import_faiss().read_index(str(before))
            add_vectors(lists, every[start:])
        else:
            lists = build_lists(every)
        import_faiss().write_index(lists, str(now))
    else:
        now.unlink(missing_ok=True)
    files = sorted([*folder.glob("*.npy"), *folder.glob("rows-*.arrow"), *folder.glob(now.name)])
    for file in (*files, folder / VECTORS_FILE):
        sync(file)
    digests = {file.name: digest_sample(file) for file in files} | {VECTORS_FILE: _digest_vectors(every)}
    about = {"format_version": FORMAT_VERSION, "navi_version": VERSION}
    changed = {"num_rows": num_rows, "num_parts": part + 1, "files": digests}
    write_json(folder / INDEX_FILE, {**about, **facts, **changed}, checksum=True)
    before.unlink(missing_ok=True)


def _sample(dataset: Any, count: int) -> Floats:
    """Return the vectors of so many rows, or of all, in their order."""
    total, start, found = dataset.count_rows(), 0, list[Floats]()
    chosen = np.sort(np.random.default_rng(0).choice(total, min(total, count), replace=False))
    for batch in read_batches(dataset, ["embedding"]):
        first, last = np.searchsorted(chosen, [start, start + batch.num_rows])
        found.append(read_floats(batch)[chosen[first:last] - start])
        start += batch.num_rows
    return np.concatenate(found)


def _wants_lists(method: Method, num_rows: int) -> bool:
    return method == "lists" or (method == "auto" and num_rows > EXACT_ROWS)


def _spread(num_rows: int, count: int) -> Ints:
    """Return so many places all over some rows, or all."""
    return np.unique(np.linspace(0, num_rows - 1, min(num_rows, count)).astype(np.int64))


def _digest_vectors(vectors: NDArray[np.float16]) -> str:
    return hashlib.sha256(vectors[_spread(len(vectors), CHECKED_ROWS)].tobytes()).hexdigest()


def _open_space(folder: Path) -> Whitening:
    space = np.load(folder / SPACE_FILE)
    return Whitening(space[0], space[1:])


def _map_vectors(folder: Path, num_rows: int, whitening: Whitening) -> NDArray[np.float16]:
    return np.memmap(folder / VECTORS_FILE, np.float16, "r", shape=(num_rows, len(whitening.mean)))


def _read_facts(folder: Path) -> IndexFacts:
    """Return what is known of an index; what is none of this version is an error."""
    if not (folder / INDEX_FILE).is_file():
        raise ConfigError(
            f"{folder} is not a search index: it has no {INDEX_FILE}. Give a folder that is not there yet; an index of "
            "an earlier version is to be built again."
        )
    facts = read_json(folder / INDEX_FILE, ConfigError, REMEDY)
    if facts.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"The index in {folder} has format version {facts.get('format_version')}, this is NAVI {VERSION} and reads "
            f"{FORMAT_VERSION}. {REMEDY}"
        )
    if misfit := find_misfit(facts, IndexFacts):
        raise ConfigError(f"Cannot read {folder / INDEX_FILE}: {misfit}. {REMEDY}")
    return cast("IndexFacts", facts)


def open_index(navi: Navi, folder: str | Path, paths: Paths | None = None) -> SearchIndex:
    """Open an index; its vectors and rows stay on disk, memory-mapped.

    An index that another model made is refused and, where `paths` are given, one of other files or of what these held
    before they changed.
    """
    folder = Path(folder)
    remove_leftovers(folder.parent)  # of a process that was killed when the index was just in its place
    facts = _read_facts(folder)
    if facts["model"] != navi.fingerprint:
        raise ModelError(
            f"The index in {folder} was made with another model than {navi.folder}. Remove it and build it again."
        )
    if paths is not None and _describe_sources(find_sources(paths).sources) != facts["sources"]:
        raise TableError(
            f"The index in {folder} was made of other files, or they have changed. Remove it and build it again."
        )
    for name, digest in facts["files"].items():
        if name != VECTORS_FILE and (not (folder / name).is_file() or digest_sample(folder / name) != digest):
            raise ConfigError(f"{folder / name} is not as it was written, or not there. {REMEDY}")
    try:
        whitening = _open_space(folder)
        vectors = _map_vectors(folder, facts["num_rows"], whitening)
        if _digest_vectors(vectors) != facts["files"][VECTORS_FILE]:
            raise ValueError(f"{VECTORS_FILE} is not as it was written")
        maps = [pa.memory_map(str(folder / f"rows-{part}.arrow")) for part in range(facts["num_parts"])]
        rows = pa.concat_tables([pa.ipc.open_file(each).read_all() for each in maps], promote_options="permissive")
        arrays = {part: np.load(folder / name, "r") for part, name in WORD_FILES.items() if name in facts["files"]}
        lists = folder / f"nearest-{facts['num_parts'] - 1}.faiss"
        if not facts["num_rows"] == rows.num_rows:
            raise ValueError(f"it should have {facts['num_rows']} rows and has {rows.num_rows}")
        if not 0 <= facts["similarity_weight"] <= 1:
            raise ValueError(f"similarity_weight must lie between 0 and 1, found {facts['similarity_weight']}")
        return SearchIndex(
            navi=navi,
            facts=facts,
            whitening=whitening,
            vectors=vectors,
            rows=rows,
            words=WordIndex(num_rows=facts["num_rows"], **arrays) if arrays else None,
            lists=read_lists(lists) if lists.name in facts["files"] else None,
            folder=folder,
        )
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, OverflowError, pa.ArrowException) as error:
        raise ConfigError(f"Cannot read the index in {folder}: {error}. {REMEDY}") from error


def _describe_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the name, size and time of change of each file."""
    found = [(source.name, *source.measure()) for source in sources]
    return [{"name": name, "bytes": size, "changed": version} for name, size, version in found]


_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_HEADER = rf"\s*(?:({_QUOTED})\s*|([^=,\"'\s][^=,\"']*))="
# A value begins with what is quoted, and ends where another cell begins; other quotes are letters like any other.
_CELL = re.compile(rf"{_HEADER}\s*((?:{_QUOTED})?.*?)(?:,(?={_HEADER})|\Z)", re.DOTALL)
EXAMPLE = "title=Alien, year=1979"


def parse_like(text: str) -> dict[str, Any]:
    r"""Return the cells of a row that a user wrote.

    Cells stand between commas; a comma without a header after it belongs to the value before. Quotes keep commas and
    equals signs together. A JSON object is taken as it is.

    >>> parse_like("title=Alien, year=1979")
    {'title': 'Alien', 'year': '1979'}
    >>> parse_like("title=Crouching Tiger, Hidden Dragon, 'made in'=\"China = Taiwan\"")
    {'title': 'Crouching Tiger, Hidden Dragon', 'made in': 'China = Taiwan'}
    """
    if text.lstrip().startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise ConfigError(f"Cannot read {text!r} as a JSON object: {error}. Write it as {EXAMPLE}.") from error
    cells: dict[str, Any] = {}
    place = 0
    while place < len(text) or not cells:
        found = _CELL.match(text, place)
        if not found:
            raise ConfigError(f"Cannot read {text[place:]!r} as a cell: expected header=value, such as {EXAMPLE}.")
        cells[_unquote(found[1] or found[2])] = _unquote(found[3])
        place = found.end()
    return cells


def _unquote(text: str) -> str:
    text = text.strip()
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if re.fullmatch(_QUOTED, text) else text
