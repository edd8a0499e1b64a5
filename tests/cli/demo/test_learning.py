from __future__ import annotations

import pytest

from navi.cli.console import Screen
from navi.cli.demo import Tour, learning


@pytest.mark.parametrize(
    ("seconds", "steps"), [(0.001, learning.MOST_STEPS), (1.0, 240), (60.0, learning.FEWEST_STEPS)]
)
def test_training_takes_as_many_steps_as_fit_within_bounds(seconds, steps, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "time_step", lambda tour, config: seconds)
    tour = Tour(folder=tmp_path, screen=Screen(quiet=True), minutes=4)
    assert learning.plan_steps(tour, learning.make_config(tour)).training.max_steps == steps


def test_the_settings_follow_the_tour(tmp_path):
    tour = Tour(folder=tmp_path, screen=Screen(quiet=True), seed=7, backbone="bert")
    config = learning.make_config(tour)
    assert (config.backbone, config.training.seed) == ("bert", 7)
