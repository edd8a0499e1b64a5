"""Tests of column profiles."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from navi.columns import ColumnProfiles, Sketches, join_profiles, profile_columns
from navi.columns.sketches import BAGS
from navi.errors import ModelError


@pytest.fixture(scope="module")
def profiles(runner, films):
    return profile_columns(runner, films, rows_per_column=6)


def assert_same(first, second, tolerance=0.0):
    assert (first.tables, first.headers, first.attributes) == (second.tables, second.headers, second.attributes)
    for field in fields(Sketches):
        ours, theirs = getattr(first.sketches, field.name), getattr(second.sketches, field.name)
        pairs = [(ours, theirs)]
        if field.name in BAGS:
            pairs = [(getattr(ours, part), getattr(theirs, part)) for part in ("offsets", "terms", "shares")]
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
    assert first.states.keys() == second.states.keys()
    for name, state in first.states.items():
        np.testing.assert_allclose(state, second.states[name], atol=tolerance)


def test_profiles_stand_in_the_order_of_the_columns(profiles, films):
    assert profiles.tables == tuple(films.tables[number] for number in films.arrays.column_table)
    assert profiles.headers[0] == films.headers[int(films.arrays.column_header[0])].as_py()
    assert len(profiles) == 15


def test_profiles_survive_saving(profiles, tmp_path):
    profiles.save(tmp_path)
    assert_same(ColumnProfiles.load(tmp_path), profiles, tolerance=2e-3)


def test_taking_and_joining_are_inverse(profiles):
    parts = [profiles.take(np.arange(0, 6)), profiles.take(np.arange(6, 15))]
    assert_same(join_profiles(parts), profiles)


def test_a_folder_without_profiles_is_an_error(tmp_path):
    with pytest.raises(ModelError, match=r"Cannot read .*columns\.arrow"):
        ColumnProfiles.load(tmp_path)


def test_another_format_is_an_error(profiles, tmp_path):
    profiles.save(tmp_path)
    file = tmp_path / "columns.arrow"
    table = pa.ipc.open_file(file.read_bytes()).read_all().replace_schema_metadata({"format": "99"})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ModelError, match="has format 99"):
        ColumnProfiles.load(tmp_path)


def test_only_the_given_rows_have_a_part(runner, films):
    rows = np.flatnonzero(films.arrays.row_table == 0)
    found = profile_columns(runner, films, rows, rows_per_column=4)
    other = films.arrays.column_table != 0
    assert (found.sketches.cells[other] == 0).all()
    assert (found.states["header"][other] == 0).all()
    assert (found.sketches.cells[~other] == 60).all()
