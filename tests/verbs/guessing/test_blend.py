from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navi.verbs.guessing.blend import (
    COMPANION,
    MODEL,
    NUM_EVIDENCE,
    PRIOR,
    VOTES,
    Blend,
    Choice,
    choose_blend,
    fit_blend,
)


def make_choices(telling, count=400, seed=0):
    """Cells whose right value has the highest evidence of one kind, mostly; the other kinds are noise."""
    rng = np.random.default_rng(seed)
    choices = []
    for _ in range(count):
        evidence = rng.normal(size=(NUM_EVIDENCE, 5))
        scores = np.append(2.0 * evidence[telling], -1.0)
        truth = int(rng.choice(6, p=np.exp(scores) / np.exp(scores).sum()))
        choices.append(Choice(evidence=evidence, unseen=0.1, truth=truth))
    return choices


@pytest.mark.parametrize("telling", [MODEL, PRIOR, VOTES, COMPANION])
def test_the_evidence_that_tells_gets_the_weight(telling):
    blend = fit_blend(make_choices(telling))
    weights = [blend.model, blend.prior, blend.votes, blend.nearness, blend.companion]
    assert weights[telling] == pytest.approx(2.0, abs=0.5)
    assert max(weight for kind, weight in enumerate(weights) if kind != telling) < 0.3


def test_evidence_that_misleads_gets_no_weight():
    choices = [
        Choice(evidence=np.vstack([-choice.evidence[:1], choice.evidence[1:]]), unseen=0.1, truth=choice.truth)
        for choice in make_choices(MODEL)
    ]
    assert fit_blend(choices).model == 0.0


def test_a_blend_without_the_model_stays_without_it():
    choices = [
        Choice(evidence=np.vstack([0 * choice.evidence[:1], choice.evidence[1:]]), unseen=0.1, truth=choice.truth)
        for choice in make_choices(PRIOR)
    ]
    assert fit_blend(choices, Blend(model=0.0)).model == 0.0


def test_a_model_that_tells_nothing_is_not_worth_asking_and_one_that_does_is():
    assert choose_blend(make_choices(PRIOR), Blend(model=0.5)).model == 0.0
    assert choose_blend(make_choices(MODEL), Blend(model=0.5)).model > 1.0


def test_the_fit_finds_the_likeliest_weights():
    choices = make_choices(VOTES, count=800)

    def measure(blend):
        chances = [(blend.weigh(choice.evidence, choice.unseen), choice.truth) for choice in choices]
        return np.mean([np.log(found[truth] if truth < 5 else 1 - found.sum()) for found, truth in chances])

    fitted = fit_blend(choices)
    nearby = [
        Blend(**{**vars(fitted), name: getattr(fitted, name) + step}) for name in vars(fitted) for step in (-0.5, 0.5)
    ]
    assert all(measure(fitted) > measure(other) for other in nearby)


@settings(deadline=None)
@given(st.integers(1, 20), st.floats(0.001, 0.999), st.integers(0, 100))
def test_chances_and_that_of_no_value_sum_to_one(num_values, unseen, seed):
    evidence = np.random.default_rng(seed).normal(size=(NUM_EVIDENCE, num_values))
    chances = Blend().weigh(evidence, unseen)
    assert (chances >= 0).all()
    assert chances.sum() < 1


def test_a_value_the_model_was_not_asked_for_has_no_chance():
    evidence = np.zeros((NUM_EVIDENCE, 2))
    evidence[MODEL, 1] = -np.inf
    assert Blend().weigh(evidence, 0.5)[1] == 0.0


def test_values_grow_less_likely_where_new_ones_are_expected():
    evidence = np.zeros((NUM_EVIDENCE, 3))
    assert Blend().weigh(evidence, 0.9).sum() < Blend().weigh(evidence, 0.1).sum()
