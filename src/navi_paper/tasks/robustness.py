"""Robustness of header prediction: the same hidden headers, guessed among headers in another order or spelling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import ROLE_LOW, SegmentArrays
from navi_paper.bench import Bench
from navi_paper.encoder import Hidden, TableEncoder
from navi_paper.hiding import draw_cells, score_encoder
from navi_paper.task import Outcome, Task
from navi_paper.views import permute_columns, rename_columns
from navi_paper.wording import draw_synonyms, draw_typos

PURPOSE = 3
"""Sets the draws of rows and cells apart from other tasks'."""
SHARE = 0.5
"""Share of the columns that get another header."""


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `{informed|blind}_{view}_{token|exact|loss}` on test rows; a loss is relative, that of token accuracy.

    The views are `default`, `permuted`, and with half of the low-entropy columns renamed `synonyms` (where the gold has
    them) and `typos`; `synonyms_any` and `typos_any` rename half of all columns. What is to be guessed is always the
    header as it was: a hidden header is hidden at its own length even where its column is renamed, but `informed` tells
    the attribute of the new header, since nobody who meets a renamed column has another. `{view}_renamed` is the share
    of the cells in renamed columns: low-entropy columns are few.
    """
    rows = bench.draw_rows("test", bench.config.rows, PURPOSE)
    if not len(rows):
        return Outcome({})
    arrays = bench.corpus.arrays.take_rows(rows)
    cells = draw_cells(arrays, bench.config.hidden_share, bench.config.seed, PURPOSE)
    measures: dict[str, float] = {}
    views: dict[str, SegmentArrays] = {"default": arrays, "permuted": permute_columns(arrays, seed=bench.config.seed)}
    for name, names in draw_names(bench).items():
        renamed = np.isin(arrays.cell_column, list(names))
        measures[f"{name}_renamed"] = float(renamed.mean())
        views[name] = rename_columns(arrays, bench.corpus, names, spelled=cells)
    for protocol in ("informed", "blind"):
        for name, view in views.items():
            hidden = Hidden(part="header", cells=_follow(name, view, cells, bench), blind=protocol == "blind")
            score = score_encoder(encoder, view, hidden)
            measures[f"{protocol}_{name}_token"], measures[f"{protocol}_{name}_exact"] = score.token, score.exact
            default = measures[f"{protocol}_default_token"]
            if name != "default" and default > 0:
                measures[f"{protocol}_{name}_loss"] = (default - score.token) / default
    return Outcome(measures)


def draw_names(bench: Bench) -> dict[str, dict[int, str]]:
    """Return the new headers of columns for each view that renames some."""
    corpus, seed = bench.corpus, bench.config.seed
    low_K = np.asarray(corpus.arrays.column_role) == ROLE_LOW
    drawn: dict[str, dict[int, str]] = {}
    for ending, eligible_K in (("", low_K), ("_any", np.ones_like(low_K))):
        if bench.gold.synonyms:
            synonyms = bench.gold.synonyms
            drawn[f"synonyms{ending}"] = draw_synonyms(corpus, synonyms, eligible_K, share=SHARE, seed=seed)
        drawn[f"typos{ending}"] = draw_typos(corpus, eligible_K, share=SHARE, seed=seed)
    return {name: names for name, names in drawn.items() if names}


def _follow(name: str, view: SegmentArrays, cells: NDArray[np.bool_], bench: Bench) -> NDArray[np.bool_]:
    """Return the hidden cells where they stand in a view: renaming leaves them in place, permuting does not."""
    if name != "permuted":
        return cells
    return draw_cells(view, bench.config.hidden_share, bench.config.seed, PURPOSE)


ROBUSTNESS = Task(name="robustness", run=run, tokens=True)
"""Robustness of header prediction."""
