"""Preparing: from files to a corpus, all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from navi.backbones import load_tokenizer
from navi.corpus.attributes import load_attributes
from navi.corpus.columns import ScratchFolder
from navi.corpus.config import PrepareConfig
from navi.corpus.corpus import Corpus
from navi.corpus.drafts import Draft
from navi.corpus.encoded import Encoded
from navi.corpus.manifest import (
    MANIFEST_FILE,
    TOKENIZER_FILE,
    count_totals,
    describe_table,
    make_manifest,
    write_manifest,
)
from navi.corpus.merge import Merger
from navi.corpus.selection import Selection, iterate_rows, select
from navi.corpus.splits import SPLITS
from navi.corpus.storage import make_batches, write_batch
from navi.corpus.target import build, check_target
from navi.corpus.workers import Job, count_workers, make_drafts
from navi.errors import CorpusError
from navi.tables import Source, find_sources

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PART_OF_CORPUS = "part of a corpus"
"""Reason of a skipped file: it lies in a corpus directory."""


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


def prepare(
    paths: Sequence[str | Path],
    out: str | Path,
    config: PrepareConfig | None = None,
    progress: Progress | None = None,
    *,
    overwrite: bool = False,
) -> Corpus:
    """Make a corpus of all tables among files, folders and glob patterns, and open it.

    The directory appears when it is complete and not before. An existing one is replaced only if it is a corpus and
    `overwrite` is set. The same tables and settings give the same bytes, whatever the number of workers.
    """
    config, target = config or PrepareConfig(), Path(out)
    check_target(target, overwrite)
    sources, skipped = _find(paths)
    tokenizer = load_tokenizer(config.backbone)
    with build(target) as folder:
        files = {TOKENIZER_FILE: _save_tokenizer(tokenizer, folder / TOKENIZER_FILE)}
        scratch = ScratchFolder(folder / "scratch")
        report = progress or _ignore
        drafts = _make_drafts(sources, folder, config, report)
        skipped += [(draft.source.path, draft.trouble) for draft in drafts if draft.trouble and not draft.losses.read]
        encoded, tables = _merge(drafts, lambda: Merger(scratch.make, tokenizer, config), config, report)
        files |= _write(folder, encoded, scratch.files, report)
        manifest = make_manifest(
            settings=config.as_settings(),
            files=files,
            tables=tables,
            skipped=skipped,
            notes=load_attributes(config.attributes).find_unused(_list_columns(encoded)),
            totals=count_totals(encoded, tables),
        )
        scratch.remove()
        write_manifest(folder, manifest)
    return Corpus.open(target)


def _ignore(event: ProgressEvent) -> None:
    del event


def _find(paths: Sequence[str | Path]) -> tuple[list[Source], list[tuple[Path, str]]]:
    """Return the tables, and the files left aside with the reason."""
    found = find_sources(paths)
    sources, skipped = [], list(found.skipped)
    for source in found.sources:
        if (source.path.parent / MANIFEST_FILE).is_file():
            skipped.append((source.path, PART_OF_CORPUS))
        else:
            sources.append(source)
    if not sources:
        raise CorpusError(f"No tables in {', '.join(map(str, paths))}: all files are {PART_OF_CORPUS}.")
    return sources, skipped


def _save_tokenizer(tokenizer: Tokenizer, file: Path) -> dict[str, Any]:
    content = tokenizer.to_str(pretty=True).encode()
    file.write_bytes(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _make_drafts(sources: Sequence[Source], folder: Path, config: PrepareConfig, report: Progress) -> list[Draft]:
    jobs = [Job(source, folder / "scratch" / f"{place}.pieces") for place, source in enumerate(sources)]
    drafts: list[Draft] = []
    rows = 0
    with closing(make_drafts(jobs, folder, config, count_workers(sources, config))) as replies:
        for reply in replies:
            if isinstance(reply, Draft):
                drafts.append(reply)
            else:
                rows += reply
            report(ProgressEvent(stage="read", done=len(drafts), total=len(jobs), rows=rows))
    return drafts


def _merge(
    drafts: Sequence[Draft], make_merger: Callable[[], Merger], config: PrepareConfig, report: Progress
) -> tuple[Encoded, list[dict[str, Any]]]:
    """Return the merged tables, and an entry of the manifest for each table read."""
    selections = select([draft for draft in drafts if draft.losses.read or not draft.trouble], config)
    merger = make_merger()
    tables: list[dict[str, Any]] = []
    rows = 0
    for selection in selections:
        splits, num_tokens = _merge_table(selection, merger, config) if selection.kept else ([0] * len(SPLITS), 0)
        tables.append(describe_table(selection, splits, num_tokens))
        rows += selection.kept
        report(ProgressEvent(stage="merge", done=len(tables), total=len(selections), rows=rows))
    return merger.finish(), tables


def _merge_table(selection: Selection, merger: Merger, config: PrepareConfig) -> tuple[list[int], int]:
    """Return the rows of each split, and the tokens of all."""
    merger.begin_table(selection.name)
    counts, num_tokens = np.zeros(len(SPLITS), np.int64), 0
    for piece, row_split, stay in iterate_rows(selection, config):
        merger.add(piece, row_split, stay)
        kept = slice(None) if stay is None else stay
        counts += np.bincount(row_split[kept], minlength=len(SPLITS))
        num_tokens += int(piece.row_tokens[kept].sum())
    merger.end_table()
    selection.draft.pieces.unlink()
    return counts.tolist(), num_tokens


def _write(folder: Path, encoded: Encoded, known: Mapping[int, Path], report: Progress) -> dict[str, dict[str, Any]]:
    batches = make_batches(encoded)
    files = {}
    for done, (name, batch) in enumerate(batches.items(), start=1):
        digest = write_batch(folder / name, batch, known)
        files[name] = {"bytes": (folder / name).stat().st_size, "sha256": digest}
        report(ProgressEvent(stage="write", done=done, total=len(batches), rows=encoded.arrays.num_rows))
    return files


def _list_columns(encoded: Encoded) -> dict[str, set[str]]:
    columns: dict[str, set[str]] = {name: set() for name in encoded.tables}
    headers = encoded.headers.to_pylist()
    for table, header in zip(encoded.columns.table, encoded.columns.header, strict=True):
        columns[encoded.tables[table]].add(headers[header])
    return columns
