"""Pairs of tables with known correspondences of columns."""

# needs: nothing; other benchmarks import it.
from __future__ import annotations

import csv
import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import combinations
from pathlib import Path

from concepts import list_frames, read_concepts

from navi.corpus import Corpus
from navi.corpus.hashing import hash_text

Rows = list[dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class TablePair:
    """Two tables, which of their columns correspond, and which pairs of columns are judged at all."""

    group: str
    """Tables of one group may be matched together."""
    first: str
    second: str
    right: frozenset[tuple[str, str]]
    judged: frozenset[tuple[str, str]] | None
    """None: every pair is judged, those not `right` as wrong."""


@dataclass(frozen=True, kw_only=True)
class MatchingTask:
    """Tables by name, and the pairs of them."""

    tables: dict[str, Rows]
    pairs: list[TablePair]


def read_corpus_task(corpus: Corpus, concepts: Path, split: str, num_rows: int, num_tables: int | None) -> MatchingTask:
    """Return all pairs of a split's tables, or of so many drawn; columns without a gold concept are left out."""
    concept = read_concepts(concepts)
    tables = {
        table: [{header: value for header, value in row.items() if (table, header) in concept} for row in rows]
        for table, rows in list_frames(corpus, split, num_rows, num_tables)
    }
    headers = {table: {header for row in rows for header in row} for table, rows in tables.items()}
    pairs = [
        TablePair(
            group=split,
            first=first,
            second=second,
            right=frozenset(
                (ours, theirs)
                for ours in headers[first]
                for theirs in headers[second]
                if concept[first, ours] == concept[second, theirs]
            ),
            judged=None,
        )
        for first, second in combinations(sorted(tables), 2)
    ]
    return MatchingTask(tables=tables, pairs=pairs)


def draw_pairs(task: MatchingTask, num_pairs: int | None) -> MatchingTask:
    """Return so many of a task's pairs, by a draw that their names alone decide, and the tables that they need."""
    pairs = sorted(task.pairs, key=lambda pair: int(hash_text(f"{pair.first} {pair.second}")))[:num_pairs]
    needed = {name for pair in pairs for name in (pair.first, pair.second)}
    return MatchingTask(tables={name: rows for name, rows in task.tables.items() if name in needed}, pairs=pairs)


def read_wdc_task(folder: Path) -> MatchingTask:
    """Return the pairs of web shops: `match_result.json`, and `;`-separated tables whose first column is an index."""
    tables: dict[str, Rows] = {}
    pairs = []
    for group, listed in json.loads((folder / "match_result.json").read_text(encoding="utf-8")).items():
        for names, matches in listed.items():
            first, second = names.split(";")
            headers = {}
            for name in (first, second):
                file = folder / "dataset" / group / name
                headers[name] = _read_table(tables, f"{group}/{name}", file.read_text(encoding="utf-8"), ";", skip=1)
            right = frozenset(
                (headers[first][int(match[first][1])], headers[second][int(match[second][1])]) for match in matches
            )
            pairs.append(
                TablePair(group=group, first=f"{group}/{first}", second=f"{group}/{second}", right=right, judged=None)
            )
    return MatchingTask(tables=tables, pairs=pairs)


def read_t2d_task(archive: Path) -> MatchingTask:
    """Return the web tables beside DBpedia tables of an archive; only the pairs of columns it lists are judged."""
    with tarfile.open(archive) as files:
        texts = {
            member.name: files.extractfile(member).read().decode("utf-8")  # type: ignore[union-attr]
            for member in files.getmembers()
            if member.isfile()
        }
    tables: dict[str, Rows] = {}
    pairs = []
    for name, text in texts.items():
        if not name.endswith("_correspondences.csv"):
            continue
        folder = name.rsplit("/", 1)[0]
        by_table: dict[str, list[dict[str, str]]] = {}
        for line in csv.DictReader(StringIO(text)):
            by_table.setdefault(line["table_name"], []).append(line)
        for table, lines in by_table.items():
            ours = _read_table(tables, f"{table} web", texts[f"{folder}/webtables/{table}.csv"], ",")
            theirs = _read_table(tables, f"{table} dbpedia", texts[f"{folder}/dbpedia_tables/{table}.csv"], ",")
            judged = {
                (ours[int(line["column_index_left"])], theirs[int(line["column_index_right"])]): line["label"] == "1"
                for line in lines
            }
            right = frozenset(pair for pair, label in judged.items() if label)
            pairs.append(
                TablePair(
                    group=table, first=f"{table} web", second=f"{table} dbpedia", right=right, judged=frozenset(judged)
                )
            )
    return MatchingTask(tables=tables, pairs=pairs)


def read_gdc_task(folder: Path) -> MatchingTask:
    """Return the studies beside one target schema; all columns count, those without a value too."""
    tables: dict[str, Rows] = {}
    _read_table(tables, "target", _read_gzip(folder / "target.csv.gz"), ",", keep_empty=True)
    pairs = []
    for study in sorted(file.parent for file in folder.glob("*/groundtruth.csv")):
        _read_table(tables, study.name, _read_gzip(study / "source.csv.gz"), ",", keep_empty=True)
        with (study / "groundtruth.csv").open(encoding="utf-8", newline="") as lines:
            right = frozenset((line["source"].strip(), line["target"].strip()) for line in csv.DictReader(lines))
        pairs.append(TablePair(group=study.name, first=study.name, second="target", right=right, judged=None))
    return MatchingTask(tables=tables, pairs=pairs)


def _read_gzip(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode("utf-8")


def _read_table(
    tables: dict[str, Rows], name: str, text: str, delimiter: str, *, skip: int = 0, keep_empty: bool = False
) -> list[str]:
    """Read a table into `tables`, and return its headers, each made unique.

    With `keep_empty` the first row has all headers, and so the table has its columns without a value, too.
    """
    lines = list(csv.reader(StringIO(text), delimiter=delimiter))
    headers = list(_make_unique(lines[0][skip:])) if lines else []
    if name not in tables:
        rows = [
            {header: value.strip() for header, value in zip(headers, line[skip:], strict=False) if value.strip()}
            for line in lines[1:]
        ]
        tables[name] = [row for row in rows if row]
        if keep_empty:
            tables[name][0] = dict.fromkeys(headers, "") | tables[name][0]
    return headers


def _make_unique(headers: list[str]) -> Iterator[str]:
    met: set[str] = set()
    for place, header in enumerate(headers):
        text = header.strip() or f"Unnamed: {place}"
        text = text if text not in met else f"{text} {place}"
        met.add(text)
        yield text
