"""Preparing: from files to a corpus, all or nothing.

Sources are read and encoded by several processes, each into a file of chunks; then it is decided which tables and rows
stay, and these are merged, table after table, into the arrays of the corpus. Memory does not grow with the rows.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from navi.backbones import load_tokenizer
from navi.cluster import check_engine, run_jobs
from navi.corpus.arrays import SPLITS, TEST, TRAIN, UNSEEN, VALIDATION, VALIDATION_TABLES, ArrayStore, Encoded
from navi.corpus.corpus import (
    ARRAYS_FOLDER,
    FORMAT_VERSION,
    MANIFEST_FILE,
    TOKENIZER_FILE,
    Corpus,
    Inspection,
    inspect_corpus,
)
from navi.corpus.encode import EncodedChunk, Merger, RowEncoder
from navi.corpus.hashing import Hashes, hash_text, hash_texts, mix
from navi.corpus.prepareconfig import PrepareConfig, load_attributes
from navi.errors import ConfigError, CorpusError, MissingExtraError, TableError
from navi.files import (
    digest_file,
    digest_sample,
    is_there,
    lock,
    remove_leftovers,
    scratch_folder,
    sync,
    write_folder,
    write_json,
)
from navi.storage import is_remote
from navi.tables import (
    Paths,
    ReadReport,
    Source,
    find_sources,
    join_reasons,
    order_headers,
    read_chunks,
    show_path,
)
from navi.version import VERSION

# Why rows were dropped and cells left out.
VOCABULARY = "table not in the tokenizer's vocabulary"  # too many of its text fields are mostly [UNK]
NOT_LARGEST = "table not among the largest"
SAMPLED = "sampled down"  # `total_rows` leaves no place for them
READING_ENDED = "reading ended early"  # an error came before they could be handed on
BEYOND_MAX_TOKENS = "beyond max_tokens"

LITTLE_INPUT = 4 << 20
"""Bytes of files below which starting other processes takes longer than it saves."""


@dataclass(frozen=True, kw_only=True)
class ProgressEvent:
    """How far preparing has come."""

    stage: str
    """`read`, then `merge`, then `write`."""
    done: int
    """Tables (when writing: files) done."""
    total: int
    """Tables (when writing: files) in all."""
    rows: int
    """Rows that passed this stage."""


Progress = Callable[[ProgressEvent], None]


@dataclass(kw_only=True)
class Draft:
    """A source that was read and encoded, and what is decided about its rows."""

    source: Source
    chunks: Path
    """File with its encoded chunks."""
    report: ReadReport
    """What reading it lost."""
    headers: dict[str, None] = field(default_factory=dict)
    """Headers found, in order of appearance."""
    encoded_headers: set[str] = field(default_factory=set)
    """Those among them that some encoded row has, which is not so where all their cells are beyond `max_tokens`."""
    num_rows: int = 0
    """Rows encoded."""
    num_text: int = 0
    """Cells of meaningful text."""
    num_bad: int = 0
    """Those among them that hold too much [UNK]."""
    trouble: str | None = None
    """Why reading ended early, or None."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Encoded rows that are left out, by reason."""
    held_out: int | None = None
    """The split of all rows of a table that is kept out of training whole."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.source.name

    @property
    def kept(self) -> int:
        """Rows that go into the corpus."""
        return self.num_rows - self.dropped.total()


def prepare(
    paths: Paths,
    out: str | Path,
    config: PrepareConfig | None = None,
    progress: Progress | None = None,
    *,
    overwrite: bool = False,
    engine: str = "local",
) -> Corpus:
    """Make a corpus of all tables among files, folders and glob patterns, and open it.

    The directory appears when it is complete and not before. An existing one is replaced only if it is a corpus and
    `overwrite` is set. The same tables and settings give the same bytes, whatever the number of workers. With the
    engine `ray`, files are read and encoded by the workers of a cluster, which must see them under the same paths.
    """
    on_cluster = check_engine(engine)
    config, target, report = config or PrepareConfig(), Path(out), progress or (lambda event: None)
    remove_leftovers(target.parent)
    _check_target(target, overwrite)
    found = find_sources(paths)
    skipped = list(found.skipped)
    tokenizer = load_tokenizer(config.backbone)
    try:
        if not is_remote(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target), write_folder(target, overwrite=overwrite, last=MANIFEST_FILE) as folder:
            (folder / TOKENIZER_FILE).write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
            drafts = _draft_sources(found.sources, folder, config, report, on_cluster=on_cluster)
            select_tables(drafts, config)
            tables = [draft for draft in drafts if draft.report.read or not draft.trouble]
            skipped += [
                (draft.source.path, draft.trouble) for draft in drafts if draft.trouble and not draft.report.read
            ]
            with ArrayStore(folder / ARRAYS_FOLDER) as store:
                merger = RowEncoder(tokenizer, config).make_merger(store, folder / _SCRATCH)
                entries = _merge(tables, merger, config, report)
                encoded = merger.finish()
            shutil.rmtree(folder / _SCRATCH)
            manifest = _make_manifest(folder, encoded, entries, skipped, config, report)
            write_json(folder / MANIFEST_FILE, manifest, checksum=True)
    except OSError as error:
        raise CorpusError(f"Cannot write {error.filename or target}: {error.strerror or error}.") from error
    return Corpus.open(target)


def inspect_paths(paths: Paths, config: PrepareConfig | None = None, progress: Progress | None = None) -> Inspection:
    """Return what `inspect_corpus` says of the corpus that these paths would give; nothing is left on disk."""
    with scratch_folder() as folder:
        return inspect_corpus(prepare(paths, folder / "corpus", config, progress))


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse a place where a corpus cannot be put without harm."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if is_there(target / MANIFEST_FILE):
        if not overwrite:
            raise CorpusError(
                f"There is a corpus at {show_path(target)} already. Set overwrite (--overwrite) to replace it."
            )
    elif is_there(target):
        raise CorpusError(
            f"{show_path(target)} exists and is not a corpus; it will not be replaced. Choose another place."
        )


# Reading and encoding, here or in other processes

_SCRATCH = "scratch"


def _draft_sources(
    sources: Sequence[Source], folder: Path, config: PrepareConfig, report: Progress, *, on_cluster: bool
) -> list[Draft]:
    """Return a draft of each source, sorted by name; large files come first."""
    sizes = {source.name: source.measure()[0] for source in sources}
    ordered = sorted(sources, key=lambda source: (-sizes[source.name], source.name))
    (folder / _SCRATCH).mkdir()
    jobs = [(source, folder / _SCRATCH / f"{place}.chunks") for place, source in enumerate(ordered)]
    is_little = config.workers is None and sum(sizes.values()) < LITTLE_INPUT
    # What this process may use can be less than what the machine has; not every system tells.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    num_workers = None if on_cluster else 1 if is_little else min(config.workers or cores, len(jobs))
    drafts: list[Draft] = []
    num_rows = 0

    def show(rows: int) -> None:
        report(ProgressEvent(stage="read", done=len(drafts), total=len(jobs), rows=num_rows + rows))

    arguments: list[Any] = [(folder / TOKENIZER_FILE).read_text(encoding="utf-8"), config]
    here: Sequence[tuple[Source, Path | None]] = jobs
    if num_workers is None:
        here = [(replace(s, path=s.path if is_remote(s.path) else s.path.absolute()), None) for s, _ in jobs]
    elif num_workers == 1:
        arguments.append(show)
    try:
        with closing(run_jobs(_make_drafter, arguments, here, num_workers=num_workers)) as results:
            for place, (draft, encoded) in results:
                source, chunks = jobs[place]
                if encoded is not None:
                    encoded.tofile(chunks)
                drafts.append(replace(draft, source=source, chunks=chunks))
                num_rows += draft.num_rows
                show(0)
    except BrokenProcessPool as error:
        read = {draft.name for draft in drafts}
        begun = [str(source.path) for source, chunks in jobs if chunks.exists() and source.name not in read]
        raise CorpusError(
            f"A worker was killed or crashed (out of memory?) while reading {' or '.join(begun)}. Try fewer workers."
        ) from error
    return sorted(drafts, key=lambda draft: draft.name)


def _make_drafter(
    tokenizer: str, config: PrepareConfig, show: Callable[[int], None] | None = None
) -> Callable[[tuple[Source, Path | None]], tuple[Draft, NDArray[np.uint8] | None]]:
    """Return what a worker does with a source: its draft, and its encoded chunks where there is no file for them."""
    encoder = RowEncoder(Tokenizer.from_str(tokenizer), config)

    def draft(job: tuple[Source, Path | None]) -> tuple[Draft, NDArray[np.uint8] | None]:
        source, chunks = job
        if chunks is None:
            with scratch_folder() as folder:
                return draft((source, folder / "chunks"))[0], np.fromfile(folder / "chunks", np.uint8)
        for made in draft_source(source, chunks, encoder, config):
            if show is not None:
                show(made.num_rows)
        return made, None

    return draft


def draft_source(source: Source, chunks: Path, encoder: RowEncoder, config: PrepareConfig) -> Iterator[Draft]:
    """Read and encode a source into a file of chunks; yield the draft after each, and once more when it is done.

    A source that cannot be read, or not to its end, is an error only where reading is strict.
    """
    report = ReadReport()
    draft = Draft(source=source, chunks=chunks, report=report)
    try:
        with chunks.open("wb") as file:
            for chunk in read_chunks(source, report, config.read):
                (encoded,) = encoder.encode_chunks([chunk], config.max_unknown_share)
                pickle.dump(encoded, file, protocol=pickle.HIGHEST_PROTOCOL)
                draft.headers |= dict.fromkeys(chunk.headers)
                draft.encoded_headers |= {chunk.headers[place] for place in np.unique(encoded.segment_header)}
                draft.num_rows += encoded.num_rows
                draft.num_text += encoded.num_text
                draft.num_bad += encoded.num_bad
                if encoded.num_beyond:
                    report.cells[BEYOND_MAX_TOKENS] += encoded.num_beyond
                yield draft
    except (TableError, MissingExtraError) as error:
        if config.read.strict:
            raise TableError(str(error)) from error
        draft.trouble = str(error)
        if missing := report.kept - draft.num_rows:
            report.dropped[READING_ENDED] += missing
        if report.read:
            report.places.setdefault(READING_ENDED, []).append(draft.trouble)
    yield draft


def _read_encoded(file: Path) -> Iterator[EncodedChunk]:
    """Yield the chunks of a draft, holding one at a time in memory."""
    with file.open("rb") as content:
        while content.peek(1):
            yield pickle.load(content)


# Which tables and rows stay, and how they are split


def select_tables(drafts: Sequence[Draft], config: PrepareConfig) -> None:
    """Decide about each draft: vocabulary first, then the largest tables, then how many rows, then which are unseen."""
    rows = {draft.name: draft.num_rows for draft in drafts if draft.num_rows}
    is_checked = config.max_unknown_share is not None
    foreign = {draft.name for draft in drafts if is_checked and draft.num_bad > config.max_bad_share * draft.num_text}
    ranked = sorted(rows.keys() - foreign, key=lambda name: (-rows[name], name))
    quotas = share_rows({name: rows[name] for name in sorted(ranked[: config.largest_tables])}, config.total_rows)
    for draft in drafts:
        lost = draft.num_rows - quotas.get(draft.name, 0)
        reason = VOCABULARY if draft.name in foreign else SAMPLED if draft.name in quotas else NOT_LARGEST
        draft.dropped = Counter({reason: lost} if lost else {})
    kept = [name for name, quota in quotas.items() if quota]
    if not kept and foreign:
        raise CorpusError(
            f"No table is left: the tokenizer's vocabulary misses too much of {', '.join(sorted(foreign))}. "
            "Take another backbone, or switch the check off with max_unknown_share=None."
        )
    if not kept:
        reasons = join_reasons([draft.trouble or draft.report.explanation for draft in drafts])
        files = "1 file was" if len(drafts) == 1 else f"{len(drafts)} files were"
        raise CorpusError(f"No table has any row: {files} read. {reasons}")
    held_out = choose_held_out(kept, config)
    for draft in drafts:
        draft.held_out = held_out.get(draft.name)


def share_rows(rows: Mapping[str, int], total: int | None) -> dict[str, int]:
    """Return how many rows each table keeps of `total`, in proportion to what it has.

    What rounding leaves over goes to the largest remainders, so the sum is `total` exactly.

    >>> share_rows({"a": 60, "b": 30, "c": 10}, 11)
    {'a': 7, 'b': 3, 'c': 1}
    """
    available = sum(rows.values())
    if total is None or total >= available:
        return dict(rows)
    quotas = {name: count * total // available for name, count in rows.items()}
    by_remainder = sorted(rows, key=lambda name: (-(rows[name] * total % available), name))
    for name in by_remainder[: total - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def choose_held_out(tables: Sequence[str], config: PrepareConfig) -> dict[str, int]:
    """Return the split of each table kept out of training: those named, or so many drawn by name and seed."""
    chosen: dict[str, int] = {}
    for key, split in (("unseen_tables", UNSEEN), ("validation_tables", VALIDATION_TABLES)):
        asked = getattr(config, key)
        if isinstance(asked, int):
            left = [name for name in tables if name not in chosen]
            drawn = mix(hash_texts(left), hash_text(f"unseen {config.seed}")) if left else np.zeros(0)
            asked = tuple(left[place] for place in np.argsort(drawn)[:asked])
        if unknown := sorted(set(asked) - set(tables)):
            raise ConfigError(
                f"{key} names {', '.join(unknown)}, which no table kept is called. "
                f"The tables are {', '.join(sorted(tables))}."
            )
        if twice := sorted(set(asked) & chosen.keys()):
            raise ConfigError(f"{key} names {', '.join(twice)}, which unseen_tables has already.")
        chosen |= dict.fromkeys(asked, split)
        if len(chosen) >= len(tables):
            raise ConfigError(f"{key} leaves no table to train on: {len(chosen)} of {len(tables)} are kept out.")
    return chosen


def split_rows(row_hash: Hashes, config: PrepareConfig) -> NDArray[np.int8]:
    """Return the split of each row: a matter of its content and the seed alone, so copies of a row stay together."""
    drawn = mix(row_hash, hash_text(f"split {config.seed}")) / 2.0**64
    splits = np.full(len(row_hash), TRAIN, np.int8)
    splits[drawn < config.validation_share + config.test_share] = TEST
    splits[drawn < config.validation_share] = VALIDATION
    return splits


# Merging


def _merge(drafts: Sequence[Draft], merger: Merger, config: PrepareConfig, report: Progress) -> list[dict[str, Any]]:
    """Take in the rows that stay, and return the manifest's entry for each table."""
    entries: list[dict[str, Any]] = []
    rows = 0
    for draft in drafts:
        splits, num_tokens = np.zeros(len(SPLITS), np.int64), 0
        if draft.kept:
            merger.begin_table(draft.name)
            stays = np.ones(draft.num_rows, np.bool_)
            if draft.dropped[SAMPLED]:
                # Which rows stay is a matter of their content and the seed.
                hashes = np.concatenate([chunk.row_hash for chunk in _read_encoded(draft.chunks)])
                stays[np.argsort(mix(hashes, hash_text(f"sample {config.seed}")), kind="stable")[draft.kept :]] = False
            for chunk in _read_encoded(draft.chunks):
                here, stays = np.split(stays, [chunk.num_rows])
                stay = np.flatnonzero(here)
                row_split = split_rows(chunk.row_hash, config)
                if draft.held_out is not None:
                    row_split[:] = draft.held_out
                merger.add(chunk, row_split, stay)
                splits += np.bincount(row_split[stay], minlength=len(SPLITS))
                num_tokens += int(chunk.row_tokens[stay].sum())
        draft.chunks.unlink()
        entries.append(_describe_table(draft, splits.tolist(), num_tokens))
        rows += draft.kept
        report(ProgressEvent(stage="merge", done=len(entries), total=len(drafts), rows=rows))
    return entries


# The manifest


def _describe_table(draft: Draft, splits: Sequence[int], num_tokens: int) -> dict[str, Any]:
    """Return the manifest's entry for a table: `read` rows are those `kept` and those `dropped`."""
    report = draft.report
    dropped = report.dropped + draft.dropped
    headers = order_headers(report.headers, draft.headers)
    empty = [header for header in headers if header not in draft.headers]
    notes = [f"columns without any cell: {', '.join(empty)}"] if empty and draft.headers else []
    assert report.read == draft.kept + dropped.total(), f"rows of {draft.name} do not add up"
    return {
        "name": draft.name,
        "path": show_path(draft.source.path),
        "read": report.read,
        "kept": draft.kept,
        "tokens": num_tokens,
        "splits": dict(zip(SPLITS, splits, strict=True)),
        "dropped": dict(sorted(dropped.items())),
        "cells": dict(sorted(report.cells.items())),
        "fields": {"text": draft.num_text, "bad": draft.num_bad},
        "headers": headers,
        "beyond": [header for header in headers if header in draft.headers and header not in draft.encoded_headers],
        "notes": report.notes + notes + ([draft.trouble] if draft.trouble else []),
        "places": dict(sorted(report.places.items())),
    }


def _make_manifest(
    folder: Path,
    encoded: Encoded,
    tables: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[Path, str]],
    config: PrepareConfig,
    report: Progress,
) -> dict[str, Any]:
    """Return the manifest; the fingerprint stands for the content of all files."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files: dict[str, dict[str, Any]] = {}
    for path in paths:
        sync(path)
        digests = {"sha256": digest_file(path), "sample": digest_sample(path)}
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, **digests}
        report(ProgressEvent(stage="write", done=len(files), total=len(paths), rows=encoded.arrays.num_rows))
    content = "\n".join(f"{name} {entry['sha256']}" for name, entry in files.items())
    arrays, columns = encoded.arrays, {table["name"]: table["headers"] for table in tables if table["kept"]}
    return {
        "format_version": FORMAT_VERSION,
        "navi_version": VERSION,
        "fingerprint": hashlib.sha256(content.encode()).hexdigest(),
        "tokenizer": files[TOKENIZER_FILE]["sha256"],
        "settings": config.as_settings(),
        "totals": {
            "tables": len(encoded.tables),
            "read": sum(table["read"] for table in tables),
            "rows": arrays.num_rows,
            "cells": len(arrays.row_segments),
            "tokens": sum(table["tokens"] for table in tables),
            "segments": arrays.num_segments,
            "values": len(encoded.values),
            "value_tokens": len(arrays.value_tokens),
            "headers": arrays.num_headers,
            "attributes": len(encoded.attributes),
            "columns": arrays.num_columns,
        },
        "notes": load_attributes(config.attributes).find_unused(columns),
        "skipped": [{"path": show_path(path), "reason": reason} for path, reason in sorted(skipped)],
        "files": files,
        "tables": tables,
    }
