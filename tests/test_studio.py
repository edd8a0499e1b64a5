"""The studio: decisions of a person in the browser, on disk at once, and the same table as the command line's."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
import urllib.request

import pytest
from starlette.testclient import TestClient

from navi.errors import ConfigError, TableError
from navi.server import Access, LateApplication
from navi.server.decisions import make_key
from navi.server.facts import describe_columns
from navi.server.review import Review
from navi.server.studio import make_studio
from navi.tables import read_table
from navi.verbs.column_groups import ColumnRef, Decision
from navi.verbs.match import read_decisions

TOKEN = "a-token-of-some-length"
TABLES = {
    "amber": [{"title": f"night {n}", "genre": ("drama", "comedy")[n % 2], "year": str(1990 + n)} for n in range(9)],
    "birch": [{"Movie_Title": f"night {n}", "releaseYear": str(1990 + n), "colour": "yes"} for n in range(9)],
    "cedar": [{"title": f"night {n}", "category": ("drama", "comedy")[n % 2]} for n in range(9)],
}


@pytest.fixture
def folder(tmp_path, write_tables):
    return write_tables(tmp_path / "feeds", TABLES)


def open_review(folder, reference_dir):
    files = {"decisions": folder.parent / "decisions.csv", "labels": folder.parent / "labels.csv"}
    return Review([folder], **files, model=reference_dir, device="cpu")


@pytest.fixture
def review(folder, reference_dir):
    return open_review(folder, reference_dir)


def open_client(review):
    client = TestClient(make_studio(review, Access(token=TOKEN)), base_url="http://127.0.0.1")
    client.cookies.set("navi", TOKEN)
    return client


def find(review, text):
    return review.place[ColumnRef(*text.split("/"))]


def find_card(review, text):
    return next(card for card in review.cards if find(review, text) in [each.place for each in card.members])


def list_members(review, text):
    return {str(member.column) for member in find_card(review, text).members}


def send(client, **form):
    answer = client.post("/decide", data=None, content="&".join(f"{key}={value}" for key, value in form.items()))
    assert answer.status_code == 200, answer.text
    return answer.text


def test_every_decision_is_on_disk_at_once_and_moves_the_cards(review, folder, reference_dir):
    file = folder.parent / "decisions.csv"
    year, released, title = (find(review, each) for each in ("amber/year", "birch/releaseYear", "cedar/title"))
    review.join([year, released])
    assert list_members(review, "amber/year") >= {"amber/year", "birch/releaseYear"}
    assert Decision(first=review.columns[year], second=review.columns[released], same=True) in read_decisions(file)
    review.separate(released, [year])
    assert "birch/releaseYear" not in list_members(review, "amber/year")
    assert [each.same for each in read_decisions(file)] == [False]
    review.isolate(title)
    assert list_members(review, "cedar/title") == {"cedar/title"}
    review.rename([year], "year of release")
    assert find_card(review, "amber/year").name == "year of release"
    again = open_review(folder, reference_dir)
    assert [(card.name, card.places) for card in again.cards] == [(card.name, card.places) for card in review.cards]


def test_a_column_is_moved_and_clusters_are_merged_against_earlier_words(review):
    genre, category, colour, title = (
        find(review, each) for each in ("amber/genre", "cedar/category", "birch/colour", "amber/title")
    )
    review.join([genre, category])
    review.move(category, [genre, category], [colour])
    assert list_members(review, "cedar/category") >= {"cedar/category", "birch/colour"}
    assert "amber/genre" not in list_members(review, "cedar/category")
    review.isolate(colour)
    review.join([genre, colour])
    assert list_members(review, "birch/colour") >= {"amber/genre", "birch/colour"}
    with pytest.raises(ConfigError, match="called"):
        review.rename([title], find_card(review, "amber/genre").name)


def test_undo_goes_back_to_the_first_decision(review, folder):
    before = [card.places for card in review.cards]
    review.join([find(review, "amber/genre"), find(review, "birch/colour")])
    review.rename([find(review, "amber/genre")], "kind")
    assert review.undo()
    assert review.undo()
    assert not review.undo()
    assert [card.places for card in review.cards] == before
    assert read_decisions(folder.parent / "decisions.csv") == ()


def test_lines_that_nobody_has_decided_on_and_further_columns_stay_in_the_file(folder, reference_dir):
    file = folder.parent / "decisions.csv"
    file.write_text(
        "table,column,other_table,other_column,same,note\n"
        "amber,genre,cedar,category,,ask Ada\n"
        "amber,year,birch,releaseYear,yes,sure\n"
    )
    review = open_review(folder, reference_dir)
    review.isolate(find(review, "birch/colour"))
    with file.open() as opened:
        lines = list(csv.DictReader(opened))
    assert [(line["column"], line["same"], line["note"]) for line in lines] == [
        ("year", "yes", "sure"),
        ("colour", "no", ""),
        ("genre", "", "ask Ada"),
    ]


def test_the_files_that_come_out_are_those_of_the_command_line(review, folder, reference_dir, navi_command, tmp_path):
    review.join([find(review, "amber/year"), find(review, "birch/releaseYear")])
    review.rename([find(review, "amber/year")], "released")
    review.isolate(find(review, "cedar/category"))
    with open_client(review) as client:
        names = ("all.parquet", "all.csv", "decisions.csv", "report.html", "spec.toml", "mapping.json")
        found = {name: client.get(f"/files/{name}").content for name in names}
    decided = ("--decisions", folder.parent / "decisions.csv", "--model", reference_dir, "--device", "cpu", "-q")
    given = (*decided, "--report", tmp_path, "--write-spec", tmp_path / "spec.toml", "--overwrite")
    for name in ("all.parquet", "all.csv"):
        out = tmp_path / name
        navi_command("unify", folder, "-o", out, *given)
        assert found[name] == out.read_bytes()
    navi_command("match", folder, "--mapping", tmp_path / "mapping.json", *decided)
    for name in ("report.html", "spec.toml", "mapping.json"):
        assert found[name] == (tmp_path / name).read_bytes()
    assert b"birch/releaseYear" in found["report.html"]
    assert found["decisions.csv"] == (folder.parent / "decisions.csv").read_bytes()
    assert b"released" in found["all.csv"].splitlines()[0]


def test_forms_decide_and_say_what_was_done_or_why_not(review):
    genre, colour = find(review, "amber/genre"), find(review, "birch/colour")
    with open_client(review) as client:

        def card(text):
            return find_card(review, text).key

        kind = find_card(review, "amber/genre").name
        assert f"Merged with {kind}" in send(client, act="merge", card=card("birch/colour"), target=kind)
        assert "columns are one" in send(client, act="accept", card=card("amber/genre"))
        assert "Renamed to kind" in send(client, act="rename", card=card("amber/genre"), name="kind")
        old = card("birch/colour")
        assert "is split off" in send(client, act="split", column=colour, card=old)
        assert "this card has changed" in send(client, act="accept", card=old)
        assert "is moved to kind" in send(client, act="move", column=colour, card=card("birch/colour"), target="kind")
        assert "no column is called" in send(client, act="merge", card=card("birch/colour"), target="not-there")
        assert "is not unified" in send(client, act="alone", column=colour, card=card("birch/colour"))
        assert "Taken back" in send(client, act="undo")
        assert "different" in send(client, act="different", column=genre, other=find(review, "cedar/title"))
        assert "Skipped" in send(client, act="skip", column=genre, other=colour)
        assert client.post("/decide", content=f"act=alone&column=9999&card={card('amber/genre')}").status_code == 400
        assert client.post("/decide", content=f"act=nothing&card={card('amber/genre')}").status_code == 400
        why = client.get(f"/why?first={genre}&second={colour}")
        assert "against" in why.text


def test_pages_show_what_cells_hold_as_text(tmp_path, write_tables, reference_dir):
    rows = [
        {"<b>h</b>": "<script>alert(1)</script>", "long": "x" * 10_000, "bidi": "a\u202eb \x1b[31m", "n": str(n)}
        for n in range(5)
    ]
    folder = write_tables(tmp_path / "feeds", {"<i>a": rows, "b": rows})
    review = open_review(folder, reference_dir)
    with open_client(review) as client:
        for path in ("/tables", "/columns", "/columns?order=name&only=open&name=h", "/out"):
            page = client.get(path).text
            assert "<script>alert" not in page
            assert "<b>h" not in page
            assert "<i>a" not in page
            assert "\u202e" not in page
            assert "\x1b" not in page
        assert "&lt;script&gt;alert(1)" in page
        assert "x" * 10_000 in page
        assert "default-src 'none'" in client.get("/out").headers["content-security-policy"]


def test_tables_show_what_may_be_wrong_with_a_column():
    rows = [{"title": f"night {n}", "col_1": str(n), "kind": "film", "note": "late"} for n in range(12)]
    rows = [{**row, "note": row["note"] if n == 4 else None} for n, row in enumerate(rows)]
    facts = describe_columns(read_table(rows))
    trouble = {header: each.trouble for header, each in facts.items()}
    assert trouble == {
        "title": "",
        "col_1": "the header says nothing",
        "kind": "always the same",
        "note": "mostly empty",
    }


def test_gaps_show_what_would_be_filled_and_give_the_table(tmp_path, write_tables, reference_dir, navi_command):
    rows = [{"genre": ("drama", "comedy")[n % 2], "language": ("French", "English")[n % 2]} for n in range(40)]
    rows[3] = {"genre": rows[3]["genre"]}
    folder = write_tables(tmp_path / "feeds", {"a": rows, "b": rows[4:]})
    review, out = open_review(folder, reference_dir), tmp_path / "filled.csv"
    with open_client(review) as client:
        assert "1 empty" in client.get("/gaps").text
        while "Finding values" in (page := client.get("/gaps?table=a&confidence=0").text):
            time.sleep(0.1)
        assert "row 4<" in page
        assert "<bdi>English</bdi>" in page
        assert "row 4<" not in client.get("/gaps?table=a&confidence=1").text
        filled = client.get("/files/filled.csv?table=a&confidence=0&column=language")
        flags = ("--model", reference_dir, "--confidence", 0, "--columns", "language", "--device", "cpu", "-q")
        navi_command("impute", folder / "a.jsonl", "-o", out, *flags)
        assert filled.content == out.read_bytes()


def test_labels_of_rows_are_on_disk_at_once_and_navi_link_takes_them(review, folder, reference_dir, navi_command):
    file = folder.parent / "labels.csv"
    with open_client(review) as client:
        assert "Choose two tables" in client.get("/rows").text
        while "Comparing the rows" in (page := client.get("/rows?left=amber&right=cedar").text):
            time.sleep(0.1)
        assert "Are these about the same thing?" in page
        assert "The model says" in page
        assert "The model says" not in client.get("/rows?left=amber&right=cedar&blind=yes").text
        pairs = review.list_open(review.start_linking("amber", "cedar"))
        for pair, act in zip(pairs[:3], ("same", "different", "unsure"), strict=True):
            names = ("left_table", "left_row", "right_table", "right_row")
            form = "&".join(f"{name}={value}" for name, value in zip(names, make_key(pair), strict=True))
            assert f": {act}." in client.post("/label", content=f"act={act}&{form}").text
        with file.open() as opened:
            assert [line["same"] for line in csv.DictReader(opened)] == ["yes", "no", ""]
        labels = ("--labels", file, "--model", reference_dir, "--device", "cpu", "-q")
        navi_command("link", folder / "amber.jsonl", folder / "cedar.jsonl", *labels)
        assert "Linking again" in client.post("/label", content="act=again&left=amber&right=cedar").text
        assert "Taken back" in client.post("/label", content="act=back").text
        with file.open() as opened:
            assert len(list(csv.DictReader(opened))) == 2
        for row in ("x", "9" * 10_000, "10"):
            form = f"left_table=amber&left_row={row}&right_table=cedar&right_row=1"
            assert client.post("/label", content=f"act=same&{form}").status_code == 400


def test_numbers_out_of_all_proportion_are_none(review):
    with open_client(review) as client:
        assert client.get(f"/columns?page={'9' * 10_000}").text == client.get("/columns").text
        assert client.get(f"/why?first={'9' * 10_000}&second=0").status_code == 400
        assert client.get("/why?first=&second=0").status_code == 400


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            ConfigError("A review takes at least two tables, got 1."),
            "<p>A review takes at least two tables, got 1.</p>",
        ),
        (ImportError("no module <torch>"), "A fault of this program: ImportError(&#x27;no module &lt;torch&gt;&#x27;)"),
    ],
)
def test_a_page_says_what_is_being_done_and_waits_no_longer_where_that_fails(error, shown):
    late = LateApplication(Access(token=TOKEN))

    def fail():
        raise error

    client = TestClient(late, base_url="http://127.0.0.1")
    assert client.get("/columns").status_code == client.get("/open?token=wrong").status_code == 401
    late.report("Reading <3> tables")
    page = client.get(f"/open?token={TOKEN}").text
    assert "Reading &lt;3&gt; tables" in page
    assert 'http-equiv="refresh"' in page
    with pytest.raises(type(error)):
        late.start(fail)
    page = client.get(f"/open?token={TOKEN}").text
    assert shown in page
    assert "refresh" not in page


def test_the_command_opens_the_browser_at_its_address(folder, reference_dir, tmp_path):
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened} && sleep 60\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "navi", "studio", str(folder), "--model", str(reference_dir), "--device", "cpu"]
    env = {**os.environ, "BROWSER": str(browser), "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as studio:
        assert studio.stdout is not None
        said = studio.stdout.readline()
        while not opened.exists():
            time.sleep(0.05)
        link = opened.read_text().strip()
        # The browser of this test never ends, and yet the page is there.
        assert urllib.request.urlopen(link).status == 200
        studio.terminate()
        assert (studio.wait(60), said) == (0, f"Open {link}\n")


def test_nobody_comes_in_without_the_token(review):
    with TestClient(make_studio(review, Access(token=TOKEN)), base_url="http://127.0.0.1") as client:
        assert client.get("/columns").status_code == client.get("/files/all.csv").status_code == 401
        assert client.get("/open?token=wrong").status_code == 401
        opened = client.get(f"/open?token={TOKEN}")
        assert (opened.status_code, opened.url.path) == (200, "/columns")
        assert client.get("/columns", headers={"host": "evil.example"}).status_code == 421


def test_a_folder_that_cannot_be_reviewed_is_said(tmp_path, write_tables, reference_dir, navi_command):
    folder = write_tables(tmp_path / "feeds", {"only": TABLES["amber"]})
    with pytest.raises(ConfigError, match="at least two tables"):
        Review([folder], tmp_path / "decisions.csv", model=reference_dir, device="cpu")
    result = navi_command("studio", folder, "--decisions", folder / "decisions.csv", code=2)
    assert "would lie among the tables" in result.output
    assert "kept as .csv" in navi_command("studio", folder, "--decisions", tmp_path / "d.parquet", code=2).output


def test_a_decision_gives_a_name_or_keeps_a_column_alone(reference_navi):
    amber, cedar, birch = ColumnRef("amber", "title"), ColumnRef("cedar", "title"), ColumnRef("birch", "colour")
    name = [Decision(first=each, second=ColumnRef("", "film"), same=True) for each in (amber, birch)]
    found = reference_navi.match(TABLES, decisions=name)
    (cluster,) = (each for each in found.clusters if each.name == "film")
    assert {amber, birch} <= set(cluster.columns)
    assert found.list_decisions().slice(0, 2)["other_column"].to_pylist() == ["film", "film"]
    alone = Decision(first=cedar, second=ColumnRef("", ""), same=False)
    clusters = reference_navi.match(TABLES, decisions=[alone]).clusters
    assert (cedar,) in [each.columns for each in clusters]
    with pytest.raises(ConfigError, match=r"cedar/title stands alone, and is amber/title"):
        reference_navi.match(TABLES, decisions=[alone, Decision(first=cedar, second=amber, same=True)])
    with pytest.raises(TableError, match="gives it a unified name"):
        Decision(first=cedar, second=ColumnRef("", ""), same=True)
