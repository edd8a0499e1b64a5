"""Tests of what is compared: names, and settings that all models share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from navi.errors import ConfigError
from navi.training import ABLATIONS, PretrainConfig, make_preset
from navi_paper.models import find_model, list_models, make_config


def test_baselines_presets_and_their_ablations_can_be_compared():
    known = list_models()
    assert {"bert", "tapas", "haetae", "cm2", "navi", "navi-paper"} <= set(known)
    assert {f"navi-paper-{ablation}" for ablation in ABLATIONS} <= set(known)


def test_a_name_that_is_none_is_one_clear_error():
    with pytest.raises(ConfigError, match=r"Unknown model 'gpt'\. Expected some of bert, tapas"):
        find_model("gpt")


@pytest.mark.parametrize("name", ["bert", "navi", "navi-paper", "navi-paper-without_alignment"])
def test_all_models_share_backbone_batches_and_optimiser(name):
    shared = PretrainConfig.from_dict({"backbone": "some", "sampler": {"rows_per_batch": 7}, "training": {"epochs": 3}})
    config = make_config(find_model(name), shared, seed=5)
    assert (config.backbone, config.sampler) == ("some", shared.sampler)
    assert config.training == replace(shared.training, seed=5)


def test_what_is_a_models_own_is_its_presets():
    config = make_config(find_model("navi-paper-without_alignment"), PretrainConfig(), seed=0)
    preset = make_preset("paper", "without_alignment")
    assert (config.model, config.masking, config.alignment) == (preset.model, preset.masking, preset.alignment)
