"""Fixtures of the baselines: a toy corpus, a lesson that can be learned by heart, and baselines that learned it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from navi.corpus import Corpus, PrepareConfig, prepare
from navi.training import PretrainConfig
from navi_paper.baselines import BASELINES, Baseline, load_baseline, train_baseline

HEADERS = (
    ("title", "year", "genre", "language"),
    ("name", "date", "movie genre", "country language"),
    ("film title", "year", "genre", "language"),
    ("movie", "date", "genre", "film language"),
)
LANGUAGES = {"drama": "english", "comedy": "french", "horror": "german"}
FAST: dict[str, Any] = {
    "sampler": {"rows_per_batch": 16, "tables_per_batch": 4},
    "training": {"epochs": 2, "log_every": 2, "workers": 0, "learning_rate": 3e-3, "new_learning_rate": 3e-3},
}
EPOCHS = {"bert": 50, "tapas": 110, "haetae": 50, "cm2": 50}


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def backbone(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT without dropout: it learns faster, and a step taken in parts can equal the whole."""
    folder = tmp_path_factory.mktemp("calm") / "bert"
    shutil.copytree(tiny_backbone, folder)
    shape = json.loads((folder / "config.json").read_text())
    shape |= {"hidden_dropout_prob": 0.0, "initializer_range": 0.05}
    (folder / "config.json").write_text(json.dumps(shape))
    return folder


@pytest.fixture(scope="session")
def corpus(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Four tables of films with headers of their own; the language follows from the genre."""
    folder = tmp_path_factory.mktemp("toy")
    draw = random.Random(0)
    for number, headers in enumerate(HEADERS):
        lines = []
        for _ in range(40):
            title = f"{draw.choice(('night', 'day', 'love', 'war'))} {draw.choice(('king', 'house', 'city'))}"
            genre = draw.choice(tuple(LANGUAGES))
            cells = (title, draw.choice(("1999", "2001", "2010")), genre, LANGUAGES[genre])
            lines.append(json.dumps(dict(zip(headers, cells, strict=True))))
        (folder / f"films{number}.jsonl").write_text("\n".join(lines) + "\n")
    config = PrepareConfig(backbone=str(backbone), workers=1, max_unknown_share=None)
    return prepare([folder], tmp_path_factory.mktemp("toy-corpus") / "corpus", config)


@pytest.fixture(scope="session")
def lesson(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two tables of two columns, of which one follows from the other: nothing in it cannot be learned."""
    folder = tmp_path_factory.mktemp("lesson")
    for name, (genre, language) in {"a": ("genre", "language"), "b": ("movie genre", "film language")}.items():
        lines = [json.dumps({genre: each, language: LANGUAGES[each]}) for each in [*LANGUAGES] * 12]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    config = PrepareConfig(backbone=str(backbone), workers=1, max_unknown_share=None)
    return prepare([folder], tmp_path_factory.mktemp("lesson-corpus") / "corpus", config)


@pytest.fixture(scope="session")
def make_config(backbone: Path) -> Callable[..., PretrainConfig]:
    """A maker of settings for fast runs; keywords are settings of training."""

    def make(**training: Any) -> PretrainConfig:
        base = PretrainConfig.from_dict({"backbone": str(backbone), **FAST})
        return PretrainConfig.from_dict({"training": training}, base=base)

    return make


@pytest.fixture(scope="session")
def make_baseline(backbone: Path, corpus: Corpus) -> Callable[[str], Baseline]:
    """A maker of untrained baselines, the same each time."""

    def make(name: str) -> Baseline:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return BASELINES[name].from_backbone(backbone, corpus.tokenizer).eval()

    return make


@pytest.fixture(scope="session")
def study(lesson: Corpus, make_config, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A trainer of baselines until they know the lesson by heart, each once a session; gives their folders."""
    folder = tmp_path_factory.mktemp("baselines")

    def train(name: str) -> Path:
        return train_baseline(name, lesson, folder / name, make_config(epochs=EPOCHS[name], log_every=10))

    return train


@pytest.fixture
def trained(study) -> Callable[[str], Baseline]:
    """A maker of trained baselines."""
    return lambda name: load_baseline(study(name), device="cpu")


@pytest.fixture(scope="session")
def read_words(corpus: Corpus) -> Callable[[np.ndarray], str]:
    """A reader of tokens as words."""
    return lambda tokens: " ".join(corpus.tokenizer.id_to_token(int(token)) for token in tokens)
