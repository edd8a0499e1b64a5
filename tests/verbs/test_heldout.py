from __future__ import annotations

import numpy as np
import pytest

from navi.verbs.guessing import Guesses
from navi.verbs.heldout import hide_cells


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(num_rows=60, cells=(1, 6))


def test_hidden_cells_are_cells_of_their_rows(arrays):
    rows = np.arange(20, 60)
    hidden = hide_cells(arrays, rows, 1000, seed=0)
    assert set(hidden.gaps.row.tolist()) <= set(rows.tolist())
    for row, column, value, truth in zip(hidden.gaps.row, hidden.gaps.column, hidden.value, hidden.truth, strict=True):
        segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        here = segments[arrays.segment_header[segments] == arrays.column_header[column]]
        assert value in arrays.segment_value[here]
        assert arrays.column_table[column] == arrays.row_table[row]
        assert truth == tuple(arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]])


def test_a_share_of_each_row_is_hidden_at_least_one_and_none_of_a_row_with_one_cell(arrays):
    hidden = hide_cells(arrays, np.arange(60), 1000, seed=0, share=0.5)
    counts = np.bincount(hidden.gaps.row, minlength=60)
    sizes = np.diff(arrays.row_offsets)
    assert counts.tolist() == [0 if size < 2 else max(1, size // 2) for size in sizes.tolist()]
    assert len({*zip(hidden.gaps.row.tolist(), hidden.gaps.column.tolist(), strict=True)}) == len(hidden.gaps)


def test_the_draw_is_its_seed_s_and_stops_at_the_number_asked_for(arrays):
    first, same, other = (hide_cells(arrays, np.arange(60), 10, seed=seed) for seed in (1, 1, 2))
    assert len(first.gaps) == 10
    assert first.gaps.row.tolist() == same.gaps.row.tolist()
    assert first.gaps.row.tolist() != other.gaps.row.tolist()


def test_guesses_are_right_when_their_tokens_are(arrays):
    hidden = hide_cells(arrays, np.arange(60), 4, seed=0)
    tokens = (hidden.truth[0], (), (*hidden.truth[2], 7), hidden.truth[3])
    guesses = Guesses(kind="known", texts=("a", None, "b", "c"), tokens=tokens, raw=np.array([0.5, 0.0, 0.4, 0.3]))
    answers = hidden.judge(guesses)
    assert answers.correct.tolist() == [True, False, True]
    assert answers.raw.tolist() == [0.5, 0.4, 0.3]
    assert answers.role.tolist() == hidden.role[[0, 2, 3]].tolist()


def test_some_hidden_cells_can_be_taken(arrays):
    hidden = hide_cells(arrays, np.arange(60), 4, seed=0)
    some = hidden.take(np.array([3, 1]))
    assert some.truth == (hidden.truth[3], hidden.truth[1])
    assert some.gaps.row.tolist() == hidden.gaps.row[[3, 1]].tolist()
