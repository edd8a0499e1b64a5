from __future__ import annotations

import json
import webbrowser

import pytest

from navi.report import Page, Section, Table, save_page


@pytest.fixture
def results(tmp_path):
    """A folder with a page's content, the page itself not yet written."""
    folder = tmp_path / "results"
    save_page(Page("Films", "", (Section("Scores", "", (Table("t", ("a",), (("<b>",),)),)),)), folder)
    return folder


def test_the_page_is_written_beside_its_content(results, navi_command):
    told = navi_command("report", results).stdout
    assert told == f"Written: {results / 'report.html'}\n"
    assert "&lt;b&gt;" in (results / "report.html").read_text()


def test_json_names_the_page_and_its_sections(results, navi_command):
    told = json.loads(navi_command("report", results, "--json").stdout)
    assert told == {"page": str(results / "report.html"), "tables": None, "sections": ["Scores"]}


def test_tables_are_written_as_markdown_too(results, navi_command, tmp_path):
    file = tmp_path / "tables.md"
    assert navi_command("report", results, "--tables", file).exit_code == 0
    assert "## Scores" in file.read_text(encoding="utf-8")


def test_quiet_says_nothing(results, navi_command):
    result = navi_command("report", results, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_a_browser_opens_the_page_if_asked(results, navi_command, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    navi_command("report", results)
    assert opened == []
    navi_command("report", results, "--open")
    assert opened == [(results / "report.html").resolve().as_uri()]


def test_a_folder_without_results_is_a_users_mistake(tmp_path, navi_command):
    result = navi_command("report", tmp_path, code=2)
    assert "holds no page.json" in result.stderr
    assert list(tmp_path.iterdir()) == []
