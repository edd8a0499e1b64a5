from __future__ import annotations

import sys

import pytest

from navi.errors import MissingExtraError
from navi.report import Page, Section, load_page, write_report
from navi.report.writing import write_html


def test_content_and_page_are_written_and_nothing_else(written):
    assert written.name == "report.html"
    assert sorted(file.name for file in written.parent.iterdir()) == ["page.json", "report.html"]


def test_writing_again_replaces_what_was_there(tmp_path):
    write_report(Page("first", ""), tmp_path)
    file = write_report(Page("second", ""), tmp_path)
    assert load_page(tmp_path).title == "second"
    assert "<title>second</title>" in file.read_text()


def test_the_content_is_kept_where_the_extra_is_missing(page, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtraError, match="report"):
        write_report(page, tmp_path)
    assert load_page(tmp_path) == page


def test_equal_content_gives_equal_pages(tmp_path):
    page = Page("t", "l", (Section("s"),))
    assert write_html(page, tmp_path / "a").read_bytes() == write_html(page, tmp_path / "b").read_bytes()
