"""Tests of gold and of views: labels as people wrote them down, and the same rows in another shape."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from navi.corpus.arrays import ROLE_LOW
from navi_paper.gold import find_headers, name_columns, read_labels
from navi_paper.table_views import hide_columns, permute_columns, rename_columns


def test_labels_are_read_from_the_text_before_the_separator(data):
    found = read_labels(data.corpus, data.gold.labels)
    assert np.all(np.diff(found.rows) > 0)
    assert len(found) == 2 * 60
    # Film n of each table is of genre n % 3, and horror is no class.
    expected = np.array(["drama", "comedy", "horror"])[(data.corpus.row_number[found.rows] - 1) % 3]
    assert np.array_equal(found.labels, expected)


def test_a_root_hides_what_is_nested_in_it(corpus, monkeypatch):
    names = (["a", "a", "a", "b"], ["genres.0.name", "genres", "genresque", "genres.0"])
    monkeypatch.setattr("navi_paper.gold.name_columns", lambda _: names)
    assert find_headers(corpus, {"a": ("genres",)}).tolist() == [True, True, False, False]


def read_rows(arrays):
    """Return each row as a list of (header tokens, value tokens)."""
    headers, values = (
        [tuple(each.tolist()) for each in np.split(tokens, offsets[1:-1])]
        for tokens, offsets in (
            (arrays.header_tokens, arrays.header_offsets),
            (arrays.value_tokens, arrays.value_offsets),
        )
    )
    pairs = list(zip(arrays.segment_header, arrays.segment_value, strict=True))
    cells = [(headers[header], values[value]) for header, value in (pairs[each] for each in arrays.row_segments)]
    return [cells[start:end] for start, end in pairwise(arrays.row_offsets)]


def check_columns(arrays):
    """Check that columns are sorted, and that every cell has one."""
    keys = arrays.column_table.astype(np.int64) * len(arrays.header_offsets) + arrays.column_header
    assert np.all(np.diff(keys) > 0)
    column_C = arrays.cell_column
    assert np.array_equal(arrays.column_table[column_C], arrays.row_table[arrays.cell_row])
    assert np.array_equal(arrays.column_header[column_C], arrays.segment_header[arrays.row_segments])
    sizes = {len(arrays.column_table), len(arrays.column_role), len(arrays.column_attribute)}
    assert len(sizes) == 1


@given(seed=st.integers(0, 5), order=st.integers(0, 5))
def test_permuting_keeps_the_cells_of_every_row(make_arrays, seed, order):
    arrays = make_arrays(seed=seed)
    permuted = permute_columns(arrays, seed=order)
    assert [sorted(row) for row in read_rows(permuted)] == [sorted(row) for row in read_rows(arrays)]
    check_columns(permuted)


@given(seed=st.integers(0, 8))
def test_hiding_columns_drops_their_cells_and_nothing_else(make_arrays, seed):
    arrays = make_arrays(seed=seed)
    hidden = np.arange(len(arrays.column_table)) % 3 == 0
    view = hide_columns(arrays, hidden)
    gone = iter(hidden[arrays.cell_column])
    assert read_rows(view) == [[cell for cell in row if not next(gone)] for row in read_rows(arrays)]
    check_columns(view)


def find_column(corpus, table, header):
    return list(zip(*name_columns(corpus), strict=True)).index((table, header))


def spell(corpus, text):
    return tuple(corpus.tokenizer.encode(text, add_special_tokens=False).ids)


def test_renaming_changes_the_header_of_one_table_only(corpus):
    column = find_column(corpus, "alpha", "country")
    view = rename_columns(corpus.arrays, corpus, {column: "home_land"})
    before, after = read_rows(corpus.arrays), read_rows(view)
    for table, old, new in zip(corpus.arrays.row_table, before, after, strict=True):
        names = {spell(corpus, "country"): spell(corpus, "home_land")} if corpus.tables[table] == "alpha" else {}
        assert new == [(names.get(header, header), value) for header, value in old]
    check_columns(view)


def test_a_renamed_column_keeps_its_role_and_gets_the_attribute_of_its_new_header(corpus):
    column = find_column(corpus, "alpha", "language")
    assert corpus.arrays.column_role[column] == ROLE_LOW
    view = rename_columns(corpus.arrays, corpus, {column: "spoken_Tongue"})
    renamed = int(np.flatnonzero(view.column_header == len(corpus.headers))[0])
    assert view.column_role[renamed] == ROLE_LOW
    attribute = view.column_attribute[renamed]
    tokens = view.attribute_tokens[view.attribute_offsets[attribute] : view.attribute_offsets[attribute + 1]]
    assert tuple(tokens.tolist()) == spell(corpus, "spoken tongue")
