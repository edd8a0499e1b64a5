from __future__ import annotations

import json
import shutil

import pytest

from navi.errors import ConfigError, ModelError
from navi.verbs import Navi
from navi.verbs.loading import find_prepare_config, fingerprint_model


@pytest.fixture
def copied(model_dir, tmp_path):
    """A model directory that may be changed."""
    return shutil.copytree(model_dir, tmp_path / "model")


def test_a_path_that_is_none_is_refused_with_the_command_that_makes_a_model(tmp_path):
    with pytest.raises(ModelError, match=r"No model at .*nothing: no such directory. `navi pretrain CORPUS -o"):
        Navi.from_pretrained(tmp_path / "nothing")


def test_a_file_is_refused(tmp_path):
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelError, match="is a file, not a model"):
        Navi.from_pretrained(tmp_path / "model.bin")


def test_a_corpus_is_refused_with_the_command_that_learns_from_it(corpus_dir):
    with pytest.raises(ModelError, match=r"is a corpus, not a model. Learn one from it first: navi pretrain"):
        Navi.from_pretrained(corpus_dir)


def test_a_backbone_is_refused_with_what_it_may_serve_as(tiny_backbone):
    with pytest.raises(ModelError, match=r"holds a 'bert' model, not a NAVI model. It may serve as a backbone"):
        Navi.from_pretrained(tiny_backbone)


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(copied):
    (copied / "pretrain.json").unlink()
    (copied / "checkpoints").mkdir()
    with pytest.raises(ModelError, match=r"a run that is not finished. Finish it first: .* --resume"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(copied, name):
    (copied / name).unlink()
    with pytest.raises(ModelError, match=f"is not a model: it has no {name}"):
        Navi.from_pretrained(copied)


def test_a_newer_format_is_refused_with_the_update(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 99}))
    with pytest.raises(ModelError, match=r"has format version 99, .* reads up to 2. Update navi-tables"):
        Navi.from_pretrained(copied)


def test_an_older_format_is_refused_since_its_encoder_was_another(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 1}))
    with pytest.raises(
        ModelError, match=r"has format version 1, whose encoder was another; .* reads 2. Pretrain it anew"
    ):
        Navi.from_pretrained(copied)


def test_damaged_weights_are_refused(copied):
    (copied / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="Cannot load the model in"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_configuration_is_refused(copied, text):
    (copied / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"Cannot read .*config.json"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "Unknown device 'gpu'. Expected cpu, cuda, cuda:0 or several"),
        ("cuda:9", "The device 'cuda:9' is not there"),
        ("cpu,", "Unknown device ''"),
        ("meta", "The device 'meta' is not supported"),
        ([], "No device named"),
    ],
)
def test_a_wrong_device_is_refused(model_dir, device, message):
    with pytest.raises(ConfigError, match=message):
        Navi.from_pretrained(model_dir, device=device)


def test_settings_of_the_corpus_are_taken_from_the_record(copied):
    record = json.loads((copied / "pretrain.json").read_text())
    record["corpus"]["settings"]["max_value_tokens"] = 5
    (copied / "pretrain.json").write_text(json.dumps(record))
    assert find_prepare_config(copied).max_value_tokens == 5
    del record["corpus"]["settings"]
    (copied / "pretrain.json").write_text(json.dumps(record))
    assert find_prepare_config(copied).max_value_tokens == 20


def test_settings_that_cannot_be_read_are_refused(copied):
    record = json.loads((copied / "pretrain.json").read_text())
    record["corpus"]["settings"] = {"max_value_tokens": 5}
    (copied / "pretrain.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match="Cannot read the corpus's settings"):
        Navi.from_pretrained(copied)


def test_the_fingerprint_changes_with_the_configuration(model_dir, copied):
    assert fingerprint_model(copied) == fingerprint_model(model_dir)
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"attribute_gate": False}))
    assert fingerprint_model(copied) != fingerprint_model(model_dir)
