from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.batches import BatchBuilder
from navi.corpus.arrays import ROLE_LOW
from navi_paper.views import blank_headers, hide_columns, permute_columns, rename_columns


def read_rows(arrays):
    """Return each row as a list of (header tokens, value tokens)."""
    rows = []
    for row in range(arrays.num_rows):
        cells = []
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            header, value = arrays.segment_header[segment], arrays.segment_value[segment]
            header_tokens = arrays.header_tokens[arrays.header_offsets[header] : arrays.header_offsets[header + 1]]
            value_tokens = arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]]
            cells.append((tuple(header_tokens.tolist()), tuple(value_tokens.tolist())))
        rows.append(cells)
    return rows


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


def test_permuting_orders_rows_differently_and_the_seed_decides(make_arrays):
    arrays = make_arrays(num_tables=1, num_rows=40, cells=(6, 6))
    whole = replace(arrays, row_segments=np.tile(arrays.row_segments[:6], 40))
    orders = {tuple(row) for row in read_rows(permute_columns(whole, seed=1))}
    assert len(orders) > 10
    assert read_rows(permute_columns(whole, seed=1)) == read_rows(permute_columns(whole, seed=1))
    assert read_rows(permute_columns(whole, seed=1)) != read_rows(permute_columns(whole, seed=2))


@given(seed=st.integers(0, 8))
def test_hiding_columns_drops_their_cells_and_nothing_else(make_arrays, seed):
    arrays = make_arrays(seed=seed)
    hidden = np.arange(len(arrays.column_table)) % 3 == 0
    view = hide_columns(arrays, hidden)
    gone = hidden[arrays.cell_column]
    expected = [
        [cell for cell, lost in zip(row, gone[start:end], strict=True) if not lost]
        for row, start, end in zip(read_rows(arrays), arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True)
    ]
    assert read_rows(view) == expected
    check_columns(view)


def find_column(corpus, table, header):
    numbers = corpus.headers.to_pylist()
    arrays = corpus.arrays
    found = (arrays.column_table == corpus.tables.index(table)) & (arrays.column_header == numbers.index(header))
    return int(np.flatnonzero(found)[0])


def spell(corpus, text):
    return tuple(corpus.tokenizer.encode(text, add_special_tokens=False).ids)


def test_renaming_changes_the_header_of_one_table_only(corpus):
    column = find_column(corpus, "alpha", "country")
    view = rename_columns(corpus.arrays, corpus, {column: "home_land"})
    before, after = read_rows(corpus.arrays), read_rows(view)
    for table, old, new in zip(corpus.arrays.row_table, before, after, strict=True):
        expected = [
            (spell(corpus, "home_land"), value)
            if header == spell(corpus, "country") and corpus.tables[table] == "alpha"
            else (header, value)
            for header, value in old
        ]
        assert new == expected
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


def test_a_new_header_whose_words_are_known_gets_the_known_attribute(corpus):
    column = find_column(corpus, "alpha", "title")
    view = rename_columns(corpus.arrays, corpus, {column: "NAME"})
    known = corpus.attributes.to_pylist().index("name")
    renamed = int(np.flatnonzero(view.column_header == len(corpus.headers))[0])
    assert view.column_attribute[renamed] == known
    assert len(view.attribute_offsets) == len(corpus.arrays.attribute_offsets)


def test_spelled_cells_keep_their_tokens_but_not_their_attribute(corpus):
    column = find_column(corpus, "alpha", "title")
    cells = corpus.arrays.cell_column == column
    spelled = cells & (np.cumsum(cells) % 2 == 0)
    view = rename_columns(corpus.arrays, corpus, {column: "headline"}, spelled=spelled)
    plain = rename_columns(corpus.arrays, corpus, {column: "headline"})
    headers = view.segment_header[view.row_segments]
    assert np.array_equal(headers[spelled], corpus.arrays.segment_header[corpus.arrays.row_segments][spelled])
    assert set(headers[cells & ~spelled]) == {len(corpus.headers)}
    assert np.array_equal(view.segment_attribute[view.row_segments], plain.segment_attribute[plain.row_segments])
    check_columns(view)


def test_a_blank_header_has_as_many_tokens_as_asked_for(corpus):
    taken = corpus.arrays.take_rows(np.arange(5))
    cells = np.zeros(len(taken.row_segments), np.bool_)
    cells[[0, 3]] = True
    view = blank_headers(taken, cells, np.array([9, 9, 9]))
    flat = [cell for row in read_rows(view) for cell in row]
    plain = [cell for row in read_rows(taken) for cell in row]
    assert [flat[place][0] for place in (0, 3)] == [(9, 9, 9)] * 2
    assert [value for _, value in flat] == [value for _, value in plain]
    unchanged = [place for place in range(len(flat)) if place not in (0, 3)]
    assert [flat[place] for place in unchanged] == [plain[place] for place in unchanged]
    assert np.array_equal(view.segment_attribute[view.row_segments], taken.segment_attribute[taken.row_segments])
    check_columns(view)


@pytest.mark.parametrize("view", ["permuted", "hidden", "renamed"])
def test_training_batches_can_be_built_of_a_view(corpus, special, view):
    arrays = corpus.arrays
    made = {
        "permuted": permute_columns(arrays),
        "hidden": hide_columns(arrays, np.arange(len(arrays.column_table)) == 1),
        "renamed": rename_columns(arrays, corpus, {0: "quite_new", 4: "newer"}),
    }[view]
    batch = BatchBuilder(made, special).build(np.arange(12), epoch=0)
    assert batch.alignment is not None
    assert len(batch.alignment.low_segment) > 0
