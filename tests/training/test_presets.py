"""Settings by name."""

from __future__ import annotations

import pytest

from navi.errors import ConfigError
from navi.training import ABLATIONS, PRESETS, PretrainConfig, make_preset


def test_the_default_preset_is_the_default() -> None:
    assert make_preset() == PretrainConfig()


def test_the_paper_preset_has_the_papers_settings() -> None:
    paper = make_preset("paper")
    masking, alignment, training = paper.masking, paper.alignment, paper.training
    assert (masking.header_share, masking.value_share, masking.unknown_attribute_rate) == (0.4, 0.4, 0.0)
    assert (alignment.row_weight, alignment.column_weight) == (0.0, 0.0)
    assert (paper.model.attribute_gate, paper.model.local_head_share) == (False, 0.0)
    assert (paper.model.header_attribute, paper.model.row_words) == (False, False)
    assert (paper.sampler.rows_per_batch, paper.sampler.tables_per_batch) == (32, 4)
    assert (training.learning_rate, training.new_learning_rate, training.epochs) == (3e-5, 3e-5, 2)
    assert (alignment.low_negatives, alignment.same_value_negatives) == ("table", True)
    assert (alignment.weight, alignment.temperature_low, alignment.temperature_high) == (0.0125, 0.1, 0.02)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("ablation", ABLATIONS)
def test_an_ablation_changes_one_section_of_a_preset(preset: str, ablation: str) -> None:
    whole, ablated = make_preset(preset).to_dict(), make_preset(preset, ablation).to_dict()
    assert [name for name in whole if whole[name] != ablated[name]] == list(ABLATIONS[ablation])


def test_an_unknown_preset_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Unknown preset 'fast'. Expected one of default, paper"):
        make_preset("fast")


def test_an_unknown_ablation_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Unknown ablation 'x'. Expected one of without_attributes"):
        make_preset("paper", "x")
