"""Tests of a model's configuration."""

from __future__ import annotations

import pytest
from transformers import AutoConfig

from navi.errors import ConfigError
from navi.model import NaviConfig


@pytest.mark.parametrize(
    ("num_layers", "from_one"), [(12, [8, 9]), (24, [16, 17]), (6, [4, 5]), (3, [2, 3]), (2, [1, 2]), (1, [1, 1])]
)
def test_the_attribute_encoder_starts_from_the_like_of_layers_eight_and_nine_of_twelve(num_layers, from_one):
    assert [layer + 1 for layer in NaviConfig(num_hidden_layers=num_layers).attribute_layers] == from_one


def test_attribute_layers_can_be_chosen():
    assert NaviConfig(num_hidden_layers=12, attribute_layers=[0, 11]).attribute_layers == [0, 11]


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.25, 3), (0.5, 6), (0.99, 11)])
def test_local_heads_are_the_set_share_and_leave_one_that_sees_the_row(share, expected):
    assert NaviConfig(num_attention_heads=12, local_head_share=share).num_local_heads == expected


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_of_local_heads_out_of_range_is_refused(share):
    with pytest.raises(ConfigError, match=f"local_head_share must be at least 0 and less than 1, got {share}"):
        NaviConfig(local_head_share=share)


def test_there_is_no_attention_dropout_whatever_the_backbone_says():
    assert NaviConfig(attention_probs_dropout_prob=0.3).attention_probs_dropout_prob == 0.0


def test_a_configuration_survives_its_file(tmp_path):
    config = NaviConfig(
        num_hidden_layers=5,
        attribute_layers=[0, 4],
        local_head_share=0.25,
        attribute_gate=False,
        attribute_embedding=False,
        header_attribute=False,
        row_words=False,
        projection_dropout=0.3,
    )
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(loaded, NaviConfig)
    for name in (
        "attribute_layers",
        "local_head_share",
        "attribute_gate",
        "attribute_embedding",
        "header_attribute",
        "row_words",
        "projection_dropout",
        "attention_probs_dropout_prob",
    ):
        assert getattr(loaded, name) == getattr(config, name), name


def test_another_format_is_refused():
    with pytest.raises(ConfigError, match="The model has format version 1, this version reads 2"):
        NaviConfig(format_version=1)
