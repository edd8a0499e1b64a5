"""Nearest rows across tables with different schemas, in memory or by an index on disk."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus import Encoded
from navi.corpus.arrays import ArrayStore, read_texts
from navi.errors import ConfigError, ModelError, TableError
from navi.files import digest_sample, read_json, remove_leftovers, write_folder, write_json
from navi.model.runner import Floats, Ints, Progress
from navi.settings import find_misfit
from navi.tables import Source, find_sources, join_reasons
from navi.verbs.result import TabularResult
from navi.verbs.row_similarity import Whitening, WordIndex, Words, list_words, weigh_similarity
from navi.verbs.vector_files import FILE_ROWS, encode_files
from navi.verbs.vector_index import BLOCK, CANDIDATES, build_lists, import_faiss, read_lists
from navi.version import VERSION

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows, D hidden size.

METHODS = ("auto", "exact", "lists")
"""How rows are found: `exact` compares with all, `lists` with those of a compressed index; `auto` is one of them."""
EXACT_ROWS = 100_000
"""Rows up to which `auto` compares with all; beyond, it takes lists."""
INDEX_FILE, ROWS_FILE, FAISS_FILE = "index.json", "rows.arrow", "nearest.faiss"
FORMAT_VERSION = 2
"""Raised whenever an index can no longer be read by an older version."""
REMEDY = "Remove the index and build it again."
WEIGHT_ROWS = 64
"""Rows whose likeness to all others decides what similarity and overlap weigh."""


class IndexFacts(TypedDict):
    """What `index.json` holds."""

    model: str
    method: Literal["exact", "lists"]
    num_rows: int
    similarity_weight: float
    sources: list[dict[str, Any]]
    left_out: NotRequired[list[str]]
    """Why files are not in it; indexes of earlier versions have none."""
    files: NotRequired[dict[str, str]]
    """What `digest_sample` gives for each; indexes of earlier versions have none."""


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
    """What the row holds."""


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
    whitening: Whitening
    """The space that rows are compared in."""
    vectors: Floats
    """(R, D) unit vectors of the rows."""
    words: WordIndex
    """The words of the rows."""
    rows: pa.Table
    """(R,) `table`, `row` and `cells`, as JSON, of each row."""
    similarity_weight: float
    """What the similarity of vectors weighs in a confidence; the words that rows share weigh the rest."""
    method: str
    """How rows are found: exact or lists."""
    faiss_index: Any
    """The faiss index, by inner product; None where all rows are compared."""
    left_out: tuple[str, ...] = ()
    """Files that could not be read, each with the reason."""

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
        vectors = self.whitening.transform(
            self.navi.runner.embed(encoded.arrays, parts=("value_means",))["value_means"]
        )
        rows, words = list_words(encoded)
        return [self._find(vector, words[rows == place], k) for place, vector in enumerate(vectors)]

    def search_row(self, table: str, row: int, k: int = 10) -> Neighbours:
        """Return the k rows nearest to one of the index's own, which is not among them."""
        names = self.rows["table"].unique().to_pylist()
        if table not in names:
            raise TableError(f"The index has no table '{table}'. It has {', '.join(names)}.")
        is_asked = (self.rows["table"].to_numpy() == table) & (self.rows["row"].to_numpy() == row)
        if not is_asked.any():
            raise TableError(
                f"The table '{table}' has no row {row}, or one without cells. "
                "Rows are named by their line in a text file, else by their record, from 1."
            )
        found = self.search(json.loads(self.rows["cells"][int(is_asked.argmax())].as_py()), k + 1)[0]
        return Neighbours(tuple(each for each in found if (each.table, each.row) != (table, row))[:k])

    def _find(self, vector: Floats, words: Words, k: int) -> Neighbours:
        overlap = self.words.measure_overlap(words)
        proposed = self._propose(vector, overlap, k)
        similarity = np.clip(self.vectors[proposed] @ vector, 0, 1)
        overlap = overlap[proposed]
        confidence = self.similarity_weight * similarity + (1 - self.similarity_weight) * overlap
        best = np.argsort(-confidence, kind="stable")[:k]
        facts = self.rows.take(pa.array(np.arange(len(self.vectors))[proposed][best])).to_pylist()
        scores = np.stack([confidence, similarity, overlap], axis=1)[best].tolist()
        found = []
        for fact, (sure, near, shared) in zip(facts, scores, strict=True):
            fact["cells"] = json.loads(fact["cells"])
            found.append(Neighbour(**fact, confidence=sure, similarity=near, overlap=shared))
        return Neighbours(tuple(found))

    def _propose(self, vector: Floats, overlap: Floats, k: int) -> Ints | slice:
        """Return the rows worth comparing: all, or those that faiss finds near and those that share the most words."""
        if self.faiss_index is None:
            return slice(None)
        count = min(max(CANDIDATES, 20 * k), len(overlap))
        near = self.faiss_index.search(vector[None], count)[1][0]
        shared = np.argpartition(-overlap, count - 1)[:count]
        proposed: Ints = np.union1d(near[near >= 0], shared[overlap[shared] > 0])
        return proposed


def index_frames(navi: Navi, frames: Any, *, method: str = "auto", progress: Progress | None = None) -> SearchIndex:
    """Return an index, in memory, of the rows of one frame or several; `method` is one of `METHODS`."""
    builder = IndexBuilder(navi)
    builder.add(navi.encode(frames), progress)
    return builder.finish(method)


class IndexBuilder:
    """Takes encoded rows, some at a time, and makes a search index of them."""

    def __init__(self, navi: Navi, store: ArrayStore | None = None) -> None:
        self._navi, self._store = navi, store or ArrayStore()
        self._tables: dict[str, int] = {}
        self._num_rows = 0

    def add(self, encoded: Encoded, progress: Progress | None = None) -> None:
        """Take in rows."""
        arrays = encoded.arrays
        vectors = self._navi.runner.embed(arrays, parts=("value_means",), progress=progress)["value_means"]
        self._store.append("vectors", vectors)
        rows, words = list_words(encoded)
        self._store.append("word_rows", (rows + self._num_rows).astype(np.int32))
        self._store.append("words", words)
        self._store.append_texts("cells", pa.array(_write_cells(encoded), pa.string()))
        numbers = [self._tables.setdefault(name, len(self._tables)) for name in encoded.tables]
        self._store.append("table", np.array(numbers, np.int32)[arrays.row_table])
        self._store.append("number", encoded.row_number)
        self._num_rows += arrays.num_rows

    def finish(self, method: str = "auto") -> SearchIndex:
        """Return the index."""
        if method not in METHODS:
            raise ConfigError(f"Unknown method '{method}'. Expected one of {', '.join(METHODS)}.")
        if not self._num_rows:
            raise TableError("No row to search in: these tables have none with any cell.")
        if method == "auto":
            method = "exact" if self._num_rows <= EXACT_ROWS else "lists"
        raw = self._store.read()["vectors"]
        whitening = Whitening.fit(raw)
        for start in range(0, self._num_rows, BLOCK):
            self._store.append("unit", whitening.transform(raw[start : start + BLOCK]))
        named = self._store.read()
        vectors, rows, words = named["unit"], named["word_rows"], named["words"]
        index = WordIndex.build(rows, words, self._num_rows)
        table = pa.DictionaryArray.from_arrays(pa.array(named["table"]), pa.array(list(self._tables), pa.string()))
        return SearchIndex(
            navi=self._navi,
            whitening=whitening,
            vectors=vectors,
            words=index,
            rows=pa.table({"table": table, "row": named["number"], "cells": read_texts(named, "cells")}),
            similarity_weight=_measure_weight(vectors, index, rows, words),
            method=method,
            faiss_index=None if method == "exact" else build_lists(vectors),
        )


def _write_cells(encoded: Encoded) -> Iterator[str]:
    """Yield each row's headers and values as a JSON object."""
    arrays = encoded.arrays
    headers = encoded.headers.take(pa.array(arrays.segment_header[arrays.row_segments])).to_pylist()
    values = encoded.values.take(pa.array(arrays.segment_value[arrays.row_segments])).to_pylist()
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        yield json.dumps(dict(zip(headers[begin:end], values[begin:end], strict=True)), ensure_ascii=False)


def _measure_weight(vectors: Floats, index: WordIndex, rows: NDArray[np.int32], words: Words) -> float:
    chosen = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), WEIGHT_ROWS)).astype(np.int64))
    similarity, overlap = [], []
    for row in chosen:
        begin, end = np.searchsorted(rows, [row, row + 1])
        similarity.append(np.clip(vectors @ vectors[row], 0, 1))
        overlap.append(index.measure_overlap(words[begin:end]))
    return weigh_similarity(np.concatenate(similarity), np.concatenate(overlap))


def build_index(
    navi: Navi,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    method: str = "auto",
    progress: Callable[[str, int], None] | None = None,
) -> SearchIndex:
    """Index the rows of files in a folder, and open it; vectors and rows go to the disk as they are made.

    `progress` is called with the table and how many of its rows were just done. The folder appears when it is whole. A
    file that cannot be read is left out, and an error if all are.
    """
    folder, sources = Path(folder), find_sources(paths).sources
    if folder.exists():
        raise ConfigError(f"{folder} exists. Remove it to build the index again, or search it as it is.")
    if not folder.parent.is_dir():
        raise ConfigError(f"Cannot write {folder}: there is no folder {folder.parent}. Make it first.")
    # Of several that make the same index at once the first one's stays, and all of them open it.
    with suppress(FileExistsError), write_folder(folder, overwrite=False) as aside:
        with ArrayStore(aside / "scratch") as store:
            builder, left_out = IndexBuilder(navi, store), list[str]()
            for encoded in encode_files(navi, sources, FILE_ROWS["rows"], unreadable=left_out):
                builder.add(encoded)
                for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                    if progress is not None:
                        progress(encoded.tables[table], int(count))
            if len(left_out) == len(sources):
                raise TableError(join_reasons(left_out))
            _save(replace(builder.finish(method), left_out=tuple(left_out)), aside, sources)
        shutil.rmtree(aside / "scratch")
    return open_index(navi, folder, paths)


def _save(index: SearchIndex, folder: Path, sources: Sequence[Source]) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "vectors": index.vectors,
        "space_mean": index.whitening.mean,
        "space_transform": index.whitening.directions,
        "words": index.words.words,
        "word_offsets": index.words.offsets,
        "word_rows": index.words.rows,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    with pa.OSFile(str(folder / ROWS_FILE), "wb") as sink, pa.ipc.new_file(sink, index.rows.schema) as writer:
        writer.write_table(index.rows)
    if index.faiss_index is not None:
        import_faiss().write_index(index.faiss_index, str(folder / FAISS_FILE))
    facts = {
        "format_version": FORMAT_VERSION,
        "navi_version": VERSION,
        "model": index.navi.fingerprint,
        "method": index.method,
        "num_rows": len(index.vectors),
        "similarity_weight": index.similarity_weight,
        "sources": _describe_sources(sources),
        "left_out": list(index.left_out),
        "files": {file.name: digest_sample(file) for file in sorted(folder.iterdir()) if file.is_file()},
    }
    write_json(folder / INDEX_FILE, facts, checksum=True)


def open_index(navi: Navi, folder: str | Path, paths: Sequence[str | Path] | None = None) -> SearchIndex:
    """Open an index; its vectors and rows stay on disk, memory-mapped.

    An index that another model made is refused and, where `paths` are given, one of other files or of what these held
    before they changed.
    """
    folder = Path(folder)
    remove_leftovers(folder.parent)  # of a process that was killed when the index was just in its place
    if not (folder / INDEX_FILE).is_file():
        raise ConfigError(
            f"{folder} is not a search index: it has no {INDEX_FILE}. Give a folder that is not there yet."
        )
    facts = read_json(folder / INDEX_FILE, ConfigError, REMEDY)
    if facts.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"The index in {folder} has format version {facts.get('format_version')}, this is NAVI {VERSION} and reads "
            f"{FORMAT_VERSION}. {REMEDY}"
        )
    if misfit := find_misfit(facts, IndexFacts):
        raise ConfigError(f"Cannot read {folder / INDEX_FILE}: {misfit}. {REMEDY}")
    if facts.get("model") != navi.fingerprint:
        raise ModelError(
            f"The index in {folder} was made with another model than {navi.folder}. Remove it and build it again."
        )
    if paths is not None and _describe_sources(find_sources(paths).sources) != facts.get("sources"):
        raise TableError(
            f"The index in {folder} was made of other files, or they have changed. Remove it and build it again."
        )
    for name, digest in facts.get("files", {}).items():
        if not (folder / name).is_file() or digest_sample(folder / name) != digest:
            raise ConfigError(f"{folder / name} is not as it was written, or not there. {REMEDY}")
    try:
        arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
        with pa.memory_map(str(folder / ROWS_FILE)) as source:
            rows = pa.ipc.open_file(source).read_all()
        if not facts["num_rows"] == len(arrays["vectors"]) == rows.num_rows:
            raise ValueError(f"it should have {facts['num_rows']} rows and has {rows.num_rows}")
        if not 0 <= facts["similarity_weight"] <= 1:
            raise ValueError(f"similarity_weight must lie between 0 and 1, found {facts['similarity_weight']}")
        return SearchIndex(
            navi=navi,
            whitening=Whitening(arrays["space_mean"], arrays["space_transform"]),
            vectors=arrays["vectors"],
            words=WordIndex(arrays["words"], arrays["word_offsets"], arrays["word_rows"], facts["num_rows"]),
            rows=rows,
            similarity_weight=facts["similarity_weight"],
            method=facts["method"],
            faiss_index=None if facts["method"] == "exact" else read_lists(folder / FAISS_FILE),
            left_out=tuple(facts.get("left_out", ())),
        )
    except (OSError, ValueError, KeyError, RuntimeError, pa.ArrowException) as error:
        raise ConfigError(f"Cannot read the index in {folder}: {error}. {REMEDY}") from error


def _describe_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the name, size and time of change of each file."""
    found = [(source.name, *source.measure()) for source in sources]
    return [{"name": name, "bytes": size, "changed": version} for name, size, version in found]


_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# A quote opens only where a header or a value begins: the one in `Don't Look Now` is a letter like any other.
_PIECE = re.compile(rf"(?:(?:^|(?<=[=,]))\s*(?:{_QUOTED})|[^,])*")
_CELL = re.compile(rf"\s*({_QUOTED}|[^=\"']+?)\s*=\s*(.*?)\s*", re.DOTALL)
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
    pieces: list[str] = []
    place = 0
    while place <= len(text):
        piece = _PIECE.match(text, place)
        assert piece is not None, "the pattern matches nothing, too"
        place = piece.end() + 1
        if _CELL.fullmatch(piece[0]) or not pieces:
            pieces.append(piece[0])
        else:
            pieces[-1] += f",{piece[0]}"
    cells: dict[str, Any] = {}
    for cell in pieces:
        found = _CELL.fullmatch(cell)
        if not found:
            raise ConfigError(f"Cannot read {cell.strip()!r} as a cell: expected header=value, such as {EXAMPLE}.")
        cells[_unquote(found[1])] = _unquote(found[2])
    return cells


def _unquote(text: str) -> str:
    if re.fullmatch(_QUOTED, text):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
