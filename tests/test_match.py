"""Columns that mean the same: `Navi.match` and `navi match`."""

from __future__ import annotations

import json
import random
import shutil
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.corpus import load_attributes
from navi.errors import ConfigError, TableError
from navi.verbs import Navi
from navi.verbs.column_groups import ColumnRef, Decision, cluster_scores, name_clusters
from navi.verbs.match import read_decisions

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


def list_columns(matches):
    return [(column.table, column.header) for cluster in matches.clusters for column in cluster.columns]


def find_pairs(matches):
    """Return the pairs of headers that are in one cluster, of different tables."""
    return {
        frozenset((first.header, second.header))
        for cluster in matches.clusters
        for first, second in combinations(cluster.columns, 2)
        if first.table != second.table
    }


@pytest.fixture(scope="module")
def match(reference_navi):
    """Match two tables with the small model that is kept."""

    def run(first, second, **settings):
        return reference_navi.match({"a": first, "b": second}, **settings)

    return run


@pytest.fixture(scope="module")
def matches(match):
    return match(draw(1, SAME), draw(2, OTHER))


def test_columns_with_the_same_values_match_under_other_headers_and_no_others(matches):
    pairs = find_pairs(matches)
    assert {frozenset(("genre", "Kind")), frozenset(("director", "Maker"))} <= pairs
    assert pairs <= {frozenset(pair) for pair in OTHER.items()}


def test_every_column_is_in_exactly_one_cluster(matches):
    assert sorted(list_columns(matches)) == sorted(
        [*(("a", header) for header in SAME), *(("b", header) for header in OTHER.values())]
    )


def test_the_surest_pairs_come_first_and_say_what_headers_and_values_contributed(matches):
    scores = [pair.score for pair in matches.pairs]
    assert scores
    assert scores == sorted(scores, reverse=True)
    for pair in matches.pairs:
        assert pair.first.table != pair.second.table
        assert 0 <= pair.score <= 1
        assert np.isfinite([pair.headers, pair.values]).all()


def test_equal_headers_match_and_give_the_name(match):
    found = match(draw(1, SAME), draw(2, SAME))
    assert find_pairs(found) == {frozenset((header,)) for header in SAME}
    assert {cluster.name for cluster in found.clusters} == set(SAME)


def test_without_headers_values_alone_decide(match):
    found = match(draw(1, SAME), draw(2, {name: f"col_{place}" for place, name in enumerate(SAME)}))
    assert {frozenset(("genre", "col_1")), frozenset(("director", "col_4"))} <= find_pairs(found)


def test_without_values_headers_alone_decide(match):
    found = match(draw(1, SAME), pd.DataFrame({header: pd.Series([], dtype=str) for header in SAME}))
    assert find_pairs(found) == {frozenset((header,)) for header in SAME}
    frame = pl.DataFrame(draw(2, {"title": "title"})).with_columns(pl.lit(None, dtype=pl.String).alias("genre"))
    assert frozenset(("genre",)) in find_pairs(match(draw(1, SAME), frame))


def test_no_column_of_a_wide_table_is_lost(match):
    wide = [{f"item {column}": f"{row} {column}" for column in range(736)} for row in range(3)]
    found = match(wide, [{"item 700": "0 700"}])
    assert sorted(list_columns(found)) == sorted([*(("a", header) for header in wide[0]), ("b", "item 700")])


def test_one_to_one_has_at_most_one_column_of_a_table_in_a_cluster(match):
    doubled = [{**row, "director 2": row["director"]} for row in draw(1, SAME)]
    free, strict = (match(doubled, draw(2, OTHER), one_to_one=one) for one in (False, True))
    most = [max(sum(c.table == "a" for c in cluster.columns) for cluster in each.clusters) for each in (free, strict)]
    assert most == [2, 1]
    assert {frozenset(("director", "Maker")), frozenset(("director 2", "Maker"))} & find_pairs(strict)


MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
THINGS = ("lamp", "chair", "desk", "sofa", "bed", "shelf", "rug", "vase", "clock", "mirror")
CITIES = ("Berlin", "Paris", "Rome", "Oslo", "Madrid", "Vienna", "Prague", "Lisbon", "Dublin", "Athens")


def draw_goods(seed, style, num_rows=60):
    """Return rows about goods, written as one shop or the other writes them."""
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        year, month, day, price = rng.randrange(2010, 2023), rng.randrange(12), rng.randrange(1, 29), rng.random() * 900
        minutes, weight, there = rng.randrange(60, 200), rng.randrange(1, 60), rng.random() < 0.4
        item = f"{rng.choice(THINGS)} and {rng.choice(THINGS)}"
        first = (item, f"{day}-{MONTHS[month][:3]}-{year % 100}", f"${price:,.2f}", "yes" if there else "no",
                 f"{minutes // 60}h {minutes % 60:02d}m", f"{weight} kg")  # fmt: skip
        second = (item.title(), f"{MONTHS[month]} {day} , {year}", f"{price:.2f} €".replace(".", ","), str(int(there)),
                  str(minutes), f"{weight * 2.2:.1f} lb")  # fmt: skip
        headers = ("item", "added", "price", "in stock", "time to build", "weight")
        rows.append(dict(zip(headers, (first, second)[style], strict=True)))
    return rows


@pytest.fixture(scope="module")
def base():
    """The model that comes along."""
    return Navi.from_pretrained(device="cpu")


def test_equal_headers_match_however_their_values_are_written(base):
    found = base.match({"a": draw_goods(1, 0), "b": draw_goods(2, 1)})
    assert find_pairs(found) == {frozenset((header,)) for header in draw_goods(1, 0)[0]}
    assert min(pair.score for pair in found.pairs) > 0.9


def test_equal_headers_stay_apart_where_values_speak_clearly_against_it(base):
    rng = random.Random(3)
    first, second = draw_goods(1, 0), draw_goods(2, 1)
    for place, (ours, theirs) in enumerate(zip(first, second, strict=True)):
        ours |= {"city": rng.choice(CITIES), "name": rng.choice(CITIES)}
        theirs |= {"city": rng.choice(CITIES), "name": f"{rng.choice(THINGS)} no. {place}"}
    found = find_pairs(base.match({"a": first, "b": second}))
    assert frozenset(("city",)) in found
    assert frozenset(("name",)) not in found


def decide(first, second, *, same):
    """Return a decision on a column of the table a and one of the table b."""
    return Decision(first=ColumnRef("a", first), second=ColumnRef("b", second), same=same)


def score_pair(found, first, second):
    """Return the score of a pair that was found, 0 where it was not."""
    wanted = {ColumnRef("a", first), ColumnRef("b", second)}
    return next((pair.score for pair in found.pairs if {pair.first, pair.second} == wanted), 0.0)


def test_what_was_decided_is_taken_as_given_even_within_one_table(match):
    within = Decision(first=ColumnRef("a", "year"), second=ColumnRef("a", "votes"), same=True)
    decisions = [decide("title", "Maker", same=True), decide("director", "Maker", same=False), within]
    found = match(draw(1, SAME), draw(2, OTHER), decisions=decisions)
    assert frozenset(("title", "Maker")) in find_pairs(found)
    assert frozenset(("director", "Maker")) not in find_pairs(found)
    assert any({within.first, within.second} <= set(cluster.columns) for cluster in found.clusters)
    assert score_pair(found, "title", "Maker") > 0.9999
    assert found.decisions == tuple(decisions)


def test_a_decision_moves_the_others(match):
    doubled = [{**row, "person": row["director"]} for row in draw(1, SAME)]
    free = match(doubled, draw(2, OTHER))
    taken, other = ("director", "person") if score_pair(free, "director", "Maker") else ("person", "director")
    assert score_pair(free, taken, "Maker") > 0.5
    found = match(doubled, draw(2, OTHER), decisions=[decide(taken, "Maker", same=False)])
    assert score_pair(found, other, "Maker") > score_pair(free, taken, "Maker") * 0.9


def test_columns_that_were_decided_to_be_the_same_speak_as_one(reference_navi):
    frames = {"a": draw(1, {"genre": "genre"}), "b": draw(2, {"genre": "x1"}), "c": draw(3, {"votes": "x1"})}
    same = [Decision(first=ColumnRef("b", "x1"), second=ColumnRef("c", "x1"), same=True)]
    alone, joined = (reference_navi.match(frames, decisions=each) for each in ((), same))
    pair = {ColumnRef("a", "genre"), ColumnRef("b", "x1")}
    scores = [
        next(p.score for p in (*each.pairs, *each.nearest) if {p.first, p.second} == pair) for each in (alone, joined)
    ]
    assert scores[1] < scores[0]


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ([decide("title", "Film", same=True), decide("title", "Film", same=False)], "contradict each other: a/title"),
        ([decide("titel", "Film", same=True)], "no column 'titel'. Did you mean 'title'"),
    ],
)
def test_decisions_that_cannot_be_taken_are_errors(match, decisions, message):
    with pytest.raises((ConfigError, TableError), match=message):
        match(draw(1, SAME, 9), draw(2, OTHER, 9), decisions=decisions)


def are_in_one_cluster(reference_navi, first, second):
    """Return whether two columns of one table with the same values come to lie in one cluster."""
    names = [f"{one} {other}" for one in ("Ann", "Bob", "Cleo", "Dan") for other in ("Bell", "Cole", "Dean", "East")]
    rows = [{first: name, second: other} for name, other in zip(names, reversed(names), strict=True)]
    other = [{first: name} for name in names]
    found = reference_navi.match({"a": rows, "b": other}, threshold=0.01)
    return any({(c.table, c.header) for c in each.columns} >= {("a", first), ("a", second)} for each in found.clusters)


@pytest.mark.parametrize(
    ("first", "second"), [("actor_1", "actor_2"), ("actor", "actor 2"), ("cast.0.name", "cast.1.name")]
)
def test_members_of_a_list_may_share_a_cluster(reference_navi, first, second):
    assert are_in_one_cluster(reference_navi, first, second)


@pytest.mark.parametrize(("first", "second"), [("year", "Year"), ("revenue 2021", "revenue 2022")])
def test_columns_that_differ_in_case_or_in_a_year_are_no_list(reference_navi, first, second):
    assert not are_in_one_cluster(reference_navi, first, second)


def test_decisions_about_other_tables_are_left_aside_and_kept(match, matches):
    other = Decision(first=ColumnRef("c", "x"), second=ColumnRef("a", "title"), same=True)
    found = match(draw(1, SAME), draw(2, OTHER), decisions=[other])
    assert found.clusters == matches.clusters
    assert found.decisions == (other,)


def test_decisions_are_written_for_a_person_and_read_back(match, matches, tmp_path):
    file = tmp_path / "decisions.csv"
    listed = matches.list_decisions()
    assert set(listed["same"].to_pylist()) == {None}
    pa_csv.write_csv(listed, file)
    assert read_decisions(file) == ()
    decisions = (decide("genre", "Kind", same=False), decide("title", "Maker", same=True))
    pa_csv.write_csv(match(draw(1, SAME), draw(2, OTHER), decisions=decisions).list_decisions(), file)
    assert read_decisions(file) == decisions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table,column,same\na,b,yes\n", "no column 'other_table'"),
        (
            "table,column,other_table,other_column,same\na,b,c,d,perhaps\n",
            "decisions.csv:2: same must be yes, no or empty",
        ),
    ],
)
def test_decisions_that_cannot_be_read_are_errors(tmp_path, text, message):
    file = tmp_path / "decisions.csv"
    file.write_text(text)
    with pytest.raises(TableError, match=message):
        read_decisions(file)
    (tmp_path / "more.csv").write_text(text)
    with pytest.raises(TableError, match=r"Cannot read the decisions file .*: it is a folder"):
        read_decisions(tmp_path)
    with pytest.raises(TableError, match=r"Cannot read the decisions file .*none.csv: no such file"):
        read_decisions(tmp_path / "none.csv")


def test_a_column_that_is_not_there_is_named_with_the_line_of_its_decision(match, tmp_path):
    file = tmp_path / "decisions.csv"
    file.write_text("table,column,other_table,other_column,same\nc,x,d,y,yes\na,titel,b,Film,yes\n")
    with pytest.raises(TableError, match=r"decisions.csv:3: The table 'a' has no column 'titel'. Did you mean 'title'"):
        match(draw(1, SAME, 9), draw(2, OTHER, 9), decisions=read_decisions(file))


def rank(found):
    """Return the candidates of each column, the likeliest first."""
    return {each.column.header: [pair.second.header for pair in each.candidates] for each in found.columns}


def test_each_column_has_ranked_candidates_in_a_target_schema(reference_navi):
    found = reference_navi.match({"a": draw(1, OTHER), "c": draw(3, SAME)}, to=pd.DataFrame(draw(2, SAME)), top=2)
    assert [each.column.table for each in found.columns] == ["a"] * 5 + ["c"] * 5
    ranked = rank(found)
    assert {header: ranked[header][0] for header in ("Kind", "Maker", *SAME)} == {
        "Kind": "genre", "Maker": "director", **SAME
    }  # fmt: skip
    assert {len(each) for each in ranked.values()} == {2}
    scores = [[pair.score for pair in each.candidates] for each in found.columns]
    assert scores == [sorted(each, reverse=True) for each in scores]
    assert found.to_pandas().columns.tolist() == ["table", "header", "rank", "target", "score"]
    assert found.as_mapping()["tables"]["c"] == SAME


def test_a_target_schema_may_be_names_with_descriptions_and_no_values(reference_navi, tmp_path):
    file = tmp_path / "target.csv"
    file.write_text("name,description\ntitle,what the film is called\ngenre,\nvotes,number of votes\n")
    for to in (["title", "genre", "votes"], {"title": "what the film is called", "genre": None}, file):
        found = rank(reference_navi.match({"a": draw(1, SAME)}, to=to, top=1))
        assert (found["title"], found["genre"]) == (["title"], ["genre"])
    plain, described = (
        reference_navi.match({"a": draw(1, SAME)}, to=to, top=1).columns[0].candidates[0].score
        for to in ({"title": None}, {"title": "minutes"})
    )
    assert plain != described


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "title\ndirector\twho made it\n\ngenre: what kind\n"),
        ("names.json", '["title", "director", "genre"]'),
        ("names.jsonl", '{"name": "title"}\n{"name": "director"}\n{"name": "genre", "description": "what kind"}\n'),
    ],
)
def test_a_target_schema_may_be_a_file_with_a_list_of_names(reference_navi, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = reference_navi.match({"a": draw(1, SAME)}, to=tmp_path / name, top=1)
    assert {pair.second for each in found.columns for pair in each.candidates} <= {
        ColumnRef("names", each) for each in ("title", "director", "genre")
    }
    assert rank(found)["title"] == ["title"]


def test_a_list_of_names_without_any_is_an_error(reference_navi, tmp_path):
    (tmp_path / "names.txt").write_text("\n")
    with pytest.raises(TableError, match=r"There is no name in .*names.txt"):
        reference_navi.match({"a": draw(1, SAME, 9)}, to=tmp_path / "names.txt")


def test_a_decision_holds_for_a_target_schema_too(reference_navi):
    decision = Decision(first=ColumnRef("a", "Maker"), second=ColumnRef("schema", "title"), same=True)
    found = reference_navi.match({"a": draw(1, OTHER)}, to=list(SAME), decisions=[decision])
    assert rank(found)["Maker"][0] == "title"
    assert list(found.list_decisions().to_pylist()[0].values())[:5] == ["a", "Maker", "schema", "title", "yes"]


def test_a_pair_says_in_words_what_spoke_for_and_against_it(match):
    found = match(draw(1, SAME), draw(2, {**OTHER, "genre": "genre", "director": "col_4"}), explain=True)
    reasons = {pair.first.header: {(each.speaks, each.text) for each in pair.reasons} for pair in found.pairs}
    assert any(speaks == "for" and text.startswith("the headers are the same") for speaks, text in reasons["genre"])
    assert any(speaks == "for" and ": 'the " in text for speaks, text in reasons["title"])
    assert ("against", "the header 'col_4' says nothing") in reasons["director"]
    assert all(pair.reasons for pair in (*found.pairs, *found.nearest))


def test_values_that_mean_the_same_are_not_said_to_be_absent(match):
    left = [{"colour": ("yes", "no")[k % 2], "price": f"{k}.50"} for k in range(40)]
    right = [{"colour": ("y", "n")[k % 2], "price": f"{k},50"} for k in range(40)]
    same = [decide("colour", "colour", same=True), decide("price", "price", same=True)]
    found = match(left, right, decisions=same, explain=True)
    texts = [reason.text for pair in found.pairs for reason in pair.reasons]
    assert len(found.pairs) == 2
    assert not any("hardly any value" in text for text in texts)


def test_a_higher_threshold_matches_less(match, matches):
    assert find_pairs(match(draw(1, SAME), draw(2, OTHER), threshold=0.9999)) < find_pairs(matches)


def test_the_order_of_tables_and_columns_changes_nothing(reference_navi, matches):
    rows = [dict(reversed(row.items())) for row in draw(1, SAME)]
    turned = reference_navi.match({"b": draw(2, OTHER), "a": rows})
    assert turned.as_mapping() == matches.as_mapping()
    scores = [{frozenset((p.first, p.second)): p.score for p in each.pairs} for each in (turned, matches)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_a_directory_without_known_columns_still_matches(reference_dir, tmp_path):
    folder = shutil.copytree(reference_dir, tmp_path / "model", ignore=shutil.ignore_patterns("columns.arrow"))
    opened = Navi.from_pretrained(folder, device="cpu")
    found = opened.match({"a": draw(1, SAME, 40), "b": draw(2, SAME, 40)})
    assert find_pairs(found) == {frozenset((header,)) for header in SAME}


def test_a_table_without_columns_is_an_error(match):
    with pytest.raises(TableError, match="'b' has no columns"):
        match(draw(1, SAME, 3), pd.DataFrame())


def test_matches_become_a_frame_with_one_line_a_column(matches):
    frame = matches.to_pandas()
    assert frame.columns.tolist() == ["name", "cluster", "score", "table", "header"]
    assert frame[["table", "header"]].apply(tuple, axis=1).tolist() == list_columns(matches)
    assert "<bdi>director</bdi>" in matches._repr_html_()


def score(num_members, *links, value=2.0, otherwise=-1.0):
    matrix = np.full((num_members, num_members), otherwise, np.float32)
    for first, second in links:
        matrix[first, second] = matrix[second, first] = value
    return matrix


def group(matrix, apart=None):
    """Return the clusters as sorted lists of members."""
    labels = cluster_scores(matrix, apart)
    return sorted(np.flatnonzero(labels == label).tolist() for label in np.unique(labels))


@pytest.mark.parametrize(
    ("matrix", "clusters"),
    [
        (score(0), []),
        (score(1), [[0]]),
        (score(3), [[0], [1], [2]]),
        (score(2, otherwise=0.0), [[0], [1]]),
        (score(5, (0, 3), (1, 4)), [[0, 3], [1, 4], [2]]),
        # One link does not join what all others speak against, many do in spite of one.
        (score(4, (0, 1), (2, 3), (1, 2), otherwise=-2.0), [[0, 1], [2, 3]]),
        (score(4, (0, 1), (2, 3), (0, 2), (0, 3), (1, 2)), [[0, 1, 2, 3]]),
    ],
)
def test_members_whose_scores_are_above_zero_on_average_meet(matrix, clusters):
    assert group(matrix) == clusters


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(2, 20))
def test_no_two_clusters_are_left_that_should_merge_and_none_breaks_a_ban(seed, num_members):
    rng = np.random.default_rng(seed)
    matrix = np.triu(rng.normal(-0.3, 1.0, (num_members, num_members)), 1).astype(np.float32)
    matrix += matrix.T
    apart = np.triu(rng.random((num_members, num_members)) < 0.1, 1)
    apart |= apart.T
    clusters = group(matrix, apart)
    assert not any(apart[np.ix_(ours, ours)].any() for ours in clusters)
    for ours, theirs in combinations(clusters, 2):
        assert apart[np.ix_(ours, theirs)].any() or matrix[np.ix_(ours, theirs)].mean() <= 1e-5


def test_names_of_clusters_are_never_given_twice():
    names = name_clusters([["title"], ["Title"], ["TITLE"], ["col_1"], ["col_2"]])
    assert names == ["title", "title 2", "title 3", "column", "column 2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of two tables, one of them with a row without any cell."""
    folder = tmp_path_factory.mktemp("films")
    (folder / "left.csv").write_text("title,year\nnight king,1999\n,\nday house,2001\n")
    (folder / "right.jsonl").write_text('{"title": "love war", "year": "2010"}\n')
    return folder


def test_the_command_shows_clusters_and_gives_everything_as_json(reference_dir, files, navi_command):
    run = ("match", "--model", reference_dir, files)
    lines = navi_command(*run).stdout.strip().splitlines()
    assert lines[0].split() == ["unified", "name", "score", "headers", "values", "columns"]
    assert any(line.split()[:1] == ["title"] and "title (left, right)" in line for line in lines)
    assert "4 columns: 4 in 2 clusters, 0 alone." in lines
    found = json.loads(navi_command(*run, "--json").stdout)
    assert found["clusters"][0]["columns"][0] == {"table": "left", "header": "title"}
    assert set(found["pairs"][0]) == {"first", "second", "score", "headers", "values", "reasons"}


def test_the_mapping_is_what_prepare_takes(reference_dir, files, tmp_path, navi_command):
    mapping, table = tmp_path / "mapping.json", tmp_path / "columns.csv"
    flags = ("--mapping", mapping, "--csv", table, "--one-to-one")
    told = navi_command("match", "--model", reference_dir, files, *flags).stdout
    assert f"Written: {mapping}" in told
    assert f"-o corpus --attributes {mapping}" in told
    lines = pa_csv.read_csv(table).to_pylist()
    assert list(lines[0]) == ["name", "cluster", "score", "table", "header"]
    for line in lines:
        assert load_attributes(mapping).attribute_of(line["table"], line["header"]) == line["name"]


def test_the_command_explains_ranks_and_takes_decisions(reference_dir, files, tmp_path, navi_command):
    decisions = tmp_path / "decisions.csv"
    run = ("match", "--model", reference_dir, files)
    lines = navi_command(*run, "--explain", "--write-decisions", decisions).stdout.splitlines()
    assert any("title (left, right)" in line for line in lines)
    assert any(line.startswith("left/title and right/title, ") for line in lines)
    assert any(line.split()[:1] == ["for:"] for line in lines)
    assert f"--decisions {decisions}" in lines[-1]
    text = decisions.read_text().replace("left,title,right,title,", "left,title,right,title,no")
    decisions.write_text(text)
    told = navi_command(*run, "--decisions", decisions, "--write-decisions", decisions).stdout
    assert "title (left, right)" not in told
    assert "left,title,right,title,no" in decisions.read_text()
    with decisions.open("a") as file:
        file.write("other,title,right,title,yes,\n")
    told = navi_command(*run, "--decisions", decisions).output
    assert "1 decision left aside: about tables that are not among these." in told
    schema = tmp_path / "schema.csv"
    schema.write_text("name\ntitle\nyear\n")
    lines = navi_command(*run, "--to", schema, "--top", 1).stdout.strip().splitlines()
    assert lines[0].split() == ["column", "rank", "candidate", "score"]
    assert any(line.split()[:3] == ["right/title", "1", "title"] for line in lines)


def test_a_file_that_cannot_be_read_is_left_out_and_said(reference_dir, files, tmp_path, navi_command):
    folder = shutil.copytree(files, tmp_path / "films")
    (folder / "broken.parquet").write_bytes(b"PAR1 and no more")
    (folder / "empty.csv").touch()
    (folder / "notes.docx").touch()
    result = navi_command("match", "--model", reference_dir, folder)
    assert "4 columns: 4 in 2 clusters, 0 alone." in result.stdout
    assert f"Left out: Cannot read {folder / 'broken.parquet'}" in " ".join(result.stderr.split())
    assert f"Left out: empty ({folder / 'empty.csv'}: " in result.stderr
    assert f"Left out: {folder / 'notes.docx'}: unknown suffix '.docx'" in result.stderr
    for name in ("left.csv", "right.jsonl"):
        (folder / name).unlink()
    assert "broken.parquet" in navi_command("match", "--model", reference_dir, folder, code=2).stderr


def test_the_target_of_a_folder_is_not_matched_with_itself_and_the_hint_repeats_the_command(
    reference_dir, files, navi_command
):
    arguments = ("match", "--model", reference_dir, files, "--to", files / "left.csv", "--top", 2)
    shown = navi_command(*arguments).stdout
    assert "right/" in shown
    assert "left/" not in shown
    assert f"navi {' '.join(map(str, arguments))} --explain" in shown
    assert "--explain" not in navi_command(*arguments, "--explain").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["left.csv"], "at least two tables, got 1"),
        (["left.csv", "right.jsonl", "--threshold", 2], "threshold must lie between 0 and 1, got 2.0"),
        (["left.csv", "right.jsonl", "--csv", "both.xyz"], "both.xyz"),
        (["left.csv", "right.jsonl", "--csv", "left.csv", "--overwrite"], "left.csv: it is what is read"),
        ([".", "--csv", "found.csv"], "would lie among the tables of ."),
        (["left.csv", "right.jsonl", "--mapping", "no/mapping.json"], "there is no folder no"),
        (["nothing.csv"], "nothing.csv"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    reference_dir, files, tmp_path, navi_command, monkeypatch, arguments, message
):
    for file in files.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = navi_command("match", "--model", reference_dir, *arguments, code=2)
    assert message in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left.csv", "right.jsonl"]
