"""Reliability of imputation: whether values put into hidden cells are right as often as they are sure."""

from __future__ import annotations

import numpy as np

from navi.errors import ConfigError
from navi.training.export import survey_domain
from navi.verbs.calibration import LEAST_ANSWERS
from navi.verbs.guessing import Guesser
from navi.verbs.heldout import hide_cells
from navi.verbs.settling import fit_calibration, settle
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder
from navi_paper.metrics import measure_reliability
from navi_paper.navi_encoder import NaviTables
from navi_paper.task import Outcome, Task

# Shape suffixes: M hidden cells.

ONE_A_ROW = 1e-9
"""A share of a row's cells that comes to one cell, whatever its length."""


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `accuracy`, `answered`, `ece` and `brier` of values put into hidden cells of test rows, one a row.

    Training rows are the evidence, validation rows what probabilities are calibrated on; where those are too few,
    probabilities are raw and `calibrated` is 0. Kept of each cell that got a value: its `probability`, whether it is
    `right`, and the `role` of its column.
    """
    if not isinstance(encoder, NaviTables):
        raise ConfigError(f"{encoder.name} cannot impute: only NAVI gives probabilities with its values.")
    corpus, num_cells, seed = bench.corpus, bench.config.rows, bench.config.seed
    hidden = hide_cells(corpus.arrays, corpus.rows_of("test"), num_cells, seed=seed, share=ONE_A_ROW)
    if not len(hidden.gaps):
        return Outcome({})
    guesser = Guesser(
        encoder.runner,
        corpus,
        corpus.tokenizer,
        rows=corpus.rows_of("train"),
        domain=survey_domain(corpus),
        max_tokens=corpus.config.max_value_tokens,
    )
    fitted = hide_cells(corpus.arrays, corpus.rows_of("validation"), 2 * num_cells, seed=seed)
    calibration = fit_calibration(guesser, fitted, seed=seed) if len(fitted.gaps) >= LEAST_ANSWERS else None
    settled = settle(guesser, hidden.gaps, hidden.role, calibration)
    answered_M = np.array([len(tokens) > 0 for tokens in settled.tokens])
    right_M = np.array([guess == truth for guess, truth in zip(settled.tokens, hidden.truth, strict=True)])
    probability, right = settled.probability[answered_M], right_M[answered_M]
    return Outcome(
        {
            "accuracy": float(right_M.mean()),
            "answered": float(answered_M.mean()),
            "calibrated": float(calibration is not None),
            "ece": measure_reliability(probability, right).ece,
            "brier": float(np.square(probability - right).mean()) if len(right) else 0.0,
        },
        {"probability": probability.astype(np.float32), "right": right, "role": hidden.role[answered_M]},
    )


RELIABILITY = Task(name="reliability", run=run, only=("navi", "navi-paper"))
"""Reliability of imputation."""
