from __future__ import annotations

import hashlib
import sys
import warnings

import numpy as np
import pytest

from navi.errors import ConfigError, ModelError
from navi_paper.classification.tabpfn import CODE_FILE, MAX_FEATURES, WEIGHTS_FILE, TabPFN, check_file, find_folder

needs_weights = pytest.mark.skipif(
    not (find_folder() / WEIGHTS_FILE).is_file(), reason="needs what scripts/fetch_tabpfn.py fetches"
)


def test_without_the_files_the_error_says_what_to_run(tmp_path):
    with pytest.raises(ModelError, match=r"lacks .*\.whl\. Run: python scripts/fetch_tabpfn\.py"):
        TabPFN(0, tmp_path)


def test_a_file_with_another_content_is_refused(tmp_path):
    (tmp_path / CODE_FILE).write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"is refused: its sha256 is [0-9a-f]{64}, expected"):
        TabPFN(0, tmp_path)


def test_a_file_with_the_right_content_is_taken(tmp_path):
    file = tmp_path / "weights"
    file.write_bytes(b"right")
    assert check_file(file, hashlib.sha256(b"right").hexdigest()) == file


def test_the_folder_can_be_set(monkeypatch, tmp_path):
    monkeypatch.setenv("NAVI_TABPFN", str(tmp_path))
    assert find_folder() == tmp_path
    monkeypatch.delenv("NAVI_TABPFN")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_folder() == tmp_path / "navi" / "tabpfn"


@needs_weights
def test_more_features_than_it_takes_are_reduced():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 70)
    vectors = rng.normal(size=(140, MAX_FEATURES + 30)).astype(np.float32)
    vectors[labels == "b", :40] += 2
    found = TabPFN(0).fit(vectors[::2], labels[::2]).predict(vectors[1::2])
    assert np.array_equal(found, labels[1::2])


@needs_weights
def test_more_classes_than_it_takes_are_refused():
    labels = np.arange(22) % 11
    with pytest.raises(ConfigError, match="at most 10 classes and 1024 rows to learn from, got 11 and 22"):
        TabPFN(0).fit(np.ones((22, 3), np.float32), labels)


@needs_weights
def test_nothing_is_left_changed():
    import torch

    place = sys.modules["torch.nn.modules.transformer"]
    names, filters, state = set(vars(place)), list(warnings.filters), torch.random.get_rng_state()
    vectors, labels = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
    TabPFN(0).fit(vectors, labels).predict(vectors)
    assert set(vars(place)) == names
    assert warnings.filters == filters
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not [name for name in sys.modules if name.split(".")[0] == "tabpfn"]
