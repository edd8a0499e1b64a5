"""Tests of the pair scorer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from navi.columns import DEFAULT_SCORER, EVIDENCE, Background, PairScorer, profile_columns
from navi.columns.sketches import empty_sketches
from navi.errors import ModelError


@pytest.fixture(scope="module")
def profiles(runner, films):
    return profile_columns(runner, films, rows_per_column=6)


def test_headers_and_values_add_up(profiles):
    scores = DEFAULT_SCORER.score(profiles, profiles, Background([profiles]))
    np.testing.assert_allclose(scores.total, scores.headers + scores.values)


def test_the_same_column_scores_above_others(profiles):
    scores = DEFAULT_SCORER.score(profiles, profiles, Background([profiles])).total
    assert (np.diag(scores) >= scores.max(axis=1) - 1e-4).all()


def test_a_useless_header_says_nothing(profiles):
    nameless = replace(profiles, headers=tuple(f"col_{number}" for number in range(len(profiles))))
    scores = DEFAULT_SCORER.score(nameless, profiles, Background([profiles]))
    assert (scores.headers == 0).all()
    named = DEFAULT_SCORER.score(profiles, profiles, Background([profiles]))
    np.testing.assert_allclose(scores.values, named.values, atol=1e-5)


def test_a_column_without_values_is_judged_by_its_header(profiles):
    bare = replace(profiles, sketches=empty_sketches(len(profiles)))
    scores = DEFAULT_SCORER.score(bare, profiles, Background([profiles]))
    assert (scores.values == 0).all()
    assert np.ptp(scores.headers) > 1


def test_weights_and_biases_are_what_is_added(profiles):
    scorer = PairScorer(weights={"words": 2.0, "attribute": 3.0}, header_bias=-1.0, value_bias=-0.5)
    evidence = np.zeros((len(EVIDENCE), 1, 1), np.float32)
    evidence[EVIDENCE.index("words")] = 0.5
    evidence[EVIDENCE.index("attribute")] = 1.0
    headers, values = scorer.weigh(evidence)
    assert (headers.item(), values.item()) == (2.0, 0.5)


def test_a_scorer_survives_saving(tmp_path):
    scorer = replace(DEFAULT_SCORER, temperature=1.7)
    scorer.save(tmp_path)
    assert PairScorer.load(tmp_path) == scorer


@pytest.mark.parametrize("content", ["no json", json.dumps({"weights": {}, "surprise": 1})])
def test_a_file_that_is_no_scorer_is_an_error(tmp_path, content):
    (tmp_path / "scorer.json").write_text(content)
    with pytest.raises(ModelError, match=r"Cannot read .*scorer\.json"):
        PairScorer.load(tmp_path)
