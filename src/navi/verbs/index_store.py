"""Search indexes on disk: built of files in one go, and opened again without reading them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.corpus.arrays import FolderStore
from navi.errors import ConfigError, ModelError, TableError
from navi.files import read_json, write_folder, write_json
from navi.tables import Source, find_sources
from navi.verbs.embed import FILE_ROWS, encode_files
from navi.verbs.row_similarity import Whitening, WordIndex
from navi.verbs.search import IndexBuilder, SearchIndex, import_faiss
from navi.version import VERSION

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

INDEX_FILE, ROWS_FILE, FAISS_FILE = "index.json", "rows.arrow", "nearest.faiss"
FORMAT_VERSION = 1
"""Raised whenever an index can no longer be read by an older version."""
REMEDY = "Remove the index and build it again."


def build_index(
    navi: Navi,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    method: str = "auto",
    progress: Callable[[str, int], None] | None = None,
) -> SearchIndex:
    """Index the rows of files in a folder, and open it; vectors and rows go to the disk as they are made.

    `progress` is called with the table and how many of its rows were just done. The folder appears when it is whole.
    """
    folder, sources = Path(folder), find_sources(paths).sources
    if folder.exists():
        raise ConfigError(f"{folder} exists. Remove it to build the index again, or search it as it is.")
    if not folder.parent.is_dir():
        raise ConfigError(f"Cannot write {folder}: there is no folder {folder.parent}. Make it first.")
    with write_folder(folder) as aside:
        with FolderStore(aside / "scratch") as store:
            builder = IndexBuilder(navi, store)
            for encoded in encode_files(navi, sources, FILE_ROWS["rows"]):
                builder.add(encoded)
                for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                    if progress is not None:
                        progress(encoded.tables[table], int(count))
            _save(builder.finish(method), aside, sources)
        shutil.rmtree(aside / "scratch")
    return open_index(navi, folder)


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
    }
    write_json(folder / INDEX_FILE, facts)


def open_index(navi: Navi, folder: str | Path, paths: Sequence[str | Path] | None = None) -> SearchIndex:
    """Open an index; its vectors and rows stay on disk, memory-mapped.

    An index that another model made is refused and, where `paths` are given, one of other files or of what these held
    before they changed.
    """
    folder = Path(folder)
    facts = _read_facts(folder)
    if facts.get("model") != navi.fingerprint:
        raise ModelError(
            f"The index in {folder} was made with another model than {navi.folder}. Remove it and build it again."
        )
    if paths is not None and _describe_sources(find_sources(paths).sources) != facts.get("sources"):
        raise TableError(
            f"The index in {folder} was made of other files, or they have changed. Remove it and build it again."
        )
    try:
        with pa.memory_map(str(folder / ROWS_FILE)) as source:
            rows = pa.ipc.open_file(source).read_all()
        faiss_index = None
        if facts["method"] != "exact":
            faiss_index = import_faiss().read_index(str(folder / FAISS_FILE))
        return SearchIndex(
            navi=navi,
            whitening=Whitening(_load(folder, "space_mean"), _load(folder, "space_transform")),
            vectors=_load(folder, "vectors"),
            words=WordIndex(
                _load(folder, "words"), _load(folder, "word_offsets"), _load(folder, "word_rows"), facts["num_rows"]
            ),
            rows=rows,
            similarity_weight=facts["similarity_weight"],
            method=facts["method"],
            faiss_index=faiss_index,
        )
    except (OSError, ValueError, KeyError, RuntimeError, pa.ArrowException) as error:
        raise ConfigError(f"Cannot read the index in {folder}: {error}. {REMEDY}") from error


def _read_facts(folder: Path) -> dict[str, Any]:
    file = folder / INDEX_FILE
    if not file.is_file():
        raise ConfigError(
            f"{folder} is not a search index: it has no {INDEX_FILE}. Give a folder that is not there yet."
        )
    facts = read_json(file, ConfigError, REMEDY)
    if facts.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"The index in {folder} has format version {facts.get('format_version')}, this is NAVI {VERSION} and reads "
            f"{FORMAT_VERSION}. {REMEDY}"
        )
    return facts


def _load(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def _describe_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the name, size and time of change of each file."""
    stats = [(source.name, source.path.stat()) for source in sources]
    return [{"name": name, "bytes": found.st_size, "changed": found.st_mtime_ns} for name, found in stats]
