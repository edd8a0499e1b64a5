"""What people know of a corpus: columns that mean the same, classes of rows, other names of headers."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np

from navi.corpus.arrays import gather_ranges
from navi.errors import ConfigError
from navi.files import read_json
from navi.settings import find_misfit
from navi_paper.table_encoder import Bools, Ints

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: N labelled rows, K columns.

LabelledRows = Any
"""A record array of rows with their classes: `rows`, ascending, and `labels`."""
FILES = {"concepts": "concepts.csv", "labels": "labels.json", "synonyms": "synonyms.json"}
"""The kinds of gold, and the file of each beside the tables."""
REMEDY = "Expected a JSON object."


@dataclass(frozen=True, kw_only=True)
class Gold:
    """Gold for some corpus; an empty part is one that nobody wrote."""

    concepts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Concept of each (table, header)."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Classes, label columns, how to read them, and the columns that give them away."""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names of a header, none of which is in the corpus."""

    @classmethod
    def find(cls, prefix: str | Path) -> Gold:
        """Read `PREFIX_concepts.csv`, `PREFIX_labels.json` and `PREFIX_synonyms.json`, those that are there."""
        files = {part: Path(f"{prefix}_{name}") for part, name in FILES.items()}
        found = {part: file for part, file in files.items() if file.is_file()}
        if not found:
            raise ConfigError(f"There is no gold at {prefix}: none of {', '.join(map(str, files.values()))} is a file.")
        concepts = _read_concepts(found["concepts"]) if "concepts" in found else {}
        labels, synonyms = (
            _read(found[part], kind) if part in found else {}
            for part, kind in (("labels", LabelsFile), ("synonyms", dict[str, list[str]]))
        )
        return cls(concepts=concepts, labels=labels, synonyms={name: tuple(own) for name, own in synonyms.items()})

    @cached_property
    def fingerprint(self) -> str:
        """Stands for all of the gold."""
        parts = [sorted([*place, concept] for place, concept in self.concepts.items()), self.labels, self.synonyms]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def lacks(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of these parts that are empty."""
        return tuple(part for part in parts if not getattr(self, part))


class LabelEntry(TypedDict):
    """Where the classes of a table's rows stand."""

    label: str | None
    hide: NotRequired[list[str]]
    separator: NotRequired[str | None]


class LabelsFile(TypedDict, total=False):
    """What `PREFIX_labels.json` holds."""

    classes: list[str]
    aliases: dict[str, str]
    strip: str
    tables: dict[str, LabelEntry]


def _read(file: Path, kind: Any) -> dict[str, Any]:
    content = read_json(file, ConfigError, REMEDY)
    if misfit := find_misfit(content, kind):
        raise ConfigError(f"Cannot read {file}: {misfit}. {REMEDY}")
    return content


def read_labels(corpus: Corpus, gold: Mapping[str, Any]) -> LabelledRows:
    """Return the rows that have one of the gold's classes.

    `gold` has `classes`, `aliases` (text → class), perhaps `strip` (letters cut from both ends), and for each of its
    `tables` either one `class` for all rows, or the header of a `label` column and a `separator`: then the class is
    that of the text before the first separator. A row whose text is no alias has no class.
    """
    tables = gold.get("tables", {})
    found = [_read_table(corpus, table, entry, gold) for table, entry in tables.items() if table in corpus.tables]
    rows = np.concatenate([np.zeros(0, np.int64), *(each for each, _ in found)])
    return _label(rows, [label for _, labels in found for label in labels])


def find_revealing_columns(corpus: Corpus, gold: Mapping[str, Any]) -> Bools:
    """Return which columns hold a label, or give it away, and must be hidden: (K,)."""
    hide = {
        table: tuple(name for name in (entry.get("label"), *entry.get("hide", ())) if name is not None)
        for table, entry in gold.get("tables", {}).items()
    }
    return find_headers(corpus, hide)


def find_headers(corpus: Corpus, hide: Mapping[str, Sequence[str]]) -> Bools:
    """Return which columns have one of these headers (table → headers), or one nested in it: (K,).

    `genres` stands for `genres.0.name`, too.
    """
    return np.array(
        [
            any(header == name or header.startswith(f"{name}.") for name in hide.get(table, ()))
            for table, header in zip(*name_columns(corpus), strict=True)
        ],
        dtype=np.bool_,
    )


def name_columns(corpus: Corpus) -> tuple[list[str], list[str]]:
    """Return table and header of each column of a corpus: (K,) each."""
    headers: list[str] = corpus.headers.take(np.asarray(corpus.arrays.column_header)).to_pylist()
    return [corpus.tables[table] for table in corpus.arrays.column_table], headers


def _label(rows: Ints, labels: list[str]) -> LabelledRows:
    """Return those of the rows that have a label, ascending."""
    labelled: LabelledRows = np.rec.fromarrays(
        [rows, np.array(labels, dtype=np.str_)], names="rows,labels", formats=None
    )
    labelled = labelled[np.argsort(rows, kind="stable")]
    return labelled[labelled.labels != ""]


def _read_table(
    corpus: Corpus, table: str, entry: Mapping[str, Any], gold: Mapping[str, Any]
) -> tuple[Ints, list[str]]:
    """Return the rows of a table, and the class of each; an empty text for none."""
    if entry.get("label") is None:
        rows = np.flatnonzero(corpus.arrays.row_table == corpus.tables.index(table))
        return rows, [str(entry["class"])] * len(rows)
    classes, aliases = set(gold.get("classes", ())), gold.get("aliases", {})
    rows, texts = _read_cells(corpus, table, entry["label"])
    parsed = [aliases.get(_parse(text, entry.get("separator"), gold.get("strip")), "") for text in texts]
    return rows, [label if label in classes else "" for label in parsed]


def _parse(text: str, separator: str | None, strip: str | None) -> str:
    first = text.split(separator)[0] if separator is not None else text
    return first.strip(strip).lower()


def _read_cells(corpus: Corpus, table: str, header: str) -> tuple[Ints, list[str]]:
    """Return the rows of a table that have a cell of this header, ascending, and the texts of these cells."""
    arrays = corpus.arrays
    headers: list[str] = corpus.headers.to_pylist()
    if header not in headers or table not in corpus.tables:
        return np.zeros(0, dtype=np.int64), []
    rows = np.flatnonzero(arrays.row_table == corpus.tables.index(table))
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segments = arrays.row_segments[cells]
    chosen = arrays.segment_header[segments] == headers.index(header)
    texts: list[str] = corpus.values.take(np.asarray(arrays.segment_value[segments[chosen]])).to_pylist()
    return np.repeat(rows, lengths)[chosen], texts


def _read_concepts(file: Path) -> dict[tuple[str, str], str]:
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        lacking = {"table", "header", "concept"} - set(reader.fieldnames or ())
        if lacking:
            raise ConfigError(f"{file} lacks the columns {', '.join(sorted(lacking))}.")
        return {(line["table"], line["header"]): line["concept"] for line in reader}
