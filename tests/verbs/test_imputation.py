from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navi.errors import ConfigError, TableError
from navi.verbs.calibration import Calibration, Curve, Reliability
from navi.verbs.guessing import Blend
from navi.verbs.imputation import impute_table

GENRES, COLORS = ("drama", "comedy", "horror"), ("red", "green", "blue")
NOTHING = Reliability(confidence=(), accuracy=(), count=(), ece=0.0)
PLAIN = Calibration(
    curves={("all", "all"): Curve(score=(0.0, 1.0), probability=(0.0, 1.0), count=1)}, before=NOTHING, after=NOTHING
)
"""A calibration that leaves probabilities as they are: tests that use it need not fit one."""


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


def read_cell(imputation, row, column):
    [cell] = [cell for cell in imputation.cells.to_pylist() if cell["row"] == row + 1 and cell["column"] == column]
    return cell


@pytest.fixture(scope="module")
def imputed(navi):
    return impute_table(navi, make_rows(), calibration=PLAIN)


def test_a_cell_is_filled_by_what_goes_with_the_rest_of_its_row(imputed):
    assert imputed.filled[3]["genre"] == "drama"
    assert imputed.filled[8]["color"] == "blue"
    assert read_cell(imputed, 3, "genre")["probability"] > 0.5


def test_a_number_keeps_the_form_of_its_column(imputed):
    assert imputed.filled[12]["runtime"] in {f"{90 + n} min" for n in range(7)}


def test_every_empty_cell_is_accounted_for(imputed):
    assert [(cell["row"], cell["column"], cell["reason"]) for cell in imputed.cells.to_pylist()] == [
        (4, "genre", "filled"),
        (9, "color", "filled"),
        (13, "runtime", "filled"),
    ]
    assert imputed.num_filled == 3


def test_confidences_stand_where_values_were_put_in(imputed):
    assert imputed.confidences[3] == {"genre": read_cell(imputed, 3, "genre")["probability"]}
    assert imputed.confidences[0] == {}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_frames_come_back_as_they_were_given_with_the_same_values(navi, imputed, make):
    frame = make([{**dict.fromkeys(("title", "genre", "color", "runtime")), **row} for row in make_rows()])
    found = impute_table(navi, frame, calibration=PLAIN)
    assert type(found.filled) is type(found.confidences) is type(frame)
    assert found.cells.equals(imputed.cells)
    column = list(found.filled["genre"])
    assert str(column[3]) == "drama"


def test_below_the_confidence_asked_for_a_cell_stays_empty_and_says_so(navi):
    rows = make_rows()
    found = impute_table(navi, rows, confidence=0.999, calibration=PLAIN)
    cell = read_cell(found, 3, "genre")
    assert (cell["value"], cell["guess"], cell["reason"]) == (None, "drama", "below confidence 0.999")
    assert found.filled == rows


def test_cells_out_of_reach_say_why(navi):
    rows = [*make_rows(), {"title": None}, {"title": "the end", "cast": ["Ann", "Bob"]}]
    rows[0]["serial"] = None
    found = impute_table(navi, rows, calibration=PLAIN, columns=["genre", "cast", "serial"])
    assert read_cell(found, 60, "genre")["reason"] == "row has no other cell"
    assert read_cell(found, 0, "serial")["reason"] == "column never filled"
    assert read_cell(found, 0, "cast")["reason"] == "column holds nested or binary cells"
    assert read_cell(found, 8, "color")["reason"] == "column not asked for"
    assert read_cell(found, 3, "genre")["reason"] == "filled"


def test_a_column_never_filled_takes_values_that_training_knew(navi):
    known = navi.domain.values.group_by("attribute").aggregate([("value", "count")]).sort_by("value_count")
    attribute = known["attribute"][0].as_py()
    values = {line["value"] for line in navi.domain.values.to_pylist() if line["attribute"] == attribute}
    rows = [{**row, attribute: None} for row in make_rows(20)]
    found = impute_table(navi, rows, calibration=PLAIN, columns=[attribute])
    assert found.filled[5][attribute] in values


def test_a_value_that_the_type_cannot_hold_is_left_out(navi):
    # Whatever is guessed, no integer of 8 bits can be the text that the domain knows.
    known = navi.domain.values.to_pylist()
    attribute = next(line["attribute"] for line in known if not line["value"].isdigit())
    frame = pl.DataFrame(make_rows(20)).with_columns(pl.lit(None, dtype=pl.Int8).alias(attribute))
    found = impute_table(navi, frame, calibration=PLAIN, columns=[attribute])
    reasons = {cell["reason"] for cell in found.cells.to_pylist() if cell["column"] == attribute}
    assert "value does not fit the column's type" in reasons


def test_a_value_that_the_format_cannot_hold_is_left_out(navi, monkeypatch):
    from navi.verbs.guessing.guesser import GENERATED, Guesser, Guesses

    def generate(self, gaps):
        return Guesses(kind=GENERATED, texts=(None,) * len(gaps), tokens=((9,),) * len(gaps), raw=np.ones(len(gaps)))

    monkeypatch.setattr(Guesser, "generate", generate)
    found = impute_table(navi, make_rows(), calibration=PLAIN)
    assert {cell["reason"] for cell in found.cells.to_pylist()} == {"value does not fit the column's format"}


cells = st.sampled_from([None, "", "drama", "comedy", "blue", "12", "12 min", "2001-02-03", "[SEP]", "ü"])


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.fixed_dictionaries({"genre": cells, "color": cells, "a.b": cells}), min_size=1, max_size=6))
def test_cells_that_were_not_empty_never_change(navi, rows):
    before = copy.deepcopy(rows)
    if not any(cell for row in rows for cell in row.values()):
        return
    found = impute_table(navi, rows, calibration=PLAIN)
    assert rows == before
    for old, new in zip(rows, found.filled, strict=True):
        for column, cell in old.items():
            if cell:
                assert new[column] == cell
    empty = sum(not cell for row in rows for cell in row.values())
    assert found.cells.num_rows == empty
    changed = sum(old[column] != new[column] for old, new in zip(rows, found.filled, strict=True) for column in old)
    assert changed == found.num_filled


def test_imputing_twice_gives_the_same(navi, imputed):
    assert impute_table(navi, make_rows(), calibration=PLAIN).cells.equals(imputed.cells)


def test_too_few_cells_leave_probabilities_raw_and_say_so(navi):
    found = impute_table(navi, make_rows())
    assert found.calibration is None
    assert found.reliability is None
    (note,) = found.notes
    assert note.startswith("probabilities are raw and may be too high: checking them takes 200 cells")
    assert "and there are 12. Look at the fills before you use them, ask for more confidence" in note


def test_enough_cells_of_the_table_itself_calibrate(navi):
    found = impute_table(navi, make_rows(1200), hidden_cells=200)
    assert found.notes == ("probabilities are calibrated on 200 hidden cells of the table itself",)
    assert found.reliability.ece < 0.1
    assert found.calibration.blend != Blend()
    assert sum(found.reliability.count) >= 100


def test_the_model_s_own_calibration_is_used(navi, model_dir, tmp_path, monkeypatch):
    certain = Curve(score=(0.0, 1.0), probability=(0.125, 0.125), count=1)
    Calibration(curves={("all", "all"): certain}, before=NOTHING, after=NOTHING).save(tmp_path)
    monkeypatch.setattr(navi, "folder", tmp_path)
    monkeypatch.setitem(vars(navi), "domain", navi.domain)
    found = impute_table(navi, make_rows())
    assert {cell["probability"] for cell in found.cells.to_pylist()} == {0.125}
    assert found.notes == ()


def test_a_frame_without_gaps_comes_back_as_it_is(navi):
    rows = [row for row in make_rows() if len([cell for cell in row.values() if cell and cell.strip()]) == 4]
    found = impute_table(navi, rows)
    assert found.filled == rows
    assert found.cells.num_rows == 0
    assert found.notes == ()


def test_progress_is_told_until_all_is_done(navi):
    told = []
    impute_table(navi, make_rows(), calibration=PLAIN, progress=lambda done, of: told.append((done, of)))
    assert sum(done for done, _ in told) == 3
    assert {of for _, of in told} == {3}


def test_ranking_beats_the_most_frequent_value_in_simulated_catalogues(navi, world):
    hits: Counter[str] = Counter()
    for catalogue in world.catalogues:
        rows = [{key: cell for key, cell in row.items() if isinstance(cell, str)} for row in catalogue.rows[:300]]
        gaps = {(row, header): text for (row, header), text in catalogue.gaps.items() if row < 300}
        columns = sorted({header for _, header in gaps} & {key for row in rows for key in row})
        if not columns:
            continue
        found = impute_table(navi, rows, calibration=PLAIN, columns=columns)
        frequent = {c: Counter(row[c] for row in rows if c in row).most_common(1)[0][0] for c in columns}
        for (row, header), text in gaps.items():
            if header in columns:
                hits["ranked"] += found.filled[row].get(header) == text
                hits["frequent"] += frequent[header] == text
                hits["all"] += 1
    assert hits["all"] > 50
    assert hits["ranked"] > 1.1 * hits["frequent"]


@pytest.mark.parametrize("confidence", [-0.1, 1.5])
def test_a_confidence_out_of_range_is_refused(navi, confidence):
    with pytest.raises(ConfigError, match="confidence must lie between 0 and 1"):
        impute_table(navi, make_rows(), confidence=confidence)


def test_a_column_that_is_not_there_is_refused_with_a_hint(navi):
    with pytest.raises(TableError, match=r"has no column 'gener'\. Did you mean 'genre'\?"):
        impute_table(navi, make_rows(), columns=["gener"])


def test_rows_without_any_cell_stay_empty(navi):
    found = impute_table(navi, [{"title": None, "genre": ""}, {"title": "dark city", "genre": "drama"}])
    assert found.cells["reason"].to_pylist() == ["row has no other cell"] * 2
    assert found.filled[0] == {"title": None, "genre": ""}


def test_a_table_without_rows_is_refused(navi):
    with pytest.raises(TableError, match="has no rows"):
        impute_table(navi, [])
