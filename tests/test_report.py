"""Pages of results: tables, tiles, code and charts in one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from navi.errors import ConfigError, MissingExtraError
from navi.report import (
    Code,
    Measurement,
    Page,
    ReportColumn,
    ReportTable,
    Section,
    Tiles,
    load_page,
    save_page,
    write_html,
    write_markdown,
    write_report,
)
from navi.report.charts import bundle_vega
from navi_paper.page.figures import histogram, scatter_map

NASTY = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>{{ 7 * 7 }}"
"""What a cell may hold."""
COLUMNS = (
    "model",
    ReportColumn("F1", "Movie", best="highest"),
    ReportColumn("distance", "Movie", best="lowest", digits=2),
    ReportColumn("sure", bar=True, percent=True),
    "right",
    "remark",
)
ROWS = (
    ("BERT", Measurement(0.912, 0.013), 0.5, 0.25, True, "10 apples"),
    ("NAVI", Measurement(0.928, 0.01, 0.017), 0.25, 1.0, False, NASTY),
    ("TAPAS", None, 0.75, None, True, "9 apples"),
    ("CM2", Measurement(0.814), -0.5, 0.5, None, "a long remark " * 12),
)
POINTS = [(float(x), float(y)) for x in range(6) for y in range(5)]


@pytest.fixture(scope="module")
def page():
    """A page with everything that there is."""
    table = ReportTable("Models compared.", COLUMNS, ROWS, note="See `navi evaluate`.", highlight=("NAVI",))
    labels = {"value": [NASTY] * 30, "role": ["low" if x < 3 else "high" for x, _ in POINTS]}
    charts = (
        scatter_map("Segments.", (np.array(POINTS), "PCA"), labels, colour="role", hulls=True),
        histogram("Shares.", {"a": [0.1, 0.2, 0.9], "b": [0.5]}, bins=4, x_title="cosine"),
    )
    sections = (
        Section("Tables", "Some text.", (Tiles({"rows": "5,600"}), table)),
        Section("Charts", "", charts),
        Section("Next", "", (Code("navi prepare FOLDER -o corpus && echo '<done>'"),)),
    )
    return Page(f"A page of {NASTY}", "The lead with `code < here`.\n\nAnd more.", sections)


@pytest.fixture(scope="module")
def written(page, tmp_path_factory):
    return write_report(page, tmp_path_factory.mktemp("report") / "results")


class Outline(HTMLParser):
    """The tags of a page with what they carry, and the texts of its tables' cells, row after row."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.tables, self.cell = [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self.cell = self.tables[-1][-1]

    def handle_endtag(self, tag):
        self.cell = None if tag in ("th", "td") else self.cell

    def handle_data(self, text):
        if self.cell is not None:
            self.cell[-1] += text

    def find(self, wanted):
        return [carried for tag, carried in self.tags if tag == wanted]


@pytest.fixture(scope="module")
def outline(written):
    return Outline(written.read_text(encoding="utf-8"))


# What stands in which cell


def test_every_cell_stands_below_its_header(outline):
    groups, headers, *rows = outline.tables[0]
    assert groups == ["", "Movie", ""]
    assert headers == ["model", "F1", "distance", "sure", "right", "remark"]
    assert rows[0] == ["BERT", "0.912 ± 0.013 (second of its column)", "0.50", "25.0 %", "yes", "10 apples"]
    assert rows[1][:5] == [
        "NAVI",
        "0.928 ± 0.010 (+1.7 %) (best of its column)",
        "0.25 (second of its column)",
        "100.0 %",
        "no",
    ]
    assert rows[2] == ["TAPAS", "–", "0.75", "–", "yes", "9 apples"]
    assert rows[3][2] == "−0.50 (best of its column)"


def show(column, *cells):
    """The Markdown of a column's cells."""
    table = ReportTable("", (column,), [(cell,) for cell in cells])
    text = write_markdown(Page("", "", (Section("", "", (table,)),)))
    return [line.strip("| ") for line in text.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (12345, ReportColumn("n"), "12,345"),
        (0.87349, ReportColumn("n"), "0.873"),
        (-1234.5, ReportColumn("n", digits=1), "−1,234.5"),
        (0.1234, ReportColumn("n", percent=True), "12.3 %"),
        (Measurement(0.5, 0.25, -0.071), ReportColumn("n", digits=2), "0.50 ± 0.25 (−7.1 %)"),
        (None, ReportColumn("n"), "–"),
        (True, ReportColumn("n"), "yes"),
        ("a|b\nc", ReportColumn("n"), "a\\|b c"),
    ],
)
def test_a_cell_is_shown_as_its_column_asks(value, column, text):
    assert show(column, value) == [text]


def test_figures_that_read_alike_are_marked_alike_and_texts_never():
    assert show(ReportColumn("n", best="highest"), 0.9001, 0.9004, 0.8, "9", True) == [
        *("**0.900**", "**0.900**", "*0.800*", "9", "yes"),
    ]
    assert show(ReportColumn("n", best="lowest"), 0.5, 0.1, None) == ["*0.500*", "**0.100**", "–"]


def test_scalars_of_numpy_become_pythons_own_and_what_is_not_finite_nothing():
    row = ReportTable("t", ("a", "b", "c", "d"), ((np.float32(0.5), np.int64(3), np.bool_(True), np.inf),)).rows[0]
    assert [type(cell) for cell in row] == [float, int, bool, type(None)]
    assert Measurement(1.0, float("nan")).deviation is None


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ReportTable("t", ("a", "b"), ((1, 2), (1,))), "Table 't': row 2 has 1 cells for 2 columns"),
        (lambda: ReportTable("t", ("a",), ((object(),),)), "A cell must be a text.*got object"),
        (lambda: Measurement(float("nan")), "needs a finite value"),
        (lambda: ReportColumn("a", best="most"), "best of column 'a' must be one of highest, lowest, got 'most'"),
        (lambda: histogram("h", {}, x_title="x"), "'h' needs values"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make()


# Charts


def read_records(chart, layer=0):
    return chart.spec["layer"][layer]["data"]["values"]


def test_a_histogram_has_bins_that_all_share():
    chart = histogram("", {"a": [0.0, 0.1, 1.0, 1.0], "b": [1.0]}, bins=2, x_title="cosine")
    assert [(record["series"], record["x"], record["x2"], record["y"]) for record in read_records(chart)] == [
        *(("a", 0.0, 0.5, 0.5), ("a", 0.5, 1.0, 0.5), ("b", 0.0, 0.5, 0.0), ("b", 0.5, 1.0, 1.0)),
    ]


def test_a_hull_goes_round_its_points_alone():
    square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (1.0, 1.0)]
    line = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]
    labels = {"k": ["square"] * 5 + ["line"] * 3}
    chart = scatter_map("", (np.array(square + line), "PCA"), labels, colour="k", hulls=True)
    assert sorted((corner["x"], corner["y"]) for corner in read_records(chart, 1)) == [(0, 0), (0, 2), (2, 0), (2, 2)]


# The file


def test_a_page_comes_back_as_it_was(page, tmp_path):
    save_page(page, tmp_path / "results")
    assert load_page(tmp_path / "results") == page
    assert [file.name for file in (tmp_path / "results").iterdir()] == ["page.json"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, r"holds no page\.json. Expected a folder that `navi demo` or `navi evaluate` wrote"),
        ("{broken", r"Cannot read .*page\.json: "),
        ("[]", r"Cannot read .*page\.json: expected an object"),
        ('{"format": 99}', "its format is 99, this version reads 5"),
        ('{"format": 5, "title": "t"}', r"Cannot read .*page\.json: .* Make the results again"),
        ('{"format": 5, "title": "t", "lead": "", "sections": [{"title": "s", "items": [{}]}]}', "Make the results"),
    ],
)
def test_a_file_that_holds_no_page_is_explained(text, complaint, tmp_path):
    if text is not None:
        (tmp_path / "page.json").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_page(tmp_path)


def test_equal_content_gives_equal_pages_and_the_last_stays(tmp_path):
    first = write_report(Page("first", ""), tmp_path).read_bytes()
    assert write_report(Page("second", ""), tmp_path).read_bytes() != first
    assert write_report(Page("first", ""), tmp_path).read_bytes() == first


def test_nothing_is_loaded_from_elsewhere_and_texts_of_users_are_escaped_and_fill_no_template(written, outline):
    addresses = [carried[name] for _, carried in outline.tags for name in ("src", "href") if name in carried]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert outline.find("img") == []
    assert all("onerror" not in carried for _, carried in outline.tags)
    assert "{{ 7 * 7 }}" in written.read_text()


def test_only_scripts_known_by_their_hash_may_run(outline):
    policy = outline.find("meta")[1]["content"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    running = [carried for carried in outline.find("script") if carried.get("type") != "application/json"]
    assert len(running) == policy.split("script-src")[1].count("sha256") == 2


def test_a_page_without_charts_needs_no_extra_and_the_content_of_one_with_charts_is_kept(page, tmp_path, monkeypatch):
    bundle_vega.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert "vegaEmbed =" not in write_html(Page("t", "l", (Section("s"),)), tmp_path).read_text()
    with pytest.raises(MissingExtraError, match=r"navi-tables\[report\]"):
        write_report(page, tmp_path)
    assert load_page(tmp_path) == page


def test_markdown_has_words_tables_and_tiles_without_charts(page):
    text = write_markdown(page)
    assert "## Tables\n\nSome text.\n\n- rows: 5,600\n\n**Models compared.**\n\n| model | Movie: F1 |" in text
    assert "|---|---:|---:|---:|---|---|" in text
    assert "```\nnavi prepare FOLDER -o corpus && echo '<done>'\n```" in text
    assert "Segments." not in text


def test_markdown_has_no_html_links_or_images_of_the_tables(tmp_path):
    nasty = "<img src=x onerror=alert(1)>|![a](http://b)\x1b[31m"
    items = (ReportTable(nasty, (nasty,), [(nasty,)], note=nasty), Tiles({nasty: nasty}), Code(f"```\n{nasty}"))
    text = write_markdown(Page(nasty, nasty, (Section(nasty, nasty, items),)))
    outside = text[: text.index("````")]
    assert "<img" not in outside
    assert "](" not in outside
    assert "\x1b" not in text
    assert "\n````\n```\n<img" in text
    assert [line for line in outside.splitlines() if line.startswith("| ")][1].count("|") == 3


# In a browser


def test_the_page_opens_without_complaint_and_every_chart_is_drawn(written, browse):
    dom, complaints = browse(written)
    assert complaints == []
    assert 'data-drawn="yes"' in dom
    assert dom.count("<svg xmlns") == 3
    assert len(re.findall(r'<path[^>]*role="graphics-symbol"', dom)) >= 30
    assert "naming columns of tables" in dom


@pytest.fixture
def run_script(written, browse, tmp_path):
    """Run a script in the page, which allows its own alone, and return the DOM."""

    def run(script):
        html = re.sub(r"<meta http-equiv=[^>]*>", "", written.read_text())
        (tmp_path / "page.html").write_text(html.replace("</body>", f"<script>{script}</script></body>"))
        return browse(tmp_path / "page.html", "--window-size=1280,900")[0]

    return run


@pytest.mark.parametrize(
    ("column", "clicks", "order"),
    [
        (0, 1, ["BERT", "CM2", "NAVI", "TAPAS"]),
        (1, 1, ["NAVI", "BERT", "CM2", "TAPAS"]),
        (2, 2, ["CM2", "NAVI", "BERT", "TAPAS"]),
        (5, 1, ["NAVI", "TAPAS", "BERT", "CM2"]),
        (1, 3, ["BERT", "NAVI", "TAPAS", "CM2"]),
    ],
)
def test_a_header_sorts_one_way_then_the_other_then_not_at_all(column, clicks, order, run_script):
    dom = run_script(f"document.querySelectorAll('.sort')[{column}].click();" * clicks)
    assert [row[0] for row in Outline(dom).tables[0][2:]] == order


def test_a_table_fits_the_page_and_light_and_dark_are_offered(run_script):
    width = "const s = document.querySelector('.scroll'); document.title = s.scrollWidth - s.clientWidth;"
    dom = run_script(f"{width} document.querySelector('.theme').click()")
    assert "<title>0</title>" in dom
    assert re.search(r'<html[^>]* data-theme="(dark|light)"', dom)
