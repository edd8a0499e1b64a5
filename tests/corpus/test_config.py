"""Tests of the settings of a corpus."""

from __future__ import annotations

import json

import pytest

from navi.corpus import AttributeMapping, PrepareConfig
from navi.errors import ConfigError
from navi.tables import ReadConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_value_tokens": 0}, "max_value_tokens must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"total_rows": 0}, "total_rows must be at least 1, got 0"),
        ({"largest_tables": -1}, "largest_tables must be at least 1, got -1"),
        ({"max_tokens": 42}, "max_tokens must hold one whole segment, 43 tokens, got 42"),
        ({"validation_share": 0.5, "test_share": 0.5}, "must leave rows to train on, got 0.5 \\+ 0.5"),
        ({"test_share": -0.1}, "test_share must lie between 0 and 1, got -0.1"),
        ({"max_unknown_share": 2.0}, "max_unknown_share must lie between 0 and 1, got 2.0"),
        ({"theta_low": 0.9, "theta_high": 0.1}, "theta_low must be at most theta_high, got 0.9 > 0.1"),
        ({"normalise": "log"}, "normalise must be one of rows, distinct, got 'log'"),
        ({"unseen_tables": -1}, "unseen_tables must be at least 0, got -1"),
    ],
)
def test_setting_out_of_range_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        PrepareConfig(**settings)


def test_settings_survive_json():
    config = PrepareConfig(
        attributes=AttributeMapping({"name": "title"}, {"people": {"name": "person"}}),
        unseen_tables=("amber", "birch"),
        max_unknown_share=None,
        read=ReadConfig(max_family=5),
    )
    assert PrepareConfig.from_settings(json.loads(json.dumps(config.as_settings()))) == config


def test_backbone_may_be_a_path(tmp_path):
    assert PrepareConfig(backbone=tmp_path).as_settings()["backbone"] == str(tmp_path)


def test_settings_spell_out_the_mapping_file_and_leave_out_workers(tmp_path):
    file = tmp_path / "mapping.json"
    file.write_text('{"name": "title"}')
    settings = PrepareConfig(attributes=file, workers=3).as_settings()
    assert settings["attributes"] == {"headers": {"name": "title"}, "tables": {}}
    assert "workers" not in settings
