"""Matching: which columns of any number of tables mean the same, by their headers and by their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from navi.columns import Background, ColumnProfiles, PairScorer, join_profiles, profile_columns
from navi.columns.texts import embed_texts, normalise
from navi.corpus import RowEncoder
from navi.corpus.tokens import TextTokenizer
from navi.errors import ConfigError, TableError
from navi.files import is_there, open_binary
from navi.model.runner import Ints
from navi.report.cards import show_cards
from navi.tables import Table, read_table, read_tables
from navi.verbs.column_groups import (
    ColumnCluster,
    ColumnMatcher,
    ColumnPair,
    ColumnRef,
    Constraints,
    Decision,
    Reason,
    ScoredPairs,
    refer_to,
)
from navi.verbs.explain import Explainer
from navi.verbs.result import CARDS_SHOWN, TabularResult, tabulate

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: K columns, L other columns, T tables.

NO_LIMIT = 1 << 30
PLACEHOLDER = "-"
"""Stands for the value of a column that has none, so that its header can be read."""
SCHEMA = "schema"
"""What a target schema is called that has no name."""
SCHEMA_NAMES, SCHEMA_DESCRIPTIONS = ("name", "column", "header", "attribute", "field"), ("description", "definition")
"""Headers of a table that lists the names of a schema, and what they mean, instead of being one."""
LIST_SUFFIXES = (".txt", ".json")
"""Files that may be a list of names and no table."""
DECISION_COLUMNS = ("table", "column", "other_table", "other_column", "same")
ANSWERS = {
    **dict.fromkeys(("yes", "y", "true", "1", "same"), True),
    **dict.fromkeys(("no", "n", "false", "0", "different", "not"), False),
}
"""How a decision may be written."""


@dataclass(frozen=True, kw_only=True)
class Matches(TabularResult):
    """All columns of some tables, in clusters."""

    clusters: tuple[ColumnCluster, ...]
    """Those of most columns first."""
    pairs: tuple[ColumnPair, ...]
    """Every pair of columns of different tables that is in one cluster, the surest first."""
    nearest: tuple[ColumnPair, ...] = ()
    """The partner of each column that stands alone, where one is near, the likeliest first."""
    decisions: tuple[Decision, ...] = ()
    """What was decided before."""

    def to_arrow(self) -> pa.Table:
        """Return one line a column: name of its cluster, the cluster's number and score, table and header."""
        lines = [
            (cluster.name, number, cluster.score, column.table, column.header)
            for number, cluster in enumerate(self.clusters)
            for column in cluster.columns
        ]
        return tabulate(lines, name=pa.string(), cluster=pa.int64(), score=pa.float64(), **_COLUMN)

    def _repr_html_(self) -> str:
        scores: dict[ColumnRef, list[float]] = {}
        reasons: dict[ColumnRef, tuple[Reason, ...]] = {}
        for pair in self.pairs:  # the surest first
            for column in (pair.first, pair.second):
                scores.setdefault(column, []).append(pair.score)
                reasons.setdefault(column, pair.reasons)
        probability = {column: float(np.mean(each)) for column, each in scores.items()}
        shown = [
            (cluster, [(column, probability.get(column), reasons.get(column)) for column in cluster.columns])
            for cluster in self.clusters[:CARDS_SHOWN]
        ]
        return show_cards("matches", clusters=self.clusters, shown=shown, more=len(self.clusters) - len(shown))

    def as_mapping(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the attribute of every column, in the form that `navi prepare --attributes` takes."""
        names = {column: cluster.name for cluster in self.clusters for column in cluster.columns}
        return _make_mapping(names)

    def list_decisions(self) -> pa.Table:
        """Return what was decided, and every pair found or near it for a person to decide on: what `--decisions` takes.

        `same` is yes, no, or empty where nothing was decided.
        """
        given = {frozenset((each.first, each.second)): each.same for each in self.decisions}
        pairs = [*self.pairs, *self.nearest]
        known = {frozenset((each.first, each.second)): each.score for each in pairs}
        lines = [(each.first, each.second) for each in self.decisions]
        lines += [(each.first, each.second) for each in pairs if frozenset((each.first, each.second)) not in given]
        answers = {True: "yes", False: "no", None: None}
        return tabulate(
            [
                (*_name(first), *_name(second), answers[given.get(both)], known.get(both))
                for first, second in dict.fromkeys(lines)
                for both in [frozenset((first, second))]
            ],
            **dict.fromkeys(DECISION_COLUMNS, pa.string()),
            score=pa.float64(),
        )


@dataclass(frozen=True, kw_only=True)
class RankedColumn:
    """A column, and what it may be in a target schema."""

    column: ColumnRef
    candidates: tuple[ColumnPair, ...]
    """The likeliest first; the second of each pair is the column of the schema."""


@dataclass(frozen=True, kw_only=True)
class SchemaMatches(TabularResult):
    """All columns of some tables, each with its likeliest partners in a target schema."""

    columns: tuple[RankedColumn, ...]
    """In the order of the tables."""
    threshold: float
    """Probability from which a column is taken for the best of its candidates."""
    decisions: tuple[Decision, ...] = ()
    """What was decided before."""

    def to_arrow(self) -> pa.Table:
        """Return one line a candidate: table and header, rank from 1, the target, and its score."""
        lines = [
            (*_name(each.column), rank, pair.second.header, pair.score)
            for each in self.columns
            for rank, pair in enumerate(each.candidates, 1)
        ]
        return tabulate(lines, **_COLUMN, rank=pa.int64(), target=pa.string(), score=pa.float64())

    def as_mapping(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the target of every column that has a likely one, in the form of `navi prepare --attributes`."""
        best = (each.candidates[0] for each in self.columns if each.candidates)
        return _make_mapping({pair.first: pair.second.header for pair in best if pair.score >= self.threshold})

    def list_decisions(self) -> pa.Table:
        """Return what was decided, and the best candidate of every other column: what `--decisions` takes."""
        best = tuple(each.candidates[0] for each in self.columns if each.candidates)
        return Matches(clusters=(), pairs=best, decisions=self.decisions).list_decisions()


_COLUMN = {"table": pa.string(), "header": pa.string()}


def _name(column: ColumnRef) -> tuple[str, str]:
    return column.table, column.header


def _make_mapping(names: Mapping[ColumnRef, str]) -> dict[str, dict[str, dict[str, str]]]:
    tables: dict[str, dict[str, str]] = {}
    for column in sorted(names):
        tables.setdefault(column.table, {})[column.header] = names[column]
    return {"tables": tables}


def read_decisions(file: str | Path) -> tuple[Decision, ...]:
    """Return what a table says of pairs of columns; a line without an answer says nothing."""
    if not is_there(Path(file)) or Path(file).is_dir():
        found = "it is a folder" if Path(file).is_dir() else "no such file"
        raise TableError(f"Cannot read the decisions file {file}: {found}. `navi match --write-decisions` writes one.")
    try:
        table = read_table(file, keep_empty=True)
    except TableError as error:
        raise TableError(f"Cannot take {file} for the decisions file: {error}") from error
    missing = [name for name in DECISION_COLUMNS if name not in table.headers]
    if missing:
        needed = ", ".join(DECISION_COLUMNS)
        raise TableError(f"The decisions file {file} has no column '{missing[0]}'. Decisions have {needed}.")
    decisions = []
    lines = zip(table.row_number.tolist(), table.text.select(DECISION_COLUMNS).to_pylist(), strict=True)
    for number, (first_table, first, second_table, second, same) in ((n, line.values()) for n, line in lines):
        if not same:
            continue
        if same.strip().lower() not in ANSWERS:
            raise TableError(f"{file}:{number}: same must be yes, no or empty, got '{same}'.")
        decisions.append(
            Decision(
                first=ColumnRef(first_table, first),
                second=ColumnRef(second_table or "", second or ""),
                same=ANSWERS[same.strip().lower()],
                place=f"{file}:{number}",
            )
        )
    return tuple(decisions)


def match_columns(
    navi: Navi,
    frames: Any,
    to: Any,
    top: int,
    threshold: float,
    one_to_one: bool,
    decisions: Sequence[Decision],
    explain: bool,
) -> Matches | SchemaMatches:
    """Return the columns of several tables in clusters, or their likeliest partners in a schema; see `Navi.match`."""
    if not 0.0 < threshold < 1.0:
        raise ConfigError(f"threshold must lie between 0 and 1, got {threshold}.")
    tables, scorer = read_tables(frames, navi.read_config, keep_empty=True), PairScorer.load(navi.folder)
    if to is None:
        if len(tables) < 2:
            raise ConfigError(f"Matching takes at least two tables, got {len(tables)}.")
        matcher = ColumnMatcher(profile_tables(navi, tables), scorer, threshold=threshold, one_to_one=one_to_one)
        return match_profiles(matcher, decisions, tables if explain else None)
    if top < 1:
        raise ConfigError(f"top must be at least 1, got {top}.")
    target, descriptions = _read_schema(navi, to, taken=tables)
    tables = {**tables, target.name: target}
    profiles = profile_tables(navi, tables)
    is_target = np.array(profiles.tables) == target.name
    ours, theirs = np.flatnonzero(~is_target), np.flatnonzero(is_target)
    if descriptions:
        profiles = _add_descriptions(navi, profiles, theirs, descriptions)
    background, names = Background([profiles]), np.array(profiles.tables)
    scored = ScoredPairs(
        scorer,
        profiles,
        background,
        Constraints(decisions, profiles),
        ours,
        theirs,
        total=scorer.score_total(profiles.take(ours), profiles.take(theirs), background),
        compete=lambda total: scorer.compete(total, names[ours], names[theirs]),
    )
    best = [np.lexsort((theirs, -line))[:top].tolist() for line in scored.logit]
    explained = Explainer(scorer, profiles, tables).explain if explain else None
    found = iter(scored.describe([(place, at) for place, each in enumerate(best) for at in each], explained))
    ranked = tuple(
        RankedColumn(column=refer_to(profiles, column), candidates=tuple(islice(found, len(each))))
        for column, each in zip(ours.tolist(), best, strict=True)
    )
    return SchemaMatches(columns=ranked, threshold=threshold, decisions=tuple(decisions))


def _read_schema(navi: Navi, to: Any, taken: Mapping[str, object]) -> tuple[Table, dict[str, str]]:
    """Return a target schema as a table, and what its names mean; a list of names is a table without rows.

    A list of names is one of texts, a mapping of names to descriptions, a file with one of these (see `_read_list`), or
    a table with a column of names and, at most, one of descriptions.
    """
    file = Path(to) if isinstance(to, str | Path) else None
    listed = None if file is None else _read_list(file)
    if file is not None and listed is not None:
        name, names = file.stem, listed
    elif isinstance(to, list | tuple) and to and all(isinstance(each, str) for each in to):
        name, names = SCHEMA, dict.fromkeys(to, "")
    elif isinstance(to, Mapping) and to and all(isinstance(each, str | None) for each in to.values()):
        name, names = SCHEMA, {str(key): text or "" for key, text in to.items()}
    else:
        tables = read_tables(to, navi.read_config, keep_empty=True)
        if len(tables) > 1:
            raise TableError(f"A target schema is one table, got {len(tables)}: {', '.join(tables)}.")
        table = next(iter(tables.values()))
        name, names = table.name, _read_names(table)
        if not names:
            return replace(table, name=_choose_name(name, taken)), {}
    chosen = _choose_name(name, taken)
    frame = pa.table({header: pa.array([], pa.string()) for header in names})
    table = read_tables({chosen: frame}, navi.read_config, keep_empty=True)[chosen]
    return table, {header: text for header, text in names.items() if text}


def _read_list(file: Path) -> dict[str, str] | None:
    """Return the names that a file lists, with their descriptions; None where it is no list, but may be a table.

    A .txt file has one name a line, a description behind a tab or `: `; a .json file may be an array of texts.
    """
    if file.suffix.lower() not in LIST_SUFFIXES or not is_there(file) or file.is_dir():
        return None
    try:
        with open_binary(file) as opened:
            text = opened.read().decode("utf-8-sig")
        if file.suffix.lower() == ".json":
            listed = json.loads(text)
            is_list = isinstance(listed, list) and bool(listed) and all(isinstance(each, str) for each in listed)
            return dict.fromkeys(listed, "") if is_list else None
    except (ValueError, RecursionError) as error:
        if file.suffix.lower() == ".json":
            return None  # what is wrong with it, reading it as a table says
        raise TableError(f"Cannot read the list of names {file}: it is not UTF-8 text.") from error
    parts = [re.split(r"\t|: ", line.strip(), maxsplit=1) for line in text.splitlines() if line.strip()]
    if not parts:
        raise TableError(f"There is no name in {file}. Write one a line, a description behind a tab or `: `.")
    return {name.strip(): "".join(description).strip() for name, *description in parts}


def _choose_name(name: str, taken: Mapping[str, object]) -> str:
    return f"{name} ({SCHEMA})" if name in taken else name


def _read_names(table: Table) -> dict[str, str]:
    """Return the names that a table lists, with their descriptions; nothing where the table is a schema itself."""
    name, *rest = table.headers or ("",)
    described = len(rest) == 1 and rest[0].lower() in SCHEMA_DESCRIPTIONS
    if name.lower() not in SCHEMA_NAMES or (rest and not described) or not table.num_rows:
        return {}
    texts = table.text.to_pydict()
    descriptions = texts[rest[0]] if rest else [None] * table.num_rows
    return {key: text or "" for key, text in zip(texts[name], descriptions, strict=True) if key}


def _add_descriptions(
    navi: Navi, profiles: ColumnProfiles, columns: Ints, descriptions: Mapping[str, str]
) -> ColumnProfiles:
    """Return the profiles with what the headers of some columns mean added to what the model makes of them."""
    described = [k for k in columns.tolist() if profiles.headers[k] in descriptions]
    texts = [descriptions[profiles.headers[k]] for k in described]
    added = embed_texts(navi.runner, TextTokenizer(navi.tokenizer), texts)
    vectors = {name: vector.copy() for name, vector in profiles.vectors.items()}
    for name in ("header", "column"):
        vectors[name][described] = normalise(vectors[name][described] + added)
    return replace(profiles, vectors=vectors)


def profile_tables(navi: Navi, frames: Any) -> ColumnProfiles:
    """Return the profile of every column of some tables, those without a single value among them."""
    tables = read_tables(frames, navi.read_config, keep_empty=True)
    tokenizer, parts, found = TextTokenizer(navi.tokenizer), [], set()
    # Columns are read one by one: no row is too long, however wide the table.
    encoder = RowEncoder(navi.tokenizer, replace(navi.prepare_config, max_tokens=NO_LIMIT))
    filled = {name: table.chunks for name, table in tables.items() if table.chunks}
    if filled:
        parts.append(profile_columns(navi.runner, tokenizer, encoder.encode(filled)))
        found = set(zip(parts[0].tables, parts[0].headers, strict=True))
    empty: dict[str, list[dict[str, str]]] = {}
    for name, table in tables.items():
        if not table.headers:
            raise TableError(f"The table '{name}' has no columns. Give one with at least one header.")
        headers = [header for header in table.headers if (name, header) not in found]
        empty |= {name: [dict.fromkeys(headers, PLACEHOLDER)]} if headers else {}
    if empty:
        chunks = {name: table.chunks for name, table in read_tables(empty, navi.read_config).items()}
        parts.append(profile_columns(navi.runner, tokenizer, encoder.encode(chunks), np.arange(0)))
    return join_profiles(parts)


def match_profiles(
    matcher: ColumnMatcher, decisions: Sequence[Decision] = (), tables: Mapping[str, Table] | None = None
) -> Matches:
    """Return profiled columns in clusters that mean the same; pairs are explained where their tables are given."""
    groups = matcher.group(decisions)
    explain = None if tables is None else Explainer(matcher.scorer, matcher.profiles, tables).explain
    pairs, nearest = groups.list_pairs(explain)
    return Matches(clusters=groups.clusters, pairs=pairs, nearest=nearest, decisions=tuple(decisions))
