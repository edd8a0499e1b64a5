import numpy as np
import pytest

from navi_paper.columns import (
    average_columns,
    find_numeric_columns,
    list_gold_columns,
    name_columns,
    sample_cells,
)
from navi_paper.encoder import list_cells


def test_gold_columns_are_those_that_somebody_wrote_down(bench):
    columns = list_gold_columns(bench)
    found = {(table, header): concept for table, header, concept in zip(*list(vars(columns).values())[1:], strict=True)}
    assert found == dict(bench.gold.concepts)
    assert np.all(np.diff(columns.number) > 0)


def test_columns_kept_stay_together(bench):
    columns = list_gold_columns(bench)
    kept = columns.keep(columns.concept == "year")
    assert set(kept.header) == {"year", "date"}
    assert len(kept) == 3


def test_numbers_make_a_column_numeric(bench):
    numeric = find_numeric_columns(bench)
    _, headers = name_columns(bench.corpus)
    assert {headers[column] for column in np.flatnonzero(numeric)} == {"year", "date"}


@pytest.mark.parametrize("count", [1, 5])
def test_no_more_cells_than_asked_for_are_sampled_from_the_split(bench, count):
    columns = list_gold_columns(bench)
    row, column = sample_cells(bench, "test", columns.number, count, 1)
    assert set(row.tolist()) <= set(bench.corpus.rows_of("test").tolist())
    known = [number for number, table in zip(columns.number, columns.table, strict=True) if table != "gamma"]
    assert {number: int((column == number).sum()) for number in known} == dict.fromkeys(known, count)


def test_columns_of_a_table_are_sampled_from_the_same_rows(bench):
    columns = list_gold_columns(bench)
    alpha = columns.number[columns.table == "alpha"]
    row, _ = sample_cells(bench, "test", alpha, 4, 1)
    assert len(np.unique(row)) == 4


def test_a_column_is_the_mean_of_its_cells(bench, navi_tables):
    columns = list_gold_columns(bench)
    wanted = sample_cells(bench, "test", columns.number, 3, 1)
    arrays = bench.corpus.arrays
    found = average_columns(navi_tables, arrays, np.unique(wanted[0]), wanted, ("headers",))["headers"]
    column = int(wanted[1][0])
    rows = wanted[0][wanted[1] == column]
    embedded = navi_tables.embed(arrays, rows, parts=("headers",))["headers"]
    _, segments = list_cells(arrays, rows)
    own = arrays.segment_header[segments] == arrays.column_header[column]
    np.testing.assert_allclose(found[column], embedded[own].mean(axis=0), atol=1e-4)


def test_cells_that_are_not_wanted_have_no_part_in_a_mean(bench, navi_tables):
    arrays = bench.corpus.arrays
    rows = np.flatnonzero(arrays.row_table == 0)[:5]
    first, second = np.flatnonzero(arrays.column_table == 0)[:2]
    wanted = (rows, np.array([first, first, second, second, second]))
    found = average_columns(navi_tables, arrays, rows, wanted, ("values",))["values"]
    for column, own in ((first, rows[:2]), (second, rows[2:])):
        embedded = navi_tables.embed(arrays, own, parts=("values",))["values"]
        _, segments = list_cells(arrays, own)
        cells = arrays.segment_header[segments] == arrays.column_header[column]
        np.testing.assert_allclose(found[column], embedded[cells].mean(axis=0), atol=1e-4)
    others = np.setdiff1d(np.arange(len(arrays.column_table)), [first, second])
    assert not found[others].any()


def test_averages_do_not_depend_on_how_many_rows_are_held_at_once(bench, encoders, monkeypatch):
    wanted = sample_cells(bench, "test", list_gold_columns(bench).number, 6, 1)
    arguments = (encoders.oracle, bench.corpus.arrays, np.unique(wanted[0]), wanted, ("segments",))
    whole = average_columns(*arguments)["segments"]
    monkeypatch.setattr("navi_paper.columns.ROWS_AT_ONCE", 2)
    np.testing.assert_allclose(average_columns(*arguments)["segments"], whole, atol=1e-6)
