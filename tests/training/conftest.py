"""Fixtures of the training stage: a learnable toy corpus, and settings under which a run takes a second."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from navi.corpus import Corpus, PrepareConfig, prepare
from navi.training import PretrainConfig

HEADERS = (
    ("title", "year", "genre", "language"),
    ("name", "date", "movie genre", "country language"),
    ("film title", "year", "genre", "language"),
    ("movie", "date", "genre", "film language"),
)
LANGUAGES = {"drama": "english", "comedy": "french", "horror": "german"}
FAST: dict[str, Any] = {
    "sampler": {"rows_per_batch": 16, "tables_per_batch": 4},
    "training": {"epochs": 2, "log_every": 2, "workers": 0, "curves": False, "checkpoint_minutes": None},
}


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


@pytest.fixture(scope="session")
def toy_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four tables of films with headers of their own; the language follows from the genre."""
    folder = tmp_path_factory.mktemp("toy-tables")
    draw = random.Random(0)
    for number, headers in enumerate(HEADERS):
        lines = []
        for _ in range(40):
            title = f"{draw.choice(('night', 'day', 'love', 'war'))} {draw.choice(('king', 'house', 'city'))}"
            genre = draw.choice(tuple(LANGUAGES))
            cells = (title, draw.choice(("1999", "2001", "2010")), genre, LANGUAGES[genre])
            lines.append(json.dumps(dict(zip(headers, cells, strict=True))))
        (folder / f"films{number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def toy_corpus(toy_tables: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus of the toy tables: about 130 training rows, 8 or 9 steps an epoch."""
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None)
    return prepare([toy_tables], tmp_path_factory.mktemp("toy") / "corpus", config)


@pytest.fixture(scope="session")
def make_config(tiny_backbone: Path) -> Callable[..., PretrainConfig]:
    """A maker of settings for fast runs; keywords are sections, such as `training={"epochs": 1}`."""

    def make(**sections: Any) -> PretrainConfig:
        base = PretrainConfig.from_dict({"backbone": str(tiny_backbone), **FAST})
        return PretrainConfig.from_dict(sections, base=base)

    return make
