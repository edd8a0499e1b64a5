"""What run a checkpoint belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from navi.training import PretrainConfig
from navi.training.identity import describe_run


def test_settings_are_named_as_a_user_knows_them() -> None:
    identity = describe_run(PretrainConfig(), "abc", 1)
    assert identity["masking.header_share"] == PretrainConfig().masking.header_share
    assert (identity["corpus"], identity["number of processes"]) == ("abc", 1)


@pytest.mark.parametrize(
    ("name", "value"), [("workers", 9), ("checkpoint_steps", 3), ("keep_checkpoints", 7), ("curves", False)]
)
def test_what_changes_no_result_may_differ(name: str, value: object) -> None:
    config = PretrainConfig()
    other = replace(config, training=replace(config.training, **{name: value}))
    assert describe_run(config, "abc", 1) == describe_run(other, "abc", 1)


@pytest.mark.parametrize(("name", "value"), [("seed", 9), ("epochs", 3), ("learning_rate", 1e-2), ("accumulation", 2)])
def test_what_changes_the_result_may_not(name: str, value: object) -> None:
    config = PretrainConfig()
    other = replace(config, training=replace(config.training, **{name: value}))
    assert describe_run(config, "abc", 1) != describe_run(other, "abc", 1)
