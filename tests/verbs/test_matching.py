"""Tests of matching."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from navi.columns import DEFAULT_SCORER, Background
from navi.errors import ConfigError, TableError
from navi.verbs.matches import Column
from navi.verbs.matching import match_tables, name_clusters, score_columns
from navi.verbs.profiling import profile_frames

GENRES = ("drama", "comedy", "horror", "western", "musical", "animation", "documentary", "thriller")
NAMES = ("Ann Bell", "Bob Cole", "Cleo Dean", "Dan East", "Eve Ford", "Fay Gray", "Gus Hill", "Hal Irons")
SAME = {name: name for name in ("title", "genre", "year", "votes", "director")}
OTHER = {"title": "Film", "genre": "Kind", "year": "Released", "votes": "Count", "director": "Maker"}


def draw(seed, headers, num_rows=120):
    """Return rows about films under the given headers."""
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        row = {
            "title": f"The {rng.choice(('Night', 'Day', 'House', 'City'))} of {rng.choice(NAMES)} {rng.randrange(40)}",
            "genre": ", ".join(sorted(rng.sample(GENRES, 2))),
            "year": str(rng.randrange(1950, 2020)),
            "votes": str(rng.randrange(10_000, 900_000)),
            "director": rng.choice(NAMES),
        }
        rows.append({headers[name]: value for name, value in row.items() if name in headers})
    return rows


def find_pairs(matches):
    """Return the pairs of headers that are in one cluster, of different tables."""
    return {
        frozenset((first.header, second.header))
        for cluster in matches.clusters
        for first, second in combinations(cluster.columns, 2)
        if first.table != second.table
    }


@pytest.fixture(scope="module")
def matches(navi):
    return match_tables(navi, {"a": draw(1, SAME), "b": draw(2, OTHER)}, rows_per_column=4)


def test_columns_with_the_same_values_match_under_other_headers(matches):
    assert {frozenset((ours, theirs)) for ours, theirs in OTHER.items() if ours in ("genre", "director")} <= find_pairs(
        matches
    )


def test_no_column_matches_one_of_another_meaning(matches):
    assert find_pairs(matches) <= {frozenset(pair) for pair in OTHER.items()}


def test_every_column_is_in_exactly_one_cluster(matches):
    columns = [column for cluster in matches.clusters for column in cluster.columns]
    assert sorted(columns) == sorted([*(Column("a", h) for h in SAME), *(Column("b", h) for h in OTHER.values())])


def test_each_pair_tells_what_headers_and_values_said(matches):
    assert matches.pairs
    for pair in matches.pairs:
        assert pair.first.table != pair.second.table
        assert 0 <= pair.score <= 1
        assert pair.values > 0


def test_equal_headers_match_and_give_the_name(navi):
    found = match_tables(navi, {"a": draw(1, SAME), "b": draw(2, SAME)}, rows_per_column=4)
    assert find_pairs(found) == {frozenset((header,)) for header in SAME}
    assert {cluster.name for cluster in found.clusters} == set(SAME)


def test_without_headers_values_alone_decide(navi):
    nameless = {name: f"col_{place}" for place, name in enumerate(SAME)}
    found = match_tables(navi, {"a": draw(1, SAME), "b": draw(2, nameless)}, rows_per_column=4)
    assert frozenset(("genre", "col_1")) in find_pairs(found)
    assert frozenset(("director", "col_4")) in find_pairs(found)
    assert {pair.headers for pair in found.pairs} == {0.0}


def test_without_values_headers_alone_decide(navi):
    empty = pd.DataFrame({header: pd.Series([], dtype=str) for header in SAME})
    found = match_tables(navi, {"a": draw(1, SAME), "b": empty}, rows_per_column=4)
    assert find_pairs(found) == {frozenset((header,)) for header in SAME}
    assert {pair.values for pair in found.pairs} == {0.0}


def test_an_empty_column_of_a_full_table_is_matched_by_its_header(navi):
    frame = pl.DataFrame(draw(2, {"title": "title"})).with_columns(pl.lit(None, dtype=pl.String).alias("genre"))
    found = match_tables(navi, {"a": draw(1, SAME), "b": frame}, rows_per_column=4)
    assert frozenset(("genre",)) in find_pairs(found)


def test_one_to_one_has_at_most_one_column_of_a_table_in_a_cluster(navi):
    doubled = [{**row, "director 2": row["director"]} for row in draw(1, SAME)]
    tables = {"a": doubled, "b": draw(2, OTHER)}
    free = match_tables(navi, tables, rows_per_column=4)
    strict = match_tables(navi, tables, rows_per_column=4, one_to_one=True)
    most = [max(sum(c.table == "a" for c in cluster.columns) for cluster in each.clusters) for each in (free, strict)]
    assert most == [2, 1]
    assert {frozenset(("director", "Maker")), frozenset(("director 2", "Maker"))} & find_pairs(strict)


def test_a_higher_threshold_matches_less(navi, matches):
    sure = match_tables(navi, {"a": draw(1, SAME), "b": draw(2, OTHER)}, rows_per_column=4, threshold=0.9999)
    assert find_pairs(sure) < find_pairs(matches)


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_a_threshold_is_a_probability(navi, threshold):
    with pytest.raises(ConfigError, match="threshold must lie between 0 and 1"):
        match_tables(navi, {"a": draw(1, SAME), "b": draw(2, SAME)}, threshold=threshold)


def test_one_table_is_an_error(navi):
    with pytest.raises(ConfigError, match="at least two tables, got 1"):
        match_tables(navi, {"a": draw(1, SAME)})


def test_a_table_without_columns_is_an_error(navi):
    with pytest.raises(TableError, match="'b' has no columns"):
        match_tables(navi, {"a": draw(1, SAME, 3), "b": pd.DataFrame()})


def test_names_are_never_given_twice():
    names = name_clusters([(["title"], {}), (["Title"], {}), (["TITLE"], {}), (["col_1"], {}), (["col_2"], {})])
    assert names == ["title", "title 2", "title 3", "column", "column 2"]


def test_known_columns_decide_between_the_headers_of_a_cluster():
    assert name_clusters([(["abstract", "plot"], {"plot": 5, "overview": 9})]) == ["plot"]


def test_values_count_less_where_the_scorer_found_them_less_telling(navi, world):
    frames = {each.name: list(each.rows)[:20] for each in world.catalogues[:2]}
    profiles = profile_frames(navi, frames, rows_per_column=3)
    background = Background([profiles])
    plain, doubted = (score_columns(profiles, replace(DEFAULT_SCORER, temperature=t), background) for t in (1.0, 2.0))
    np.testing.assert_allclose(doubted.values, plain.values / 2, rtol=1e-6)
    np.testing.assert_array_equal(doubted.headers, plain.headers)
