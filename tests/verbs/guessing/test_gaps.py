from __future__ import annotations

import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder, Masks
from navi.model import load_backbone
from navi.model.runner import Runner
from navi.verbs.guessing.gaps import Gaps, open_gaps, sort_cells
from navi.verbs.heldout import hide_cells


@pytest.fixture(scope="module")
def arrays(make_arrays):
    return make_arrays(num_rows=30)


@pytest.fixture(scope="module")
def hidden(arrays):
    return hide_cells(arrays, np.arange(arrays.num_rows), 12, seed=1)


def lay_gaps(arrays, hidden, special):
    lengths = [len(tokens) for tokens in hidden.truth]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return open_gaps(arrays, hidden.gaps, offsets, np.full(offsets[-1], special.mask))


def find_value(arrays, layout, header):
    """Return which tokens stand in the values under a header."""
    segments = np.flatnonzero(arrays.segment_header[layout.segment_id.numpy()] == header)
    return torch.isin(layout.token_span, torch.from_numpy(2 * segments + 1))


def test_a_gap_is_the_row_with_one_value_masked(arrays, hidden, special):
    opened = lay_gaps(arrays, hidden, special)
    for gap, (row, column) in enumerate(zip(hidden.gaps.row, hidden.gaps.column, strict=True)):
        before = BatchBuilder(arrays, special).lay_out(np.array([row]))
        after = BatchBuilder(opened, special, align=False).lay_out(np.array([gap]))
        header = arrays.column_header[column]
        value = find_value(arrays, before, header)
        assert sorted(after.token_ids) == sorted(torch.where(value, special.mask, before.token_ids))
        assert after.token_segment[after.token_ids == special.mask].min() == len(after.segment_id) - 1


def test_the_model_says_the_same_of_a_gap_as_of_a_value_masked_in_its_place(arrays, hidden, special, tiny_backbone):
    runner = Runner(load_backbone(tiny_backbone).eval(), special, device="cpu", workers=0)
    opened = lay_gaps(arrays, hidden, special)
    for gap, (row, column) in enumerate(zip(hidden.gaps.row, hidden.gaps.column, strict=True)):

        def find(layout, header=arrays.column_header[column]):
            return find_value(arrays, layout, header)

        def mask(layout, find=find):
            tokens = torch.where(find(layout), special.mask, layout.token_ids)
            return Masks(token_ids=tokens, unknown=torch.zeros(len(layout.segment_id), dtype=torch.bool))

        def read(output, rows, layout, find=find):
            return {"states": output.tokens[find(layout)]}

        def read_gap(output, rows, layout):
            return {"states": output.tokens[layout.token_ids == special.mask]}

        [(_, _, in_place)] = runner.run(arrays, np.array([row]), read, mask=mask)
        [(_, _, in_gap)] = runner.run(opened, np.array([gap]), read_gap)
        np.testing.assert_allclose(in_gap["states"], in_place["states"], atol=1e-4)


def test_cells_are_sorted_by_column(arrays):
    rows = np.array([3, 7, 8, 20])
    cells = sort_cells(arrays, rows)
    found = set()
    for column in range(len(arrays.column_table)):
        row, value = cells.of(column)
        found |= {(r, arrays.column_header[column], v) for r, v in zip(row.tolist(), value.tolist(), strict=True)}
    expected = set()
    for row in rows.tolist():
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            expected.add((row, arrays.segment_header[segment], int(arrays.segment_value[segment])))
    assert found == expected


def test_some_gaps_can_be_taken():
    gaps = Gaps(row=np.array([4, 5, 6]), column=np.array([1, 2, 3]))
    assert gaps.take(np.array([2, 0])).row.tolist() == [6, 4]
