"""The settings of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from navi.errors import ConfigError
from navi.training import ModelConfig, PretrainConfig, TrainingConfig


def test_settings_survive_a_trip_through_json() -> None:
    config = PretrainConfig.from_dict({"masking": {"header_share": 0.3}, "training": {"max_steps": 7, "seed": 5}})
    assert PretrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_toml_file_is_put_over_a_base(tmp_path: Path) -> None:
    file = tmp_path / "navi.toml"
    file.write_text('backbone = "other"\n[training]\nlearning_rate = 1e-3\n[model]\nattribute_gate = false\n')
    base = PretrainConfig(training=TrainingConfig(epochs=9))
    config = PretrainConfig.from_toml(file, base)
    assert config.backbone == "other"
    assert config.training == TrainingConfig(epochs=9, learning_rate=1e-3)
    assert config.model == ModelConfig(attribute_gate=False)


def test_a_toml_file_that_is_not_one_is_told(tmp_path: Path) -> None:
    file = tmp_path / "navi.toml"
    file.write_text("training = [")
    with pytest.raises(ConfigError, match=r"navi.toml is not valid TOML"):
        PretrainConfig.from_toml(file)


def test_a_missing_toml_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the settings file .*none.toml"):
        PretrainConfig.from_toml(tmp_path / "none.toml")


def test_the_checks_of_a_section_hold_for_settings_too() -> None:
    with pytest.raises(ConfigError, match=r"header_share \+ value_share must be at most 1"):
        PretrainConfig.from_dict({"masking": {"header_share": 0.9}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"accumulation": 0}, "accumulation must be at least 1"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"checkpoint_minutes": -1.0}, "checkpoint_minutes must be positive"),
        ({"warmup_share": 1.5}, "warmup_share must lie between 0 and 1, got 1.5"),
        ({"precision": "float16"}, "precision must be one of auto, float32, bfloat16, got 'float16'"),
    ],
)
def test_a_setting_out_of_range_is_told(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(**settings)  # type: ignore[arg-type]


def test_all_heads_cannot_be_local() -> None:
    with pytest.raises(ConfigError, match=r"local_head_share must be at least 0 and less than 1, got 1.0"):
        ModelConfig(local_head_share=1.0)
