"""Tests of what a model says of hidden headers."""

from __future__ import annotations

import numpy as np
import pytest

from navi.verbs.likelihood import read_blind


@pytest.fixture(scope="module")
def encoded(navi, world):
    return navi.encode(list(world.catalogues[0].rows)[:6])


def hide(encoded, *places):
    hidden = np.zeros(len(encoded.arrays.column_table), np.bool_)
    hidden[list(places)] = True
    return hidden


def test_each_mask_has_a_probability_for_every_token(navi, encoded):
    blind = read_blind(navi.runner, encoded.arrays, hide(encoded, 0, 2), 2)
    assert blind.tokens.shape == (2, 2, navi.runner.model.config.vocab_size)
    assert blind.headers.shape == blind.values.shape == (2, navi.hidden_size)


def test_averaged_logarithms_of_one_row_are_a_distribution(navi, encoded):

    blind = read_blind(navi.runner, encoded.arrays.take_rows(np.array([0])), hide(encoded, 0), 1)
    assert np.exp(blind.tokens).sum() == pytest.approx(1, abs=1e-4)


def test_the_hidden_header_leaves_no_trace(navi, world):
    rows = list(world.catalogues[0].rows)[:6]
    header = next(iter(rows[0]))
    renamed = [{("zzz" if name == header else name): value for name, value in row.items()} for row in rows]
    found = []
    for each, name in ((rows, header), (renamed, "zzz")):
        encoded = navi.encode(each)
        headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
        found.append(read_blind(navi.runner, encoded.arrays, hide(encoded, headers.index(name)), 1))
    np.testing.assert_allclose(found[0].tokens, found[1].tokens, atol=1e-3)


def test_the_result_is_the_mean_over_rows(navi, encoded):

    whole = read_blind(navi.runner, encoded.arrays, hide(encoded, 0), 1)
    alone = [
        read_blind(navi.runner, encoded.arrays.take_rows(np.array([row])), hide(encoded, 0), 1).tokens
        for row in range(encoded.arrays.num_rows)
    ]
    filled = [tokens for tokens in alone if tokens.any()]
    np.testing.assert_allclose(whole.tokens, np.mean(filled, axis=0), atol=1e-3)


def test_rows_without_a_hidden_cell_are_not_read(navi, monkeypatch):
    encoded = navi.encode([{"title": "dark city", "year": "1999"}, {"title": "old king"}, {"title": "red house"}])
    headers = [encoded.headers[int(number)].as_py() for number in encoded.arrays.column_header]
    asked, run = [], navi.runner.run
    monkeypatch.setattr(
        navi.runner, "run", lambda arrays, rows, read, **more: (asked.extend(rows), run(arrays, rows, read, **more))[1]
    )
    read_blind(navi.runner, encoded.arrays, hide(encoded, headers.index("year")), 1)
    assert asked == [0]
