"""Rows as texts of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi_paper.baselines.text import Template, find_hidden, list_row_cells, mask_tokens, write_text
from navi_paper.encoder import Hidden

PLAIN = Template(begin=(2,), between=(9,), separator=(8,), end=(3,))
JSON = Template(begin=(2, 5), before=(6,), between=(6, 9, 6), after=(6,), separator=(8,), end=(7, 3))
each_template = pytest.mark.parametrize("template", [PLAIN, JSON], ids=["plain", "json"])


def spell(arrays, row, template, num_cells=None):
    """Write a row the slow way."""
    words = list(template.begin)
    segments = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]][:num_cells]
    for place, segment in enumerate(segments):
        header, value = arrays.segment_header[segment], arrays.segment_value[segment]
        words += template.separator if place else ()
        words += template.before
        words += arrays.header_tokens[arrays.header_offsets[header] : arrays.header_offsets[header + 1]].tolist()
        words += template.between
        words += arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]].tolist()
        words += template.after
    return words + list(template.end)


@each_template
def test_rows_are_written_one_after_the_other(make_arrays, template):
    arrays = make_arrays(cells=(0, 6))
    rows = np.array([5, 0, 17, 5])
    text = write_text(arrays, rows, template, limit=500)
    assert text.token_ids.tolist() == [word for row in rows for word in spell(arrays, row, template)]
    assert np.diff(text.row_starts).tolist() == [len(spell(arrays, row, template)) for row in rows]


def test_a_row_without_cells_is_begun_and_ended(make_arrays):
    arrays = make_arrays(cells=(0, 0))
    assert write_text(arrays, np.array([3, 4]), PLAIN, limit=10).token_ids.tolist() == [2, 3, 2, 3]


@each_template
@pytest.mark.parametrize("limit", [6, 12, 20, 31])
def test_a_row_that_is_too_long_loses_its_last_cells_whole(make_arrays, template, limit):
    arrays = make_arrays()
    text = write_text(arrays, np.arange(arrays.num_rows), template, limit=limit)
    counts = np.diff(arrays.row_offsets)
    for row in range(arrays.num_rows):
        fitting = [n for n in range(counts[row] + 1) if len(spell(arrays, row, template, n)) <= limit]
        written = text.token_ids[text.row_starts[row] : text.row_starts[row + 1]]
        assert written.tolist() == spell(arrays, row, template, max(fitting))


@each_template
def test_spans_point_to_the_header_and_value_of_each_cell(make_arrays, template):
    arrays = make_arrays()
    rows = np.array([1, 8])
    text = write_text(arrays, rows, template, limit=500)
    cells = list_row_cells(arrays, rows)
    for cell in range(len(cells.row)):
        header, value = (text.token_ids[text.token_span == 2 * cell + part].tolist() for part in (0, 1))
        begin, end = arrays.header_offsets[cells.header[cell] :][:2]
        assert header == arrays.header_tokens[begin:end].tolist()
        begin, end = arrays.value_offsets[cells.value[cell] :][:2]
        assert value == arrays.value_tokens[begin:end].tolist()
    assert set(text.token_ids[~text.is_word].tolist()) <= {token for part in vars(template).values() for token in part}
    assert (text.token_span[text.is_header] % 2 == 0).all()


def test_about_15_percent_of_the_words_are_masked_and_nothing_else(make_arrays, special):
    arrays = make_arrays(num_rows=2000)
    text = write_text(arrays, np.arange(2000), PLAIN, limit=500)
    token_ids, targets = mask_tokens(text, special, seed=0, epoch=0)
    assert text.is_word[targets].all()
    assert len(targets) / text.is_word.sum() == pytest.approx(0.15, abs=0.01)
    kept = np.delete(np.arange(len(token_ids)), targets)
    assert np.array_equal(token_ids[kept], text.token_ids[kept])
    assert (token_ids[targets] == special.mask).mean() == pytest.approx(0.8, abs=0.02)
    assert (token_ids[targets] == text.token_ids[targets]).mean() == pytest.approx(0.1, abs=0.02)


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.integers(0, 23), min_size=1, max_size=8), epoch=st.integers(0, 3))
def test_what_is_masked_of_a_row_does_not_depend_on_the_rows_beside_it(make_arrays, special, rows, epoch):
    arrays = make_arrays()
    text = write_text(arrays, np.array(rows), PLAIN, limit=500)
    token_ids, _ = mask_tokens(text, special, seed=3, epoch=epoch)
    alone = [
        mask_tokens(write_text(arrays, np.array([row]), PLAIN, limit=500), special, seed=3, epoch=epoch)[0]
        for row in rows
    ]
    assert np.array_equal(token_ids, np.concatenate(alone))


def test_seed_and_epoch_change_what_is_masked(make_arrays, special):
    text = write_text(make_arrays(), np.arange(24), PLAIN, limit=500)
    masks = [mask_tokens(text, special, seed=seed, epoch=epoch)[1].tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert masks[0] != masks[1]
    assert masks[0] != masks[2]


@pytest.mark.parametrize("part", ["header", "value"])
def test_hidden_tokens_are_those_of_the_hidden_part_alone(make_arrays, part):
    text = write_text(make_arrays(), np.arange(6), PLAIN, limit=500)
    cells = np.arange(len(text.cells.row)) % 3 == 0
    places = find_hidden(text, Hidden(part=part, cells=cells))
    expected = text.is_word & (text.token_span % 2 == (part == "value"))
    expected[expected] = cells[text.token_span[expected] // 2]
    assert np.array_equal(places, np.flatnonzero(expected))
    assert len(places) > 0


def test_nothing_is_hidden_unless_asked_for(make_arrays):
    assert len(find_hidden(write_text(make_arrays(), np.arange(6), PLAIN, limit=500), None)) == 0
