"""Rows with a class: how a label is read from a table, and which columns would give it away."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus import SPLITS, Corpus
from navi.corpus.arrays import gather_ranges
from navi.errors import ConfigError
from navi.randomness import fold, make_key, order_keys
from navi_paper.bench import Bench
from navi_paper.columns import name_columns
from navi_paper.gold import Gold

# Shape suffixes: N labelled rows, K columns.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MAX_ROWS = 250
"""Rows of a class that are taken, at most."""
FEW_ROWS = 100
"""A class with fewer test rows than this takes every held-out row."""
SINGLE_TABLES = "single_tables"
"""Where gold labels keep the classes that single tables have."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Rows of a corpus with their classes."""

    rows: Ints
    """(N,) the rows, ascending."""
    labels: NDArray[np.str_]
    """(N,) the class of each."""

    def keep(self, kept: Bools) -> Labelled:
        """Return some of the rows."""
        return Labelled(rows=self.rows[kept], labels=self.labels[kept])


@dataclass(frozen=True, kw_only=True)
class SingleTable:
    """A column of one table whose values are classes."""

    name: str
    """What the classes are called in results."""
    table: str
    """The table."""
    label: str
    """The header of the column."""
    hide: tuple[str, ...] = ()
    """Headers of other columns that give the class away."""
    separator: str | None = None
    """What stands behind the first of several classes in a cell; None for one class a cell."""
    min_rows: int = 20
    """A class with fewer rows in the pool is left out."""
    max_classes: int = 10
    """Classes that are kept, those with the most rows."""

    def __post_init__(self) -> None:
        for field in ("min_rows", "max_classes"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} of '{self.name}' must be at least 1, got {getattr(self, field)}.")


def read_single_tables(file: str | Path) -> dict[str, dict[str, Any]]:
    """Read `{name: {"table": …, "label": …, "hide": […], …}}`, as `SingleTable` has it, from a JSON file."""
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read the single tables in {file}: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} must hold a JSON object, found a {type(found).__name__}.")
    for name, entry in found.items():
        make_single_table(name, entry)
    return found


def add_single_tables(gold: Gold, file: str | Path) -> Gold:
    """Return gold that has a file's single tables among its labels."""
    return replace(gold, labels={**gold.labels, SINGLE_TABLES: read_single_tables(file)})


def make_single_table(name: str, entry: Any) -> SingleTable:
    """Return what an entry of such a file describes."""
    if not isinstance(entry, dict):
        raise ConfigError(f"The single table '{name}' must be a JSON object, found a {type(entry).__name__}.")
    try:
        return SingleTable(name=name, **{**entry, "hide": tuple(entry.get("hide", ()))})
    except TypeError as error:
        raise ConfigError(f"The single table '{name}' has other entries than expected: {error}.") from error


def read_labels(corpus: Corpus, gold: Mapping[str, Any]) -> Labelled:
    """Return the rows that have one of the gold's classes.

    `gold` has `classes`, `aliases` (text → class), perhaps `strip` (letters cut from both ends), and for each of its
    `tables` either one `class` for all rows, or the header of a `label` column and a `separator`: then the class is
    that of the text before the first separator. A row whose text is no alias has no class.
    """
    found = [
        _read_table(corpus, table, entry, gold)
        for table, entry in gold.get("tables", {}).items()
        if table in corpus.tables
    ]
    return _join(found)


def read_single_table(corpus: Corpus, single: SingleTable) -> Labelled:
    """Return the rows of a table that have a label, each text in small letters being a class."""
    if single.table not in corpus.tables:
        return _join([])
    rows, texts = _read_cells(corpus, single.table, single.label)
    labels = np.array([_parse(text, single.separator, None) for text in texts], dtype=np.str_)
    return Labelled(rows=rows, labels=labels).keep(labels != "")


def find_revealing_columns(corpus: Corpus, hide: Mapping[str, Sequence[str]]) -> Bools:
    """Tell of each column whether it must be hidden (table → headers): (K,).

    A header stands for those nested in it too: `genres` hides `genres.0.name`.
    """
    tables, headers = name_columns(corpus)
    hidden = {table: tuple(names) for table, names in hide.items()}
    return np.array(
        [
            any(header == name or header.startswith(f"{name}.") for name in hidden.get(table, ()))
            for table, header in zip(tables, headers, strict=True)
        ],
        dtype=np.bool_,
    )


def list_hidden(gold: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the headers that a table must not show: its label and what gives it away."""
    return {
        table: tuple(name for name in (entry.get("label"), *entry.get("hide", ())) if name is not None)
        for table, entry in gold.get("tables", {}).items()
    }


def draw_pool(bench: Bench, labelled: Labelled, purpose: int) -> Labelled:
    """Return at most MAX_ROWS test rows of each class; a class with few of them takes from all rows held out.

    Rows that were trained on, or that some encoder cannot see whole, are never drawn.
    """
    split = bench.corpus.row_split[labelled.rows]
    usable = (split != SPLITS.index("train")) & (bench.row_tokens[labelled.rows] <= bench.config.max_tokens)
    labelled, split = labelled.keep(usable), split[usable]
    in_test = split == SPLITS.index("test")
    keys = order_keys(fold(make_key(bench.config.seed, purpose), labelled.rows))
    drawn = np.zeros(len(labelled.rows), dtype=np.bool_)
    for label in np.unique(labelled.labels):
        own = np.flatnonzero(labelled.labels == label)
        tested = own[in_test[own]]
        pool = tested if len(tested) >= FEW_ROWS else own
        drawn[pool[np.argsort(keys[pool], kind="stable")[:MAX_ROWS]]] = True
    return labelled.keep(drawn)


def keep_classes(labelled: Labelled, min_rows: int, max_classes: int) -> Labelled:
    """Return the rows of the largest classes that have enough of them."""
    classes, counts = np.unique(labelled.labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:max_classes]
    kept = classes[order[counts[order] >= min_rows]]
    return labelled.keep(np.isin(labelled.labels, kept))


def _read_table(corpus: Corpus, table: str, entry: Mapping[str, Any], gold: Mapping[str, Any]) -> Labelled:
    classes = set(gold.get("classes", ()))
    if entry.get("label") is None:
        rows = np.flatnonzero(corpus.arrays.row_table == corpus.tables.index(table))
        return Labelled(rows=rows, labels=np.full(len(rows), str(entry["class"])))
    aliases: Mapping[str, str] = gold.get("aliases", {})
    rows, texts = _read_cells(corpus, table, entry["label"])
    parsed = [aliases.get(_parse(text, entry.get("separator"), gold.get("strip")), "") for text in texts]
    labels = np.array([label if label in classes else "" for label in parsed], dtype=np.str_)
    return Labelled(rows=rows, labels=labels).keep(labels != "")


def _parse(text: str, separator: str | None, strip: str | None) -> str:
    first = text.split(separator)[0] if separator is not None else text
    return first.strip(strip).lower()


def _read_cells(corpus: Corpus, table: str, header: str) -> tuple[Ints, list[str]]:
    """Return the rows of a table that have a cell of this header, ascending, and the texts of these cells."""
    arrays = corpus.arrays
    headers: list[str] = corpus.headers.to_pylist()
    if header not in headers:
        return np.zeros(0, dtype=np.int64), []
    rows = np.flatnonzero(arrays.row_table == corpus.tables.index(table))
    lengths, cells = gather_ranges(arrays.row_offsets, rows)
    segments = arrays.row_segments[cells]
    chosen = arrays.segment_header[segments] == headers.index(header)
    texts: list[str] = corpus.values.take(np.asarray(arrays.segment_value[segments[chosen]])).to_pylist()
    return np.repeat(rows, lengths)[chosen], texts


def _join(found: Sequence[Labelled]) -> Labelled:
    """Return all rows together, ascending."""
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(each.rows for each in found)])
    labels = np.concatenate([np.zeros(0, dtype=np.str_), *(each.labels for each in found)])
    order = np.argsort(rows, kind="stable")
    return Labelled(rows=rows[order], labels=labels[order])
