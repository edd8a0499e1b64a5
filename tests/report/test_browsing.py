"""The page as a reader meets it, in a headless Chromium."""

from __future__ import annotations

import pytest

ORDER = "[...document.querySelectorAll('#section-1 tbody th')].map((cell) => cell.textContent.trim())"
MIDDLE = """(() => {
  const box = document.querySelectorAll(".map .mark-symbol path")[NUMBER].getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""
CONTRAST = """(() => {
  const read = (text) => text.match(/[\\d.]+/g).map(Number);
  const shine = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = read(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
  };
  const measure = (element, property) => {
    const [a, b] = [shine(read(getComputedStyle(element)[property])), shine(ground(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const named = "h1, h2, p, dt, dd, a, th, td, .value, .deviation, .change, button, code, summary, figcaption";
  const texts = [...document.querySelectorAll(named)];
  const drawn = [...document.querySelectorAll(".plot text")];
  const dots = [...document.querySelectorAll(".map .mark-symbol path")];
  return {
    text: Math.min(...texts.map((each) => measure(each, "color")), ...drawn.map((each) => measure(each, "fill"))),
    dots: Math.min(...dots.map((each) => measure(each, "fill"))),
  };
})()"""


@pytest.fixture(scope="module")
def desktop(browser, written):
    """The page in a wide window; leave it as it was."""
    return browser.open(written)


@pytest.fixture(scope="module")
def phone(browser, written):
    """The page on a phone."""
    return browser.open(written, width=390, height=844)


def point_at(tab, number):
    """Bring a point of the map into view and the mouse over it."""
    tab.ask("document.querySelector('.map').scrollIntoView({ behavior: 'instant' })")
    x, y = tab.ask(MIDDLE.replace("NUMBER", str(number)))
    tab.move(x - 40, y)
    tab.move(x, y)


def test_the_page_opens_without_complaint_and_asks_for_nothing(desktop, written):
    assert desktop.complaints == []
    assert desktop.requests == [written.as_uri()]


def test_every_figure_is_drawn(desktop):
    assert desktop.ask("[...document.querySelectorAll('.plot svg')].length") == 5
    assert desktop.ask("document.querySelectorAll('.map .mark-symbol path').length") == 30


def test_what_cells_hold_is_shown_as_text(desktop):
    assert "<script>" in desktop.ask("document.title")
    assert desktop.ask("document.querySelectorAll('main img').length") == 0


def test_best_and_second_are_marked(desktop):
    marked = (
        "[...document.querySelectorAll('#section-1 td.{}')].map((cell) => cell.querySelector('.value').textContent)"
    )
    assert desktop.ask(marked.format("best")) == ["0.928", "−0.50"]
    assert desktop.ask(marked.format("second")) == ["0.912", "0.25"]


@pytest.mark.parametrize(
    ("column", "orders"),
    [
        (0, (["BERT", "CM2", "NAVI", "TAPAS"], ["TAPAS", "NAVI", "CM2", "BERT"])),
        (1, (["NAVI", "BERT", "CM2", "TAPAS"], ["CM2", "BERT", "NAVI", "TAPAS"])),
        (2, (["TAPAS", "BERT", "NAVI", "CM2"], ["CM2", "NAVI", "BERT", "TAPAS"])),
    ],
)
def test_a_header_sorts_one_way_then_the_other_then_not_at_all(column, orders, desktop):
    press = f"document.querySelectorAll('#section-1 .sort')[{column}].click()"
    for order in (*orders, ["BERT", "NAVI", "TAPAS", "CM2"]):
        desktop.ask(press)
        assert desktop.ask(ORDER) == order
    assert desktop.ask("document.querySelector('[aria-sort]')") is None


def test_texts_sort_as_people_do(desktop):
    press = "document.querySelectorAll('#section-1 .sort')[5].click()"
    desktop.ask(press)
    # NAVI's remark begins with a sign, then 9 comes before 10.
    assert desktop.ask(ORDER) == ["NAVI", "TAPAS", "BERT", "CM2"]
    desktop.ask(press)
    desktop.ask(press)


@pytest.mark.parametrize("key", ["Enter", " "])
def test_the_keyboard_sorts_too(key, desktop):
    desktop.ask("document.querySelectorAll('#section-1 .sort')[1].focus()")
    desktop.press(key)
    assert desktop.ask("document.querySelectorAll('#section-1 thead tr:last-child th')[1].ariaSort") == "descending"
    assert desktop.ask(ORDER)[0] == "NAVI"
    desktop.press(key)
    desktop.press(key)


def test_pointing_at_a_map_tells_table_header_and_value(desktop):
    point_at(desktop, 7)
    desktop.wait("!document.getElementById('tooltip').hidden")
    terms = desktop.ask("[...document.querySelectorAll('#tooltip dt')].map((each) => each.textContent)")
    told = desktop.ask("[...document.querySelectorAll('#tooltip dd')].map((each) => each.textContent)")
    assert terms == ["table", "header", "value", "image", "role"]
    assert told[:2] == ["table1", "header2"]
    assert told[2].startswith("<script>")
    assert desktop.ask("document.querySelectorAll('#tooltip img, #tooltip script').length") == 0
    desktop.move(2, 2)
    desktop.wait("document.getElementById('tooltip').hidden")
    assert desktop.complaints == []


def test_the_legend_hides_and_shows(desktop):
    count = "document.querySelectorAll('.map .mark-symbol path').length"
    press = "document.querySelector('.map .legend button').click()"
    desktop.ask(press)
    desktop.wait(f"{count} === 15")
    assert desktop.ask("document.querySelector('.map .legend button').ariaPressed") == "false"
    desktop.ask(press)
    desktop.wait(f"{count} === 30")


@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_told_from_its_ground(dark, desktop):
    desktop.prefer(dark=dark)
    found = desktop.ask(CONTRAST)
    desktop.prefer()
    assert found["text"] >= 4.5
    assert found["dots"] >= 3.0


def test_the_page_and_its_figures_follow_the_system_until_told_otherwise(desktop):
    colours = "[document.body, document.querySelector('.map .mark-symbol path')].map((each) => getComputedStyle(each))"
    ask = f"(([body, dot]) => [body.backgroundColor, dot.fill])({colours})"
    light = desktop.ask(ask)
    desktop.prefer(dark=True)
    dark = desktop.ask(ask)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    desktop.ask("document.querySelector('.theme').click()")
    assert desktop.ask(ask) == light
    desktop.ask("document.querySelector('.theme').click()")
    desktop.prefer(dark=False)
    assert desktop.ask(ask) == dark
    desktop.ask("localStorage.clear(); delete document.documentElement.dataset.theme")


def test_paper_is_always_light(desktop):
    light = desktop.ask("getComputedStyle(document.querySelector('h1')).color")
    desktop.prefer(dark=True, media="print")
    printed = desktop.ask("getComputedStyle(document.querySelector('h1')).color")
    desktop.prefer()
    assert printed == light


def test_on_a_phone_tables_scroll_in_their_box_and_the_page_does_not(phone):
    assert phone.ask("document.documentElement.scrollWidth") == 390
    wide, box = phone.ask(
        "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.querySelector('.scroll'))"
    )
    assert wide > box
    assert phone.ask("Math.max(...[...document.querySelectorAll('.plot svg')].map((each) => each.clientWidth))") < 390


def test_on_a_phone_the_tooltip_stays_within_the_window(phone):
    for number in (0, 29):
        point_at(phone, number)
        phone.wait("!document.getElementById('tooltip').hidden")
        left, right = phone.ask(
            "(({ left, right }) => [left, right])(document.getElementById('tooltip').getBoundingClientRect())"
        )
        assert left >= 0
        assert right <= 390
