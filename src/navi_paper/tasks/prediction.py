"""Predicting what is hidden: header prediction and value imputation, reconstruction, robustness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from navi.corpus.arrays import ROLE_LOW, SegmentArrays, count_up, gather_ranges
from navi.randomness import fold, make_key, permute
from navi.training.metrics import NO_TOKEN, read_tokens
from navi_paper.data import SPLITS, EvaluationData, Task, TaskResult, draw_members
from navi_paper.table_encoder import (
    PREDICTS_TOKENS,
    Bools,
    Hidden,
    Ints,
    TableEncoder,
    list_hidden_tokens,
)
from navi_paper.table_views import draw_synonyms, draw_typos, permute_columns, rename_columns

# Shape suffixes: R rows, C cells, K columns, H hidden cells.

_GENERATIVE, _RECONSTRUCTION, _ROBUSTNESS = 1, 2, 3
"""Set the draws of one task apart from those of the others."""
MAX_KEPT = 2000
"""Cosines kept for the figure of reconstruction, of each kind."""
QUARTILES = {"q1": 25, "median": 50, "q3": 75}


def draw_cells(arrays: SegmentArrays, share: float, *purpose: int) -> Bools:
    """Choose a share of each row's cells, rounded, at least one: (C,).

    The draw depends on row and header alone, so with its columns in another order a row has the same cells chosen.
    """
    row_C, counts_R = arrays.cell_row, np.diff(arrays.row_offsets)
    keys_R = fold(make_key(*purpose), np.arange(arrays.num_rows))
    keys_C = fold(keys_R[row_C], arrays.segment_header[arrays.row_segments].astype(np.int64))
    wanted_R = np.maximum(1, np.rint(share * counts_R)).astype(np.int64)
    return np.isin(np.arange(len(row_C)), draw_members(row_C, keys_C, wanted_R[row_C]))


def list_protocols(cells: Bools) -> dict[str, Hidden]:
    """Return the ways in which some cells are hidden."""
    return {
        "value": Hidden(part="value", cells=cells),
        "header_informed": Hidden(part="header", cells=cells),
        "header_blind": Hidden(part="header", cells=cells, blind=True),
    }


def score_guesses(guessed: Ints, true: Ints, lengths: Ints) -> dict[str, float]:
    """Return the share of tokens guessed (`token`) and of cells of which every token is (`exact`).

    Guesses stand cell after cell; `lengths` (H,) says how many tokens each cell has.
    """
    assert len(guessed) == len(true) == lengths.sum(), "there is one guess for each hidden token"
    right = guessed == true
    whole = np.add.reduceat(right, np.cumsum(lengths) - lengths) == lengths
    return {"token": float(right.mean()), "exact": float(whole.mean())}


def score_encoder(encoder: TableEncoder, arrays: SegmentArrays, hidden: Hidden) -> dict[str, float]:
    """Return how well an encoder predicts what is hidden in all rows."""
    rows = np.arange(arrays.num_rows)
    true, lengths = list_hidden_tokens(arrays, rows, hidden)
    return score_guesses(encoder.predict(arrays, rows, hidden), true, lengths)


def measure_predictions(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Measure `{split}_{what}_{token|exact}` for what = value, header_informed, header_blind and these `_permuted`.

    The hidden cells are the same for every encoder, and the same with columns permuted. `{split}_value_frequent_…` is
    what the most frequent training value of a column gets (of its header, in a table not seen), and
    `{split}_header_frequent_…` the most frequent header.
    """
    measures: dict[str, float] = {}
    for split in SPLITS:
        rows = data.draw_rows(split, data.config.rows, _GENERATIVE)
        if not len(rows):
            continue
        plain, seed = data.corpus.arrays.take_rows(rows), data.config.seed
        scores: dict[str, dict[str, float]] = {}
        for name, arrays in (("_permuted", permute_columns(plain, seed=seed)), ("", plain)):
            protocols = list_protocols(draw_cells(arrays, data.config.hidden_share, seed, _GENERATIVE))
            for what, hidden in protocols.items():
                scores[f"{what}{name}"] = score_encoder(encoder, arrays, hidden)
        scores["value_frequent"] = score_majority(data, plain, protocols["value"])
        scores["header_frequent"] = score_majority(data, plain, protocols["header_informed"])
        measures |= {f"{split}_{what}_{unit}": score for what, each in scores.items() for unit, score in each.items()}
        measures[f"{split}_rows"] = float(len(rows))
    return TaskResult(measures)


def score_majority(data: EvaluationData, arrays: SegmentArrays, hidden: Hidden) -> dict[str, float]:
    """Return the score of the most frequent training header, or of a column's most frequent training value."""
    whole = data.corpus.arrays
    _, cells = gather_ranges(whole.row_offsets, data.corpus.rows_of("train"))
    columns, segments = whole.cell_column[cells], whole.row_segments[cells]
    headers, values = (each[segments].astype(np.int64) for each in (whole.segment_header, whole.segment_value))
    true, lengths = list_hidden_tokens(arrays, np.arange(arrays.num_rows), hidden)

    def spell(guess_H: Ints, offsets: Ints, tokens: NDArray[np.int32]) -> Ints:
        return read_tokens(offsets, tokens, np.repeat(guess_H, lengths), count_up(lengths))

    if hidden.part == "header":
        guess_H = np.full(len(lengths), np.bincount(headers).argmax())
        return score_guesses(spell(guess_H, arrays.header_offsets, arrays.header_tokens), true, lengths)
    found = find_modes(columns, values, whole.num_columns)[arrays.cell_column]
    by_header = find_modes(headers, values, whole.num_headers)[arrays.segment_header[arrays.row_segments]]
    guess_H = np.where(found >= 0, found, by_header)[hidden.cells]
    return score_guesses(spell(guess_H, arrays.value_offsets, arrays.value_tokens), true, lengths)


def find_modes(group: Ints, member: Ints, num_groups: int) -> Ints:
    """Return the most frequent member of each group, of equals the first by number; NO_TOKEN where it has none."""
    from scipy.sparse import csr_array

    shape = (num_groups, int(member.max(initial=0)) + 1)
    counts = csr_array((np.ones(len(group), np.int64), (group, member)), shape=shape)
    return np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), NO_TOKEN)


def measure_reconstruction(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Measure `{split}_{what}_{q1|median|q3|mean}` of the cosines, what = value, header_informed, header_blind.

    A field is a header with its value, of a column of texts; its value, or its header, is hidden. `…_gain_…` is the
    same of the cosine less that of the prediction with another field: states that are all alike gain nothing. A sample
    of both is kept.
    """
    measures: dict[str, float] = {}
    arrays: dict[str, NDArray[np.float32]] = {}
    rows = data.draw_rows("test", data.config.rows, _RECONSTRUCTION)
    if not len(rows):
        return TaskResult({})
    taken = data.corpus.arrays.take_rows(rows)
    cells = draw_cells(taken, data.config.hidden_share, data.config.seed, _RECONSTRUCTION)
    text_H = ~data.numeric_columns[taken.cell_column][cells]
    for what, hidden in list_protocols(cells).items():
        predicted, true = (normalize(each[text_H]) for each in encoder.reconstruct(taken, np.arange(len(rows)), hidden))
        order = permute(make_key(data.config.seed, _RECONSTRUCTION), len(true))
        cosines = (predicted * true).sum(axis=1)
        gains = cosines - (predicted[order] * true[np.roll(order, 1)]).sum(axis=1)[np.argsort(order)]
        for ending, found in (("", cosines), ("_gain", gains)):
            for name, percent in QUARTILES.items():
                measures[f"test_{what}{ending}_{name}"] = float(np.percentile(found, percent))
            measures[f"test_{what}{ending}_mean"] = float(found.mean())
            arrays[f"test_{what}{ending}"] = found[order[:MAX_KEPT]].astype(np.float16)
    return TaskResult(measures, dict(arrays))


def measure_robustness(encoder: TableEncoder, data: EvaluationData) -> TaskResult:
    """Measure `{informed|blind}_{view}_{token|exact|loss}` on test rows; a loss is relative, that of token accuracy.

    The views are `default`, `permuted`, and with half of the low-entropy columns renamed `synonyms` (where the gold has
    them) and `typos`; `synonyms_any` and `typos_any` rename half of all columns. What is to be predicted is always the
    header as it was: a hidden header is hidden at its own length even where its column is renamed, but `informed` gives
    the attribute of the new header, since nobody who meets a renamed column has another. `{view}_renamed` is the share
    of the cells in renamed columns: low-entropy columns are few.
    """
    rows = data.draw_rows("test", data.config.rows, _ROBUSTNESS)
    if not len(rows):
        return TaskResult({})
    arrays, purpose = data.corpus.arrays.take_rows(rows), (data.config.seed, _ROBUSTNESS)
    cells = draw_cells(arrays, data.config.hidden_share, *purpose)
    measures: dict[str, float] = {}
    permuted = permute_columns(arrays, seed=data.config.seed)
    # Renaming leaves the hidden cells in place, permuting does not.
    views = {
        "default": (arrays, cells),
        "permuted": (permuted, draw_cells(permuted, data.config.hidden_share, *purpose)),
    }
    for name, names in draw_names(data).items():
        measures[f"{name}_renamed"] = float(np.isin(arrays.cell_column, list(names)).mean())
        views[name] = (rename_columns(arrays, data.corpus, names, spelled=cells), cells)
    for protocol in ("informed", "blind"):
        for name, (view, shown) in views.items():
            hidden = Hidden(part="header", cells=shown, blind=protocol == "blind")
            score = score_encoder(encoder, view, hidden)
            measures |= {f"{protocol}_{name}_{unit}": each for unit, each in score.items()}
            default = measures[f"{protocol}_default_token"]
            if name != "default" and default > 0:
                measures[f"{protocol}_{name}_loss"] = (default - score["token"]) / default
    return TaskResult(measures)


def draw_names(data: EvaluationData) -> dict[str, dict[int, str]]:
    """Return the new headers of columns for each view that renames some."""
    corpus, seed = data.corpus, data.config.seed
    low_K = np.asarray(corpus.arrays.column_role) == ROLE_LOW
    drawn: dict[str, dict[int, str]] = {}
    for ending, eligible_K in (("", low_K), ("_any", np.ones_like(low_K))):
        synonyms = draw_synonyms(corpus, data.gold.synonyms, eligible_K, seed=seed)
        drawn[f"synonyms{ending}"] = synonyms
        drawn[f"typos{ending}"] = draw_typos(corpus, eligible_K, seed=seed)
    return {name: names for name, names in drawn.items() if names}


_TOKENS = frozenset({PREDICTS_TOKENS})
GENERATIVE = Task(name="generative", run=measure_predictions, requires=_TOKENS)
RECONSTRUCTION = Task(name="reconstruction", run=measure_reconstruction)
ROBUSTNESS = Task(name="robustness", run=measure_robustness, requires=_TOKENS)
