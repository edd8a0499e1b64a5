"""Semantic reconstruction: how near the states of a field with something hidden come to those of the whole field."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.randomness import make_key, permute
from navi_paper.bench import Bench
from navi_paper.encoder import TableEncoder
from navi_paper.hiding import draw_cells
from navi_paper.task import Outcome, Task
from navi_paper.tasks.generative import SPLITS, list_protocols

PURPOSE = 2
"""Sets the draws of rows and cells apart from other tasks'."""
MAX_KEPT = 5000
"""Cosines kept for the figure, of each kind."""
QUARTILES = {"q1": 25, "median": 50, "q3": 75}


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `{split}_{what}_{q1|median|q3|mean}` of the cosines, what = value, header_informed, header_blind.

    A field is a header with its value; its value, or its header, is hidden. A sample of the cosines is kept for each.
    """
    measures: dict[str, float] = {}
    arrays: dict[str, NDArray[np.float32]] = {}
    for split in SPLITS:
        rows = bench.draw_rows(split, bench.config.rows, PURPOSE)
        if not len(rows):
            continue
        taken = bench.corpus.arrays.take_rows(rows)
        cells = draw_cells(taken, bench.config.hidden_share, bench.config.seed, PURPOSE)
        for what, hidden in list_protocols(cells).items():
            cosines = encoder.reconstruct(taken, np.arange(len(rows)), hidden)
            for name, percent in QUARTILES.items():
                measures[f"{split}_{what}_{name}"] = float(np.percentile(cosines, percent))
            measures[f"{split}_{what}_mean"] = float(cosines.mean())
            kept = permute(make_key(bench.config.seed, PURPOSE), len(cosines))[:MAX_KEPT]
            arrays[f"{split}_{what}"] = cosines[kept].astype(np.float32)
    return Outcome(measures, dict(arrays))


RECONSTRUCTION = Task(name="reconstruction", run=run)
"""Semantic reconstruction."""
