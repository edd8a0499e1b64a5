from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.errors import ModelError
from navi.verbs.calibration import (
    ALL,
    CALIBRATION_FILE,
    Answers,
    Calibration,
    calibrate,
    fit_curve,
    measure_reliability,
)
from navi.verbs.guessing import Blend

probabilities = st.floats(0, 1)


def measure_ece_slowly(probability, correct, num_bins):
    """The mean over answers of the distance between confidence and accuracy of the answer's own bin."""
    total = 0.0
    for p in probability:
        inside = [
            (q, right)
            for q, right in zip(probability, correct, strict=True)
            if min(int(q * num_bins), num_bins - 1) == min(int(p * num_bins), num_bins - 1)
        ]
        total += abs(sum(q for q, _ in inside) / len(inside) - sum(right for _, right in inside) / len(inside))
    return total / len(probability) if probability else 0.0


def make_overconfident(count=2000, seed=0, roles=("low", "high"), kinds=("known", "generated")):
    """Answers that are right half as often as they say, generated ones a fifth as often."""
    rng = np.random.default_rng(seed)
    raw, kind = rng.random(count), rng.choice(kinds, count)
    chance = raw * np.where(kind == "known", 0.5, 0.2)
    return Answers(raw=raw, correct=rng.random(count) < chance, role=rng.choice(roles, count), kind=kind)


@settings(deadline=None)
@given(st.lists(st.tuples(probabilities, st.booleans()), max_size=40), st.integers(1, 15))
def test_the_calibration_error_is_that_of_a_slow_count(answers, num_bins):
    probability, correct = [p for p, _ in answers], [right for _, right in answers]
    found = measure_reliability(np.array(probability), np.array(correct, dtype=bool), num_bins)
    assert found.ece == pytest.approx(measure_ece_slowly(probability, correct, num_bins), abs=1e-9)
    assert sum(found.count) == len(answers)


def test_a_probability_of_one_falls_into_the_last_bin():
    assert measure_reliability(np.array([1.0]), np.array([True])).count == (0,) * 9 + (1,)


def test_calibration_lowers_the_error_of_answers_it_has_not_seen():
    calibration = calibrate(make_overconfident(seed=0))
    new = make_overconfident(seed=1)
    before = measure_reliability(new.raw, new.correct).ece
    after = measure_reliability(calibration.apply(new.raw, new.role, new.kind), new.correct).ece
    assert before > 0.25
    assert after < 0.05
    assert calibration.before.ece == pytest.approx(before, abs=0.05)
    assert calibration.after.ece == pytest.approx(after, abs=0.05)


def test_each_kind_of_answer_has_its_own_curve():
    calibration = calibrate(make_overconfident(4000))
    raw, role = np.array([0.8, 0.8]), np.array(["low", "low"])
    known, generated = calibration.apply(raw, role, np.array(["known", "generated"]))
    assert known == pytest.approx(0.4, abs=0.1)
    assert generated == pytest.approx(0.16, abs=0.08)


def test_a_group_with_few_answers_shares_the_curve_of_its_kind():
    calibration = calibrate(make_overconfident(4000, roles=("low",) * 199 + ("mid",)))
    assert ("mid", "known") not in calibration.curves
    raw = np.array([0.3, 0.3])
    found = calibration.apply(raw, np.array(["mid", "never met"]), np.array(["known", "known"]))
    assert found.tolist() == calibration.curves[ALL, "known"](raw).tolist()


@settings(deadline=None)
@given(
    st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=400),
    st.lists(probabilities, min_size=2, max_size=10),
)
def test_a_curve_never_falls_and_stays_within_zero_and_one(answers, raw):
    curve = fit_curve(np.array([p for p, _ in answers]), np.array([right for _, right in answers]))
    found = curve(np.sort(raw))
    assert (np.diff(found) >= -1e-12).all()
    assert found.min() > 0
    assert found.max() < 1


def test_probabilities_that_are_right_already_stay_nearly_as_they_are():
    rng = np.random.default_rng(0)
    raw = rng.random(150)
    found = fit_curve(raw, rng.random(150) < raw)(np.array([0.2, 0.5, 0.8]))
    assert found == pytest.approx([0.2, 0.5, 0.8], abs=0.08)


def test_scores_that_say_the_opposite_become_the_mean():
    raw = np.linspace(0, 1, 100)
    found = fit_curve(raw, raw < 0.3)(np.array([0.1, 0.9]))
    assert found == pytest.approx([0.3, 0.3], abs=0.02)


def test_calibrating_twice_gives_the_same():
    answers = make_overconfident(300)
    assert calibrate(answers, seed=4) == calibrate(answers, seed=4)


def test_nothing_can_be_calibrated_on_no_answers():
    none = Answers(raw=np.zeros(0), correct=np.zeros(0, bool), role=np.zeros(0, np.str_), kind=np.zeros(0, np.str_))
    with pytest.raises(ValueError, match="No answers to calibrate with"):
        calibrate(none)


def test_a_calibration_is_kept_in_the_model_directory(tmp_path):
    from dataclasses import replace

    calibration = replace(calibrate(make_overconfident(300)), blend=Blend(model=0.7))
    calibration.save(tmp_path)
    assert Calibration.load(tmp_path) == calibration


def test_a_directory_without_a_calibration_has_none(tmp_path):
    assert Calibration.load(tmp_path) is None


def test_a_calibration_of_a_newer_format_is_refused(tmp_path):
    calibrate(make_overconfident(300)).save(tmp_path)
    content = json.loads((tmp_path / CALIBRATION_FILE).read_text())
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps(content | {"format_version": 99}))
    with pytest.raises(ModelError, match=r"has format version 99, this version reads up to 1\. Update"):
        Calibration.load(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format_version": 1}', '{"format_version": 1, "curves": [{}]}'])
def test_a_damaged_calibration_is_one_clear_error(tmp_path, content):
    (tmp_path / CALIBRATION_FILE).write_text(content)
    with pytest.raises(ModelError, match=r"Cannot read .*calibration\.json"):
        Calibration.load(tmp_path)
