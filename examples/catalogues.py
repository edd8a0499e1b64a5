"""What the examples share: film catalogues, a corpus of them and a small model, made once in ./navi-examples."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

import navi
from navi.corpus import PrepareConfig
from navi.simulator import SimulatorConfig, Truth, write_catalogues
from navi.tables import ReadReport, find_sources, read_chunks, to_arrow
from navi.training import PretrainConfig

FOLDER = Path("navi-examples")
BACKBONE = os.environ.get("NAVI_EXAMPLE_BACKBONE", "minilm")
STEPS = int(os.environ.get("NAVI_EXAMPLE_STEPS", "30"))


def make_tables() -> Path:
    """Return a folder of five catalogues, no two with the same schema."""
    folder = FOLDER / "tables"
    if not folder.exists():
        write_catalogues(folder, SimulatorConfig(num_catalogues=5, num_rows=400)).save(FOLDER / "truth.json")
    return folder


def load_frames() -> dict[str, pd.DataFrame]:
    """Return the catalogues as frames of text, by name."""
    sources = find_sources([make_tables()]).sources
    return {source.name: to_arrow(read_chunks(source, ReadReport())).to_pandas() for source in sources}


def load_truth() -> Truth:
    """Return what is true of the catalogues: which headers mean the same, and what the gaps held."""
    return Truth.load(FOLDER / "truth.json")


def make_corpus() -> Path:
    """Return a corpus of the catalogues."""
    folder = FOLDER / "corpus"
    if not folder.exists():
        # Short values keep the examples quick; the default is 20 tokens.
        navi.prepare([make_tables()], folder, PrepareConfig(backbone=BACKBONE, max_value_tokens=8))
    return folder


def make_model() -> Path:
    """Return a model that learned for half a minute: enough to show, not enough to be good."""
    folder = FOLDER / "model"
    if not (folder / "pretrain.json").exists():
        settings = {
            "backbone": BACKBONE,
            "sampler": {"rows_per_batch": 16, "tables_per_batch": 5},
            "training": {
                "max_steps": STEPS,
                "epochs": 10,
                "new_learning_rate": 1e-3,
                "validate_rows": 40,
            },
        }
        navi.pretrain(make_corpus(), folder, PretrainConfig.from_dict(settings), resume=True)
    return folder
