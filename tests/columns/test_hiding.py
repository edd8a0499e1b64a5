"""Tests of hidden headers."""

from __future__ import annotations

import numpy as np
import pytest

from navi.batches import lay_out
from navi.batches.layout import PART_HEADER
from navi.columns.hiding import hide_headers


@pytest.fixture
def arrays(films):
    return films.arrays.take_rows(np.array([0, 1, 70, 120]))


def test_rows_taken_are_laid_out_as_before(films, arrays, special):
    before = lay_out(films.arrays, np.array([0, 1, 70, 120]), special)
    after = lay_out(arrays, np.arange(4), special)
    assert before.token_ids.tolist() == after.token_ids.tolist()


def test_hidden_headers_become_so_many_masks_and_nothing_else_changes(arrays, special):
    column = arrays.cell_column
    hidden = hide_headers(arrays, column == column[0], special.mask, 3)
    shown, masked = lay_out(arrays, np.arange(4), special), lay_out(hidden.arrays, hidden.rows, special)
    chosen = column == column[0]
    for segment in range(len(chosen)):
        inside = masked.token_segment == segment
        tokens = masked.token_ids[inside & (masked.token_part == PART_HEADER)].tolist()
        before = shown.token_ids[(shown.token_segment == segment) & (shown.token_part == PART_HEADER)].tolist()
        assert tokens == ([special.mask] * 3 if chosen[segment] else before)
        values = [
            layout.token_ids[(layout.token_segment == segment) & (layout.token_part != PART_HEADER)].tolist()
            for layout in (shown, masked)
        ]
        assert values[0] == values[1]


def test_the_attribute_of_a_hidden_cell_is_unknown_and_its_masks_are_found(arrays, special):
    column = arrays.cell_column
    chosen = (column == column[0]) | (column == column[-1])
    hidden = hide_headers(arrays, chosen, special.mask, 2)
    layout = lay_out(hidden.arrays, hidden.rows, special)
    assert hidden.mask(layout).unknown.tolist() == chosen.tolist()
    segments, places = hidden.find_masks(layout, 2)
    assert segments.tolist() == np.flatnonzero(chosen).tolist()
    assert set(layout.token_ids[places].ravel().tolist()) == {special.mask}
    assert np.count_nonzero(layout.token_ids == special.mask) == places.size
