"""Search indexes kept on disk."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.columns import ScratchFolder
from navi.errors import ConfigError, ModelError, TableError
from navi.tables import Source, find_sources
from navi.verbs.embedding import EmbedConfig
from navi.verbs.files import FileEmbedder, read_ahead
from navi.verbs.nearest import load_nearest, save_nearest
from navi.verbs.search import IndexBuilder, SearchIndex
from navi.verbs.space import Space
from navi.verbs.words import WordIndex
from navi.version import VERSION

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

INDEX_FILE, ROWS_FILE, NEAREST_FILE = "index.json", "rows.arrow", "nearest.faiss"
FORMAT_VERSION = 1
"""Raised whenever an index can no longer be read by an older version."""


def build_index(
    navi: Navi,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    method: str = "auto",
    progress: Callable[[str, int], None] | None = None,
) -> SearchIndex:
    """Index the rows of files in a folder, and open it; memory does not grow with the rows, but for a graph's own.

    `progress` is told the table and how many of its rows were just done. The folder appears when it is whole.
    """
    folder, sources = Path(folder), find_sources(paths).sources
    if folder.exists():
        raise ConfigError(f"{folder} exists. Remove it to build the index again, or search it as it is.")
    if not folder.parent.is_dir():
        raise ConfigError(f"Cannot write {folder}: there is no folder {folder.parent}. Make it first.")
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        scratch = ScratchFolder(unfinished / "scratch")
        builder = IndexBuilder(navi, scratch.make)
        for encoded in read_ahead(FileEmbedder(navi, sources, "rows", EmbedConfig()).read()):
            builder.add(encoded)
            for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                if progress is not None:
                    progress(encoded.tables[table], int(count))
        save_index(builder.finish(method), unfinished, sources)
        scratch.remove()
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return open_index(navi, folder)


def save_index(index: SearchIndex, folder: Path, sources: Sequence[Source] = ()) -> None:
    """Write an index into a folder that is there."""
    arrays: dict[str, NDArray[Any]] = {
        "vectors": index.vectors,
        "space_mean": index.space.mean,
        "space_transform": index.space.transform,
        "words": index.words.words,
        "word_offsets": index.words.offsets,
        "word_rows": index.words.rows,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    with pa.OSFile(str(folder / ROWS_FILE), "wb") as sink, pa.ipc.new_file(sink, index.rows.schema) as writer:
        writer.write_table(index.rows)
    save_nearest(index.nearest, folder / NEAREST_FILE)
    facts = {
        "format_version": FORMAT_VERSION,
        "navi_version": VERSION,
        "model": index.navi.fingerprint,
        "method": index.method,
        "num_rows": len(index.vectors),
        "similarity_weight": index.similarity_weight,
        "sources": describe_sources(sources),
    }
    (folder / INDEX_FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def open_index(navi: Navi, folder: str | Path, paths: Sequence[str | Path] | None = None) -> SearchIndex:
    """Open an index; its vectors and rows stay on disk, memory-mapped.

    An index that another model made is refused and, where `paths` are given, one of other files or of what these held
    before they changed.
    """
    folder = Path(folder)
    facts = _read_facts(folder)
    if facts["model"] != navi.fingerprint:
        raise ModelError(
            f"The index in {folder} was made with another model than {navi.folder}. Remove it and build it again."
        )
    if paths is not None and describe_sources(find_sources(paths).sources) != facts["sources"]:
        raise TableError(
            f"The index in {folder} was made of other files, or they have changed. Remove it and build it again."
        )
    with pa.memory_map(str(folder / ROWS_FILE)) as source:
        rows = pa.ipc.open_file(source).read_all()
    words, offsets, word_rows = (_load(folder, name) for name in ("words", "word_offsets", "word_rows"))
    return SearchIndex(
        navi=navi,
        space=Space(_load(folder, "space_mean"), _load(folder, "space_transform")),
        vectors=_load(folder, "vectors"),
        words=WordIndex(words, offsets, word_rows, facts["num_rows"]),
        rows=rows,
        similarity_weight=facts["similarity_weight"],
        method=facts["method"],
        nearest=load_nearest(facts["method"], folder / NEAREST_FILE),
    )


def describe_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the name, size and time of change of each file."""
    described = []
    for source in sources:
        found = source.path.stat()
        described.append({"name": source.name, "bytes": found.st_size, "changed": found.st_mtime_ns})
    return described


def _read_facts(folder: Path) -> dict[str, Any]:
    file = folder / INDEX_FILE
    if not file.is_file():
        raise ConfigError(
            f"{folder} is not a search index: it has no {INDEX_FILE}. Give a folder that is not there yet."
        )
    try:
        facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        version = facts["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"Cannot read {file}: it is damaged ({error}). Remove the index and build it again."
        ) from error
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"The index in {folder} has format version {version}, this is NAVI {VERSION} and reads {FORMAT_VERSION}. "
            "Remove it and build it again."
        )
    return facts


def _load(folder: Path, name: str) -> Any:
    file = folder / f"{name}.npy"
    try:
        return np.load(file, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {file}: {error}. Remove the index and build it again.") from error
