"""Guessing masked tokens."""

from __future__ import annotations

import numpy as np
import pytest

from navi_paper.baselines import BASELINES
from navi_paper.encoder import Hidden, list_cells, list_hidden_tokens

GUESSERS = [name for name, kind in BASELINES.items() if kind.predicts_tokens]
each_guesser = pytest.mark.parametrize("name", GUESSERS)
each_part = pytest.mark.parametrize("part", ["header", "value"])


def hide_every(arrays, rows, nth, part="value"):
    return Hidden(part=part, cells=np.arange(len(list_cells(arrays, rows)[0])) % nth == 0)


def find_cells(corpus, rows, headers):
    _, segments = list_cells(corpus.arrays, rows)
    named = corpus.headers.take(corpus.arrays.segment_header[segments]).to_pylist()
    return np.array([header in headers for header in named])


def test_all_but_cm2_guess_tokens():
    assert GUESSERS == ["bert", "tapas", "haetae"]


@each_guesser
def test_what_was_learned_by_heart_is_guessed_right(name, trained, lesson):
    rows = lesson.rows_of("train")
    languages = find_cells(lesson, rows, ("language", "film language"))
    hidden = Hidden(part="value", cells=languages)
    expected, _ = list_hidden_tokens(lesson.arrays, rows, hidden)
    guessed = trained(name).predict(lesson.arrays, rows, hidden)
    assert languages.sum() == len(rows)
    assert (guessed == expected).mean() > 0.95


@each_guesser
@each_part
def test_guesses_stand_in_the_order_of_the_rows_asked_for(name, part, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.array([9, 2, 17, 2, 0])
    hidden = hide_every(arrays, rows, 2, part)
    together = baseline.predict(arrays, rows, hidden)
    row_C, _ = list_cells(arrays, rows)
    alone = [
        baseline.predict(arrays, rows[i : i + 1], Hidden(part=part, cells=hidden.cells[row_C == i])) for i in range(5)
    ]
    assert np.array_equal(together, np.concatenate(alone))
    assert len(together) == len(list_hidden_tokens(arrays, rows, hidden)[0])
    assert (together >= 0).all()


@each_guesser
def test_the_likeliest_token_is_the_guess(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays()
    rows = np.array([4, 1])
    hidden = hide_every(arrays, rows, 2)
    found = baseline.predict_log(arrays, rows, hidden, np.arange(200))
    assert np.array_equal(found.argmax(axis=1), baseline.predict(arrays, rows, hidden))
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, rtol=1e-4)
    some = baseline.predict_log(arrays, rows, hidden, np.array([30, 12]))
    np.testing.assert_allclose(some, found[:, [30, 12]], rtol=1e-4, atol=1e-5)


@each_guesser
def test_cells_that_are_cut_have_no_guess_and_no_embedding(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(value_tokens=(50, 50), cells=(5, 5))
    rows = np.arange(3)
    cells = list_cells(arrays, rows)[1]
    guessed = baseline.predict(arrays, rows, Hidden(part="value", cells=np.ones(len(cells), dtype=bool)))
    # Of five cells with 50 tokens and a header, two fit into 128 positions.
    assert (guessed.reshape(3, 5, 50) >= 0).all(axis=2).tolist() == [[True, True, False, False, False]] * 3
    assert (guessed.reshape(3, 5, 50)[:, 2:] == -1).all()
    for part in ("headers", "values", "segments"):
        norms = np.linalg.norm(baseline.embed(arrays, rows, parts=(part,))[part], axis=1).reshape(3, 5)
        assert ((norms > 0) == [[True, True, False, False, False]] * 3).all()


@each_guesser
def test_of_a_cell_that_is_cut_every_token_is_as_likely(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(value_tokens=(50, 50), cells=(5, 5))
    hidden = Hidden(part="value", cells=np.arange(5) == 4)
    found = baseline.predict_log(arrays, np.array([0]), hidden, np.arange(200))
    np.testing.assert_allclose(np.exp(found), 1 / 200, rtol=1e-4)


@each_guesser
def test_the_mean_of_a_row_that_is_cut_is_over_what_is_left(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(value_tokens=(50, 50), cells=(5, 5))
    found = baseline.embed(arrays, np.array([0]), parts=("means", "segments"))
    np.testing.assert_allclose(found["means"][0], found["segments"][:2].mean(axis=0), rtol=1e-4, atol=1e-5)


@each_guesser
def test_a_batch_without_targets_has_no_loss(name, make_baseline, make_arrays):
    baseline, arrays = make_baseline(name), make_arrays(cells=(0, 0))
    batch = baseline.make_batch(arrays, np.arange(2), seed=0, epoch=0)
    assert baseline.count_targets(batch) == 0
    assert baseline.compute_loss(batch).item() == 0


@each_guesser
def test_where_nothing_is_hidden_nothing_is_guessed(name, make_baseline, make_arrays):
    arrays, rows = make_arrays(), np.arange(3)
    hidden = Hidden(part="value", cells=np.zeros(len(list_cells(arrays, rows)[0]), dtype=bool))
    assert len(make_baseline(name).predict(arrays, rows, hidden)) == 0
