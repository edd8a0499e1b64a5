"""Rows about the same thing: `Navi.link`, `navi link`, and the laws behind them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError, TableError
from navi.tables import read_tables
from navi.verbs.link import cluster_rows
from navi.verbs.row_comparison import ColumnAlignment, ComparedRows
from navi.verbs.row_scorer import fit_change, lift, load_row_scorer
from navi.verbs.row_similarity import Whitening

NAMES = (
    "amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "lagoon", "marsh",
    "north", "oasis", "pine", "quay", "reef",
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(world):
    """Two catalogues of films, each with a schema of its own."""
    return world.catalogues[0], world.catalogues[1]


@pytest.fixture(scope="module")
def links(navi, tables):
    """Their pairs, however unsure."""
    return navi.link({each.name: each.rows for each in tables}, threshold=0.02)


def make_products(number, brand="Orla"):
    return [
        {"name": f"{brand} {NAMES[n % 18]} {NAMES[n // 18]} speaker {n * 37 % 991}X", "price": str(20 + n)}
        for n in range(number)
    ]


def are_right(links, tables):
    films = [tables[0].row_films, tables[1].row_films]
    left, right = links.rows.number[links.pairs].T - 1
    return np.array([films[0][a] == films[1][b] for a, b in zip(left, right, strict=True)])


def test_sure_pairs_are_right_and_most_shared_films_are_found(links, tables, truth):
    shared = truth.shared_rows(tables[0].name, tables[1].name)
    assert len(shared) >= 8
    right = are_right(links, tables)[links.probability >= 0.5]
    assert right.mean() > 0.85
    assert right.sum() / len(shared) > 0.7


def test_pairs_are_right_at_least_as_often_as_they_say(links, tables):
    assert are_right(links, tables).mean() > links.probability.mean() - 0.1


def test_a_table_links_with_its_own_copy_one_to_one(navi):
    rows = make_products(30)
    found = navi.link({"a": rows, "b": rows[::-1]}, one_to_one=True)
    assert {(pair.left.row, pair.right.row) for pair in found} == {(n, 31 - n) for n in range(1, 31)}
    assert [len(cluster.rows) for cluster in found.clusters] == [2] * 30


def test_duplicates_are_found_in_one_table_and_across_many(navi):
    rows = make_products(24)
    assert len(navi.link(rows)) == 0
    twice = navi.link([*rows, *rows[:5]])
    assert {tuple(row.row for row in each.rows) for each in twice.clusters} == {(n, n + 24) for n in range(1, 6)}
    found = navi.link({"a": rows[:12], "b": rows[4:16], "c": rows[8:20]})
    assert sorted(len(each.rows) for each in found.clusters) == [2] * 8 + [3] * 4
    assert {row.table for row in max(found.clusters, key=lambda each: len(each.rows)).rows} == {"a", "b", "c"}


def test_tables_that_share_nothing_are_not_linked(navi):
    left = [{"title": f"king {name}", "genre": "drama"} for name in NAMES]
    right = [{"brand": f"star {n + 40}", "color": "red"} for n in range(12)]
    assert len(navi.link([left, right])) == 0


def test_the_evidence_of_a_pair_adds_up_and_shows_its_cells(navi):
    rows = make_products(20)
    pair = navi.link({"a": rows, "b": rows}, one_to_one=True)[0]
    odds = np.log(pair.probability / (1 - pair.probability))
    assert sum(each.weight for each in pair.evidence) == pytest.approx(odds, abs=0.05)
    shown = {each.column: (each.left, each.right) for each in pair.evidence}
    assert shown["name"][0] == shown["name"][1] == rows[pair.left.row - 1]["name"]
    assert {"(whole row)", "(rivals)"} <= set(shown)


def test_a_column_that_counts_the_rows_is_no_evidence(navi):
    rows = make_products(20)
    left, right = ([{"id": str(n), **row} for n, row in enumerate(each)] for each in (rows, rows[::-1]))
    found = navi.link({"a": left, "b": right}, one_to_one=True)
    assert "id" not in [column.alignment.name for column in found.rows.columns]
    assert {(pair.left.row, pair.right.row) for pair in found} == {(n, 21 - n) for n in range(1, 21)}


def test_rows_keep_their_numbers_beside_empty_ones(navi):
    left = [{}, {"title": "dark city", "year": "1999"}, {"title": "old king", "year": "1950"}]
    right = [{"title": "house", "year": "2001"}, {}, {}, {"title": "dark city", "year": "1999"}]
    found = navi.link({"a": left, "b": right}, threshold=0.001, one_to_one=True)
    assert (found[0].left.row, found[0].right.row) == (2, 4)


def test_labels_are_taken_as_given_and_learned_from(navi):
    left, right = make_products(18), make_products(18, brand="Orlando")
    before = navi.link({"a": left, "b": right}, threshold=0.01, k=18)
    labels = [{"left_row": n, "right_row": n, "same": "no"} for n in range(1, 10)]
    labels += [{"left_row": 10, "right_row": 3, "same": "yes"}, {"left_row": 11, "right_row": 2, "same": None}]
    after = navi.link({"a": left, "b": right}, threshold=0.01, k=18, labels=labels)
    sure = {(pair.left.row, pair.right.row): pair.probability for pair in after}
    assert sure[10, 3] > 0.99
    assert all((n, n) not in sure for n in range(1, 10))
    chances = {(pair.left.row, pair.right.row): pair.probability for pair in before}
    assert sure.get((15, 15), 0) < chances[15, 15]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"left_row": 1, "same": "yes"}], "have no column 'right_row'. Expected left_row, right_row, same."),
        ([{"left_row": 1, "right_row": 1, "same": "perhaps"}], "same must be yes, no or empty, got 'perhaps'"),
        ([{"left_row": 1, "right_row": 99, "same": "yes"}], "the table 'b' has no row '99'"),
        ([{"left_row": 1, "right_row": 1, "same": None, "x": 1}], "have no answers"),
    ],
)
def test_labels_that_cannot_be_read_say_what_is_wrong(labels, message, navi):
    rows = make_products(5)
    with pytest.raises(TableError, match=message.replace("(", r"\(")):
        navi.link({"a": rows, "b": rows}, labels=labels)


def test_settings_out_of_range_are_refused(navi):
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        navi.link([{"title": "a"}], k=0)
    with pytest.raises(ConfigError, match=r"threshold must lie between 0 and 1, got 1.5"):
        navi.link([{"title": "a"}], threshold=1.5)


def test_links_become_frames_and_show_themselves(navi):
    rows = make_products(6)
    found = navi.link({"a": rows, "b": rows}, one_to_one=True, encoder=False)
    assert len(found) == len(found.to_pandas()) == 6
    columns = ["left_table", "left_row", "right_table", "right_row", "probability", "cluster"]
    assert found.to_polars().columns == columns
    assert found.clusters_to_arrow().column_names == ["cluster", "probability", "table", "row"]
    assert f"<bdi>{found[0].left}</bdi> and <bdi>{found[0].right}</bdi>" in found._repr_html_()


@pytest.fixture
def shops(tmp_path):
    """Two files of products, of which the second has the first ones in reverse."""
    rows = make_products(8)
    for name, listed in (("left", rows), ("right", rows[::-1])):
        table = pa.table({key: [row[key] for row in listed] for key in ("name", "price")})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path / "left.parquet", tmp_path / "right.parquet"


def test_the_command_links_files_writes_pairs_and_learns_from_them(model_dir, shops, tmp_path, navi_command):
    out, clusters = tmp_path / "pairs.csv", tmp_path / "things.csv"
    flags = ("link", "--model", model_dir, *shops, "--one-to-one")
    shown = navi_command(*flags, "-o", out, "--clusters", clusters, "--explain").stdout
    assert "left:1 and right:8" in shown
    assert "8 pairs of rows in 8 clusters." in shown
    lines = out.read_text().splitlines()
    assert lines[0] == "left_table,left_row,right_table,right_row,probability,cluster"
    assert len(lines) == 9
    assert clusters.read_text().startswith("cluster,probability,table,row\n")
    refused = navi_command(*flags, "-o", out, code=2).stderr
    assert "pairs.csv exists. Replace it with --overwrite" in refused
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join([lines[0] + ",same", *(f"{line},no" for line in lines[1:])]))
    found = json.loads(navi_command(*flags, "--labels", labels, "--json", "--threshold", 0.9).stdout)
    assert found["tables"] == ["left", "right"]
    assert found["pairs"] == []


@given(st.integers(0, 1000))
def test_odds_of_the_best_pairs_rise_where_all_rows_seem_to_have_a_partner_and_never_fall(seed):
    rng = np.random.default_rng(seed)
    groups = np.stack([np.repeat(np.arange(20), 5), 20 + (np.arange(100) // 5 + np.arange(100) % 5) % 20])
    score = rng.normal(size=100).astype(np.float32)
    assert (lift(groups, score, score) >= score).all()
    score[::5] += 12
    raised = lift(groups, score, np.full(100, -1, np.float32)) > -1
    assert raised[::5].all()
    assert raised.sum() == 20
    assert (lift(groups, score, np.full(100, 9, np.float32)) == 9).all()


def test_odds_rise_between_two_tables_and_not_inside_them(monkeypatch):
    rows = make_products(80)
    changed = [{"name": each["name"].replace("speaker", "box"), "price": str(int(each["price"]) + 3)} for each in rows]
    aligned = [ColumnAlignment(name=name, headers={"a": (name,), "b": (name,)}) for name in ("name", "price")]
    compared = ComparedRows(read_tables({"a": rows, "b": changed}), aligned, within=True)
    pairs = compared.find_candidates(10)
    lifted = load_row_scorer().score(compared, pairs)[0]
    monkeypatch.setattr("navi.verbs.row_scorer.MAX_LIFT", 0.0)
    raised = lifted > load_row_scorer().score(compared, pairs)[0]
    first, second = compared.table[pairs].T
    assert raised[pairs[:, 1] - pairs[:, 0] == 80].all()
    assert not raised[first == second].any()


@pytest.mark.parametrize("seed", [0, 9, 11])
def test_tables_of_the_same_words_that_share_nothing_are_not_lifted_into_links(seed):
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz"], 6)) for _ in range(400)]
    sources = {
        name: [{"name": " ".join(rng.choice(words, 4)), "price": str(rng.integers(10, 999))} for _ in range(200)]
        for name in ("a", "b")
    }
    aligned = [ColumnAlignment(name=name, headers={"a": (name,), "b": (name,)}) for name in ("name", "price")]
    compared = ComparedRows(read_tables(sources), aligned, within=False)
    assert (load_row_scorer().score(compared, compared.find_candidates(10))[0] >= 0).sum() <= 4


def test_weights_move_towards_labels_the_more_the_more_there_are():
    features = np.array([[1.0, 1.0], [-1.0, 1.0]])
    same = np.array([True, False])
    few, many = (fit_change(features, np.zeros(2), same, np.full(2, count))[0] for count in (1.0, 10.0))
    assert 0 < few < many


def test_a_chain_of_doubtful_pairs_is_no_cluster_and_tables_stay_apart():
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    score = np.array([4.0, 1.0, -6.0], np.float32)
    assert cluster_rows(pairs, score, np.array([0, 1])).tolist()[1] == -1
    agreed = cluster_rows(pairs, np.array([4.0, 1.0, 2.0], np.float32), np.array([0, 1, 2]))
    assert len(set(agreed.tolist())) == 1
    apart = cluster_rows(pairs, np.array([4.0, 1.0, 2.0], np.float32), np.array([0, 1, 2]), np.array([0, 1, 0]))
    assert (apart >= 0).tolist() == [True, False, False]


def draw(num_rows, width=4, seed=0):
    """Return vectors whose directions differ much in variance, far from the origin."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(num_rows, width)) * np.geomspace(1, 0.2, width) + 50).astype(np.float32)


def test_rows_become_unit_vectors_spread_evenly_in_all_directions():
    vectors = draw(5000)
    found = Whitening.fit(vectors).transform(vectors)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.T @ found / len(found), np.eye(4) / 4, atol=0.02)
