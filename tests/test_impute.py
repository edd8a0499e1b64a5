"""Empty cells filled: `Navi.impute` and `navi impute`."""

from __future__ import annotations

import copy
import csv
import datetime
import decimal
import json
from collections import Counter
from inspect import signature
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navi import server
from navi.cli import ask
from navi.settings import IMPUTE_CONFIDENCE

GENRES, COLORS = ("drama", "comedy", "horror"), ("red", "green", "blue")
HEADERS = ("title", "genre", "color", "runtime")


def make_rows(count=60):
    """Rows in which genre and color go together, with a few gaps."""
    rows = [
        {"title": f"film {n}", "genre": GENRES[n % 3], "color": COLORS[n % 3], "runtime": f"{90 + n % 7} min"}
        for n in range(count)
    ]
    rows[3]["genre"] = None
    rows[8]["color"] = " "
    del rows[12]["runtime"]
    return rows


def fill(navi, rows, **settings):
    """Return the fills of all cells that have a guess, unless the settings have another confidence."""
    return navi.impute(rows, **{"confidence": 0.0} | settings)


def read_cell(imputed, row, column):
    [cell] = [cell for cell in imputed.cells.to_pylist() if cell["row"] == row + 1 and cell["column"] == column]
    return cell


@pytest.fixture(scope="module")
def imputed(navi):
    return fill(navi, make_rows())


def test_a_cell_is_filled_by_what_goes_with_the_rest_of_its_row_in_the_form_of_its_column(imputed):
    assert (imputed.filled[3]["genre"], imputed.filled[8]["color"]) == ("drama", "blue")
    assert imputed.filled[12]["runtime"] in {f"{90 + n} min" for n in range(7)}
    assert read_cell(imputed, 3, "genre")["probability"] > 0.5


def test_every_empty_cell_is_accounted_for(imputed):
    assert [(cell["row"], cell["column"], cell["reason"]) for cell in imputed.cells.to_pylist()] == [
        (4, "genre", "filled: 19 of 19 rows with the same color have it, first row 1"),
        (9, "color", "filled: 19 of 19 rows with the same genre have it, first row 3"),
        (13, "runtime", "filled: 3 of 18 rows with the same genre have it, first row 1"),
    ]
    assert imputed.num_filled == 3
    assert {cell["kind"] for cell in imputed.cells.to_pylist()} == {"column"}
    assert imputed.confidences[3] == {"genre": read_cell(imputed, 3, "genre")["probability"]}
    assert imputed.confidences[0] == {}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_frames_come_back_as_they_were_given_with_the_same_values(navi, imputed, make):
    frame = make([{**dict.fromkeys(HEADERS), **row} for row in make_rows()])
    found = fill(navi, frame)
    assert type(found.filled) is type(found.confidences) is type(frame)
    assert found.cells.equals(imputed.cells)
    assert str(list(found.filled["genre"])[3]) == "drama"
    shares = list(found.confidences["genre"])
    assert float(str(shares[3])) == pytest.approx(read_cell(imputed, 3, "genre")["probability"])
    assert str(shares[0]) in ("None", "nan")


def test_streams_lazy_frames_batches_and_one_row_are_read_whole(navi, imputed):
    table = pa.Table.from_pylist([{**dict.fromkeys(HEADERS), **row} for row in make_rows()])
    for frame in (table.to_reader(), pl.from_arrow(table).lazy(), table.combine_chunks().to_batches()[0]):
        assert fill(navi, frame).cells.equals(imputed.cells)
    assert fill(navi, {"title": "Alien"}).filled == [{"title": "Alien"}]


def test_the_index_and_odd_names_of_a_pandas_frame_stay(navi):
    frame = pd.DataFrame([["a", "b", None], ["a", "b", "c"]] * 3, columns=["x", "x", 7], index=range(9, 15))
    found = fill(navi, frame)
    assert found.filled.columns.tolist() == found.confidences.columns.tolist() == ["x", "x", 7]
    assert found.filled.index.tolist() == found.confidences.index.tolist() == list(range(9, 15))
    assert found.filled.iloc[0, 2] == "c"
    assert pd.isna(frame.iloc[0, 2])


TYPED = {
    "int8": pl.Series([7], dtype=pl.Int8),
    "float": pl.Series([7.25]),
    "bool": pl.Series([True]),
    "date": pl.Series([datetime.date(1999, 1, 1)]),
    "datetime": pl.Series([datetime.datetime(1999, 1, 1, 4, 5, 6)]),
    "decimal": pl.Series([decimal.Decimal("1.50")]),
    "categorical": pl.Series(["red"], dtype=pl.Categorical),
    "enum": pl.Series(["red"], dtype=pl.Enum(["red", "green"])),
}


@pytest.mark.parametrize("kind", TYPED)
def test_a_value_has_the_type_of_its_column(navi, kind):
    column = TYPED[kind].extend_constant(TYPED[kind][0], 4).extend_constant(None, 1)
    found = fill(navi, pl.DataFrame({"x": column, "name": ["night"] * 6}))
    assert found.filled["x"].to_list() == [column[0]] * 6
    assert found.filled["x"].dtype == column.dtype


def test_categories_of_pandas_dictionaries_of_arrow_and_objects_are_filled(navi):
    values = ["red"] * 4 + [None]
    kept = pd.DataFrame({"x": pd.Categorical(values, categories=["red", "green"]), "y": "night"})
    assert fill(navi, kept).filled["x"].dtype == kept["x"].dtype
    coded = pa.table({"x": pa.array(values).dictionary_encode(), "y": ["night"] * 5})
    assert pa.types.is_dictionary(fill(navi, coded).filled["x"].type)
    assert fill(navi, coded).filled["x"].to_pylist() == ["red"] * 5
    whole = pd.DataFrame({"x": pd.Series([7, 7, 7, 7, None], dtype=object), "y": "night"})
    assert fill(navi, whole).filled["x"].tolist() == [7] * 5


@pytest.mark.parametrize(
    "frame",
    [
        [{"cast": ["Ann"], "title": "a"}, {"cast": None, "title": "b"}],
        pl.DataFrame({"cast": [["Ann"], None], "title": ["a", "b"]}),
        pa.table({"cast": pa.array([b"Ann", None]), "title": ["a", "b"]}),
        pd.DataFrame({"cast": [{"name": "Ann"}, None], "title": ["a", "b"]}),
    ],
)
def test_nested_and_binary_cells_are_not_filled(navi, frame):
    assert fill(navi, frame, columns=["cast"]).cells["reason"].to_pylist() == ["column holds nested or binary cells"]


def test_below_the_confidence_asked_for_a_cell_stays_empty_and_says_so(navi):
    rows = make_rows()
    found = fill(navi, rows, confidence=0.999)
    cell = read_cell(found, 3, "genre")
    assert (cell["value"], cell["guess"], cell["reason"]) == (
        *(None, "drama"),
        "below confidence 0.999: 19 of 19 rows with the same color have it, first row 1",
    )
    assert found.filled == rows


def test_python_and_the_command_and_the_service_ask_for_the_same_confidence(navi):
    found = navi.impute(make_rows())
    assert found.cells["reason"][2].as_py().startswith(f"below confidence {IMPUTE_CONFIDENCE}: ")
    assert found.cells.equals(fill(navi, make_rows(), confidence=IMPUTE_CONFIDENCE).cells)
    service = json.loads((Path(server.__file__).parent / "openapi.json").read_text(encoding="utf-8"))
    (asked,) = [each for each in service["paths"]["/v1/impute"]["post"]["parameters"] if each["name"] == "confidence"]
    assert asked["schema"]["default"] == signature(ask.impute).parameters["confidence"].default.default
    assert asked["schema"]["default"] == IMPUTE_CONFIDENCE


def test_cells_out_of_reach_say_why(navi):
    rows = [*make_rows(), {"title": None}, {"title": "the end", "cast": ["Ann", "Bob"]}]
    rows[0]["serial"] = None
    found = fill(navi, rows, columns=["genre", "cast", "serial"])
    assert read_cell(found, 60, "genre")["reason"] == "row has no other cell"
    assert read_cell(found, 0, "serial")["reason"] == "column never filled"
    assert read_cell(found, 0, "cast")["reason"] == "column holds nested or binary cells"
    assert read_cell(found, 8, "color")["reason"] == "column not asked for"
    assert read_cell(found, 3, "genre")["reason"].startswith("filled: ")


def test_a_nested_column_is_present_where_any_part_of_it_is(navi):
    rows = [{"cast": [{"name": "Ann"}], "title": "a"}, {"cast": [], "title": "b"}, {"cast": None, "title": "Jaws"}]
    assert fill(navi, rows).cells["row"].to_pylist() == [2, 3]


def test_a_column_never_filled_takes_values_that_training_knew(navi):
    known = navi.trained_values.group_by("attribute").aggregate([("value", "count")]).sort_by("value_count")
    attribute = known["attribute"][0].as_py()
    values = {line["value"] for line in navi.trained_values.to_pylist() if line["attribute"] == attribute}
    rows = [{**row, attribute: None} for row in make_rows(20)]
    found = fill(navi, rows, columns=[attribute])
    assert found.filled[5][attribute] in values
    assert read_cell(found, 5, attribute)["kind"] == "training"


def test_a_value_that_the_type_cannot_hold_is_left_out(navi):
    # Whatever is guessed, no integer of 8 bits can be the text that the domain knows.
    known = navi.trained_values.to_pylist()
    attribute = next(line["attribute"] for line in known if not line["value"].isdigit())
    frame = pl.DataFrame(make_rows(20)).with_columns(pl.lit(None, dtype=pl.Int8).alias(attribute))
    found = fill(navi, frame, columns=[attribute])
    reasons = {cell["reason"] for cell in found.cells.to_pylist() if cell["column"] == attribute}
    assert {reason.partition(": ")[0] for reason in reasons} >= {"value does not fit the column's type"}


cells = st.sampled_from([None, "", "drama", "comedy", "blue", "12", "12 min", "2001-02-03", "[SEP]", "ü"])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.fixed_dictionaries({"genre": cells, "color": cells, "a.b": cells}), min_size=1, max_size=6))
def test_cells_that_were_not_empty_never_change(navi, rows):
    before = copy.deepcopy(rows)
    if not any(cell for row in rows for cell in row.values()):
        return
    found = fill(navi, rows)
    assert rows == before
    for old, new in zip(rows, found.filled, strict=True):
        for column, cell in old.items():
            if cell:
                assert new[column] == cell
    empty = sum(not cell for row in rows for cell in row.values())
    assert found.cells.num_rows == empty
    changed = sum(old[column] != new[column] for old, new in zip(rows, found.filled, strict=True) for column in old)
    assert changed == found.num_filled


def test_the_account_becomes_a_frame_and_shows_itself(imputed):
    assert imputed.to_pandas()["reason"].str.startswith("filled: ").all()
    assert imputed.to_polars().columns == ["row", "column", "value", "guess", "probability", "kind", "reason"]
    assert "<bdi>genre</bdi></strong>" in imputed._repr_html_()


def test_the_order_of_the_rows_does_not_matter(navi, imputed):
    found = fill(navi, make_rows()[::-1])
    assert found.filled[::-1] == imputed.filled


def make_cars(num_makers=30, num_models=2, num_offers=3, without=()):
    """Offers of cars, each model with its year; those of some makers or models have none."""
    rows = []
    for maker in range(num_makers):
        for model in range(num_models):
            year = (
                None if {f"maker {maker}", f"model {maker}-{model}"} & set(without) else 1990 + (7 * model + maker) % 31
            )
            car = {"maker": f"maker {maker}", "model": f"model {maker}-{model}", "year": year}
            rows += [{**car, "price": f"{1000 + 13 * len(rows) + offer}"} for offer in range(num_offers)]
    return rows


def read_years(navi, rows, confidence):
    """Return the years that were filled, beside the right ones, and the reasons of all."""
    found = fill(navi, rows, columns=["year"])
    cells = found.cells.to_pylist()
    truth = [row["year"] for row in make_cars()]
    sure = [cell for cell in cells if cell["probability"] >= confidence]
    return [(cell["guess"], str(truth[cell["row"] - 1])) for cell in sure], [cell["reason"] for cell in cells]


def test_a_year_is_not_copied_from_another_car_of_the_same_maker(navi):
    # Every offer of these models lacks its year: what the maker's other models say is worth little, however often
    # offers of one model agree.
    years, reasons = read_years(navi, make_cars(without=[f"model {n}-0" for n in range(0, 30, 3)]), 0.5)
    assert years == []
    assert any("with the same maker" in reason for reason in reasons)


def test_a_year_that_another_offer_of_the_same_model_has_is_copied_and_says_so(navi):
    rows = make_cars()
    for row in rows[::7]:
        row["year"] = None
    years, reasons = read_years(navi, rows, 0.8)
    assert len(years) > 0.9 * len(rows[::7])
    assert all(guess == truth for guess, truth in years)
    assert reasons[0] == "filled: 2 of 2 rows with the same model have it, first row 2"


def test_single_gaps_are_filled_beside_models_that_lack_every_year(navi):
    rows = make_cars(without=[f"model {n}-0" for n in range(0, 30, 3)])
    single = [place for place, row in enumerate(rows) if row["model"].endswith("-1")][::3]
    for place in single:
        rows[place]["year"] = None
    years, _ = read_years(navi, rows, 0.8)
    assert len(years) > 0.9 * len(single)
    assert all(guess == truth for guess, truth in years)


def test_more_is_right_than_the_most_frequent_value_in_simulated_catalogues(navi, world):
    hits: Counter[str] = Counter()
    for catalogue in world.catalogues:
        rows = [{key: cell for key, cell in row.items() if isinstance(cell, str)} for row in catalogue.rows[:300]]
        gaps = {(row, header): text for (row, header), text in catalogue.gaps.items() if row < 300}
        columns = sorted({header for _, header in gaps} & {key for row in rows for key in row})
        if not columns:
            continue
        found = fill(navi, rows, columns=columns)
        frequent = {c: Counter(row[c] for row in rows if c in row).most_common(1)[0][0] for c in columns}
        for (row, header), text in gaps.items():
            if header in columns:
                hits["imputed"] += found.filled[row].get(header) == text
                hits["frequent"] += frequent[header] == text
                hits["all"] += 1
    assert hits["all"] > 50
    assert hits["imputed"] > 1.1 * hits["frequent"]


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A table with empty cells in two columns and an empty line."""
    file = tmp_path_factory.mktemp("gaps") / "films.csv"
    genres, years = ["drama", "comedy", ""], ["", "1999", "2001", "1999"]
    lines = [f"night {number},{genres[number % 3]},{years[number % 4]}" for number in range(24)]
    file.write_text("\n".join(["title,genre,year", *lines[:3], ",,", *lines[3:]]) + "\n")
    return file


@pytest.fixture
def impute_file(model_dir, navi_command):
    """Run `navi impute` with the trained model."""
    return lambda *arguments, code=0: navi_command("impute", "--model", model_dir, *arguments, code=code)


def read_rows(file):
    with file.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_the_command_fills_empty_cells_and_leaves_the_others(impute_file, films, tmp_path):
    out = tmp_path / "filled.csv"
    shown = impute_file(films, "-o", out, "--confidence", 0).stdout
    assert "empty cells filled" in shown
    assert "with the same" in " ".join(shown.split())
    before = [row for row in read_rows(films) if any(row.values())]
    after = read_rows(out)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert all(new[header] == cell for header, cell in old.items() if cell)
    assert all(row["genre"] for row in after)


def test_the_command_accounts_for_every_empty_cell_by_its_line(impute_file, films, tmp_path):
    flags = ("-o", tmp_path / "filled.parquet", "--confidence", 1, "--columns", "genre", "--json")
    answer = json.loads(impute_file(films, *flags).stdout)
    assert answer["filled"] == 0
    assert sum(answer["reasons"].values()) == answer["empty"] == len(answer["cells"])
    asked = [cell for cell in read_rows(tmp_path / "filled.cells.csv") if cell["column"] == "genre"]
    assert [int(cell["row"]) for cell in asked][:2] == [4, 8]
    assert all(cell["value"] == "" and cell["reason"] for cell in asked)


def test_the_command_leaves_the_values_of_a_table_without_empty_cells_as_they_are(impute_file, tmp_path):
    (tmp_path / "whole.csv").write_text("title;year\nAliën;1979\n", encoding="cp1252")
    shown = impute_file(tmp_path / "whole.csv", "-o", tmp_path / "x.csv").stdout
    assert shown.split("\n")[:2] == [
        f"{tmp_path / 'x.csv'}: the values as they were, no cell is empty",
        "Written with commas, in UTF-8.",
    ]
    assert (tmp_path / "x.csv").read_text("utf-8") == "title,year\nAliën,1979\n"


def test_the_command_names_rows_that_cannot_be_read(impute_file, tmp_path):
    (tmp_path / "films.jsonl").write_text('{"title": "Alien"}\n{broken\n')
    result = impute_file(tmp_path / "films.jsonl", "-o", tmp_path / "x.csv")
    assert "1 row: broken row" in result.stderr
    assert "films.jsonl:2" in result.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-o", "x.csv", "--columns", "genres"), "The table 'films' has no column 'genres'. Did you mean 'genre'?"),
        (("-o", "x.docx"), "navi: Cannot write "),
        (("-o", "nowhere/x.csv"), "navi: Cannot write "),
        (("-o", "x.csv", "--confidence", 60), "confidence must lie between 0 and 1, got 60"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(impute_file, films, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    assert message in impute_file(films, *flags, code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_members_of_a_list_in_a_file_are_no_gaps(navi, tmp_path):
    rows = [{"title": f"film {n}", "cast": ["Ann", "Bob"][: n % 3], "genre": "drama" if n else None} for n in range(12)]
    (tmp_path / "films.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = fill(navi, str(tmp_path / "films.jsonl"))
    reasons = {cell["column"]: cell["reason"] for cell in found.cells.to_pylist()}
    assert reasons["cast.0"] == reasons["cast.1"] == "column holds nested or binary cells"
    assert reasons["genre"].startswith("filled")


def test_a_few_cells_that_agree_do_not_make_a_column_constant(navi):
    rows = [{"title": f"film {n}", "glass": "gorilla" if n in (3, 9) else None, "wlan": "yes"} for n in range(40)]
    found = fill(navi, rows, columns=["glass"])
    assert max(cell["probability"] for cell in found.cells.to_pylist()) < 0.7
    whole = fill(
        navi, [{**row, "glass": None if n < 4 else "gorilla"} for n, row in enumerate(rows)], columns=["glass"]
    )
    assert min(cell["probability"] for cell in whole.cells.to_pylist()) > 0.9


def test_cells_beyond_what_the_model_reads_at_once_are_filled_too(navi):
    rows = [{f"field {place:03}": f"{place} {row % 2}" for place in range(300)} for row in range(12)]
    rows[5]["field 298"] = None
    found = fill(navi, rows, columns=["field 298"])
    assert found.filled[5]["field 298"] == "298 1"
