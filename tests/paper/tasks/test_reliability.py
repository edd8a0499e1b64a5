from __future__ import annotations

import numpy as np
import pytest

from navi.errors import ConfigError
from navi_paper.bench import Bench, BenchConfig
from navi_paper.tasks.reliability import run


@pytest.fixture(scope="module")
def outcome(corpus, navi_tables):
    return run(navi_tables, Bench(corpus=corpus, config=BenchConfig(rows=30)))


def test_every_answer_has_a_probability_and_is_right_or_wrong(outcome):
    probability, right = outcome.arrays["probability"], outcome.arrays["right"]
    assert len(probability) == len(right) == round(30 * outcome.measures["answered"]) > 0
    assert probability.min() >= 0
    assert probability.max() <= 1
    assert outcome.measures["accuracy"] == pytest.approx(right.sum() / 30)


def test_the_errors_are_those_of_what_is_kept(outcome):
    probability, right = outcome.arrays["probability"].astype(np.float64), outcome.arrays["right"]
    assert outcome.measures["brier"] == pytest.approx(((probability - right) ** 2).mean(), abs=1e-6)
    assert 0 <= outcome.measures["ece"] <= 1


def test_with_few_validation_cells_probabilities_are_raw(outcome):
    assert outcome.measures["calibrated"] == 0


def test_with_enough_validation_cells_probabilities_are_calibrated(corpus, navi_tables, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.reliability.LEAST_CELLS", 10)
    calibrated = run(navi_tables, Bench(corpus=corpus, config=BenchConfig(rows=30)))
    assert calibrated.measures["calibrated"] == 1


def test_only_navi_can_be_asked(bench, encoders):
    with pytest.raises(ConfigError, match="oracle cannot impute"):
        run(encoders.oracle, bench)
