"""The model that comes along: every verb asks it unless another is named, and training starts from it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from navi import Navi
from navi.backbones import BASE_FOLDER, MANIFEST_FILE, find_licence, load_tokenizer
from navi.corpus import PrepareConfig, prepare
from navi.errors import ModelError
from navi.files import digest_file, write_json
from navi.model import is_new, load_backbone
from navi.model.backbone import unpack_weights
from navi.training import PretrainConfig, TrainingResult, make_preset
from navi.verbs.loading import fingerprint_model

ROWS = [{"title": "Alien", "year": "1979"}, {"title": "Heat", "year": "1995"}, {"title": "Alien", "year": None}]


@pytest.fixture(scope="module")
def base():
    return Navi.from_pretrained(device="cpu")


@pytest.fixture
def copied(tmp_path):
    """The folder of the base model, for a test to damage."""
    return shutil.copytree(BASE_FOLDER, tmp_path / "base")


def test_the_base_model_is_small_and_lists_nothing_of_its_tables():
    sizes = {file.name: file.stat().st_size for file in BASE_FOLDER.iterdir()}
    assert max(sizes.values()) < 16_000_000
    assert sum(sizes.values()) <= 50_000_000
    assert not [name for name in sizes if name.endswith(".arrow")]
    assert TrainingResult.load(BASE_FOLDER).num_steps > 0
    assert find_licence("navi-base") == "apache-2.0"


def test_no_argument_and_the_name_give_the_same_model(base):
    named = Navi.from_pretrained("navi-base", device="cpu")
    vectors = base.embed_rows(ROWS)
    assert vectors.shape == (3, 384)
    assert named.fingerprint == base.fingerprint
    assert np.array_equal(named.embed_rows(ROWS), vectors)
    assert base.trained_values.num_rows == 0


def test_packed_words_are_rounded_and_all_else_is_kept(pack_base, tmp_path):
    weights = {"embeddings.word_embeddings.weight": torch.randn(50, 8), "a.weight": torch.randn(8, 8).half()}
    pack_base["pack_weights"](weights, tmp_path)
    pack_base["write_manifest"](tmp_path)
    found = unpack_weights(tmp_path)
    assert found["a.weight"].equal(weights["a.weight"].float())
    words = weights["embeddings.word_embeddings.weight"]
    assert (found["embeddings.word_embeddings.weight"] - words).abs().max() <= words.abs().max() / 250


@pytest.mark.parametrize("name", ["weights-2.safetensors", "tokenizer.json", "config.json"])
def test_a_damaged_file_is_refused_in_one_line(copied, name):
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(ModelError, match=rf"is damaged: {name} is not as it was made. Reinstall it: pip") as caught:
        Navi.from_pretrained(copied)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_broken_manifest_are_refused(copied):
    (copied / "weights-1.safetensors").unlink()
    with pytest.raises(ModelError, match=r"it has no weights-1.safetensors. Reinstall"):
        load_backbone(copied)
    (copied / "manifest.json").write_text("{}")
    with pytest.raises(ModelError, match=r"lists no files. Reinstall"):
        Navi.from_pretrained(copied)


def test_training_starts_from_it_with_nothing_cold(base):
    model = load_backbone("navi-base", shared_words=True)
    assert not [name for name, _ in model.named_parameters() if is_new(name, model.config)]
    expected = dict(base.runner.model.named_parameters())
    assert all(parameter.equal(expected[name]) for name, parameter in model.named_parameters())
    assert PretrainConfig().backbone == "navi-base"
    assert make_preset("paper").backbone == "minilm"
    assert load_tokenizer("navi-base").get_vocab_size() == 30522


def test_pretraining_starts_from_it_and_then_from_what_was_written(navi_command, film_tables, tmp_path):
    prepare([film_tables], tmp_path / "corpus", PrepareConfig(backbone="navi-base", workers=1))
    settings = tmp_path / "quick.toml"
    settings.write_text("[training]\nvalidate_rows = 0\nworkers = 0\n[views]\ncolumns_per_step = 4\n")
    flags = ("--config", settings, "--max-steps", "1", "--rows-per-batch", "4", "--quiet")
    navi_command("pretrain", tmp_path / "corpus", "-o", tmp_path / "first", *flags)
    assert TrainingResult.load(tmp_path / "first").config["backbone"] == "navi-base"
    assert not load_backbone(tmp_path / "first").config.cold_head
    navi_command("pretrain", tmp_path / "corpus", "-o", tmp_path / "second", "--from", tmp_path / "first", *flags)
    assert TrainingResult.load(tmp_path / "second").config["backbone"] == str(tmp_path / "first")


def test_the_card_of_the_base_model_is_no_part_of_what_stands_for_it(copied):
    (copied / "README.md").write_text("another card")
    write_json(copied / MANIFEST_FILE, {"sha256": {f.name: digest_file(f) for f in listed(copied)}})
    assert fingerprint_model(copied) == fingerprint_model(BASE_FOLDER)


def listed(folder):
    return [file for file in sorted(folder.iterdir()) if file.name != MANIFEST_FILE]
