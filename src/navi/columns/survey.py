"""The columns of a training corpus, surveyed once a model is trained: their profiles, and the scorer they teach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from navi.columns.columns import profile_columns
from navi.columns.fitting import fit_scorer
from navi.model.runner import Runner

if TYPE_CHECKING:
    from navi.batches import SpecialTokens
    from navi.corpus import Corpus
    from navi.model import NaviModel

ROWS_ON_CPU, ROWS_ON_GPU = 12, 200
"""Rows of each table that a model is asked about."""


def survey_columns(model: NaviModel, special: SpecialTokens, corpus: Corpus, folder: Path) -> None:
    """Write what naming and matching know of the columns that a model was trained on into its directory.

    Only training rows have a part in it. The model is used where it is, in inference precision: export it before.
    """
    runner = Runner(model, special, device=model.device)
    num_rows = ROWS_ON_CPU if runner.device.type == "cpu" else ROWS_ON_GPU
    profiles = profile_columns(runner, corpus, corpus.rows_of("train"), rows_per_column=num_rows)
    profiles = profiles.take(np.flatnonzero(profiles.sketches.cells))
    profiles.save(folder)
    fit_scorer(profiles).save(folder)
