"""Settings put over dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from navi.errors import ConfigError
from navi.training.settings import override


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.5
    steps: int | None = None
    mode: Literal["slow", "fast"] = "slow"


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = "x"
    on: bool = True
    inner: Inner = field(default_factory=Inner)


def test_only_what_is_set_changes() -> None:
    assert override(Outer(), {"inner": {"steps": 3}}) == Outer(inner=Inner(steps=3))


def test_a_whole_number_serves_as_a_number() -> None:
    changed = override(Inner(), {"rate": 1})
    assert changed.rate == 1.0
    assert type(changed.rate) is float


def test_an_optional_setting_can_be_switched_off() -> None:
    assert override(Inner(steps=3), {"steps": None}).steps is None


def test_an_unknown_key_is_told_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"Unknown setting 'inner.stepz'. Did you mean 'inner.steps'\?"):
        override(Outer(), {"inner": {"stepz": 3}})


def test_a_key_like_no_other_is_told_with_all_known_ones() -> None:
    with pytest.raises(ConfigError, match="Known here are name, on, inner"):
        override(Outer(), {"zzzzzz": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": 3}, "name must be text, got 3"),
        ({"on": 1}, "on must be true or false, got 1"),
        ({"on": "yes"}, "on must be true or false, got 'yes'"),
        ({"inner": 3}, "inner is a section of settings, got 3"),
        ({"inner": {"rate": "high"}}, "inner.rate must be a number, got 'high'"),
        ({"inner": {"rate": True}}, "inner.rate must be a number, got True"),
        ({"inner": {"steps": 1.5}}, "inner.steps must be a whole number or none, got 1.5"),
        ({"inner": {"mode": "medium"}}, "inner.mode must be one of 'slow', 'fast', got 'medium'"),
    ],
)
def test_a_wrong_type_is_told_with_what_is_expected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(Outer(), settings)
