"""Columns in clusters that mean the same, by the scores of their pairs and by what a person decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from navi.columns import Background, ColumnProfiles, PairScorer, have_headers, is_useless, split_place
from navi.corpus import canonicalise
from navi.errors import ConfigError, TableError
from navi.model.runner import Floats, Ints
from navi.settings import MATCH_THRESHOLD
from navi.tables import find_headers

# Shape suffixes: K columns, L other columns, P pairs.

LIMIT = 10.0
"""Scores are cut at this many points, so that no single pair decides over a cluster; what two columns of one table
count for, unless they are members of one list, and what a decision counts for."""
NEAR = 0.05
"""Probability from which a partner of a column that stands alone is worth a look."""
DESCRIBED = 4096
"""Pairs that are measured at once to describe some, at most: every first column of these with every second."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, order=True)
class ColumnRef:
    """A column of a table."""

    table: str
    header: str

    def __str__(self) -> str:
        return f"{self.table}/{self.header}"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A person's word on two columns, or on one.

    Where the second has no table, its header is the unified name that the first is to have; not to be the same as
    nothing at all, neither table nor header, says that the first stands alone.
    """

    first: ColumnRef
    second: ColumnRef
    same: bool
    place: str = field(default="", compare=False)
    """The file and the line that it was read from."""

    def __post_init__(self) -> None:
        if not self.second.table and bool(self.second.header) != self.same:
            raise TableError(
                f"A decision on {self.first} names no other table: it gives it a unified name and says yes, "
                "or none and says no."
            )

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        """The columns that it is about."""
        return (self.first, self.second) if self.second.table else (self.first,)

    def is_about(self, tables: Collection[str]) -> bool:
        """Return whether all its columns are of these tables."""
        return all(column.table in tables for column in self.columns)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Something that speaks for or against the same meaning of two columns."""

    speaks: Literal["for", "against"]
    text: str


@dataclass(frozen=True, kw_only=True)
class ColumnPair:
    """Two columns of different tables, and how likely it is that they mean the same."""

    first: ColumnRef
    second: ColumnRef
    score: float
    """Probability that both mean the same."""
    headers: float
    """What their headers contributed, as a logarithm of odds: negative speaks against."""
    values: float
    """What their values contributed, likewise."""
    reasons: tuple[Reason, ...] = ()
    """What spoke for and against, what counts most first; only where that was asked for."""


Explain = Callable[[int, int], tuple[Reason, ...]]


@dataclass(frozen=True, kw_only=True)
class ColumnCluster:
    """Columns that mean the same; a column without a match stands alone."""

    name: str
    """The proposed unified name."""
    columns: tuple[ColumnRef, ...]
    score: float
    """Mean probability of its pairs; 1 for a column that stands alone."""


class ColumnMatcher:
    """Profiled columns, to be matched whenever decisions change: what does not depend on them is found once."""

    def __init__(
        self,
        profiles: ColumnProfiles,
        scorer: PairScorer,
        *,
        threshold: float = MATCH_THRESHOLD,
        one_to_one: bool = False,
    ) -> None:
        self.profiles, self.scorer, self.threshold, self.one_to_one = profiles, scorer, threshold, one_to_one
        self._background = Background([profiles])
        self._total = scorer.score_total(profiles, profiles, self._background)
        self._table = np.unique(profiles.tables, return_inverse=True)[1]
        self._apart: Flags = self._table[:, None] == self._table[None, :]
        if not one_to_one:
            np.greater(self._apart, _are_family(profiles), out=self._apart)

    def check(self, decisions: Sequence[Decision]) -> None:
        """Raise an error where decisions contradict each other, or name columns that their tables do not have."""
        Constraints(decisions, self.profiles)

    def group(self, decisions: Sequence[Decision] = ()) -> ColumnGroups:
        """Return the columns in clusters, decisions taken as given."""
        every, constraints = np.arange(len(self.profiles)), Constraints(decisions, self.profiles)
        compete = partial(self.scorer.compete, tables=self.profiles.tables)
        scored = ScoredPairs(
            self.scorer, self.profiles, self._background, constraints, every, every, total=self._total, compete=compete
        )
        score, least = scored.logit, float(np.log(self.threshold / (1 - self.threshold)))
        if self.one_to_one:
            score = np.where(assign_one_to_one(score, self._table), score, -LIMIT)
        apart, together = self._apart, None
        if not constraints.is_empty:
            together = constraints.together
            apart = apart | constraints.apart
            np.greater(apart, together, out=apart)
        labels = cluster_scores(score, apart, together, least=least)
        return ColumnGroups(
            labels=labels, scored=scored, table=self._table, given=constraints.names, decisions=tuple(decisions)
        )


class ScoredPairs:
    """How likely each pair of some columns with others is to mean the same, decisions taken as given.

    Columns that were decided to be the same count as one: what speaks for one of them speaks for all. A pair that was
    decided on competes with the others as such: that takes a rival away from them, or gives them one.
    """

    def __init__(
        self,
        scorer: PairScorer,
        profiles: ColumnProfiles,
        background: Background,
        constraints: Constraints,
        first: Ints,
        second: Ints,
        *,
        total: Floats,
        compete: Callable[[Floats], Floats],
    ) -> None:
        """Take the places of K and of L columns among the profiles, and what their scores are before they compete."""
        self.scorer, self.profiles, self.background = scorer, profiles, background
        self.first, self.second = first, second
        self.before = total
        self.decided: Flags | None = None
        """(K, L) whether a person's word says so; None without any."""
        if not constraints.is_empty:  # else nothing is copied: thousands of columns take gigabytes
            every = len(first) == len(second) == len(profiles)
            same, apart = (
                each if every else each[np.ix_(first, second)] for each in (constraints.together, constraints.apart)
            )
            self.before, self.decided = constraints.average(total, first, second), same | apart
            np.copyto(self.before, -LIMIT, where=apart)
            np.copyto(self.before, LIMIT, where=same)
        self.logit = compete(self.before)
        """(K, L) logarithm of the odds that both mean the same, all said."""
        np.clip(self.logit, -LIMIT, LIMIT, out=self.logit)
        if self.decided is not None:
            np.copyto(self.logit, self.before, where=self.decided)

    def describe(self, pairs: Sequence[tuple[int, int]], explain: Explain | None = None) -> list[ColumnPair]:
        """Return pairs, given the places of their columns here; what contributed is found for some at once."""
        found, start = [], 0
        rows: set[int] = set()
        columns: set[int] = set()
        for end, (row, column) in enumerate(pairs):
            if (len(rows) + (row not in rows)) * (len(columns) + (column not in columns)) > DESCRIBED:
                found += self._describe(pairs[start:end], explain)
                rows, columns, start = set(), set(), end
            rows.add(row)
            columns.add(column)
        return found + (self._describe(pairs[start:], explain) if pairs else [])

    def _describe(self, pairs: Sequence[tuple[int, int]], explain: Explain | None) -> list[ColumnPair]:
        (rows, row_P), (columns, column_P) = (np.unique(each, return_inverse=True) for each in np.array(pairs).T)
        ours, theirs = self.first[rows], self.second[columns]
        parts = self.scorer.score(self.profiles.take(ours), self.profiles.take(theirs), self.background)
        found = []
        for (first, second), row, column in zip(pairs, row_P, column_P, strict=True):
            reasons: tuple[Reason, ...] = ()
            if explain is not None:
                explained = explain(int(ours[row]), int(theirs[column]))
                reasons = (*self._explain_rest(first, second), *explained)
            pair = ColumnPair(
                first=refer_to(self.profiles, int(ours[row])),
                second=refer_to(self.profiles, int(theirs[column])),
                score=float(1 / (1 + np.exp(-self.logit[first, second]))),
                headers=float(parts.headers[row, column]),
                values=float(parts.values[row, column]),
                reasons=reasons,
            )
            found.append(pair)
        return found

    def _explain_rest(self, first: int, second: int) -> list[Reason]:
        """Return what a person's word and the rivals of two columns say."""
        speaks: Literal["for", "against"] = "for" if self.logit[first, second] > 0 else "against"
        if self.decided is not None and self.decided[first, second]:
            return [Reason(speaks=speaks, text="it was decided so")]
        moved = float(self.logit[first, second] - self.before[first, second])
        tables = np.asarray(self.profiles.tables)
        beside = np.flatnonzero(tables[self.second] == tables[self.second[second]])
        above = np.flatnonzero(tables[self.first] == tables[self.first[first]])
        rivals = [(float(self.logit[first, at]), int(self.second[at])) for at in beside if at != second]
        rivals += [(float(self.logit[at, second]), int(self.first[at])) for at in above if at != first]
        best, rival = max(rivals, default=(-np.inf, 0))
        if best > self.logit[first, second]:
            return [Reason(speaks="against", text=f"{refer_to(self.profiles, rival)} is a likelier partner")]
        unrivalled = moved > 1 and speaks == "for"
        return [Reason(speaks="for", text="no other column of either table comes near")] if unrivalled else []


def refer_to(profiles: ColumnProfiles, column: int) -> ColumnRef:
    """Return the table and header of a profiled column."""
    return ColumnRef(profiles.tables[column], profiles.headers[column])


def _refuse_column(column: ColumnRef, known: Sequence[str], place: str) -> None:
    """Raise an error about a column that its table does not have; the members of a list do not stand for it."""
    known = [header for header in known if not header.startswith(f"{column.header}.")]
    try:
        find_headers(known, [column.header], column.table)
    except TableError as error:
        raise TableError(f"{place}: {error}" if place else str(error)) from error


class Constraints:
    """What was decided of K columns, and what follows from it."""

    def __init__(self, decisions: Sequence[Decision], profiles: ColumnProfiles) -> None:
        """Read decisions; those about other tables are left aside, a contradiction is an error.

        So is a column that its table does not have.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        columns = list(zip(profiles.tables, profiles.headers, strict=True))
        place = {column: k for k, column in enumerate(columns)}
        links: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        names: dict[int, str] = {}
        alone: list[int] = []
        tables = set(profiles.tables)
        for each in (decision for decision in decisions if decision.is_about(tables)):
            for column in each.columns:
                if (column.table, column.header) not in place:
                    known = [header for table, header in columns if table == column.table]
                    _refuse_column(column, known, each.place)
            ours = place[each.first.table, each.first.header]
            if each.second.table:
                links[each.same].append((ours, place[each.second.table, each.second.header]))
            elif each.same:  # the last name that a column was given; those of one name are one
                names = {k: name for k, name in names.items() if k != ours} | {ours: each.second.header}
            else:
                alone.append(ours)
        named = {name: k for k, name in names.items()}
        links[True] += [(k, named[name]) for k, name in names.items()]
        size = (len(columns), len(columns))
        same, other = (np.array(links[answer], np.int64).reshape(-1, 2) for answer in (True, False))
        graph = csr_array((np.ones(len(same)), (same[:, 0], same[:, 1])), shape=size)
        group = connected_components(graph, directed=False)[1].astype(np.int64)
        for first, second in group[other].tolist():
            if first == second:
                both = " and ".join(str(refer_to(profiles, k)) for k in np.flatnonzero(group == first).tolist())
                raise ConfigError(f"Decisions contradict each other: {both} are the same, and not the same.")
        for k in alone:
            if others := [each for each in np.flatnonzero(group == group[k]).tolist() if each != k]:
                both = f"{refer_to(profiles, k)} stands alone, and is {refer_to(profiles, others[0])}"
                raise ConfigError(f"Decisions contradict each other: {both}.")
        self.group, self.names = group, names
        """(K,) columns of one group are the same; unified names, by the column that was given one."""
        self.different, self.alone = group[other], np.array(alone, np.int64)
        """(N, 2) groups that are decided not to be the same, and the columns that are the same as no other."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said of any pair."""
        return not len(self.different) and not len(self.alone) and len(np.unique(self.group)) == len(self.group)

    @cached_property
    def together(self) -> Flags:
        """(K, K) whether two columns are in one group."""
        together: Flags = self.group[:, None] == self.group[None, :]
        np.fill_diagonal(together, False)
        return together

    @cached_property
    def apart(self) -> Flags:
        """(K, K) whether their groups are decided not to be the same."""
        apart = np.zeros((len(self.group), len(self.group)), np.bool_)
        for first, second in self.different.tolist():
            apart[np.ix_(self.group == first, self.group == second)] = True
            apart[np.ix_(self.group == second, self.group == first)] = True
        apart[self.alone], apart[:, self.alone] = True, True
        apart[self.alone, self.alone] = False
        return apart

    def average(self, score: Floats, first: Ints, second: Ints) -> Floats:
        """Return the mean score of all pairs of a group of the first with a group of the second, for each pair."""
        score = score.copy()
        for axis, columns in enumerate((first, second)):
            numbers, counts = np.unique(self.group[columns], return_counts=True)
            lines = np.moveaxis(score, axis, 0)
            for number in numbers[counts > 1]:
                own = self.group[columns] == number
                lines[own] = lines[own].mean(axis=0, dtype=np.float32)
        return score


def _are_family(profiles: ColumnProfiles) -> Flags:
    """Return which pairs are members of one list, as `cast.0` and `cast.1`, or `star` and `star 2`: (K, K)."""
    parts = [split_place(header) for header in profiles.headers]
    stem = np.unique([each for each, _ in parts], return_inverse=True)[1]
    place = np.unique([str(each) for _, each in parts], return_inverse=True)[1]
    is_nameless = ~have_headers(profiles)
    stem[is_nameless] = -1 - np.flatnonzero(is_nameless)  # of a family of its own
    family: Flags = (stem[:, None] == stem[None, :]) & (place[:, None] != place[None, :])
    np.fill_diagonal(family, True)
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


def cluster_scores(
    score: Floats, apart: Flags | None = None, together: Flags | None = None, *, least: float = 0.0
) -> Ints:
    """Return the cluster of each member: the two with the best average score merge until none is above `least`: (K,).

    `score` (K, K) is symmetric, above `least` where two members belong together. Members that `apart` (K, K) names
    never meet in a cluster; those of a group that `together` names are in one from the beginning. The number of
    clusters is what the scores make it.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    joined = score > np.float32(least)
    if apart is not None:
        np.greater(joined, apart, out=joined)
    if together is not None:
        joined |= together
    labels: Ints = np.arange(len(score))
    for members in _find_components(joined):
        if len(members) > 1:
            square = np.ix_(members, members) if len(members) < len(score) else ...
            inner = score[square]
            far_apart, near = (None if each is None else each[square] for each in (apart, together))
            top = max(float(inner.max()), -float(inner.min())) + 1.0
            far = top + top * len(members) ** 2  # so far that no average comes above the least
            distance, start = np.empty(len(members) * (len(members) - 1) // 2), 0
            for place in range(len(members) - 1):  # the upper triangle, line by line
                line = distance[start : (start := start + len(members) - 1 - place)]
                np.subtract(top, inner[place, place + 1 :], out=line)
                if far_apart is not None:
                    np.copyto(line, far, where=far_apart[place, place + 1 :])
                if near is not None:
                    np.copyto(line, 0.0, where=near[place, place + 1 :])
            tree = linkage(distance, "average")
            labels[members] = members[fcluster(tree, np.nextafter(top - least, 0.0), "distance") - 1]
    return labels


def _find_components(joined: Flags) -> Iterator[Ints]:
    """Yield the members of each connected component of a dense graph, for which scipy's sparse ones are slow."""
    is_left = np.ones(len(joined), np.bool_)
    while is_left.any():
        reached = np.zeros(len(joined), np.bool_)
        front = np.array([is_left.argmax()])
        while len(front):
            reached[front] = True
            front = np.flatnonzero(joined[front].any(axis=0) & ~reached)
        is_left &= ~reached
        yield np.flatnonzero(reached)


@dataclass(frozen=True, kw_only=True)
class ColumnGroups:
    """Columns in clusters, before every pair of them is written down."""

    labels: Ints
    """(K,) the cluster of each column."""
    scored: ScoredPairs
    table: Ints
    """(K,) the table of each column; those of one table are no pair."""
    given: Mapping[int, str]
    """Names that some columns were given."""
    decisions: tuple[Decision, ...]

    @cached_property
    def members(self) -> list[list[int]]:
        """The places of each cluster's columns; those of most columns first."""
        columns = self.columns
        order = np.argsort(self.labels, kind="stable")
        starts = np.flatnonzero(np.diff(self.labels[order], prepend=-1))
        groups = [sorted(group.tolist(), key=columns.__getitem__) for group in np.split(order, starts[1:])]
        return sorted(groups, key=lambda group: (-len(group), [columns[k] for k in group]))

    @cached_property
    def columns(self) -> list[ColumnRef]:
        """All columns."""
        return [refer_to(self.scored.profiles, k) for k in range(len(self.labels))]

    def weigh(self, group: Sequence[int]) -> NDArray[np.float64]:
        """Return (K, K): how likely the pairs of some columns are; NaN for two of one table."""
        probability = (1 / (1 + np.exp(-self.scored.logit[np.ix_(group, group)]))).astype(np.float64)
        return np.where(np.equal.outer(self.table[group], self.table[group]), np.nan, probability)

    def find_nearest(self, column: int) -> int | None:
        """Return the likeliest partner of a column, where one is near."""
        outside = np.where(self.table == self.table[column], -np.inf, self.scored.logit[column])
        best = int(outside.argmax())
        return best if outside[best] > np.log(NEAR / (1 - NEAR)) else None

    @cached_property
    def clusters(self) -> tuple[ColumnCluster, ...]:
        """The clusters, with their names."""
        place = {k: number for number, group in enumerate(self.members) for k in group}
        chosen = {place[k]: name for k, name in self.given.items()}
        names = name_clusters([[self.columns[k].header for k in group] for group in self.members], chosen)
        found = []
        for name, group in zip(names, self.members, strict=True):
            pairs = self.weigh(sorted(group))[np.triu_indices(len(group), 1)]
            pairs = pairs[~np.isnan(pairs)]
            score = float(pairs.mean()) if len(pairs) else 1.0
            found.append(ColumnCluster(name=name, columns=tuple(self.columns[k] for k in group), score=score))
        return tuple(found)

    def list_pairs(self, explain: Explain | None = None) -> tuple[tuple[ColumnPair, ...], tuple[ColumnPair, ...]]:
        """Return every pair of a cluster, and the nearest partners of columns that stand alone, the surest first."""
        pairs: list[tuple[int, int]] = []
        near: dict[frozenset[int], tuple[int, int]] = {}
        table = self.table.tolist()
        for group in map(sorted, self.members):
            inner = ((first, second) for place, first in enumerate(group) for second in group[place + 1 :])
            pairs += [(first, second) for first, second in inner if table[first] != table[second]]
            if len(group) == 1 and (best := self.find_nearest(group[0])) is not None:
                near.setdefault(frozenset((group[0], best)), (group[0], best))
        found, nearest = (self.scored.describe(each, explain) for each in (pairs, list(near.values())))
        return _sort_pairs(found), _sort_pairs(nearest)


def _sort_pairs(pairs: Sequence[ColumnPair]) -> tuple[ColumnPair, ...]:
    return tuple(sorted(pairs, key=lambda pair: (-pair.score, pair.first, pair.second)))


def name_clusters(clusters: Sequence[Sequence[str]], given: Mapping[int, str] | None = None) -> list[str]:
    """Return a name for each cluster from its columns' headers, the attribute that most of them have, no name twice.

    `given` are the names of some, by their place.

    >>> name_clusters([["Title", "movie_title", "title"], ["title", "name"], ["col_1"]])
    ['title', 'name', 'column']
    """
    given = given or {}
    taken: Counter[str] = Counter(given.values())
    names = []
    for place, headers in enumerate(clusters):
        if place in given:
            names.append(given[place])
            continue
        counts = Counter(canonicalise(header) for header in headers if not is_useless(header))
        ranked = sorted(counts, key=lambda name: (-counts[name], len(name), name)) or ["column"]
        free = next((name for name in ranked if not taken[name]), None)
        name = free or f"{ranked[0]} {taken[ranked[0]] + 1}"
        taken[name if free else ranked[0]] += 1
        names.append(name)
    return names
