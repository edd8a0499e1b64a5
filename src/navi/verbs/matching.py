"""Matching: which columns of any number of tables mean the same, by their headers and by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from navi.columns import Background, ColumnProfiles, PairScorer, PairScores, is_useless, join_profiles
from navi.columns.evidence import find_stem
from navi.corpus import canonicalise
from navi.errors import ConfigError
from navi.verbs.clustering import assign_one_to_one, cluster_scores
from navi.verbs.matches import Cluster, Column, Matches, Pair
from navi.verbs.profiling import Knowledge, profile_frames

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: K columns, T tables.

PARTNER_SHARE = 0.3
"""Share of a table's columns that have a match in another table, before anything is known of them."""
MARGIN = 0.5
"""What a pair loses for every point that either column scores higher with another column of the other's table."""
LIMIT = 10.0
"""Scores are cut at this many points, so that no single pair decides over a cluster; what two columns of one table
count for, unless they are members of one list."""
NEAREST_KNOWN, MAX_KNOWN = 20, 1000
"""Known columns that help: so many of the nearest of each given column, and so many in all."""
BLOCK = 256
"""Columns that are compared with all others at once."""

Floats = NDArray[np.float32]


def match_tables(
    navi: Navi,
    frames: Mapping[str, Any],
    *,
    threshold: float = 0.5,
    one_to_one: bool = False,
    rows_per_column: int = 40,
) -> Matches:
    """Return the columns of the tables `{name: frame}` in clusters that mean the same.

    `threshold` is the probability from which columns match. With `one_to_one` a cluster has at most one column of each
    table. A column whose header says nothing (`col_3`) is matched by its values, one without values by its header.
    """
    if not 0.0 < threshold < 1.0:
        raise ConfigError(f"threshold must lie between 0 and 1, got {threshold}.")
    if len(frames) < 2:
        raise ConfigError(f"Matching takes at least two tables, got {len(frames)}.")
    profiles = profile_frames(navi, frames, rows_per_column=rows_per_column)
    knowledge = Knowledge.of(navi.folder)
    return match_profiles(
        profiles, knowledge.scorer, known=knowledge.columns, threshold=threshold, one_to_one=one_to_one
    )


def match_profiles(
    profiles: ColumnProfiles,
    scorer: PairScorer,
    *,
    known: ColumnProfiles | None = None,
    threshold: float = 0.5,
    one_to_one: bool = False,
) -> Matches:
    """Return profiled columns in clusters that mean the same; see `match_tables`.

    The `known` columns of a trained domain help: those most like the given ones are clustered with them, so that tables
    which have both keep apart what is alike but not the same, such as a year and a date.
    """
    background = Background([profiles] if known is None else [profiles, known])
    helpers = profiles.take(np.arange(0)) if known is None else _choose_known(profiles, known, scorer, background)
    joined = join_profiles([profiles, _rename_tables(helpers)]) if len(helpers) else profiles
    scores = score_columns(joined, scorer, background)
    logit = weigh_pairs(scores.total, joined)
    shifted = logit - np.float32(np.log(threshold / (1 - threshold)))
    _, table = np.unique(joined.tables, return_inverse=True)
    inside = table[:, None] == table[None, :]
    if one_to_one:
        shifted = np.where(assign_one_to_one(shifted, table), shifted, -LIMIT).astype(np.float32)
    else:
        shifted[inside & ~_are_family(joined)] = -LIMIT
        inside = np.zeros_like(inside)
    labels = cluster_scores(shifted, inside)
    return _describe(profiles, helpers, labels, scores, (1 / (1 + np.exp(-logit))).astype(np.float32))


def _choose_known(
    profiles: ColumnProfiles, known: ColumnProfiles, scorer: PairScorer, background: Background
) -> ColumnProfiles:
    """Return the known columns that are among the nearest of some given column."""
    blocks = [np.arange(start, min(start + BLOCK, len(profiles))) for start in range(0, len(profiles), BLOCK)]
    nearest = min(NEAREST_KNOWN, len(known))
    chosen: set[int] = set()
    for block in blocks:
        total = scorer.score(profiles.take(block), known, background).total
        order = np.argsort(-total, axis=1)[:, :nearest]
        chosen.update(order[np.take_along_axis(total, order, axis=1) > 0].tolist())
    ranked = np.array(sorted(chosen), dtype=np.int64)
    return known.take(ranked[:: max(1, -(-len(ranked) // MAX_KNOWN))])


def _rename_tables(known: ColumnProfiles) -> ColumnProfiles:
    """Return known columns under table names that no given table has."""
    return replace(known, tables=tuple(f"\0{table}" for table in known.tables))


def score_columns(profiles: ColumnProfiles, scorer: PairScorer, background: Background) -> PairScores:
    """Return the scores of every pair of columns: (K, K).

    What values say is divided by the scorer's temperature, as for names: where values of training columns turned out to
    be less telling than their scores, those of new ones are taken for less too.
    """
    blocks = [np.arange(start, min(start + BLOCK, len(profiles))) for start in range(0, len(profiles), BLOCK)]
    parts = [scorer.score(profiles.take(block), profiles, background) for block in blocks]
    headers, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("headers", "values"))
    return PairScores(headers=headers, values=(values / scorer.temperature).astype(np.float32))


def weigh_pairs(total: Floats, profiles: ColumnProfiles) -> Floats:
    """Return the logarithm of the odds that each pair means the same: (K, K).

    To what the evidence says come how rare matches are between tables of so many columns, and whether either column
    has a better partner in the other's table. Columns of one table do not compete.
    """
    _, table, counts = np.unique(profiles.tables, return_inverse=True, return_counts=True)
    best = np.full((len(total), len(counts)), -np.inf, np.float32)
    for number in range(len(counts)):
        best[:, number] = total[:, table == number].max(axis=1)
    behind = best[:, table] - total
    behind[table[:, None] == table[None, :]] = 0.0
    width = np.sqrt(counts)[table]
    prior = np.log(PARTNER_SHARE / np.maximum(np.outer(width, width), 1.0))
    weighed: Floats = np.clip(total + prior - MARGIN * (behind + behind.T), -LIMIT, LIMIT).astype(np.float32)
    return weighed


def _are_family(profiles: ColumnProfiles) -> NDArray[np.bool_]:
    """Tell which pairs are members of one list, as `cast.0` and `cast.1`, or `star1` and `star2`: (K, K)."""
    _, stem = np.unique([find_stem(header) for header in profiles.headers], return_inverse=True)
    useful = np.array([not is_useless(header) for header in profiles.headers])
    family: NDArray[np.bool_] = (stem[:, None] == stem[None, :]) & useful[:, None] & useful[None, :]
    return family


def _describe(
    profiles: ColumnProfiles,
    helpers: ColumnProfiles,
    labels: NDArray[np.int64],
    scores: PairScores,
    probability: Floats,
) -> Matches:
    """Return the clusters of the given columns; `labels` number those of the helpers behind them."""
    columns = [Column(table, header) for table, header in zip(profiles.tables, profiles.headers, strict=True)]
    own, theirs = labels[: len(columns)], labels[len(columns) :]
    found: list[tuple[Cluster, Counter[str]]] = []
    pairs: list[Pair] = []
    for label in np.unique(own).tolist():
        group = np.flatnonzero(own == label)
        listed = _list_pairs(columns, group, scores, probability)
        pairs += listed
        score = float(np.mean([pair.score for pair in listed])) if listed else 1.0
        cluster = Cluster(name="", columns=tuple(sorted(columns[k] for k in group)), score=score)
        found.append((cluster, Counter(helpers.headers[k] for k in np.flatnonzero(theirs == label))))
    found.sort(key=lambda each: (-len(each[0].columns), each[0].columns))
    names = name_clusters([([c.header for c in cluster.columns], known) for cluster, known in found])
    named = tuple(replace(cluster, name=name) for (cluster, _), name in zip(found, names, strict=True))
    return Matches(clusters=named, pairs=tuple(sorted(pairs, key=lambda pair: (-pair.score, pair.first, pair.second))))


def _list_pairs(
    columns: Sequence[Column], group: NDArray[np.int64], scores: PairScores, probability: Floats
) -> list[Pair]:
    return [
        Pair(
            first=columns[first],
            second=columns[second],
            score=float(probability[first, second]),
            headers=float(scores.headers[first, second]),
            values=float(scores.values[first, second]),
        )
        for place, first in enumerate(group)
        for second in group[place + 1 :]
        if columns[first].table != columns[second].table
    ]


def name_clusters(clusters: Sequence[tuple[Sequence[str], Mapping[str, int]]]) -> list[str]:
    """Return a name for each cluster from its columns' headers, no name twice.

    It is the attribute that most of its columns have, those `known` of the domain (header: number) counted too; their
    headers serve where its own say nothing.

    >>> name_clusters([(["Title", "movie_title", "title"], {}), (["title", "name"], {}), (["col_1"], {"votes": 3})])
    ['title', 'name', 'votes']
    """
    taken: Counter[str] = Counter()
    names = []
    for headers, known in clusters:
        own = Counter(canonicalise(header) for header in headers if not is_useless(header))
        all_counts = Counter(own)
        for header, number in known.items():
            all_counts[canonicalise(header)] += number
        among = own or all_counts
        ranked = sorted(among, key=lambda name: (-all_counts[name], len(name), name)) or ["column"]
        free = next((name for name in ranked if not taken[name]), None)
        name = free or f"{ranked[0]} {taken[ranked[0]] + 1}"
        taken[name if free else ranked[0]] += 1
        names.append(name)
    return names
