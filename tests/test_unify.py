"""One table of many: `Navi.unify`, its specification, and `navi unify`."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
from collections import Counter

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from navi.errors import ConfigError, TableError
from navi.tables import ReadConfig, read_table, read_tables
from navi.verbs.cell_formats import learn_cell_format, read_cells, read_header
from navi.verbs.column_groups import ColumnCluster, ColumnRef
from navi.verbs.match import Matches
from navi.verbs.unify import (
    Duplicates,
    SourceColumn,
    UnifiedColumn,
    UnifySpec,
    leave_out_members,
    merge_rows,
    plan_unify,
    unify,
)


def cluster(name, *columns):
    return ColumnCluster(name=name, columns=tuple(ColumnRef(*column) for column in columns), score=1.0)


def run(frames, *clusters, **settings):
    """Return what unifying some frames by some clusters gives."""
    spec, doubts = plan_unify(frames, Matches(clusters=clusters, pairs=()), **settings)
    found = unify(frames, spec)
    return found, doubts


def unify_columns(*columns, **settings):
    """Return the unified table of one cluster, made of one column of cells for each table."""
    frames = {f"t{number}": [{"x": cell} for cell in cells] for number, cells in enumerate(columns)}
    found, doubts = run(frames, cluster("x", *((name, "x") for name in frames)), **settings)
    return found, doubts


@pytest.fixture
def frames():
    first = [{"Title": "Alien", "star1": "Ann", "star2": "Bob", "year": 1979}, {"Title": "Heat", "star2": "Eve"}]
    return {"a": first, "b": pd.DataFrame({"cast": [None, "Dan"], "movie": [None, "Jaws"]})}


def test_no_value_is_lost_and_a_second_column_stays_under_its_own_name(frames):
    star = cluster("star", ("a", "star1"), ("a", "star2"), ("b", "cast"))
    found, _ = run(frames, star, cluster("title", ("a", "Title"), ("b", "movie")))
    assert found.table.to_pylist() == [
        {"_table": "a", "_row": 1, "star": "Ann", "star2": "Bob", "title": "Alien", "year": 1979},
        {"_table": "a", "_row": 2, "star": None, "star2": "Eve", "title": "Heat", "year": None},
        {"_table": "b", "_row": 2, "star": "Dan", "star2": None, "title": "Jaws", "year": None},
    ]


def test_members_of_a_list_are_joined_in_its_order():
    frames = {"a": [{"star2": "Bob", "star10": "Cal", "star1": "Ann"}], "b": [{"actor 1": "Dan", "actor 2": "Eve"}]}
    refs = [(name, header) for name, rows in frames.items() for header in rows[0]]
    found, _ = run(frames, cluster("star", *refs))
    assert [row["star"] for row in found.table.to_pylist()] == ["Ann", "Dan"]
    assert [row["star2"] for row in found.table.to_pylist()] == ["Bob", "Eve"]


def test_names_are_given_once_and_never_those_that_say_where_rows_come_from():
    frames = {"a": [{"_table": "x", "price": "$1", "price currency": "none"}]}
    found, _ = run(frames, cluster("_table", ("a", "_table")), cluster("price", ("a", "price")))
    assert found.table.column_names == ["_table", "_row", "_table 2", "price", "price currency", "price currency 2"]
    assert found.table.to_pylist()[0]["price currency 2"] == "none"


@pytest.mark.parametrize(
    ("cells", "type", "values", "beside"),
    [
        ((["18-May-15", "2-Jun-16"], ["May 18 , 2015"]), "date", ["2015-05-18", "2016-06-02", "2015-05-18"], {}),
        ((["2015-05-18"], ["2015-05-18T10:30:00"]), "datetime", ["2015-05-18 00:00:00", "2015-05-18 10:30:00"], {}),
        (
            (["2015-05-18", "2015-05-18T10:30:00", "2015-05-18T10:30:00.5"],),
            "datetime",
            ["2015-05-18 00:00:00", "2015-05-18 10:30:00", "2015-05-18 10:30:00.500000"],
            {},
        ),
        (
            (["1-Oct-16", "2-May-15", "2017", "Oct 2016"], ["2015-05-18"]),
            "partial date",
            ["2016-10-01", "2015-05-02", "2017", "2016-10", "2015-05-18"],
            {},
        ),
        ((["Yes", "no"], ["1", "0"]), "boolean", ["True", "False", "True", "False"], {}),
        ((["1", "2"], ["3.5"]), "number", ["1.0", "2.0", "3.5"], {}),
        ((["1,200", "35"], ["1.200,50", "7,25"]), "number", ["1200.0", "35.0", "1200.5", "7.25"], {}),
        ((["$1,200"], ["3,99 €"], ["7"]), "number", ["1200.0", "3.99", "7.0"], {"x currency": ["USD", "EUR", None]}),
        ((["$3.5 million"], ["200 USD"]), "integer", ["3500000", "200"], {"x currency": ["USD", "USD"]}),
        ((["2h 10m"], ["95 min"], ["88"]), "integer", ["130", "95", "88"], {"x unit": ["min", "min", None]}),
        ((["5 kg", "7 kg"], ["9 lb"]), "integer", ["5", "7", "9"], {"x unit": ["kg", "kg", "lb"]}),
        ((["5 kg", "1.5 t", "7"],), "number", ["5.0", "1.5", "7.0"], {"x unit": ["kg", "t", None]}),
        ((["1 Season", "3 Seasons"],), "integer", ["1", "3"], {"x unit": ["Season", "Seasons"]}),
        ((["90 min", "3 Seasons"],), "integer", ["90", "3"], {"x unit": ["min", "Seasons"]}),
        ((["12%"], ["7 %"]), "integer", ["12", "7"], {"x unit": ["%", "%"]}),
        (
            (["12 400,-", "735 000,-"], ["-$5.25"]),
            "number",
            ["12400.0", "735000.0", "-5.25"],
            {"x currency": [None, None, "USD"]},
        ),
        ((["2015.0", "2017.0"], ["2014"]), "integer", ["2015", "2017", "2014"], {}),
        ((["999 zł"], ["5 €"]), "integer", ["999", "5"], {"x currency": ["PLN", "EUR"]}),
        (
            (["2h 10m", "1h 5m", "21m", *["1h"] * 40],),
            "integer",
            ["130", "65", "21", *["60"] * 40],
            {"x unit": ["min"] * 43},
        ),
        ((["£5", "$6", "7"],), "integer", ["5", "6", "7"], {"x currency": ["GBP", "USD", None]}),
        ((["ja", "nein"], ["oui", "non"], ["1"]), "boolean", ["True", "False", "True", "False", "True"], {}),
        (
            (["20240708", "20250930"], ["7/31/2024 9:05 PM"]),
            "datetime",
            ["2024-07-08 00:00:00", "2025-09-30 00:00:00", "2024-07-31 21:05:00"],
            {},
        ),
        ((["2015-05-18"], ["1979", "1980"]), "partial date", ["2015-05-18", "1979", "1980"], {}),
        (
            (["18.05.2015"], ["2015-05-18T10:30:00"], ["2-Jun-16", "3-Jun-16", "Oct 2016"]),
            "partial date",
            ["2015-05-18", "2015-05-18T10:30:00", "2016-06-02", "2016-06-03", "2016-10"],
            {},
        ),
        (
            (["June 2022", "May 2021"], ["08/2020"], ["2019"]),
            "partial date",
            ["2022-06", "2021-05", "2020-08", "2019"],
            {},
        ),
        (
            (["2022-12-24T19:30:00+02:00"], ["2015-05-18"]),
            "datetime",
            ["2022-12-24 17:30:00", "2015-05-18 00:00:00"],
            {},
        ),
        (
            (["25.50", "5", "7.25", "(417.20)", "($3)"],),
            "number",
            ["25.5", "5.0", "7.25", "-417.2", "-3.0"],
            {"x currency": ["USD", "USD", "USD", "USD", "USD"]},
        ),
        ((["2015-05-18"], ["979"]), "text", ["2015-05-18", "979"], {}),
        ((["drama"], ["1979"]), "text", ["drama", "1979"], {}),
        ((["yes", "no"], ["3", "0"]), "text", ["yes", "no", "3", "0"], {}),
    ],
)
def test_a_column_has_one_type_and_one_format(cells, type, values, beside):
    found, _ = unify_columns(*cells)
    assert found.spec.columns[0].type == type
    assert [str(each) for each in found.table["x"].to_pylist()] == values
    assert {name: found.table[name].to_pylist() for name in found.table.column_names[3:]} == beside


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "042"],  # a code
        ["12345678901234567890", "12345678901234567891"],  # more digits than a number keeps
        ["+49 30 123", "+49 40 333"],
        ["1st", "2nd"],
        ["10:30:00", "11:45:10"],  # a time of the day, or a duration
        ["12 Angry Men", "7 Samurai", "300"],
        ["12 Main St", "5 Oak Rd", "6 Elm Ave", "7 Oak Ave"],
        ["12 Main St"],
        ["12 Hill", "14 Hill", "5 Oak"],
        ["Rocky 2", "Jaws 3"],
        ["4.5/5", "3/5"],
        ["1e5", "2e6"],
        ["1.1", "1.10", "1.9"],  # versions
        ["F", "F"],  # half of yes and no may be anything
        ["Si", "Si"],
        ["(1)", "(2)"],
    ],
)
def test_what_would_lose_something_as_a_number_stays_text(cells):
    how = learn_cell_format(Counter(cells))
    assert how.type == "text"
    assert read_cells(pa.chunked_array([cells]), how).values.to_pylist() == cells


def test_a_code_among_integers_keeps_its_digits():
    cells = ["5", "9007199254740992", "1234567890123456789", "12345678901234567890123", "9" * 400]
    found = read_cells(pa.chunked_array([cells]), learn_cell_format({"5": 2, "7": 1}))
    assert found.values.to_pylist() == [5, 9007199254740992, None, None, None]
    assert found.unread.tolist() == [False, False, True, True, True]


def test_a_date_that_may_be_read_in_two_ways_stays_text_and_that_is_said():
    found, doubts = unify_columns(["03/04/2015", "05/06/2014"], ["2015-05-18"])
    assert found.table["x"].to_pylist() == ["03/04/2015", "05/06/2014", "2015-05-18"]
    assert doubts[0] == "t0/x: which is the day and which the month of '03/04/2015' is open, so it stays text."
    assert unify_columns(["drama"], ["1979"])[1] == (
        "'x' stays text, its columns are of different types: t0/x text, 'drama'; t1/x integer, '1979'.",
    )


def test_the_decimal_sign_that_a_column_proves_is_taken_for_the_others_of_its_table():
    def read_table_of(*rows):
        found, doubts = run({"t": [dict(zip(("km", "price", "power"), row, strict=False)) for row in rows]})
        return found.table["km"].to_pylist(), doubts

    german = ("35.453", "31.000,99"), ("900", "1.700,00")
    assert read_table_of(*german) == (
        [35453, 900],
        ("t/km: '35.453' is read as 35453, as 'price' has ',' before decimals.",),
    )
    assert read_table_of(("1,234", "7.5"))[0] == [1234]
    assert read_table_of(("1,234", "7,5"))[0] == [1.234]
    # Where columns prove both signs, or none, each is read by itself, and how to change that is said.
    change = """t/km: '35.453' is read as 35.453; format = "1.234,5" in the specification reads it as 35453."""
    assert read_table_of(("35.453", "31.000,99", "1.6")) == ([35.453], (change,))
    assert read_table_of(("35.453", "310")) == ([35.453], (change,))
    assert read_table_of(("1.118.914",), ("35.453",)) == ([1118914, 35453], ())
    assert read_table_of(("0,453",), ("1,600",)) == ([0.453, 1.6], ())


def test_words_for_what_is_not_known_say_nothing_of_a_type():
    found, _ = unify_columns(["4", "k.A.", "6", "N/A"], ["-", "?"])
    assert found.spec.columns[0].type == "integer"
    assert found.table["x"].to_pylist() == [4, None, 6, None, None, None]
    assert [json.loads(each)["x"] for each in found.table["_unread"].drop_null().to_pylist()] == [
        "k.A.",
        "N/A",
        "-",
        "?",
    ]
    assert unify_columns(["good", "N/A"])[0].table["x"].to_pylist() == ["good", "N/A"]


def test_years_of_two_digits_that_lie_ahead_are_said():
    assert unify_columns(["Mar-20", "Apr-15"])[1] == ("t0/x: 'Mar-20' is read as a month and its year.",)
    assert unify_columns(["5-Mar-52", "1-Apr-15"])[1] == ("t0/x: '5-Mar-52' is read as a date of 2052.",)


def test_the_currency_or_unit_of_a_header_is_kept_where_columns_differ_in_it():
    frames = {
        "a": [{"price_eur": "10", "LOA (ft)": "36", "draft m": "1.5"}],
        "b": [{"Price (SEK)": "110", "loa_m": "11.3", "Draft (m)": "1.8"}],
        "c": [{"price": "$12", "length": "12 m"}],
    }
    price = cluster("price", ("a", "price_eur"), ("b", "Price (SEK)"), ("c", "price"))
    length = cluster("length", ("a", "LOA (ft)"), ("b", "loa_m"), ("c", "length"))
    found, _ = run(frames, price, length, cluster("draft", ("a", "draft m"), ("b", "Draft (m)")))
    assert found.table["price currency"].to_pylist() == ["EUR", "SEK", "USD"]
    assert found.table["length unit"].to_pylist() == ["ft", "m", "m"]
    assert "draft unit" not in found.table.column_names  # both say the same
    assert unify(frames, found.spec).table.equals(found.table)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("price_usd", ("USD", "")),
        ("Pris NOK", ("NOK", "")),
        ("Price (€)", ("EUR", "")),
        ("priceUSD", ("USD", "")),
        ("displacement_lbs", ("", "lbs")),
        ("runtime (min)", ("", "min")),
        ("Revenue (Millions)", ("", "millions")),
        ("Built in", ("", "")),
        ("Fläche ha", ("", "ha")),
        ("Tonnes", ("", "tonnes")),
        ("price min", ("", "")),
        ("m", ("", "")),
        ("weight pounds", ("", "")),
        ("co2_g_km", ("", "")),
        ("CO2 g/km", ("", "g/km")),
        ("price_eur_kg", ("", "")),
        ("l/100 km", ("", "")),
    ],
)
def test_a_header_names_a_currency_or_a_unit_at_its_end_or_in_brackets(header, named):
    assert read_header(header) == named


def test_a_cell_that_is_not_of_its_type_is_kept_beside():
    found, _ = unify_columns([*map(str, range(1, 60)), "about 7"])
    last = found.table.to_pylist()[-1]
    assert (last["x"], json.loads(last["_unread"])) == (None, {"x": "about 7"})
    assert found.notes == ("1 cell of 'x' is not of its type; _unread has it.",)


def test_a_currency_or_unit_that_has_no_column_is_never_dropped(feeds, spec):
    bare = dataclasses.replace(spec.columns[1], currency_column="")
    found = unify(feeds, dataclasses.replace(spec, columns=(spec.columns[0], bare)))
    assert found.table["price"].to_pylist() == [5.0, 12.5, None, None]
    assert [json.loads(each)["price"] for each in found.table["_unread"].to_pylist()[2:]] == ["4,99 €", "80,00 €"]
    mixed, _ = unify_columns(["$5", "C$7"])
    assert mixed.table["x currency"].to_pylist() == ["USD", "CAD"]


def test_texts_and_headers_come_along_when_asked_for():
    found, _ = unify_columns(["$5", None], ["7"], originals=True, source_headers=True)
    assert found.table.select(["x original", "x header"]).to_pylist() == [
        {"x original": "$5", "x header": "x"},
        {"x original": "7", "x header": "x"},
    ]


def test_every_cell_of_every_table_is_in_the_unified_one(reference_navi, catalogues):
    tables = read_tables(catalogues, ReadConfig(max_family=None))
    found = reference_navi.unify(tables)
    cells = sum(table.text.num_rows * table.text.num_columns - count_nulls(table.text) for table in tables.values())
    values = found.table.select([column.name for column in found.spec.columns])
    unread = found.table["_unread"].to_pylist() if "_unread" in found.table.column_names else []
    kept = (
        values.num_rows * values.num_columns
        - count_nulls(values)
        + sum(len(json.loads(each)) for each in unread if each)
    )
    assert kept == cells


def count_nulls(table):
    return sum(column.null_count for column in table.columns)


def test_every_member_of_a_list_is_there_and_the_first_alone_are_matched(reference_navi):
    rows = [{"title": "dark city", "cast": [f"actor {number}" for number in range(6)]}]
    found = reference_navi.unify({"a": rows, "b": [{"title": "red house", "cast": ["Eve"]}]})
    assert {f"actor {number}" for number in range(6)} <= set(found.table.to_pylist()[0].values())
    assert "Eve" in found.table.to_pylist()[1].values()
    table = unify_columns(["1"])[0].table
    assert leave_out_members(read_table(table), 3).headers == read_table(table).headers
    nested = pa.table({name: ["x"] for name in ("cast.0.role.0", "cast.0.role.3", "cast.4", "sales.2015")})
    assert leave_out_members(read_table(nested), 3).headers == ("cast.0.role.0", "sales.2015")


@pytest.fixture
def feeds(tmp_path):
    """A folder of two shops' feeds."""
    folder = tmp_path / "feeds"
    folder.mkdir()
    (folder / "north.csv").write_text("title,price,added\nlamp,$5.00,18-May-15\nchair,$12.50,2-Jun-16\n")
    (folder / "south.csv").write_text(
        'title,price,added\nlamp,"4,99 €","May 18 , 2015"\ndesk,"80,00 €","June 2 , 2016"\n'
    )
    return folder


@pytest.fixture
def spec():
    def source(table, header, format="", **settings):
        return SourceColumn(table=table, header=header, format=format, **settings)

    return UnifySpec(
        columns=(
            UnifiedColumn(name="item", sources=(source("north", "title"), source("south", "title"))),
            UnifiedColumn(
                name="price",
                type="number",
                currency_column="currency",
                sources=(source("north", "price", "1,234.5", currency="CAD"), source("south", "price", "1234,5")),
            ),
            UnifiedColumn(
                name="added",
                type="date",
                sources=(source("north", "added", "%d-%b-%y"), source("south", "added", "%B %d, %Y")),
            ),
        )
    )


def test_a_specification_says_all_of_it(feeds, spec):
    assert unify(feeds, spec).table.to_pylist()[1:3] == [
        {"_table": "north", "_row": 3, "item": "chair", "price": 12.5, "currency": "CAD",
         "added": datetime.date(2016, 6, 2)},
        {"_table": "south", "_row": 2, "item": "lamp", "price": 4.99, "currency": "EUR",
         "added": datetime.date(2015, 5, 18)},
    ]  # fmt: skip


def test_a_specification_is_read_as_it_was_written(spec, tmp_path):
    spec.save(tmp_path / "spec.toml")
    assert UnifySpec.load(tmp_path / "spec.toml") == spec
    merging = dataclasses.replace(spec, duplicates=Duplicates(threshold=0.8, prefer=("south", "north")))
    merging.save(tmp_path / "spec.toml")
    assert UnifySpec.load(tmp_path / "spec.toml") == merging
    strange = UnifySpec(
        columns=(UnifiedColumn(name='a "quote"\n\u2028', sources=(SourceColumn(table="t\\", header="ä\t"),)),)
    )
    strange.save(tmp_path / "spec.toml")
    assert UnifySpec.load(tmp_path / "spec.toml") == strange


def test_rows_about_one_thing_are_merged_by_a_stated_rule_and_the_losers_kept(feeds, spec):
    (feeds / "west.csv").write_text("title,price\nLamp,4.99\nlamp,\n")
    columns = [
        dataclasses.replace(each, sources=(*each.sources, SourceColumn(table="west", header=header, format=format)))
        for each, header, format in zip(spec.columns[:2], ("title", "price"), ("", "1234.5"), strict=True)
    ]
    spec = dataclasses.replace(spec, columns=(*columns, spec.columns[2]), duplicates=Duplicates(prefer=("south",)))
    found = merge_rows(unify(feeds, spec), [[("north", 2), ("south", 2), ("west", 2), ("west", 3)], [("north", 3)]])
    lamp, *others = found.table.to_pylist()
    assert (lamp["_table"], lamp["_row"]) == ("south", 2)
    assert lamp["_merged"] == ["south:2", "north:2", "west:2", "west:3"]
    # Three of four rows say lamp; each price is there once, and the preferred table's comes with its currency.
    assert (lamp["item"], lamp["price"], lamp["currency"]) == ("lamp", 4.99, "EUR")
    assert json.loads(lamp["_conflicts"]) == {
        "item": [{"row": "west:2", "cells": {"item": "Lamp"}}],
        "price": [
            {"row": "north:2", "cells": {"price": 5.0, "currency": "CAD"}},
            {"row": "west:2", "cells": {"price": 4.99, "currency": None}},
        ],
    }
    assert [(row["item"], row["_merged"], row["_conflicts"]) for row in others] == [
        ("chair", None, None),
        ("desk", None, None),
    ]
    assert found.notes[-1] == "3 rows were merged into others; _conflicts has what gave way."


def test_the_next_feeds_may_have_more_and_less(feeds, spec):
    (feeds / "north.csv").write_text("title,added,colour\nlamp,soon,red\n")
    (feeds / "south.csv").unlink()
    found = unify(feeds, spec)
    assert found.table.to_pylist() == [
        {"_table": "north", "_row": 2, "item": "lamp", "price": None, "currency": None, "added": None, "colour": "red",
         "_unread": '{"added": "soon"}'},
    ]  # fmt: skip
    assert found.notes == (
        "The table 'south' is in the specification, and no table is called so.",
        "north/price is in the specification, and not in the table.",
        "north/colour is not in the specification, and stays as 'colour'.",
        "1 cell of 'added' is not of its type; _unread has it.",
    )


def test_a_table_may_be_a_pattern_of_names(feeds, spec, tmp_path):
    shutil.move(feeds / "north.csv", feeds / "north_2026-12.csv")
    with pytest.raises(TableError, match="does not name the table 'north_2026-12'"):
        unify(feeds, spec)
    spec.save(tmp_path / "spec.toml")
    text = (tmp_path / "spec.toml").read_text().replace('table = "north"', 'table = "north_*"')
    (tmp_path / "spec.toml").write_text(text)
    assert unify(feeds, UnifySpec.load(tmp_path / "spec.toml")).table["item"].to_pylist()[:2] == ["lamp", "chair"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 9", "expected version = 1"),
        ('name = "item"', 'names = "item"', "Unknown setting 'names'. Did you mean 'name'?"),
        ('name = "item"', 'name = "price"', "'price' is given 2 times"),
        ('name = "item"', 'name = "_row"', "'_row' is kept for where rows come from"),
        ('name = "item"', "", "name is missing"),
        ('type = "date"', 'type = "day"', "type must be one of 'text', 'integer'"),
        ("%d-%b-%y", "dd.mm.yy", "a date has a format such as '%d.%m.%Y'"),
        ("1234,5", "german", "a number has one of the formats"),
        ('table = "north"', "table = 3", "table must be text, got 3"),
        ("[[columns]]", "[[column]]", "Unknown setting 'column'"),
        ("[[columns]]", "[[columns", "Cannot read the specification"),
        ("version = 1", "version = 1\n[duplicates]\nthreshold = 2.0", "must lie between 0 and 1, got 2.0"),
        ("version = 1", "version = 1\n[duplicates]\nkeep = 1", "Unknown setting 'duplicates.keep'"),
        ("version = 1", "version = 1\nduplicates = true", "duplicates is a section of settings, got True"),
        ('name = "item"\n', 'name = "x"\nsources = 5\n[[columns]]\nname = "item"\n', "sources must be a list, got 5"),
        ("[[columns]]", "[columns.item]", "Cannot read the specification"),
    ],
)
def test_a_mistake_in_a_specification_is_said(spec, tmp_path, old, new, message):
    file = tmp_path / "spec.toml"
    spec.save(file)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=message):
        UnifySpec.load(file)


def test_a_column_takes_one_column_of_a_table(feeds):
    sources = tuple(SourceColumn(table="*", header=header) for header in ("title", "price"))
    with pytest.raises(ConfigError, match="'item' takes 2 columns of '\\*': title, price"):
        unify(feeds, UnifySpec(columns=(UnifiedColumn(name="item", sources=sources),)))


def test_the_command_writes_the_table_and_a_specification_that_gives_the_same_bytes(
    reference_dir, feeds, tmp_path, navi_command
):
    out, again, file = tmp_path / "all.parquet", tmp_path / "again.parquet", tmp_path / "spec.toml"
    told = navi_command("unify", "--model", reference_dir, feeds, "-o", out, "--write-spec", file)
    assert "4 rows of 2 tables in 6 columns." in told.stdout
    assert f"navi unify {feeds} --spec {file}" in told.stdout.splitlines()[-1]
    assert pq.read_table(out)["price currency"].to_pylist() == ["USD", "USD", "EUR", "EUR"]
    assert pq.read_table(out).schema.field("added").type == pa.date32()
    navi_command("unify", feeds, "--spec", file, "-o", again, "--quiet")
    assert again.read_bytes() == out.read_bytes()


def test_the_command_merges_duplicates_and_its_specification_does_so_again(
    reference_dir, feeds, tmp_path, navi_command
):
    (feeds / "twin.csv").write_text((feeds / "north.csv").read_text())
    out, again, file = tmp_path / "all.parquet", tmp_path / "again.parquet", tmp_path / "spec.toml"
    run = ("unify", "--model", reference_dir, feeds)
    told = navi_command(*run, "--merge-duplicates", "--prefer", "twin", "-o", out, "--write-spec", file)
    assert f"navi unify --model {reference_dir} {feeds} --spec {file}" in told.stdout.splitlines()[-1]
    assert UnifySpec.load(file).duplicates == Duplicates(prefer=("twin", "north", "south"))
    lines = pq.read_table(out).to_pylist()
    assert ["twin:3", "north:3"] in [line["_merged"] for line in lines]
    assert len(lines) < 6
    navi_command(*run, "--spec", file, "-o", again)
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "all.csv", "--prefer", "north"], "give it with --merge-duplicates"),
        (["-o", "all.csv", "--merge-duplicates", "--prefer", "nord"], "There is no table 'nord' to prefer"),
        (["-o", "feeds/all.parquet"], "would lie among the tables of feeds"),
        (["-o", "there.csv"], "there.csv exists. Replace it with --overwrite"),
        (["-o", "all.csv", "--write-spec", "there.csv"], "there.csv exists. Replace it with --overwrite"),
        (["-o", "all.xyz"], "all.xyz"),
        (["-o", "no/all.csv"], "there is no folder no"),
        (["-o", "all.csv", "--spec", "there.csv"], "Cannot read the specification there.csv"),
        (["-o", "all.csv", "--spec", "there.csv", "--originals"], "A specification says all"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(feeds, tmp_path, monkeypatch, navi_command, arguments, message):
    (tmp_path / "there.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    assert message in " ".join(navi_command("unify", "feeds", *arguments, code=2).stderr.split())
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["north.csv", "south.csv", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "a\n1\n"


def test_the_command_says_why_there_is_only_one_table(navi_command, tmp_path):
    (tmp_path / "a.csv").write_text("title\nAlien\n")
    (tmp_path / "b.json").write_text('{"title": ')
    result = navi_command("unify", tmp_path, "-o", tmp_path.parent / "all.csv", code=2)
    assert "Only 1 table could be read, and two are needed. Left out: b (" in " ".join(result.stderr.split())
