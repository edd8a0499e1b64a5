"""What a model makes of each column: its states, and the tokens that it expects where the header is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from navi.batches import Layout, Masks
from navi.columns.profiles import ColumnProfiles, sample_cells, shuffle_rows, sketch_columns
from navi.columns.scorer import fit_scorer
from navi.corpus import Encoded
from navi.corpus.arrays import SegmentArrays
from navi.randomness import fold, make_key, order_keys

if TYPE_CHECKING:
    from navi.batches import Rows, SpecialTokens
    from navi.corpus import Corpus
    from navi.model import NaviModel
    from navi.model.encoder import NaviOutput
    from navi.model.runner import Runner

# Shape suffixes: R rows, C cells, S segments of a batch, K columns, D hidden size.

STATES = ("attribute", "header", "blind_header", "blind_value")
"""The context-free attribute, the header in its rows, and header and value with the column's own header hidden."""
FEW_CELLS = 20
"""Cells that rows are added for where a table's first rows have fewer of a column."""
NUM_PASSES = 4
"""Passes in which all headers are hidden once, each time those of about one in so many columns of a row."""
ROWS_ON_CPU, ROWS_ON_GPU = 12, 200
"""Rows of each training table that a model is asked about."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]


def profile_columns(
    runner: Runner, encoded: Encoded, rows: Ints | None = None, *, rows_per_column: int = 200
) -> ColumnProfiles:
    """Return the profile of each column of `encoded`, in its order, made from the given rows alone; None takes all.

    States are averaged over `rows_per_column` rows of each table, and a few more where a column is sparse.
    """
    rows = np.arange(encoded.arrays.num_rows) if rows is None else rows
    chosen = encoded.arrays.take_rows(choose_rows(encoded, rows, rows_per_column))
    return replace(sketch_columns(encoded, rows), states=average_states(runner, chosen))


def survey_columns(model: NaviModel, special: SpecialTokens, corpus: Corpus, folder: Path) -> None:
    """Write what naming and matching know of the columns that a model was trained on into its directory.

    Only training rows have a part in it. The model is used where it is, in inference precision: export it before.
    """
    from navi.model.runner import Runner

    runner = Runner(model, special, devices=[model.device])
    num_rows = ROWS_ON_CPU if runner.device.type == "cpu" else ROWS_ON_GPU
    profiles = profile_columns(runner, corpus, corpus.rows_of("train"), rows_per_column=num_rows)
    profiles = profiles.take(np.flatnonzero(profiles.cells))
    profiles.save(folder)
    fit_scorer(profiles).save(folder)


def choose_rows(encoded: Encoded, rows: Ints, rows_per_table: int) -> Ints:
    """Return the rows that states are averaged over: as many of each table, and at most that many for sparse columns.

    For sparse columns come those rows that hold cells of most of them.
    """
    first = shuffle_rows(encoded, rows, rows_per_table)
    few = min(FEW_CELLS, rows_per_table)
    cells = sample_cells(encoded, rows, few)
    met = np.bincount(cells.column[np.isin(cells.row, first)], minlength=encoded.arrays.num_columns)
    added, served = np.unique(cells.row[met[cells.column] < few], return_counts=True)
    new = ~np.isin(added, first)
    return np.union1d(first, added[new][np.argsort(-served[new], kind="stable")[: len(first)]])


def average_states(runner: Runner, arrays: SegmentArrays) -> dict[str, Floats]:
    """Return `STATES` of each column, averaged over all rows of `arrays`: (K, D) each; zeros without a cell."""
    states = average_columns(runner, arrays, parts=("attribute", "header"))
    states |= {f"blind_{part}": np.zeros_like(states["header"]) for part in ("header", "value")}
    pass_K = _deal_columns(arrays)
    for number in range(NUM_PASSES):
        for part, found in average_columns(runner, arrays, pass_K == number).items():
            states[f"blind_{part}"][pass_K == number] = found
    return states


def _deal_columns(arrays: SegmentArrays) -> Ints:
    """Return the pass in which each column is hidden: a table's columns are dealt out evenly, in random order."""
    drawn = order_keys(fold(make_key(0), np.arange(arrays.num_columns)))
    order = np.lexsort((drawn, arrays.column_table))
    begins = np.searchsorted(arrays.column_table, arrays.column_table)
    number = np.empty(len(order), np.int64)
    number[order] = (np.arange(len(order)) - begins) % NUM_PASSES
    return number


def average_columns(
    runner: Runner,
    arrays: SegmentArrays,
    hidden_K: Flags | None = None,
    *,
    num_masks: int = 1,
    parts: Sequence[str] = ("header", "value"),
) -> dict[str, Floats]:
    """Return each part of every column, averaged over its cells; with hidden columns, of these alone: (K, …).

    Parts are the states `attribute`, `header` and `value`, and `tokens`, the logarithm of each token's probability at
    each [MASK]. Each hidden header is `num_masks` [MASK], and its attribute unknown. A column without a cell has zeros.
    """
    import torch

    chosen_K = np.ones(arrays.num_columns, np.bool_) if hidden_K is None else hidden_K
    place_C = np.where(chosen_K, np.cumsum(chosen_K) - 1, -1)[arrays.cell_column]
    seen = arrays if hidden_K is None else _hide_headers(arrays, place_C >= 0, runner.special.mask, num_masks)
    cells = np.bincount(place_C[place_C >= 0], minlength=int(chosen_K.sum()))
    sizes = {"tokens": num_masks * runner.model.config.vocab_size}
    width = runner.model.config.hidden_size
    sums = {part: torch.zeros(len(cells), sizes.get(part, width), device=runner.device) for part in parts}

    def mask(layout: Layout) -> Masks:
        return Masks(token_ids=layout.token_ids, unknown=layout.segment_id >= arrays.num_segments)

    def read(output: NaviOutput, rows: Rows, layout: Layout) -> None:
        place_S = place_C[layout.segment_cell.numpy()]
        chosen = np.flatnonzero(place_S >= 0)
        segment, place = (torch.from_numpy(each).to(output.tokens.device) for each in (chosen, place_S[chosen]))
        states = {"header": output.headers, "value": output.values}
        if "attribute" in parts:
            states["attribute"] = output.attribute_table[rows.segment_slot]
        found = {part: states[part][segment].float() for part in parts if part in states}
        if "tokens" in parts:
            at = (layout.segment_starts[chosen][:, None] + torch.arange(num_masks)).view(-1)
            logits = runner.model.predict_tokens(output, at.to(segment.device)).float()
            found["tokens"] = torch.log_softmax(logits, dim=1).view(len(chosen), -1)
        for part, state in found.items():
            sums[part].index_add_(0, place, state)

    rows = np.unique(arrays.cell_row[place_C >= 0])
    runner.run(seen, rows, read, mask=None if hidden_K is None else mask)
    means = {part: total.cpu().numpy() / np.maximum(cells, 1)[:, None] for part, total in sums.items()}
    return {part: mean.astype(np.float32) for part, mean in means.items()}


def _hide_headers(arrays: SegmentArrays, hidden_C: Flags, mask_token: int, num_masks: int) -> SegmentArrays:
    """Return the rows with `num_masks` [MASK] for the header of some cells; their segments come after all others."""
    num_segments = arrays.num_segments
    masks = np.full(num_masks, mask_token, dtype=arrays.header_tokens.dtype)
    return replace(
        arrays,
        row_segments=(arrays.row_segments + num_segments * hidden_C).astype(np.int32),
        segment_header=np.r_[arrays.segment_header, np.full(num_segments, arrays.num_headers, np.int32)],
        segment_attribute=np.tile(arrays.segment_attribute, 2),
        segment_value=np.tile(arrays.segment_value, 2),
        header_offsets=np.r_[arrays.header_offsets, arrays.header_offsets[-1] + num_masks],
        header_tokens=np.r_[arrays.header_tokens, masks],
    )
