"""The demo's columns that mean the same, found across all catalogues."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import combinations
from typing import TYPE_CHECKING

from navi.cli.demo.tour import Score, Tour, measure_f1
from navi.cli.match import list_clusters, summarise_matches
from navi.cli.progress import show_progress
from navi.cli.render import count_things

if TYPE_CHECKING:
    from navi.cli.demo.page import MatchedColumns
    from navi.verbs.match import ColumnCluster

Column = tuple[str, str]
Pairs = set[tuple[Column, Column]]


def match_columns(tour: Tour) -> None:
    """Match the columns of all catalogues, and compare with what they mean."""
    from navi.corpus import canonicalise
    from navi.tables import read_tables

    with show_progress(tour.screen) as meter:
        meter.wait(f"Comparing the columns of {count_things(len(tour.truth.films), 'table')}")
        found = tour.model.match(read_tables([tour.tables]))
    tour.screen.summarise(list_clusters(found), *summarise_matches(found, []))
    cluster_of = {
        (column.table, column.header): number
        for number, cluster in enumerate(found.clusters)
        for column in cluster.columns
    }
    known = [column for column in cluster_of if tour.truth.concept_of(*column)]
    truth = pair_columns(known, lambda column: tour.truth.concept_of(*column) or "")
    by_header = pair_columns(known, lambda column: canonicalise(column[1]))
    tour.findings.matched = [_describe(tour, cluster) for cluster in found.clusters if len(cluster.columns) > 1]
    tour.scores.append(
        Score(
            task="columns that mean the same (F1 of pairs)",
            navi=measure_f1(pair_columns(known, cluster_of.__getitem__), truth),
            guess=measure_f1(by_header, truth),
            guess_name="equal headers",
        )
    )


def _describe(tour: Tour, cluster: ColumnCluster) -> MatchedColumns:
    from navi.cli.demo.page import MatchedColumns

    columns = {(each.table, each.header): tour.truth.concept_of(each.table, each.header) for each in cluster.columns}
    return MatchedColumns(name=cluster.name, columns=columns, probability=cluster.score)


def pair_columns(columns: Iterable[Column], group: Callable[[Column], Hashable]) -> Pairs:
    """Return the pairs of columns of different tables that are in one group."""
    return {
        (first, second)
        for first, second in combinations(sorted(columns), 2)
        if first[0] != second[0] and group(first) == group(second)
    }
