from __future__ import annotations

import pytest

from navi.cli.demo.page import (
    FEWEST_FOR_RELIABILITY,
    FilledCell,
    Findings,
    MatchedColumns,
    NamedColumn,
    PairedRows,
    build_demo_page,
)
from navi.cli.demo.segments import Segments
from navi.cli.demo.tour import Score
from navi.report import Map, Reliability, Table, Tiles, load_page, save_page


def make_fill(number):
    return FilledCell(
        table="imdb", header="genre", value="drama", confidence=number / 100, truth="Drama", is_right=number % 2 == 0
    )


@pytest.fixture
def findings():
    return Findings(
        counts={"tables": 2},
        scores=[Score(task="naming", navi=0.75, guess=0.25, guess_name="most frequent header")],
        matched=[
            MatchedColumns(
                name="year",
                columns={("imdb", "year"): "release_year", ("a", "yr"): "release_year", ("b", "yr"): "runtime"},
                probability=0.9,
            ),
            MatchedColumns(name="alone", columns={("imdb", "alone"): None}, probability=1.0),
        ],
        named=[
            NamedColumn(
                table="imdb",
                header="yr",
                values=("1999", "2001"),
                candidates=(("year", 0.5), ("runtime", 0.25), ("score", 0.125)),
                is_right=True,
            )
        ],
        filled=[make_fill(number) for number in range(FEWEST_FOR_RELIABILITY)],
        paired_tables=("imdb", "reel"),
        paired=[PairedRows(left={"title": "Alien"}, right={"film": "ALIEN"}, confidence=0.875, is_right=True)],
        segments=Segments(
            x=(0.0, 1.0), y=(0.0, 1.0), table=("a", "b"), header=("h", "h"), value=("v", "w"), role=("low", "high")
        ),
    )


def find_item(page, title, kind):
    section = next(section for section in page.sections if section.title == title)
    return next(item for item in section.items if isinstance(item, kind))


def test_each_finding_has_its_section(findings, tmp_path):
    page = build_demo_page(findings)
    assert [section.title for section in page.sections] == [
        "How well it went",
        "Columns that mean the same",
        "Unnamed columns, named",
        "Empty cells, filled",
        "The same film in two catalogues",
        "The map of segments",
        "Your own tables",
    ]
    save_page(page, tmp_path)
    assert load_page(tmp_path) == page


def test_what_was_not_found_is_left_out():
    assert [section.title for section in build_demo_page(Findings()).sections] == ["Your own tables"]


def test_scores_stand_beside_the_guess(findings):
    page = build_demo_page(findings)
    assert find_item(page, "How well it went", Table).rows == (("naming", 0.75, 0.25, "most frequent header"),)
    assert find_item(page, "How well it went", Tiles).tiles[0].value == "2"


def test_matched_columns_are_told_with_what_they_mean_and_how_many_agree(findings):
    rows = find_item(build_demo_page(findings), "Columns that mean the same", Table).rows
    assert rows == (("year", "year (imdb), yr (a, b)", 3, 0.9, "release_year", "2 of 3"),)


def test_named_columns_are_told_with_the_next_candidates(findings):
    row = find_item(build_demo_page(findings), "Unnamed columns, named", Table).rows[0]
    assert row == ("yr", "year", 0.5, True, "runtime 0.25, score 0.12", "1999, 2001", "imdb")


def test_a_column_without_candidates_is_told_as_such(findings):
    findings.named = [NamedColumn(table="imdb", header="yr", values=(), candidates=(), is_right=False)]
    row = find_item(build_demo_page(findings), "Unnamed columns, named", Table).rows[0]
    assert row[:4] == ("yr", None, None, False)


def test_fills_stand_beside_the_truth_and_many_are_judged_by_their_confidence(findings):
    page = build_demo_page(findings)
    assert find_item(page, "Empty cells, filled", Table).rows[1] == ("genre", "drama", "Drama", False, 0.01, "imdb")
    bins = find_item(page, "Empty cells, filled", Reliability).series["NAVI"]
    assert sum(each.count for each in bins) == FEWEST_FOR_RELIABILITY


def test_few_fills_are_not_judged_by_their_confidence(findings):
    del findings.filled[0]
    section = next(each for each in build_demo_page(findings).sections if each.title == "Empty cells, filled")
    assert [type(item) for item in section.items] == [Table]


def test_paired_rows_stand_beside_each_other(findings):
    table = find_item(build_demo_page(findings), "The same film in two catalogues", Table)
    assert [column.name for column in table.described_columns[:2]] == ["imdb", "reel"]
    assert table.rows == (("title: Alien", "film: ALIEN", True, 0.875),)


def test_the_map_tells_table_header_and_value(findings):
    drawn = find_item(build_demo_page(findings), "The map of segments", Map)
    assert list(drawn.labels) == ["table", "header", "value", "role"]
    assert drawn.colour == "role"
