import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi_paper.encoder import Hidden
from navi_paper.hiding import draw_cells, score_encoder, score_guesses
from navi_paper.views import permute_columns


@given(seed=st.integers(0, 10), share=st.floats(0.01, 1.0))
def test_a_share_of_each_row_is_chosen_and_at_least_one_cell(make_arrays, seed, share):
    arrays = make_arrays(seed=seed)
    chosen = np.bincount(arrays.cell_row[draw_cells(arrays, share, seed)], minlength=arrays.num_rows)
    counts = np.diff(arrays.row_offsets)
    assert np.array_equal(chosen, np.maximum(1, np.rint(share * counts)))


@given(seed=st.integers(0, 10))
def test_the_same_cells_are_chosen_whatever_the_order_of_columns(make_arrays, seed):
    arrays = make_arrays(seed=seed)
    permuted = permute_columns(arrays, seed=seed)

    def list_chosen(view):
        cells = draw_cells(view, 0.4, 7)
        return set(zip(view.cell_row[cells].tolist(), view.row_segments[cells].tolist(), strict=True))

    assert list_chosen(arrays) == list_chosen(permuted)


def test_another_purpose_draws_other_cells(make_arrays):
    arrays = make_arrays(num_rows=60, cells=(4, 6))
    assert not np.array_equal(draw_cells(arrays, 0.25, 0, 1), draw_cells(arrays, 0.25, 0, 2))


def test_tokens_and_whole_cells_are_counted_apart():
    score = score_guesses(np.array([1, 2, 9, 4, 5, 6]), np.array([1, 2, 3, 4, 5, 6]), np.array([1, 2, 3]))
    assert score.token == pytest.approx(5 / 6)
    assert score.exact == pytest.approx(2 / 3)


def test_who_knows_everything_guesses_everything(bench, encoders):
    arrays = bench.corpus.arrays.take_rows(np.arange(20))
    hidden = Hidden(part="value", cells=draw_cells(arrays, 0.5, 0))
    score = score_encoder(encoders.oracle, arrays, hidden)
    assert (score.token, score.exact) == (1.0, 1.0)
