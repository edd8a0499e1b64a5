"""Fixtures of the inference stage: a tiny model, trained for a few steps on simulated catalogues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from navi.simulator import SimulatorConfig, Truth, World, simulate, write_catalogues

CATALOGUES = {"num_catalogues": 5, "num_rows": 400, "seed": 3}


@pytest.fixture(scope="session")
def world() -> World:
    """The catalogues that the tiny model learns from, in memory."""
    return simulate(SimulatorConfig(**CATALOGUES))


@pytest.fixture(scope="session")
def catalogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same catalogues as files."""
    folder = tmp_path_factory.mktemp("catalogues")
    write_catalogues(folder, **CATALOGUES)
    return folder


@pytest.fixture(scope="session")
def truth(world: World) -> Truth:
    """What is true of the catalogues."""
    return world.truth


@pytest.fixture(scope="session")
def corpus_dir(catalogues: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogues prepared for the tiny backbone."""
    from navi.corpus import PrepareConfig, prepare

    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    # The tiny vocabulary spells most words out, which makes rows long: cut values keep the tests quick.
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None, max_value_tokens=8)
    prepare([catalogues], folder, config)
    return folder


@pytest.fixture(scope="session")
def model_dir(corpus_dir: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory: the tiny backbone pretrained for a few steps; do not change it."""
    from navi.corpus import Corpus
    from navi.training import PretrainConfig, pretrain

    folder = tmp_path_factory.mktemp("trained") / "model"
    settings = {
        "backbone": str(tiny_backbone),
        "training": {"max_steps": 20, "curves": False, "workers": 0, "validate_rows": 8, "learning_rate": 1e-3},
        "sampler": {"rows_per_batch": 8, "tables_per_batch": 4},
    }
    corpus = Corpus.open(corpus_dir)
    pretrain(corpus, folder, PretrainConfig.from_dict(settings))
    record = json.loads((folder / "pretrain.json").read_text())
    record["corpus"]["settings"] = corpus.config.as_settings()
    (folder / "pretrain.json").write_text(json.dumps(record))
    return folder


@pytest.fixture(scope="session")
def navi(model_dir: Path):
    """The tiny trained model, opened on the CPU; do not change it."""
    from navi.verbs import Navi

    return Navi.from_pretrained(model_dir, device="cpu")
