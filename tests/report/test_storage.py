from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError
from navi.report import Column, Number, Page, Section, Table, load_page, save_page
from navi.report.storage import decode, encode

cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9), st.text(max_size=8),
    st.builds(Number, st.floats(-10, 10), st.one_of(st.none(), st.floats(0, 1))),
)  # fmt: skip


def test_a_page_comes_back_as_it_was(page, tmp_path):
    save_page(page, tmp_path / "results")
    assert load_page(tmp_path / "results") == page


@given(st.lists(st.tuples(cells, cells), max_size=5), st.text(max_size=5))
def test_any_table_comes_back_through_json(rows, text):
    table = Table(text, (text, Column("b", best="lowest")), tuple(rows), highlight=(text,))
    content = Page(text, text, (Section(text, text, (table,)),))
    found = decode(Page, json.loads(json.dumps(encode(content))), "page")
    assert found == content
    assert [type(cell) for row in found.sections[0].items[0].rows for cell in row] == [
        type(cell) for row in table.rows for cell in row
    ]


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"holds no page\.json"):
        load_page(tmp_path)


def test_what_is_not_json_is_told(tmp_path):
    (tmp_path / "page.json").write_text("{broken")
    with pytest.raises(ConfigError, match=r"Cannot read .*page\.json: it is not JSON"):
        load_page(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": 99}'])
def test_another_format_is_told(content, tmp_path):
    (tmp_path / "page.json").write_text(content)
    with pytest.raises(ConfigError, match=r"its format is .*, this version reads 1"):
        load_page(tmp_path)


def change(content, place, value):
    for step in place[:-1]:
        content = content[step]
    content[place[-1]] = value


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (["title"], 3, "page.title: expected a text, got 3"),
        (["sections"], {}, "page.sections: expected a list, got {}"),
        (["sections", 0, "kind"], "Chapter", r"page.sections\[0\]: expected a Section, got"),
        (
            ["sections", 0, "items", 0, "kind"],
            "Pie",
            r"page.sections\[0\].items\[0\]: expected one of a Table, a Tiles",
        ),
        (["sections", 0, "items", 1, "colour"], 3, r"items\[1\]: a Table has no 'colour'. Expected caption, columns"),
        (["sections", 0, "items", 1, "rows", 0, 0], [], r"rows\[0\]\[0\]: expected one of a text, a whole number"),
        (["sections", 0, "items", 1, "rows", 0], ["a"], r"items\[1\]: Table 'Models compared.': row 1 has 1 cells"),
        (["sections", 1, "items", 0, "x"], [1, "two"], r"items\[0\].x\[1\]: expected a number, got \"two\""),
        (["sections", 1, "items", 0, "labels"], [], r"items\[0\].labels: expected an object, got \[\]"),
        (["sections", 1, "items", 2, "series", "a"], [[1]], r"series.a\[0\]: expected 2 entries, got \[1\]"),
        (["sections", 1, "items", 1, "percent"], 1, r"percent: expected true or false, got 1"),
    ],
)
def test_what_is_wrong_in_a_page_is_told_with_its_place(place, value, complaint, page, tmp_path):
    file = save_page(page, tmp_path)
    content = json.loads(file.read_text())
    change(content, place, value)
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=complaint):
        load_page(tmp_path)


def test_a_field_that_is_missing_is_told(page, tmp_path):
    file = save_page(page, tmp_path)
    content = json.loads(file.read_text())
    del content["sections"][0]["title"]
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"page.sections\[0\]: a Section needs 'title'"):
        load_page(tmp_path)


def test_no_unfinished_file_is_left(page, tmp_path):
    save_page(page, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["page.json"]
