"""Linking: which rows of one table or of many are about the same thing, with probabilities and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from navi.errors import ConfigError, TableError
from navi.model.runner import Floats, Ints, Progress
from navi.report.cards import show_cards
from navi.tables import Table, read_table, read_tables
from navi.verbs.embed import EmbedConfig, embed_frames
from navi.verbs.match import ANSWERS
from navi.verbs.result import CARDS_SHOWN, TabularResult, tabulate
from navi.verbs.row_comparison import ColumnAlignment, ComparedRows
from navi.verbs.row_scorer import load_row_scorer
from navi.verbs.row_similarity import Whitening

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: R rows of all tables, C compared columns, P pairs of rows.

ENCODER_ROWS = 20_000
"""Rows up to which the encoder proposes candidates, too, unless it is said; beyond, words and trigrams do."""
CERTAIN = 12.0
"""Logarithm of the odds of a pair that a person labelled."""
UNKNOWN = -1.0
"""What two rows of a cluster count for that were not compared: as little alike as that says."""
THE_ROW, THE_RIVALS = "(whole row)", "(rivals)"
"""What else speaks for a pair or against it: the texts of whole rows, and whether either has a better partner."""
LABEL_COLUMNS = ("left_row", "right_row", "same")

Bools = NDArray[np.bool_]


@dataclass(frozen=True, order=True)
class RowRef:
    """A row of a table."""

    table: str
    row: int
    """Its number in the table, from 1; in a text file, its line."""

    def __str__(self) -> str:
        return f"{self.table}:{self.row}"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Something that speaks for a pair of rows, or against it."""

    column: str
    """Name of the columns that were compared, the whole row, or its rivals."""
    left: str | None
    """The left cell."""
    right: str | None
    """The right cell."""
    weight: float
    """What it contributes, as a logarithm of odds: negative speaks against."""


@dataclass(frozen=True, kw_only=True)
class RowPair:
    """Two rows that are about the same thing."""

    left: RowRef
    right: RowRef
    probability: float
    cluster: int
    evidence: tuple[Evidence, ...]
    """What spoke for it and against it, what counts most first."""

    @property
    def cells(self) -> tuple[Evidence, ...]:
        """The compared columns of which either row has a cell."""
        return tuple(each for each in self.evidence if each.left is not None or each.right is not None)


@dataclass(frozen=True, kw_only=True)
class RowCluster:
    """Rows that are about one thing."""

    rows: tuple[RowRef, ...]
    probability: float
    """Mean probability of its pairs that were compared."""


@dataclass(frozen=True, kw_only=True)
class Links(TabularResult):
    """Pairs of rows that are about the same thing, the surest first.

    **Shape**: P pairs, C compared columns.
    """

    rows: ComparedRows
    pairs: Ints
    """(P, 2) places of the rows among those of all tables, the left first."""
    probability: Floats
    """(P,) how likely each pair is."""
    cluster: Ints
    """(P,) number of the cluster of each pair, from 0."""
    weights: Floats
    """(P, C + 2) what each compared column, the whole row and the rivals contribute, as logarithms of odds."""

    def __len__(self) -> int:
        return len(self.pairs)

    def _repr_html_(self) -> str:
        return show_cards(
            "links", number=len(self), pairs=[self[place] for place in range(min(len(self), CARDS_SHOWN))]
        )

    def __getitem__(self, place: int) -> RowPair:
        pair, weights = self.pairs[place].tolist(), self.weights[place]
        cells = [[column.texts[row].as_py() or None for row in pair] for column in self.rows.columns]
        names = [*(column.alignment.name for column in self.rows.columns), THE_ROW, THE_RIVALS]
        evidence = [
            Evidence(column=name, left=left, right=right, weight=float(weight))
            for name, (left, right), weight in zip(names, [*cells, (None, None), (None, None)], weights, strict=True)
            if weight
        ]
        left, right = (self.refer(row) for row in pair)
        return RowPair(
            left=left,
            right=right,
            probability=float(self.probability[place]),
            cluster=int(self.cluster[place]),
            evidence=tuple(sorted(evidence, key=lambda each: -abs(each.weight))),
        )

    def __iter__(self) -> Iterator[RowPair]:
        return (self[place] for place in range(len(self)))

    @property
    def left_row(self) -> Ints:
        """(P,) number of the left row in its table, from 1; in a text file, its line."""
        return self.rows.number[self.pairs[:, 0]]

    @property
    def right_row(self) -> Ints:
        """(P,) number of the right row."""
        return self.rows.number[self.pairs[:, 1]]

    def refer(self, row: int) -> RowRef:
        """Return which row stands at a place among those of all tables."""
        return RowRef(self.rows.tables[self.rows.table[row]], int(self.rows.number[row]))

    @cached_property
    def clusters(self) -> tuple[RowCluster, ...]:
        """The rows that are about one thing, those of the surest pair first."""
        rows: dict[int, set[int]] = {}
        sums: dict[int, list[float]] = {}
        for (left, right), cluster, sure in zip(
            self.pairs.tolist(), self.cluster.tolist(), self.probability.tolist(), strict=True
        ):
            rows.setdefault(cluster, set()).update((left, right))
            sums.setdefault(cluster, []).append(sure)
        return tuple(
            RowCluster(rows=tuple(map(self.refer, sorted(rows[number]))), probability=float(np.mean(sums[number])))
            for number in sorted(rows)
        )

    def to_arrow(self) -> pa.Table:
        """Return a line for each pair: tables and row numbers, how likely it is, and its cluster."""
        tables = pa.array(self.rows.tables, pa.string())
        sides = {}
        for side, row in zip(("left", "right"), self.pairs.T, strict=True):
            sides[f"{side}_table"] = tables.take(pa.array(self.rows.table[row]))
            sides[f"{side}_row"] = pa.array(self.rows.number[row])
        return pa.table({**sides, "probability": self.probability, "cluster": self.cluster})

    def clusters_to_arrow(self) -> pa.Table:
        """Return a line for each row of a cluster: the cluster's number and probability, table and row number."""
        lines = [
            (number, cluster.probability, each.table, each.row)
            for number, cluster in enumerate(self.clusters)
            for each in cluster.rows
        ]
        return tabulate(lines, cluster=pa.int64(), probability=pa.float64(), table=pa.string(), row=pa.int64())


def link_tables(
    navi: Navi,
    frames: Any,
    threshold: float,
    one_to_one: bool,
    within: bool,
    labels: Any,
    k: int,
    encoder: bool | None,
    progress: Progress | None,
) -> Links:
    """Return the rows of one table or of several that are about the same thing; see `Navi.link`."""
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}.")
    if not 0 < threshold < 1:
        raise ConfigError(f"threshold must lie between 0 and 1, got {threshold}.")
    tables = read_tables(frames, navi.read_config)
    rows = ComparedRows(tables, align_columns(navi, tables), within=within or len(tables) == 1)
    known = None if labels is None else read_labels(labels, rows)
    vectors = None
    if rows.num_rows <= ENCODER_ROWS if encoder is None else encoder:
        vectors = embed_rows(navi, tables, progress)
    pairs = rows.find_candidates(k + len(tables) - 2 if len(tables) > 2 else k, vectors)
    if known is not None:
        pairs = np.unique(np.concatenate([pairs, known[:, :2]]), axis=0)
    logit, weights = score_pairs(rows, pairs, known)
    shifted = logit - np.float32(np.log(threshold / (1 - threshold)))
    chosen = assign_rows(rows, pairs, shifted) if one_to_one else np.flatnonzero(shifted >= 0)
    cluster = cluster_rows(pairs, shifted, chosen, rows.table if one_to_one else None)
    chosen = chosen[cluster >= 0]
    cluster = cluster[cluster >= 0]
    order = np.lexsort((pairs[chosen, 1], pairs[chosen, 0], -logit[chosen]))
    chosen, cluster = chosen[order], cluster[order]
    first = dict.fromkeys(cluster.tolist())
    number = {label: place for place, label in enumerate(first)}
    return Links(
        rows=rows,
        pairs=pairs[chosen],
        probability=(1 / (1 + np.exp(-logit[chosen]))).astype(np.float32),
        cluster=np.array([number[label] for label in cluster.tolist()], np.int64),
        weights=weights[chosen],
    )


def align_columns(navi: Navi, tables: Mapping[str, Table]) -> list[ColumnAlignment]:
    """Return the columns that mean the same, as the model matches them; a counter of rows is no evidence."""
    if len(tables) == 1:
        ((name, table),) = tables.items()
        return [
            ColumnAlignment(name=each, headers={name: (each,)}) for each in table.headers if not is_counter(table, each)
        ]
    alignments = []
    for cluster in navi.match(dict(tables)).clusters:
        headers: dict[str, tuple[str, ...]] = {}
        for column in cluster.columns:
            headers[column.table] = (*headers.get(column.table, ()), column.header)
        counted = all(is_counter(tables[name], header) for name, each in headers.items() for header in each)
        if len(headers) > 1 and not counted:
            alignments.append(ColumnAlignment(name=cluster.name, headers=headers))
    return alignments


def is_counter(table: Table, header: str) -> bool:
    """Return whether a column counts the rows: whole numbers, each one more than the one before."""
    cells = table.text[header].combine_chunks()
    if len(cells) < 2 or cells.null_count or not pc.all(pc.match_substring_regex(cells, "^[0-9]{1,15}$")).as_py():
        return False
    return bool((np.diff(np.asarray(cells.cast(pa.int64()))) == 1).all())


def embed_rows(navi: Navi, tables: Mapping[str, Table], progress: Progress | None) -> Floats:
    """Return (R, D) the rows in the model's space, whitened; zeros for one without any cell."""
    vectors = embed_frames(navi, dict(tables), None, EmbedConfig(pooling="values"), progress)
    filled = np.flatnonzero(np.abs(vectors).sum(axis=1) > 0)
    vectors[filled] = Whitening.fit(vectors[filled]).transform(vectors[filled])
    return vectors


def score_pairs(rows: ComparedRows, pairs_P2: Ints, known: Ints | None = None) -> tuple[Floats, Floats]:
    """Return the logarithm of the odds of each pair, (P,), and what contributed to it, (P, C + 2).

    `known` (L, 3) has labelled pairs and whether each is the same: the scorer learns from them, and they are certain.
    """
    if not len(pairs_P2):
        return np.zeros(0, np.float32), np.zeros((0, len(rows.columns) + 2), np.float32)
    if known is None:
        return load_row_scorer().score(rows, pairs_P2)
    place = np.searchsorted(_number_pairs(pairs_P2, rows), _number_pairs(known[:, :2], rows))
    same = known[:, 2].astype(np.bool_)
    logit, weights = load_row_scorer().score(rows, pairs_P2, place, same)
    logit[place] = np.where(same, CERTAIN, -CERTAIN)
    return logit, weights


def _number_pairs(pairs_P2: Ints, rows: ComparedRows) -> Ints:
    return pairs_P2[:, 0] * rows.num_rows + pairs_P2[:, 1]


def read_labels(labels: Any, rows: ComparedRows) -> Ints:
    """Return (L, 3) what a table says of pairs of rows, sorted, each once: their places, and 1 for the same or 0.

    A line without an answer says nothing. Tables need a name where there are more than two.
    """
    table = read_table(labels)
    named = ("left_table", "right_table") if len(rows.tables) > 2 else ()
    missing = [name for name in (*named, *LABEL_COLUMNS) if name not in table.headers]
    if missing:
        expected = ", ".join((*named, *LABEL_COLUMNS))
        raise TableError(f"The labels in '{table.name}' have no column '{missing[0]}'. Expected {expected}.")
    sides = {"left": rows.tables[0], "right": rows.tables[-1]}
    place = {(int(t), int(n)): row for row, (t, n) in enumerate(zip(rows.table, rows.number, strict=True))}
    found: dict[tuple[int, int], int] = {}
    for number, line in zip(table.row_number.tolist(), table.text.to_pylist(), strict=True):
        answer = (line["same"] or "").strip().lower()
        where = f"Line {number} of the labels in '{table.name}'"
        if answer and answer not in ANSWERS:
            raise TableError(f"{where}: same must be yes, no or empty, got '{line['same']}'.")
        pair = []
        for side, usual in sides.items() if answer else ():
            name, row = line.get(f"{side}_table") or usual, (line[f"{side}_row"] or "").strip()
            if name not in rows.tables:
                raise TableError(f"{where}: there is no table '{name}'. Expected one of {', '.join(rows.tables)}.")
            key = (rows.tables.index(name), int(row) if row.isdecimal() else -1)
            if key not in place:
                raise TableError(f"{where}: the table '{name}' has no row '{row}'. Give it as `navi link` numbers it.")
            pair.append(place[key])
        if pair:
            found[min(pair), max(pair)] = int(ANSWERS[answer])
    if not found:
        raise TableError(f"The labels in '{table.name}' have no answers. Fill in the column `same` with yes or no.")
    return np.array([(*pair, same) for pair, same in sorted(found.items())], np.int64)


def assign_rows(rows: ComparedRows, pairs_P2: Ints, score: Floats) -> Ints:
    """Return the pairs, of those with a score above 0, of the best assignment of each two tables: no row twice."""
    from scipy.sparse import csr_array, eye_array, hstack
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    good = np.flatnonzero(score > 0)
    if not len(good):
        return good
    first, second = (np.unique(side[good], return_inverse=True)[1] for side in rows.group(pairs_P2))
    scores = csr_array((score[good].astype(np.float64), (first, second)))
    # A place of its own for each row, worth next to nothing, so that a row may stay alone.
    padded = hstack([scores, 1e-9 * eye_array(scores.shape[0])], format="csr")
    row, column = min_weight_full_bipartite_matching(padded, maximize=True)
    partner = np.full(scores.shape[0], -1)
    partner[row] = column
    chosen: Ints = good[partner[first] == second]
    return chosen


def cluster_rows(pairs_P2: Ints, score: Floats, chosen: Ints, table: Ints | None = None) -> Ints:
    """Return the cluster of each chosen pair, -1 where its rows came into different ones: (P,).

    The surest pairs come first; two clusters merge if their pairs speak for it on average, those that were not compared
    against it. With `table` (R,), no cluster takes two rows of a table.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(pairs_P2.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(chosen)), tuple(pairs_P2[chosen].T)), shape=(size, size))
    # Rows that no chain of chosen pairs joins come into no cluster together.
    chain = connected_components(graph, directed=False)[1] if size else np.zeros(0, np.int32)
    involved = chain[pairs_P2[:, 0]] == chain[pairs_P2[:, 1]]
    counted: dict[int, dict[int, tuple[float, int]]] = {}
    for (left, right), value in zip(pairs_P2[involved].tolist(), score[involved].tolist(), strict=True):
        counted.setdefault(left, {})[right] = counted.setdefault(right, {})[left] = (value, 1)
    members, home = {row: [row] for row in counted}, {row: row for row in counted}
    for place in chosen[np.argsort(-score[chosen], kind="stable")].tolist():
        one, other = (home[row] for row in pairs_P2[place].tolist())
        if one == other:
            continue
        total, count = counted[one][other]
        most = len(members[one]) * len(members[other])
        own = [] if table is None else [int(table[row]) for row in (*members[one], *members[other])]
        if total + UNKNOWN * (most - count) < 0 or len(set(own)) < len(own):
            continue
        if len(members[one]) < len(members[other]):
            one, other = other, one
        for row in members[other]:
            home[row] = one
        members[one] += members.pop(other)
        for third, (value, number) in counted.pop(other).items():
            del counted[third][other]
            if third != one:
                before = counted[one].get(third, (0.0, 0))
                counted[one][third] = counted[third][one] = (before[0] + value, before[1] + number)
    ends = [[home[row] for row in pairs_P2[place].tolist()] for place in chosen.tolist()]
    return np.array([one if one == other else -1 for one, other in ends], np.int64)
