"""Matching: which columns of any number of tables mean the same, by their headers and by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from navi.columns import (
    Background,
    ColumnProfiles,
    PairScorer,
    PairScores,
    find_stem,
    is_useless,
    join_profiles,
    profile_columns,
)
from navi.corpus import RowEncoder, canonicalise
from navi.corpus.tokens import TextTokenizer
from navi.errors import ConfigError, TableError
from navi.tables import read_tables
from navi.verbs.result import TabularResult

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: K columns, T tables.

LIMIT = 10.0
"""Scores are cut at this many points, so that no single pair decides over a cluster; what two columns of one table
count for, unless they are members of one list."""
NO_LIMIT = 1 << 30
PLACEHOLDER = "-"
"""Stands for the value of a column that has none, so that its header can be read."""

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class ColumnRef:
    """A column of a table."""

    table: str
    header: str


@dataclass(frozen=True, kw_only=True)
class ColumnPair:
    """Two columns of different tables that were found to mean the same."""

    first: ColumnRef
    second: ColumnRef
    score: float
    """Probability that both mean the same."""
    headers: float
    """What their headers contributed, as a logarithm of odds: negative speaks against."""
    values: float
    """What their values contributed, likewise."""


@dataclass(frozen=True, kw_only=True)
class ColumnCluster:
    """Columns that mean the same; a column without a match stands alone."""

    name: str
    """The proposed unified name."""
    columns: tuple[ColumnRef, ...]
    score: float
    """Mean probability of its pairs; 1 for a column that stands alone."""


@dataclass(frozen=True, kw_only=True)
class Matches(TabularResult):
    """All columns of some tables, in clusters."""

    clusters: tuple[ColumnCluster, ...]
    """Those of most columns first."""
    pairs: tuple[ColumnPair, ...]
    """Every pair of columns of different tables that is in one cluster, the surest first."""

    def to_arrow(self) -> pa.Table:
        """Return one line a column: name of its cluster, the cluster's number and score, table and header."""
        lines = [
            (cluster.name, number, cluster.score, column.table, column.header)
            for number, cluster in enumerate(self.clusters)
            for column in cluster.columns
        ]
        types = {
            "name": pa.string(),
            "cluster": pa.int64(),
            "score": pa.float64(),
            "table": pa.string(),
            "header": pa.string(),
        }
        return pa.table({
            name: pa.array([line[place] for line in lines], kind) for place, (name, kind) in enumerate(types.items())
        })  # fmt: skip

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain lists and dictionaries, ready for JSON."""
        return asdict(self)

    def as_mapping(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the attribute of every column, in the form that `navi prepare --attributes` takes."""
        tables: dict[str, dict[str, str]] = {}
        for cluster in self.clusters:
            for column in cluster.columns:
                tables.setdefault(column.table, {})[column.header] = cluster.name
        return {"tables": {table: dict(sorted(headers.items())) for table, headers in sorted(tables.items())}}


def match_tables(navi: Navi, frames: Any, *, threshold: float = 0.5, one_to_one: bool = False) -> Matches:
    """Return the columns of several tables in clusters that mean the same; see `Navi.match`."""
    if not 0.0 < threshold < 1.0:
        raise ConfigError(f"threshold must lie between 0 and 1, got {threshold}.")
    profiles = profile_tables(navi, frames)
    return match_profiles(profiles, PairScorer.load(navi.folder), threshold=threshold, one_to_one=one_to_one)


def profile_tables(navi: Navi, frames: Any) -> ColumnProfiles:
    """Return the profile of every column of at least two tables, those without a single value among them."""
    tables = read_tables(frames, navi.read_config, keep_empty=True)
    if len(tables) < 2:
        raise ConfigError(f"Matching takes at least two tables, got {len(tables)}.")
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
    profiles: ColumnProfiles, scorer: PairScorer, *, threshold: float = 0.5, one_to_one: bool = False
) -> Matches:
    """Return profiled columns in clusters that mean the same."""
    scores = scorer.score(profiles, profiles, Background([profiles]))
    logit = np.clip(scorer.compete(scores.total, profiles.tables), -LIMIT, LIMIT)
    shifted = logit - np.float32(np.log(threshold / (1 - threshold)))
    table = np.unique(profiles.tables, return_inverse=True)[1]
    inside = table[:, None] == table[None, :]
    if one_to_one:
        shifted = np.where(assign_one_to_one(shifted, table), shifted, -LIMIT)
        labels = cluster_scores(shifted, apart=inside)
    else:
        labels = cluster_scores(shifted, apart=inside & ~_are_family(profiles))
    return _describe(profiles, labels, scores, (1 / (1 + np.exp(-logit))).astype(np.float32))


def _are_family(profiles: ColumnProfiles) -> Flags:
    """Return which pairs are members of one list, as `cast.0` and `cast.1`, or `star1` and `star2`: (K, K)."""
    stem = np.unique([find_stem(header) for header in profiles.headers], return_inverse=True)[1]
    useful = np.array([not is_useless(header) for header in profiles.headers])
    family: Flags = (stem[:, None] == stem[None, :]) & np.outer(useful, useful)
    return family


def assign_one_to_one(score: Floats, group: Ints) -> Flags:
    """Return which members of different groups the best one-to-one assignment of each two groups joins: (K, K)."""
    from scipy.optimize import linear_sum_assignment

    joined = np.zeros(score.shape, np.bool_)
    members = [np.flatnonzero(group == number) for number in np.unique(group)]
    for place, ours in enumerate(members):
        for theirs in members[place + 1 :]:
            rows, columns = linear_sum_assignment(score[np.ix_(ours, theirs)], maximize=True)
            joined[ours[rows], theirs[columns]] = True
    return joined | joined.T


def cluster_scores(score: Floats, apart: Flags | None = None) -> Ints:
    """Return the cluster of each member: the two with the best average score merge until none is left above 0: (K,).

    `score` (K, K) is symmetric, above 0 where two members belong together. Members that `apart` (K, K) names never meet
    in a cluster. The number of clusters is what the scores make it.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if len(score) < 2:
        return np.arange(len(score))
    top = float(np.abs(score).max()) + 1.0
    # So far apart that no average comes above 0.
    score = score if apart is None else np.where(apart, -top * len(score) ** 2, score)
    tree = linkage(squareform(top - score.astype(np.float64), checks=False), "average")
    labels: Ints = fcluster(tree, np.nextafter(top, 0.0), "distance").astype(np.int64)
    return labels


def _describe(profiles: ColumnProfiles, labels: Ints, scores: PairScores, probability: Floats) -> Matches:
    """Return the clusters of columns, given the label of each."""
    columns = [ColumnRef(table, header) for table, header in zip(profiles.tables, profiles.headers, strict=True)]
    groups = [sorted(np.flatnonzero(labels == label).tolist(), key=columns.__getitem__) for label in np.unique(labels)]
    groups.sort(key=lambda group: (-len(group), [columns[k] for k in group]))
    names = name_clusters([[columns[k].header for k in group] for group in groups])
    clusters, pairs = [], []
    for name, group in zip(names, groups, strict=True):
        listed = [
            ColumnPair(
                first=columns[first],
                second=columns[second],
                score=float(probability[first, second]),
                headers=float(scores.headers[first, second]),
                values=float(scores.values[first, second]),
            )
            for place, first in enumerate(sorted(group))
            for second in sorted(group)[place + 1 :]
            if columns[first].table != columns[second].table
        ]
        score = float(np.mean([pair.score for pair in listed])) if listed else 1.0
        clusters.append(ColumnCluster(name=name, columns=tuple(columns[k] for k in group), score=score))
        pairs += listed
    pairs.sort(key=lambda pair: (-pair.score, pair.first, pair.second))
    return Matches(clusters=tuple(clusters), pairs=tuple(pairs))


def name_clusters(clusters: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each cluster from its columns' headers, the attribute that most of them have, no name twice.

    >>> name_clusters([["Title", "movie_title", "title"], ["title", "name"], ["col_1"]])
    ['title', 'name', 'column']
    """
    taken: Counter[str] = Counter()
    names = []
    for headers in clusters:
        counts = Counter(canonicalise(header) for header in headers if not is_useless(header))
        ranked = sorted(counts, key=lambda name: (-counts[name], len(name), name)) or ["column"]
        free = next((name for name in ranked if not taken[name]), None)
        name = free or f"{ranked[0]} {taken[ranked[0]] + 1}"
        taken[name if free else ranked[0]] += 1
        names.append(name)
    return names
