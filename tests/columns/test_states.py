"""Tests of states."""

from __future__ import annotations

import numpy as np
import pytest

from navi.columns.states import STATES, average_states, choose_rows


@pytest.fixture(scope="module")
def states(runner, films):
    return average_states(runner, films.arrays.take_rows(np.arange(0, 150, 10)))


def test_every_state_has_one_vector_a_column(states, films):
    assert set(states) == set(STATES)
    assert {state.shape for state in states.values()} == {(len(films.arrays.column_table), 32)}


def test_informed_states_are_the_means_of_the_runner_s_embeddings(states, runner, films):
    rows = np.arange(0, 150, 10)
    arrays = films.arrays
    embedded = runner.embed(arrays, rows, parts=("header_states", "values"))
    lengths = np.diff(arrays.row_offsets)[rows]
    segment = np.concatenate(
        [arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]] for row in rows]
    )
    table = np.repeat(arrays.row_table[rows], lengths)
    for column in range(len(arrays.column_table)):
        mine = (table == arrays.column_table[column]) & (arrays.segment_header[segment] == arrays.column_header[column])
        np.testing.assert_allclose(states["header"][column], embedded["header_states"][mine].mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(states["value"][column], embedded["values"][mine].mean(axis=0), atol=1e-5)


def test_blind_states_do_not_depend_on_the_own_header(runner, encode):
    rows = [{"title": f"film {number}"} for number in range(6)]
    renamed = [{"price": row["title"]} for row in rows]
    first, second = (average_states(runner, encode({"a": each}).arrays) for each in (rows, renamed))
    for name in ("blind_header", "blind_value"):
        np.testing.assert_allclose(first[name], second[name], atol=1e-5)
    assert np.abs(first["header"] - second["header"]).max() > 0.01


def test_columns_of_one_attribute_share_its_vector(states, films):
    attribute = films.arrays.column_attribute
    first, second = np.flatnonzero(attribute == attribute[0])[:2]
    np.testing.assert_allclose(states["attribute"][first], states["attribute"][second], atol=1e-6)


def test_without_blind_the_informed_states_are_the_same(states, runner, films):
    found = average_states(runner, films.arrays.take_rows(np.arange(0, 150, 10)), blind=False)
    assert set(found) == {"attribute", "header", "value"}
    np.testing.assert_allclose(found["header"], states["header"], atol=1e-6)


def test_a_few_rows_are_added_for_sparse_columns(encode):
    rows = [{"title": f"film {number}"} for number in range(200)]
    rows[150]["award"] = "star"
    encoded = encode({"a": rows})
    chosen = choose_rows(encoded, np.arange(200), 10)
    assert 150 in chosen.tolist()
    assert len(chosen) <= 20
