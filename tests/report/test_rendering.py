from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest

from navi.errors import MissingExtraError
from navi.report import Page, Section, Table
from navi.report.rendering import bundle_vega, mark_code, render_page, split_paragraphs


class Outline(HTMLParser):
    """Collects the tags of a page, what they carry, and the scripts that a browser would run."""

    def __init__(self, html):
        super().__init__()
        self.tags = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def find(self, wanted):
        return [carried for tag, carried in self.tags if tag == wanted]


@pytest.fixture(scope="module")
def html(written):
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outline(html):
    return Outline(html)


def test_nothing_is_loaded_from_elsewhere(outline):
    addresses = [carried[name] for _, carried in outline.tags for name in ("src", "href") if name in carried]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)


def test_texts_of_users_are_escaped(outline):
    assert outline.find("img") == []
    assert all("onerror" not in carried for _, carried in outline.tags)


def test_only_scripts_known_by_their_hash_may_run(html, outline):
    policy = outline.find("meta")[1]["content"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    running = [carried for carried in outline.find("script") if carried.get("type") != "application/json"]
    assert len(running) == policy.split("script-src")[1].count("sha256") == 3


def test_the_bundle_is_there_once(html):
    assert html.count("window.vegaEmbed") == 1


def test_templates_are_not_filled_with_what_cells_hold(html):
    assert "{{ 7 * 7 }}" in html


def test_headings_are_in_order(outline):
    assert [tag for tag, _ in outline.tags if tag in ("h1", "h2", "h3", "h4")] == ["h1", "h2", "h2", "h2"]


def test_every_table_and_figure_has_a_caption_and_every_plot_a_text(outline):
    assert len(outline.find("figcaption")) == len(outline.find("figure"))
    plots = [carried for carried in outline.find("div") if carried.get("class") == "plot"]
    assert len(plots) == 5
    assert all(carried["role"] == "img" and carried["aria-label"] for carried in plots)


def test_identifiers_are_unique(outline):
    names = [carried["id"] for _, carried in outline.tags if "id" in carried]
    assert len(names) == len(set(names))


def test_a_page_without_figures_needs_no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    html = render_page(Page("t", "l", (Section("s", "", (Table("c", ("a",), ((1,),)),)),)))
    assert "vegaEmbed" not in html


def test_without_the_bundle_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtraError, match=r"navi-tables\[report\]"):
        bundle_vega.__wrapped__()


def test_empty_lines_part_paragraphs():
    assert split_paragraphs("one\ntwo\n\n  \nthree") == ["one\ntwo", "three"]
    assert split_paragraphs("") == []


def test_code_is_marked_and_escaped():
    assert mark_code("a < `b < c`") == "a &lt; <code>b &lt; c</code>"
