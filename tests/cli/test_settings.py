from __future__ import annotations

import pytest

from navi.cli.settings import make_prepare_config, make_pretrain_config, nest, parse_unseen, read_settings
from navi.corpus import PrepareConfig
from navi.errors import ConfigError


@pytest.fixture
def write_toml(tmp_path):
    def write(text):
        file = tmp_path / "navi.toml"
        file.write_text(text)
        return file

    return write


def pretrain_config(file=None, **given):
    arguments = {"preset": None, "ablation": None, "flags": {}} | given
    return make_pretrain_config("corpus-backbone", file=file, **arguments)


def test_without_flags_and_file_preparing_has_its_defaults():
    assert make_prepare_config(None, seed=None, strict=False) == PrepareConfig()


def test_flags_go_before_the_file_and_the_file_before_defaults(write_toml):
    file = write_toml('backbone = "bert"\n[prepare]\nseed = 3\ntotal_rows = 50\n[prepare.read]\nmax_family = 5\n')
    config = make_prepare_config(file, seed=4, strict=True)
    assert (config.backbone, config.seed, config.total_rows) == ("bert", 4, 50)
    assert (config.read.max_family, config.read.strict) == (5, True)


def test_unseen_tables_of_a_file_may_be_names(write_toml):
    assert make_prepare_config(write_toml('[prepare]\nunseen_tables = ["a"]\n')).unseen_tables == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[prepare]\nunseen_tables = true\n", "unseen_tables must be a whole number or a list of names, got True"),
        ("[prepare]\nsed = 1\n", "Unknown setting 'prepare.sed'. Did you mean 'prepare.seed'"),
        ('[prepare]\nseed = "1"\n', "prepare.seed must be a whole number, got '1'"),
        ("[prepare\n", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_explained(text, message, write_toml):
    with pytest.raises(ConfigError, match=message):
        make_prepare_config(write_toml(text))


def test_a_file_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot read the settings file .*none\.toml"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "unseen"), [(None, None), ("3", 3), ("a, b", ("a", "b")), ("a", ("a",))])
def test_unseen_tables_are_a_number_or_names(text, unseen):
    assert parse_unseen(text) == unseen


def test_pretraining_takes_the_corpuss_backbone():
    assert pretrain_config().backbone == "corpus-backbone"


def test_pretraining_puts_file_over_preset_and_flags_over_both(write_toml):
    file = write_toml("[prepare]\nseed = 9\n[training]\nepochs = 3\nmax_steps = 7\n")
    flags = {"training.max_steps": 5, "training.seed": None, "backbone": "bert"}
    config = pretrain_config(file, preset="paper", ablation="without_alignment", flags=flags)
    assert (config.training.epochs, config.training.max_steps, config.training.seed) == (3, 5, 0)
    assert config.model.local_head_share == 0.0
    assert config.alignment.weight == 0.0
    assert config.backbone == "bert"


def test_nested_settings_may_be_deep():
    assert nest({"a.b.c": 1, "a.b.d": 2, "e": 3}) == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
