"""The manifest of a corpus: what it was made from, how, and what was left out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from navi.corpus.encoded import Encoded
from navi.corpus.selection import Selection
from navi.corpus.splits import SPLITS
from navi.errors import CorpusError
from navi.version import VERSION

MANIFEST_FILE = "corpus.json"
TOKENIZER_FILE = "tokenizer.json"
FORMAT_VERSION = 1
"""Raised whenever a corpus can no longer be read by an older version."""


def describe_table(selection: Selection, splits: Sequence[int], num_tokens: int) -> dict[str, Any]:
    """Return the manifest's entry for a table: `read` rows are those `kept` and those `dropped`."""
    losses = selection.draft.losses
    dropped = losses.dropped + selection.dropped
    assert losses.read == selection.kept + dropped.total(), f"rows of {selection.name} do not add up"
    trouble = selection.draft.trouble
    return {
        "name": selection.name,
        "path": selection.draft.source.path.as_posix(),
        "read": losses.read,
        "kept": selection.kept,
        "tokens": num_tokens,
        "splits": dict(zip(SPLITS, splits, strict=True)),
        "dropped": dict(sorted(dropped.items())),
        "cells": dict(sorted(losses.cells.items())),
        "fields": selection.draft.fields._asdict(),
        "notes": losses.notes + ([trouble] if trouble else []),
        "places": dict(sorted(losses.places.items())),
    }


def count_totals(encoded: Encoded, tables: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sizes of the whole corpus."""
    arrays = encoded.arrays
    return {
        "tables": len(encoded.tables),
        "read": sum(table["read"] for table in tables),
        "rows": arrays.num_rows,
        "cells": len(arrays.row_segments),
        "tokens": sum(table["tokens"] for table in tables),
        "segments": arrays.num_segments,
        "values": len(encoded.values),
        "value_tokens": len(arrays.value_tokens),
        "headers": len(encoded.headers),
        "attributes": len(encoded.attributes),
        "columns": len(arrays.column_table),
    }


def make_manifest(
    *,
    settings: Mapping[str, Any],
    files: Mapping[str, Mapping[str, Any]],
    tables: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[Path, str]],
    notes: Sequence[str],
    totals: Mapping[str, int],
) -> dict[str, Any]:
    """Return the manifest; the fingerprint stands for the content of all files."""
    digests = "\n".join(f"{name} {entry['sha256']}" for name, entry in files.items())
    return {
        "format_version": FORMAT_VERSION,
        "navi_version": VERSION,
        "fingerprint": hashlib.sha256(digests.encode()).hexdigest(),
        "tokenizer": files[TOKENIZER_FILE]["sha256"],
        "settings": settings,
        "totals": totals,
        "notes": notes,
        "skipped": [{"path": path.as_posix(), "reason": reason} for path, reason in sorted(skipped)],
        "files": files,
        "tables": tables,
    }


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest into a corpus directory."""
    text = json.dumps(manifest, ensure_ascii=False, indent=1)
    with (folder / MANIFEST_FILE).open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a corpus directory, or say why it is none that can be read."""
    if not folder.is_dir():
        raise CorpusError(f"No corpus at {folder}: no such directory. `navi prepare PATHS… -o {folder}` makes one.")
    file = folder / MANIFEST_FILE
    if not file.is_file():
        hint = _guess_kind(folder)
        raise CorpusError(
            f"{folder} is not a corpus: it has no {MANIFEST_FILE}{hint}. `navi prepare PATHS… -o CORPUS` makes one."
        )
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        version = manifest["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"Cannot read {file}: it is damaged ({error}). Prepare the corpus again.") from error
    if version != FORMAT_VERSION:
        raise CorpusError(
            f"{folder} has format version {version}, this is NAVI {VERSION} and reads {FORMAT_VERSION}. "
            "Prepare the corpus again, or use the version that made it."
        )
    checked: dict[str, Any] = manifest
    return checked


def _guess_kind(folder: Path) -> str:
    if any((folder / name).is_file() for name in ("model.safetensors", "config.json", "navi.json")):
        return "; it looks like a model directory"
    return ""
