"""Fixtures of the training stage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def calm_backbone(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT without dropout, so that a step taken in parts can equal the whole."""
    folder = tmp_path_factory.mktemp("calm") / "bert"
    shutil.copytree(tiny_backbone, folder)
    shape = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(shape | {"hidden_dropout_prob": 0.0, "projection_dropout": 0.0}))
    return folder
