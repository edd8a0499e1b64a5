"""Tests of the sample of cells."""

from __future__ import annotations

import numpy as np

from navi.columns.cells import sample_cells, shuffle_rows


def list_values(encoded, cells):
    """Return {(table, header): values}, in the order of the sample."""
    arrays = encoded.arrays
    found = {}
    for column, value in zip(cells.column.tolist(), cells.value.tolist(), strict=True):
        key = (encoded.tables[arrays.column_table[column]], encoded.headers[int(arrays.column_header[column])].as_py())
        found.setdefault(key, []).append(encoded.values[value].as_py())
    return found


def test_each_column_has_at_most_the_limit_and_all_if_there_are_fewer(films):
    counts = np.bincount(sample_cells(films, np.arange(films.arrays.num_rows), 45).column)
    assert sorted(set(counts.tolist())) == [40, 45]


def test_only_the_given_rows_have_a_part(films):
    rows = np.arange(5, 20)
    assert set(sample_cells(films, rows, 1000).row.tolist()) == set(rows.tolist())


def test_fewer_cells_are_the_first_of_more(films):
    rows = np.arange(films.arrays.num_rows)
    few, kept = sample_cells(films, rows, 7), sample_cells(films, rows, 30).keep(7)
    assert few.row.tolist() == kept.row.tolist()
    assert few.column.tolist() == kept.column.tolist()


def test_a_cell_belongs_to_the_column_of_its_table_and_header(encode):
    encoded = encode({"a": [{"title": "alien", "year": "1979"}], "b": [{"title": "heat"}]})
    found = list_values(encoded, sample_cells(encoded, np.arange(2), 10))
    assert found == {("a", "title"): ["alien"], ("a", "year"): ["1979"], ("b", "title"): ["heat"]}


def test_the_sample_does_not_depend_on_the_order_of_rows(encode):
    rows = [{"title": f"film {number}"} for number in range(50)]
    sampled = [
        list_values(encoded, sample_cells(encoded, np.arange(50), 9))
        for encoded in (encode({"a": rows}), encode({"a": rows[::-1]}))
    ]
    assert sampled[0] == sampled[1]


def test_shuffled_rows_stay_with_their_table(films):
    rows = shuffle_rows(films, np.arange(films.arrays.num_rows), 10)
    assert np.bincount(films.arrays.row_table[rows]).tolist() == [10, 10, 10]
    assert (np.diff(films.arrays.row_table[rows]) >= 0).all()
