"""Inspection: what a corpus, or tables that might become one, look like column by column."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLES
from navi.corpus.columns import gather_lists
from navi.corpus.config import PrepareConfig
from navi.corpus.corpus import Corpus
from navi.corpus.prepare import Progress, prepare
from navi.corpus.splits import SPLITS

SINGLE_CELL = "one cell that trains"
"""Trouble of a column whose diversity cannot be told: its role is low for want of another."""
_MOSTLY_EMPTY = 0.1
_MANY_UNKNOWN = 0.3
_MANY_CUT = 0.5
_LONGEST_EXAMPLE = 60


def inspect_paths(
    paths: Sequence[str | Path], config: PrepareConfig | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Return what `inspect_corpus` says of the corpus that these paths would give; nothing is left on disk."""
    with tempfile.TemporaryDirectory(prefix="navi-inspect-") as folder:
        return inspect_corpus(prepare(paths, Path(folder) / "corpus", config, progress))


def inspect_corpus(corpus: Corpus) -> dict[str, Any]:
    """Return tables, their columns and the totals of a corpus, ready for JSON."""
    entries = [table for table in corpus.manifest["tables"] if table["kept"]]
    begins = np.searchsorted(corpus.columns.table, np.arange(len(entries) + 1))
    single = _find_single(corpus)
    tables = []
    for place, entry in enumerate(entries):
        columns = [
            _describe_column(corpus, column, bool(single[column])) for column in range(begins[place], begins[place + 1])
        ]
        names = ("read", "dropped", "cells", "places", "notes", "splits")
        tables.append(
            {"name": entry["name"], "rows": entry["kept"], "columns": columns} | {name: entry[name] for name in names}
        )
    left_out = [table for table in corpus.manifest["tables"] if not table["kept"]]
    return {
        "tables": tables,
        "left_out": [
            {name: table[name] for name in ("name", "read", "dropped", "places", "notes")} for table in left_out
        ],
        "skipped": corpus.manifest["skipped"],
        "totals": corpus.manifest["totals"],
    }


def _find_single(corpus: Corpus) -> NDArray[np.bool_]:
    """Return which columns have one cell alone to tell their diversity by, that trains or is of an unseen table."""
    arrays, facts = corpus.arrays, corpus.columns
    single = np.zeros(len(facts.table), np.bool_)
    counted = np.isin(corpus.row_split, [SPLITS.index("train"), SPLITS.index("unseen")])
    for table in np.unique(facts.table[facts.entropy == 0]):
        begin, end = np.searchsorted(arrays.row_table, [table, table + 1])
        rows = begin + np.flatnonzero(counted[begin:end])
        _, segments = gather_lists(arrays.row_offsets, arrays.row_segments, rows)
        columns = slice(*np.searchsorted(facts.table, [table, table + 1]))
        place = np.searchsorted(facts.header[columns], arrays.segment_header[segments])
        single[columns] = np.bincount(place, minlength=len(facts.header[columns])) == 1
    return single


def _describe_column(corpus: Corpus, column: int, is_single: bool) -> dict[str, Any]:
    facts = corpus.columns
    entropy = float(facts.entropy[column])
    examples = facts.examples[column]
    return {
        "header": corpus.headers[facts.header[column]].as_py(),
        "attribute": corpus.attributes[facts.attribute[column]].as_py(),
        "fill": float(facts.fill[column]),
        "distinct": int(facts.distinct[column]),
        "entropy": None if is_single or np.isnan(entropy) else entropy,
        "role": ROLES[facts.role[column]],
        "mean_tokens": float(facts.mean_tokens[column]),
        "unknown": float(facts.unknown[column]),
        "cut": float(facts.cut[column]),
        "examples": [_shorten(corpus.values[value].as_py()) for value in examples if value >= 0],
        "trouble": [*_find_trouble(corpus, column), *([SINGLE_CELL] if is_single else [])],
    }


def _find_trouble(corpus: Corpus, column: int) -> list[str]:
    facts = corpus.columns
    signs = {
        "mostly empty": facts.fill[column] < _MOSTLY_EMPTY,
        "constant": facts.distinct[column] == 1,
        "all different": facts.entropy[column] == 1,
        "many [UNK]": facts.unknown[column] > _MANY_UNKNOWN,
        "often cut": facts.cut[column] > _MANY_CUT,
        "no row that trains": np.isnan(facts.entropy[column]),
    }
    return [name for name, holds in signs.items() if holds]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 1] + "…"
