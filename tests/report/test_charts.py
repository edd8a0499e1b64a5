from __future__ import annotations

import json
import sys

import pytest

from navi.errors import MissingExtraError
from navi.report import Bars, Lines, Map
from navi.report.charts import NUM_COLOURS, OTHERS, assign_colours, draw


def list_records(drawing):
    layers = [layer.get("data", {"values": []}) for layer in drawing.spec["layer"]]
    return [record for data in (drawing.spec.get("data"), *layers) if data for record in data["values"]]


def make_map(groups, **rest):
    places = tuple(float(place) for place in range(len(groups)))
    return Map(caption="c", x=places, y=places, labels={"group": tuple(groups)}, colour="group", **rest)


def test_colours_are_given_in_order_until_they_are_used_up():
    names = [f"n{number}" for number in range(NUM_COLOURS + 2)]
    colours = assign_colours(names)
    assert list(colours) == names
    assert list(colours.values()) == [f"c{place}" for place in range(1, NUM_COLOURS + 1)] + ["c0", "c0"]


def test_the_rarest_groups_of_a_map_have_no_colour_of_their_own():
    common = [f"n{number}" for number in range(NUM_COLOURS)]
    drawing = draw(make_map(["rare", *common, *common]))
    assert drawing.colours == {**assign_colours(common), OTHERS: "c0"}
    record = list_records(drawing)[0]
    assert (record["c"], record["label0"]) == (OTHERS, "rare")


def test_a_map_tells_all_labels_of_a_point_and_nothing_else():
    points = Map(caption="c", x=(1,), y=(2,), labels={"table": ("imdb",), "a.b[0]": ("x",)})
    layer = draw(points).spec["layer"][0]
    assert [(each["field"], each["title"]) for each in layer["encoding"]["tooltip"]] == [
        ("label0", "table"),
        ("label1", "a.b[0]"),
    ]


def test_hulls_are_drawn_around_their_points():
    drawing = draw(make_map(["a"] * 3 + ["b"] * 3, hulls="group"))
    corners = [(record["hull"], record["x"]) for record in list_records(drawing) if "hull" in record]
    assert sorted(corners) == [("a", 0.0), ("a", 2.0), ("b", 3.0), ("b", 5.0)]


def test_bars_leave_out_what_is_not_there():
    drawing = draw(Bars(caption="c", categories=("x", "y"), series={"a": (1, None)}, deviations={"a": (0.5, None)}))
    assert [(each["k"], each["low"], each["high"]) for each in list_records(drawing)] == [("x", 0.5, 1.5)]


def test_texts_of_users_cannot_end_the_expression_they_stand_in():
    label = 'a\'] + ["b"] }<'
    axis = draw(Bars(caption="c", categories=(label,), series={"a": (1,)})).spec["layer"][0]["encoding"]["y"]["axis"]
    broken = axis["labelExpr"].removesuffix("[datum.label]")
    assert list(json.loads(broken)) == [label]


def test_a_figure_is_told_to_who_cannot_see_it():
    assert draw(make_map(["low", "high"])).alt == "Map of 2 points, coloured by group: low, high. c"
    lines = Lines(caption="How it went.", series={"train": ((0, 1),)}, x_title="x", y_title="y")
    assert draw(lines).alt == "Lines: train. How it went."


def test_what_the_author_tells_comes_first():
    assert draw(make_map(["low"], alt="Two clouds.")).alt == "Two clouds."


def test_specifications_name_no_address(page):
    for figure in page.sections[1].items[1:]:
        assert "http" not in json.dumps(draw(figure).spec)


def test_without_altair_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtraError, match=r"navi-tables\[report\]"):
        draw(make_map(["a"]))
