"""Header prediction and value imputation: tokens of hidden headers and values, guessed from the rest of the row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navi.corpus.arrays import SegmentArrays, count_up, gather_ranges
from navi_paper.bench import Bench
from navi_paper.encoder import Hidden, Ints, TableEncoder, list_hidden_tokens
from navi_paper.hiding import Score, draw_cells, score_encoder, score_guesses
from navi_paper.task import Outcome, Task
from navi_paper.views import permute_columns

# Shape suffixes: R rows, C cells, K columns, H hidden cells.

SPLITS = ("test", "unseen")
"""Rows of known tables, and tables that nobody has seen."""
PURPOSE = 1
"""Sets the draws of rows and cells apart from other tasks'."""
NOTHING = -1
"""A guess that is never right."""


def run(encoder: TableEncoder, bench: Bench) -> Outcome:
    """Measure `{split}_{what}_{token|exact}` for what = value, header_informed, header_blind and these `_permuted`.

    The hidden cells are the same for every encoder, and the same with columns permuted. `{split}_value_frequent_…` is
    what the most frequent training value of a column gets (of its header, in a table not seen), and
    `{split}_header_frequent_…` the most frequent header.
    """
    measures: dict[str, float] = {}
    for split in SPLITS:
        rows = bench.draw_rows(split, bench.config.rows, PURPOSE)
        if not len(rows):
            continue
        plain = bench.corpus.arrays.take_rows(rows)
        seed = bench.config.seed
        for name, arrays in (("", plain), ("_permuted", permute_columns(plain, seed=seed))):
            cells = draw_cells(arrays, bench.config.hidden_share, seed, PURPOSE)
            for what, hidden in list_protocols(cells).items():
                _add(measures, f"{split}_{what}{name}", score_encoder(encoder, arrays, hidden))
        cells = draw_cells(plain, bench.config.hidden_share, seed, PURPOSE)
        _add(measures, f"{split}_value_frequent", _score_frequent(bench, plain, Hidden(part="value", cells=cells)))
        _add(measures, f"{split}_header_frequent", _score_frequent(bench, plain, Hidden(part="header", cells=cells)))
        measures[f"{split}_rows"] = float(len(rows))
    return Outcome(measures)


def list_protocols(cells: NDArray[np.bool_]) -> dict[str, Hidden]:
    """Return the ways in which some cells are hidden."""
    return {
        "value": Hidden(part="value", cells=cells),
        "header_informed": Hidden(part="header", cells=cells),
        "header_blind": Hidden(part="header", cells=cells, blind=True),
    }


def _add(measures: dict[str, float], name: str, score: Score) -> None:
    measures[f"{name}_token"] = score.token
    measures[f"{name}_exact"] = score.exact


def _score_frequent(bench: Bench, arrays: SegmentArrays, hidden: Hidden) -> Score:
    """Return the score of the most frequent header, or of a column's most frequent value."""
    rows = np.arange(arrays.num_rows)
    true, lengths = list_hidden_tokens(arrays, rows, hidden)
    if hidden.part == "header":
        guess_H = np.full(len(lengths), _find_most_frequent_header(bench))
        offsets, tokens = arrays.header_offsets, arrays.header_tokens
    else:
        guess_H = _find_frequent_values(bench, arrays)[hidden.cells]
        offsets, tokens = arrays.value_offsets, arrays.value_tokens
    return score_guesses(_spell(guess_H, lengths, offsets, tokens), true, lengths)


def _spell(guess_H: Ints, lengths: Ints, offsets: Ints, tokens: NDArray[np.int32]) -> Ints:
    """Return the guesses' tokens at the places to be guessed; what is too short, or no guess, leaves some open."""
    known = guess_H >= 0
    own = np.zeros(len(lengths), dtype=np.int64)
    own[known], _ = gather_ranges(offsets, guess_H[known])
    place = count_up(lengths)
    there = place < np.repeat(own, lengths)
    starts = np.where(known, offsets[np.where(known, guess_H, 0)], 0)
    spelled = np.full(len(place), NOTHING, dtype=np.int64)
    spelled[there] = tokens[(np.repeat(starts, lengths) + place)[there]]
    return spelled


def _find_most_frequent_header(bench: Bench) -> int:
    _, segments = _list_training_cells(bench)
    return int(np.bincount(bench.corpus.arrays.segment_header[segments]).argmax())


def _find_frequent_values(bench: Bench, arrays: SegmentArrays) -> Ints:
    """Return for each cell its column's most frequent training value, else its header's, else nothing: (C,)."""
    columns, segments = _list_training_cells(bench)
    whole = bench.corpus.arrays
    values = whole.segment_value[segments].astype(np.int64)
    by_column = _find_modes(columns, values, len(whole.column_table))
    by_header = _find_modes(whole.segment_header[segments].astype(np.int64), values, len(whole.header_offsets) - 1)
    found = by_column[arrays.cell_column]
    return np.where(found >= 0, found, by_header[arrays.segment_header[arrays.row_segments]])


def _list_training_cells(bench: Bench) -> tuple[Ints, Ints]:
    """Return column and segment of each cell of the training rows."""
    arrays = bench.corpus.arrays
    _, cells = gather_ranges(arrays.row_offsets, bench.corpus.rows_of("train"))
    return bench.corpus.arrays.cell_column[cells], arrays.row_segments[cells].astype(np.int64)


def _find_modes(group: Ints, member: Ints, num_groups: int) -> Ints:
    """Return the most frequent member of each group, of equals the first by number; NOTHING where it has none."""
    size = int(member.max()) + 1 if len(member) else 1
    pairs, counts = np.unique(group * size + member, return_counts=True)
    # From rare to frequent, and of equals the first by number last: what is written last stays.
    order = np.lexsort((-pairs, counts))
    modes = np.full(num_groups, NOTHING, dtype=np.int64)
    modes[pairs[order] // size] = pairs[order] % size
    return modes


GENERATIVE = Task(name="generative", run=run, tokens=True)
"""Header prediction and value imputation."""
