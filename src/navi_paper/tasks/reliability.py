"""Reliability of imputation: whether values put into hidden cells are right as often as they are sure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from navi.corpus import ROLES
from navi.errors import ConfigError
from navi.training.export import survey_domain
from navi.verbs.calibration import LEAST_CELLS
from navi.verbs.candidate_values import CandidateFinder
from navi.verbs.impute import fit_calibration, guess_cells, hide_cells
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder
from navi_paper.metrics import measure_reliability
from navi_paper.navi_encoder import NaviTables
from navi_paper.task import Outcome, Task

# Shape suffixes: M hidden cells.


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `accuracy`, `answered`, `ece` and `brier` of values put into hidden cells of test rows, one a row.

    Training rows are the evidence, validation rows what probabilities are calibrated on; where those are too few,
    probabilities are raw and `calibrated` is 0. Kept of each cell that got a value: its `probability`, whether it is
    `right`, and the `role` of its column.
    """
    if not isinstance(encoder, NaviTables):
        raise ConfigError(f"{encoder.name} cannot impute: only NAVI gives probabilities with its values.")
    corpus, num_cells, seed = bench.corpus, bench.config.rows, bench.config.seed
    arrays = corpus.arrays
    gaps, value_M = hide_cells(arrays, corpus.rows_of("test"), len(arrays.row_segments), seed=seed)
    one_a_row = np.sort(np.unique(gaps.row, return_index=True)[1])[:num_cells]
    gaps, value_M = gaps.take(one_a_row), value_M[one_a_row]
    if not len(gaps):
        return Outcome({})
    finder = CandidateFinder(corpus, survey_domain(corpus), corpus.rows_of("train"))
    known, value = hide_cells(arrays, corpus.rows_of("validation"), 2 * num_cells, seed=seed)
    calibration = None
    if len(known) >= LEAST_CELLS:
        calibration = fit_calibration(finder.find(known), corpus.values.take(pa.array(value)), seed=seed)
    guesses = guess_cells(finder.find(gaps), len(gaps), calibration)
    truth = corpus.values.take(pa.array(value_M)).to_pylist()
    answered_M = np.array([text is not None for text in guesses.texts])
    right_M = np.array([(a or "").lower() == b.lower() for a, b in zip(guesses.texts, truth, strict=True)])
    probability, right = guesses.probability[answered_M], right_M[answered_M]
    role_M = np.array(ROLES)[arrays.column_role[gaps.column]]
    return Outcome(
        {
            "accuracy": float(right_M.mean()),
            "answered": float(answered_M.mean()),
            "calibrated": float(calibration is not None),
            "ece": measure_reliability(probability, right).ece,
            "brier": float(np.square(probability - right).mean()) if len(right) else 0.0,
        },
        {"probability": probability.astype(np.float32), "right": right, "role": role_M[answered_M]},
    )


RELIABILITY = Task(name="reliability", run=run, only=("navi", "navi-paper"))
"""Reliability of imputation."""
